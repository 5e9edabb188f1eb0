"""The statistics of a running ingest, collected from its threads without stopping them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from hive_ingest.streaming.kafka.consumer import MessageConsumer
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.route_writer import RouteWriter
from hive_ingest.streaming.kafka.routes import KafkaRoute
from hive_ingest.streaming.kafka.stats import KafkaIngestStats, KafkaPartitionStats, KafkaRouteStats


def ingest_stats(
    group_id: str,
    routes: Sequence[KafkaRoute],
    writers: Mapping[str, RouteWriter],
    consumer: MessageConsumer | None,
    options: KafkaOptions,
    *,
    is_running: bool,
) -> KafkaIngestStats:
    """The statistics now. Each number is read once; numbers of different threads may be some milliseconds apart."""
    polled_at = consumer.polled_at if consumer else None
    return KafkaIngestStats(
        group_id=group_id,
        is_running=is_running,
        partitions=tuple(_partitions(writers, consumer)),
        routes=tuple(_route(route, writers.get(route.topic)) for route in routes),
        queue_bytes=sum(writer.inbox.queued_bytes for writer in writers.values()),
        queue_max_bytes=options.queue_max_bytes,
        poll_age_seconds=None if polled_at is None else time.monotonic() - polled_at,
        max_poll_interval_seconds=consumer.max_poll_interval_seconds if consumer else None,
        rebalances=consumer.rebalances if consumer else 0,
    )


def _route(route: KafkaRoute, writer: RouteWriter | None) -> KafkaRouteStats:
    table, sink = str(route.table_name), route.sink_name
    if writer is None:
        return KafkaRouteStats(route.topic, table, sink)
    return KafkaRouteStats(
        route.topic, table, sink, heartbeat_age_seconds=writer.heartbeat_age_seconds, **asdict(writer.counts)
    )


def _partitions(writers: Mapping[str, RouteWriter], consumer: MessageConsumer | None) -> list[KafkaPartitionStats]:
    if consumer is None:
        return []
    return [
        KafkaPartitionStats(
            topic,
            number,
            str(writer.route.table_name),
            known.position.offset if (known := writer.committed.get(number)) else consumer.starts.get((topic, number)),
            consumer.log_ends.get((topic, number)),
            topic in consumer.paused_topics,
        )
        for topic, writer in sorted(writers.items())
        for number in sorted(writer.inbox.assignment.partitions)
    ]
