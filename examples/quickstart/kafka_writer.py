"""An instance of the ingest from Kafka. It may be killed at any moment.

Run as `python -m examples.quickstart.kafka_writer <demo folder>`; it ends when its standard input ends. The
environment may name a fault point to stop at (`hive_ingest.testing`).
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import hive_ingest as hi
from examples.quickstart.deliveries import PARTITIONS, TOPIC
from examples.quickstart.places import COMPACTION, NAME, SINK, broker_address, connect
from examples.quickstart.reports import Report
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from hive_ingest.testing import arm_from_environment

INSTANCES = 2


def run(demo: Path) -> None:
    """What a program needs: the brokers, a group, and a table for each topic."""
    with connect(demo) as client:
        ingest = KafkaIngest(
            metastore=client,
            bootstrap_servers=broker_address(demo).read_text(),
            group_id="quickstart",
            routes=[
                KafkaRoute(
                    topic=TOPIC, table=str(NAME), sink=SINK, record_writer=hi.StrictJsonWriter(unknown_fields="fail")
                )
            ],
            max_seconds=1.0,
            # An instance that is killed is out of the group after this time.
            kafka_options={"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500},
            maintenance="inline",
            compaction_policy=COMPACTION,
            on_commit=lambda info: reports.add(info),
        )
        reports = _Reports(ingest)
        threading.Thread(target=reports.begin, daemon=True).start()
        threading.Thread(target=lambda: (sys.stdin.read(), ingest.stop()), daemon=True).start()
        ingest.run()


class _Reports:
    """Says when this instance has its share of the partitions, and then what it commits."""

    def __init__(self, ingest: KafkaIngest) -> None:
        self._ingest = ingest
        self._rows = self._transactions = 0

    def begin(self) -> None:
        while self._partitions != PARTITIONS // INSTANCES:
            time.sleep(0.1)
        Report(rows=0, transactions=0, partitions=self._partitions).send()

    def add(self, info: hi.CommitInfo) -> None:
        if info.rows:
            self._rows += info.rows
            self._transactions += 1
            Report(self._rows, self._transactions, max(1, len(info.partitions)), self._partitions).send()

    @property
    def _partitions(self) -> int:
        return len(self._ingest.stats.partitions)


if __name__ == "__main__":
    arm_from_environment(except_threads="hive-ingest-worker")
    run(Path(sys.argv[1]))
