"""Commands that run for long: metrics and health over HTTP, and logs in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hive_ingest.metastore_client import MetastoreClient
from tests.support.connections import connect
from tests.support.tables import create_table

pytestmark = [
    pytest.mark.one_embedded,
    pytest.mark.only_on(["sqlite", "postgres"], because="Hive 3.1 takes no compactor from outside"),
]


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "hive_ingest.cli", *arguments]
    with subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def addressed(metastore: MetastoreClient, metastore_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_INGEST_METASTORE", metastore_uri)
    create_table(metastore)


def get(url: str) -> tuple[int, str]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.status, answer.read().decode()


@pytest.mark.usefixtures("addressed")
def test_a_compactor_serves_metrics_and_logs_each_compaction_as_an_object(metastore: MetastoreClient) -> None:
    with connect(metastore) as connection:
        for _ in range(8):
            with connection.transaction():
                connection.write([b'{"id": 1}'])
    with running("--log-format", "json", "compactor", "--metrics-port", "0") as process:
        assert process.stderr is not None
        objects = (json.loads(line) for line in process.stderr)
        served = next(each for each in objects if each["message"].startswith("metrics at "))
        requested = next(each for each in objects if each["logger"] == "hive_ingest.compaction.initiator")
        assert requested["message"].startswith("major compaction of web.t: 8 deltas")
        url = served["message"].removeprefix("metrics at ")

        status, text = get(url)
        assert (status, "hive_ingest_compaction_queue" in text) == (200, True)
        status, text = get(url.replace("/metrics", "/health"))
        assert (status, json.loads(text)["status"]) == (200, "ok")
    assert process.wait(60) == 0


@pytest.mark.usefixtures("addressed")
def test_a_port_in_use_ends_the_command_with_an_error_that_names_the_address() -> None:
    with running("compactor", "--metrics-port", "0") as first:
        assert first.stderr is not None
        line = next(line for line in first.stderr if line.startswith("metrics at "))
        port = line.rpartition(":")[2].partition("/")[0]
        with running("compactor", "--metrics-port", port) as second:
            assert second.stderr is not None
            message = second.stderr.read()
            assert second.wait(60) == 1
    assert f"cannot be served on port={port} of host='127.0.0.1'" in message


@pytest.mark.usefixtures("addressed")
def test_without_prometheus_client_the_command_names_the_extra() -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; from hive_ingest.cli import main; main()"
    command = [sys.executable, "-c", code, "compactor", "--metrics-port", "0"]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == (
        "error: --metrics-port: metrics need the package prometheus-client: pip install 'hive-ingest[metrics]'\n"
    )
