"""`/metrics` and `/health` over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from email.message import Message

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from hive_ingest.errors import ConfigurationError
from hive_ingest.metrics import Metrics
from hive_ingest.metrics.server import url_of
from tests.support.kafka_stats import Ingest


def get(url: str, method: str = "GET") -> tuple[int, str, Message]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def test_metrics_are_served_in_prometheus_format(metrics: Metrics) -> None:
    metrics.watch(Ingest())
    server = metrics.serve(0)

    status, text, headers = get(f"{server.url}/metrics?name=x")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert (status, headers.get_content_type()) == (200, "text/plain")
    assert families["hive_ingest_kafka_lag"].samples[0].value == 10
    assert families["hive_ingest_info"].samples[0].labels["version"]


def test_health_is_200_or_503(metrics: Metrics) -> None:
    server, ingest = metrics.serve(0), Ingest()
    metrics.watch(ingest)

    status, text, headers = get(f"{server.url}/health")
    assert (status, json.loads(text)["status"], headers.get_content_type()) == (200, "ok", "application/json")
    ingest.values["is_running"] = False
    status, text, _ = get(f"{server.url}/health")
    assert (status, json.loads(text)["status"]) == (503, "failing")
    assert json.loads(text)["problems"][0]["check"] == "not_consuming"


def test_other_pages_do_not_exist(metrics: Metrics) -> None:
    status, text, _ = get(f"{metrics.serve(0).url}/")
    assert (status, text) == (404, "see /metrics and /health\n")


def test_a_head_request_has_no_body(metrics: Metrics) -> None:
    status, text, headers = get(f"{metrics.serve(0).url}/health", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 0


def test_a_failure_is_answered_by_500_without_details(
    metrics: Metrics, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def collect(self) -> list[None]:
            raise RuntimeError("secret")

        def describe(self) -> list[None]:
            return []

    registry.register(Broken())  # type: ignore[arg-type]
    status, text, _ = get(f"{metrics.serve(0).url}/metrics")
    assert (status, text) == (500, "see the log of the process\n")
    assert "/metrics cannot be answered" in caplog.text


def test_a_server_listens_on_this_machine_alone_unless_asked(metrics: Metrics) -> None:
    assert metrics.serve(0).url.startswith("http://127.0.0.1:")


def test_an_ipv6_address_is_in_brackets() -> None:
    """Not every machine has one to listen on."""
    assert url_of("::1", 9400) == "http://[::1]:9400"
    assert url_of("127.0.0.1", 9400) == "http://127.0.0.1:9400"


def test_a_port_in_use_is_an_error_that_names_it(metrics: Metrics) -> None:
    port = metrics.serve(0).port
    with pytest.raises(ConfigurationError, match=f"port={port} of host='127.0.0.1'"):
        metrics.serve(port)


@pytest.mark.parametrize(("port", "host"), [(70_000, "127.0.0.1"), (0, "192.0.2.1")])
def test_an_address_of_another_machine_or_no_port_is_an_error(metrics: Metrics, port: int, host: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be served"):
        metrics.serve(port, host)


def test_close_frees_the_port(registry: CollectorRegistry) -> None:
    with Metrics(registry) as metrics:
        server = metrics.serve(0)
    server.close()
    with socket.create_server(("127.0.0.1", server.port)):
        pass
    with Metrics(registry) as metrics, metrics.serve(server.port) as again:
        assert get(f"{again.url}/health")[0] == 200


def test_a_forked_child_neither_keeps_the_port_nor_counts_for_its_parent() -> None:
    """The child outlives its parent's server, and has metrics of its own in the same registry."""
    code = """
import os, socket, sys
from hive_ingest.events import CommitUnknown, report
from hive_ingest.metrics import Metrics
from prometheus_client import REGISTRY

def count():
    return REGISTRY.get_sample_value("hive_ingest_unknown_commits_total", {"table": "web.t", "sink": ""})

metrics = Metrics()
server = metrics.serve(0)
report(CommitUnknown("web.t", "", 1))
reading, writing = os.pipe()
if os.fork() == 0:
    report(CommitUnknown("web.t", "", 2))
    assert count() == 1
    metrics.close()
    with Metrics() as own:
        report(CommitUnknown("web.t", "", 3))
        assert count() == 1
        assert own.serve(0).port != server.port
    os.write(writing, b"ok")
    os.close(writing)
    import signal
    signal.pause()
os.close(writing)
assert os.read(reading, 2) == b"ok", "the child failed"
assert count() == 1
metrics.close()
socket.create_server(("127.0.0.1", server.port)).close()
print("ok")
os.killpg(0, 9)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert done.stdout == "ok\n", done.stderr


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["prometheus_client"] = None
import hive_ingest, hive_ingest.metrics
try:
    hive_ingest.metrics.Metrics
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "metrics need the package prometheus-client: pip install 'hive-ingest[metrics]'\n"
