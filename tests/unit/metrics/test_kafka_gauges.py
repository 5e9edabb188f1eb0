"""What an ingest from Kafka reports becomes gauges, as long as it is watched."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from hive_ingest.metrics import Metrics
from hive_ingest.streaming.kafka import KafkaIngestStats
from tests.support.kafka_stats import Ingest

FIRST = {"group": "landing", "topic": "events", "partition": "0", "table": "web.events"}
SECOND = {**FIRST, "partition": "1"}
GROUP = {"group": "landing"}


def test_each_assigned_partition_has_position_log_end_and_lag(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.watch(Ingest())

    assert registry.get_sample_value("hive_ingest_kafka_position", FIRST) == 90
    assert registry.get_sample_value("hive_ingest_kafka_log_end_offset", FIRST) == 100
    assert registry.get_sample_value("hive_ingest_kafka_lag", FIRST) == 10
    assert registry.get_sample_value("hive_ingest_kafka_partition_paused", SECOND) == 1
    assert registry.get_sample_value("hive_ingest_kafka_lag", SECOND) is None, "its position is not known yet"


def test_the_consumer_shows_its_queue_polls_and_rebalances(metrics: Metrics, registry: CollectorRegistry) -> None:
    metrics.watch(Ingest())

    values = {
        "hive_ingest_kafka_assigned_partitions": 2,
        "hive_ingest_kafka_queue_bytes": 10,
        "hive_ingest_kafka_queue_max_bytes": 100,
        "hive_ingest_kafka_poll_age_seconds": 0.5,
        "hive_ingest_kafka_rebalances_total": 2,
    }
    assert {name: registry.get_sample_value(name, GROUP) for name in values} == values
    labels = {"topic": "events", "table": "web.events", "sink": "landing"}
    assert registry.get_sample_value("hive_ingest_kafka_bad_messages_total", labels) == 2


def test_a_partition_that_was_revoked_has_no_series(metrics: Metrics, registry: CollectorRegistry) -> None:
    ingest = Ingest()
    metrics.watch(ingest)
    ingest.partitions = ingest.partitions[1:]
    assert registry.get_sample_value("hive_ingest_kafka_lag", FIRST) is None


def test_an_ingest_that_is_not_watched_any_more_has_no_series(metrics: Metrics, registry: CollectorRegistry) -> None:
    ingest = Ingest()
    metrics.watch(ingest)
    metrics.unwatch(ingest)
    metrics.unwatch(ingest)
    assert registry.get_sample_value("hive_ingest_kafka_lag", FIRST) is None


def test_an_ingest_without_an_answer_takes_nothing_from_the_others(
    metrics: Metrics, registry: CollectorRegistry
) -> None:
    class Broken(Ingest):
        @property
        def stats(self) -> KafkaIngestStats:
            raise RuntimeError("no answer")

    metrics.watch(Broken())
    metrics.watch(Ingest())
    assert registry.get_sample_value("hive_ingest_kafka_lag", FIRST) == 10
    [problem] = metrics.health().problems
    assert (problem.check, problem.message) == ("kafka_stats", "no statistics: no answer")
