"""Sums over partitions and routes."""

from __future__ import annotations

import pytest

from hive_ingest.streaming.kafka import KafkaIngestStats, KafkaPartitionStats, KafkaRouteStats


@pytest.mark.parametrize(
    ("position", "log_end", "lag"),
    [(10, 25, 15), (25, 25, 0), (None, 25, None), (10, None, None), (30, 25, 0)],
)
def test_the_lag_of_a_partition_is_known_when_both_offsets_are(
    position: int | None, log_end: int | None, lag: int | None
) -> None:
    assert KafkaPartitionStats("events", 0, "web.events", position, log_end).lag == lag


def test_an_ingest_sums_its_partitions_and_routes() -> None:
    partitions = tuple(
        KafkaPartitionStats("events", number, "web.events", position, 10)
        for number, position in enumerate([None, 4, 10])
    )
    routes = (
        KafkaRouteStats("events", "web.events", "events", rows=5, commits=2, bad_messages=1),
        KafkaRouteStats("clicks", "web.clicks", "clicks", rows=7, commits=1),
    )
    stats = KafkaIngestStats("group", True, partitions, routes)
    assert (stats.lag, stats.rows, stats.commits, stats.bad_messages) == (6, 12, 3, 1)
