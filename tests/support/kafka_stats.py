"""An ingest from Kafka that reports what a test says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hive_ingest.streaming.kafka import KafkaIngestStats, KafkaPartitionStats, KafkaRouteStats


class Ingest:
    """Stands for a `KafkaIngest` where only `stats` counts. Each attribute may be changed."""

    def __init__(self, **values: Any) -> None:
        self.partitions = [
            KafkaPartitionStats("events", 0, "web.events", position=90, log_end=100),
            KafkaPartitionStats("events", 1, "web.events", position=None, log_end=50, is_paused=True),
        ]
        self.route = KafkaRouteStats("events", "web.events", "landing", rows=90, commits=3, bad_messages=2)
        self.values: dict[str, Any] = {
            "group_id": "landing",
            "is_running": True,
            "queue_bytes": 10,
            "queue_max_bytes": 100,
            "poll_age_seconds": 0.5,
            "max_poll_interval_seconds": 300.0,
            "rebalances": 2,
            **values,
        }

    @property
    def stats(self) -> KafkaIngestStats:
        return KafkaIngestStats(partitions=tuple(self.partitions), routes=(self.route,), **self.values)

    def commit_all(self) -> None:
        """Everything is in the table now."""
        self.partitions = [replace(each, position=each.log_end, is_paused=False) for each in self.partitions]
        self.route = replace(self.route, commits=self.route.commits + 1, rows=150)
