"""What operators see of `hive-ingest kafka` on a real broker: metrics, health, and logs in JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hive_ingest.metastore_client import MetastoreClient
from tests.kafka.test_command import from_kafka, numbers, produce
from tests.services.kafka import KafkaBroker
from tests.support.tables import create_table

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
    options += ["--metastore", metastore_uri, "--warehouse", str(tmp_path / "warehouse")]
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

        found = scrape(url)
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
