"""What operators see of `hive-ingest kafka` on a real broker: metrics, health, and logs in JSON."""

from __future__ import annotations

import errno
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from tests.kafka.test_command import from_kafka, numbers, produce
from tests.services.kafka import KafkaBroker
from tests.support.tables import create_table
from tests.support.waiting import wait_until
from tests.support.warehouses import warehouse_in

ROOT = Path(__file__).parents[2]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def scrape(url: str) -> dict[str, dict[str, float]]:
    """Values by metric and partition, or by metric and table."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(get(url)):
        for sample in family.samples:
            key = sample.labels.get("partition") or sample.labels.get("table") or sample.labels.get("group") or ""
            found.setdefault(sample.name.removeprefix("hive_ingest_"), {})[key] = sample.value
    return found


@pytest.mark.one_embedded
def test_the_metrics_show_lag_positions_and_commits_and_the_log_is_json(
    kafka_broker: KafkaBroker,
    metastore: MetastoreClient,
    metastore_uri: str,
    tmp_path: Path,
) -> None:
    create_table(metastore, "events", {"id": "int"})
    topic = kafka_broker.new_topic(partitions=2)
    produce(kafka_broker, topic, [*numbers(0, 30), b"not JSON"])
    options = ["--max-seconds", "1", "--on-error", "skip", "--metrics-port", "0", "--max-commit-age-seconds", "300"]
    options += ["--metastore", metastore_uri, "--warehouse", warehouse_in(tmp_path)]
    command = [sys.executable, "-m", "hive_ingest.cli", "--log-format", "json", *from_kafka(kafka_broker, topic)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, *options], env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr)
        url = next(line["message"] for line in lines if line["message"].startswith("metrics at "))
        url = url.removeprefix("metrics at ")
        rows = 0
        while rows < 30:
            commit = next(line for line in lines if line["logger"] == "hive_ingest.connection.activity")
            rows += commit["rows"]
        assert (commit["table"], commit["sink"], commit["level"]) == ("web.events", "events", "info")
        assert commit["transaction"] > 0

        # The log line comes before the commit is counted, and the bad message may be in a later transaction.
        while sum((found := scrape(url)).get("kafka_position", {}).values()) < 31:
            time.sleep(0.1)
        health = json.loads(get(url.replace("/metrics", "/health")))
        process.send_signal(signal.SIGTERM)
        rest = [*lines]
        assert process.wait(60) == 0
    assert sum(found["kafka_position"].values()) == sum(found["kafka_log_end_offset"].values()) == 31
    assert sum(found["kafka_lag"].values()) == 0
    assert found["rows_total"]["web.events"] == 30
    assert found["bad_records_total"]["web.events"] == 1
    assert found["kafka_assigned_partitions"] == {f"group-of-{topic}": 2}
    assert health["status"] == "ok"
    assert [each["is_running"] for each in health["kafka"]] == [True]
    assert any(line["message"] == "SIGTERM: committing what was read" for line in rest)


@pytest.mark.one_embedded
def test_a_terminal_shows_the_line_of_the_ingest(
    kafka_broker: KafkaBroker, metastore: MetastoreClient, metastore_uri: str, tmp_path: Path
) -> None:
    create_table(metastore, "events", {"id": "int"})
    topic = kafka_broker.new_topic()
    produce(kafka_broker, topic, numbers(0, 20))
    command = [sys.executable, "-m", "hive_ingest.cli", *from_kafka(kafka_broker, topic), "--until-end"]
    command += ["--metastore", metastore_uri, "--warehouse", warehouse_in(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "150"}
    own, terminal = pty.openpty()
    process = subprocess.Popen(command, env=environment, stderr=terminal)
    os.close(terminal)
    shown = b"".join(iter(lambda: _read(own), b"")).decode()
    os.close(own)
    assert process.wait(60) == 0, shown
    assert f"group-of-{topic} | " in shown
    assert "20 rows in 1 commit" in shown


def _read(terminal: int) -> bytes:
    """Linux answers with an error, not with an end, when the last process has closed its side."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise


@pytest.mark.one_embedded
def test_the_lag_is_known_before_the_first_commit(kafka_broker: KafkaBroker, metastore: MetastoreClient) -> None:
    create_table(metastore, "events", {"id": "int"})
    topic = kafka_broker.new_topic()
    produce(kafka_broker, topic, numbers(0, 7))
    ingest = KafkaIngest(
        metastore=metastore,
        bootstrap_servers=kafka_broker.bootstrap_servers,
        group_id=f"group-of-{topic}",
        routes=[KafkaRoute(topic=topic, table="web.events", record_writer=hi.StrictJsonWriter())],
        max_seconds=60,
    )

    def offsets() -> list[tuple[int | None, int | None]]:
        return [(each.position, each.lag) for each in ingest.stats.partitions]

    running = threading.Thread(target=ingest.run)
    running.start()
    try:
        wait_until(lambda: offsets() == [(0, 7)])
    finally:
        ingest.stop()
        running.join(60)
