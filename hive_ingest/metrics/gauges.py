"""Metrics that are read at each scrape: open connections, backlogs, and the statistics of ingests from Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from hive_ingest.connection import ConnectionActivity, open_connections
from hive_ingest.metrics.backlog import Backlog, TableBacklog
from hive_ingest.metrics.metastore import MetastoreState, MetastoreWatch

if TYPE_CHECKING:
    from hive_ingest.streaming.kafka import KafkaIngestStats, KafkaPartitionStats

_TABLE = ("table", "sink")
_PARTITION = ("group", "topic", "partition", "table")


class Gauges(Collector):
    """Yields families of metrics. Only what exists has a series."""

    def __init__(
        self,
        version: str,
        backlog: Backlog,
        kafka: Callable[[], list[KafkaIngestStats]],
        on_table: Callable[[str, str], tuple[str, str]],
        metastore: MetastoreWatch | None,
        *,
        partition_labels: bool,
    ) -> None:
        """Does not register the collector.

        Args:
            version: Of this package.
            backlog: What initiators have found.
            kafka: Returns the statistics of the ingests that are watched.
            on_table: Called with the table and sink of each open connection; returns their labels.
            metastore: The metastore that is polled, if any.
            partition_labels: Whether each partition of a table has a series of its own.
        """
        self._version = version
        self._backlog = backlog
        self._kafka = kafka
        self._on_table = on_table
        self._metastore = metastore
        self._partition_labels = partition_labels

    def describe(self) -> list[Metric]:
        """All families without samples, which a registry checks for duplicate names."""
        return [*self._families([], {}, [])]

    def collect(self) -> Iterator[Metric]:
        """All families, with their samples."""
        yield from self._families(open_connections(), self._backlog.tables(), self._kafka())

    def _families(
        self,
        connections: list[ConnectionActivity],
        backlog: Mapping[str, TableBacklog],
        kafka: list[KafkaIngestStats],
    ) -> Iterator[Metric]:
        yield InfoMetricFamily("hive_ingest", "Version of hive-ingest.", {"version": self._version})
        yield from self._of_connections(connections)
        yield from self._of_backlog(backlog)
        yield from _of_partitions([(stats.group_id, each) for stats in kafka for each in stats.partitions])
        yield from _of_ingests(kafka)
        if self._metastore is not None:
            yield from _of_metastore(self._metastore.state, self._metastore.error)

    def _of_connections(self, connections: list[ConnectionActivity]) -> Iterator[Metric]:
        by_table: dict[tuple[str, str], list[ConnectionActivity]] = {}
        for each in connections:
            by_table.setdefault(self._on_table(str(each.table), each.sink), []).append(each)
        yield _gauge("connections", "Open connections.", _TABLE, ((key, len(by_table[key])) for key in by_table))
        yield _gauge(
            "open_transactions",
            "Transactions that connections keep open, with those opened ahead.",
            _TABLE,
            ((key, sum(each.open_transactions for each in found)) for key, found in by_table.items()),
        )
        ages = {key: [each.heartbeat_age_seconds for each in found] for key, found in by_table.items()}
        yield _gauge(
            "heartbeat_age_seconds",
            "Age of the last answered heartbeat, of the open transaction with the oldest one.",
            _TABLE,
            ((key, max(age for age in found if age is not None)) for key, found in ages.items() if any_known(found)),
        )
        yield _gauge(
            "transaction_timeout_seconds",
            "The metastore's transaction timeout. Half of it after the last heartbeat, nothing can be committed.",
            _TABLE,
            ((key, min(each.txn_timeout_seconds for each in found)) for key, found in by_table.items()),
        )

    def _of_backlog(self, backlog: Mapping[str, TableBacklog]) -> Iterator[Metric]:
        tables = backlog.items()
        yield _gauge(
            "deltas",
            "Deltas and delete deltas in all partitions, as initiators have last seen them.",
            ("table",),
            (((table,), each.deltas) for table, each in tables),
        )
        yield _gauge(
            "delta_bytes", "Size of these deltas.", ("table",), (((table,), each.delta_bytes) for table, each in tables)
        )
        yield _gauge(
            "max_deltas",
            "Deltas and delete deltas in the partition that has the most.",
            ("table",),
            (((table,), each.max_deltas) for table, each in tables),
        )
        if self._partition_labels:
            yield _gauge(
                "partition_deltas",
                "Deltas and delete deltas in a partition.",
                ("table", "partition"),
                (((table, name), count) for table, each in tables for name, count in each.partitions.items()),
            )


def any_known(values: Iterable[float | None]) -> bool:
    """Whether one of them is not None."""
    return any(value is not None for value in values)


def _of_partitions(partitions: list[tuple[str, KafkaPartitionStats]]) -> Iterator[Metric]:
    found = [((group, each.topic, str(each.partition), each.table), each) for group, each in partitions]
    yield _gauge(
        "kafka_position",
        "The offset after the last message committed in the table; before the first commit, where it started.",
        _PARTITION,
        ((key, each.position) for key, each in found),
    )
    yield _gauge(
        "kafka_log_end_offset",
        "The offset that the next message of the partition will have.",
        _PARTITION,
        ((key, each.log_end) for key, each in found),
    )
    yield _gauge(
        "kafka_lag",
        "Offsets between the position in the table and the end of the log.",
        _PARTITION,
        ((key, each.lag) for key, each in found),
    )
    yield _gauge(
        "kafka_partition_paused",
        "1 while a partition is not fetched because the queue is full.",
        _PARTITION,
        ((key, int(each.is_paused)) for key, each in found),
    )


def _of_ingests(kafka: list[KafkaIngestStats]) -> Iterator[Metric]:
    group = ("group",)
    found = [((each.group_id,), each) for each in kafka]
    yield _gauge(
        "kafka_assigned_partitions",
        "Partitions assigned to this instance.",
        group,
        ((key, len(each.partitions)) for key, each in found),
    )
    yield _gauge(
        "kafka_queue_bytes",
        "Size of the messages fetched and not written yet.",
        group,
        ((key, each.queue_bytes) for key, each in found),
    )
    yield _gauge(
        "kafka_queue_max_bytes",
        "The size at which partitions are paused.",
        group,
        ((key, each.queue_max_bytes) for key, each in found),
    )
    yield _gauge(
        "kafka_poll_age_seconds",
        "Time since the consumer's last poll.",
        group,
        ((key, each.poll_age_seconds) for key, each in found),
    )
    yield _counter(
        "kafka_rebalances", "Changes of the assignment.", group, ((key, each.rebalances) for key, each in found)
    )
    yield _counter(
        "kafka_bad_messages",
        "Messages skipped or sent to the dead letters, in committed transactions.",
        ("topic", *_TABLE),
        (((each.topic, each.table, each.sink), each.bad_messages) for stats in kafka for each in stats.routes),
    )


def _of_metastore(state: MetastoreState | None, error: str | None) -> Iterator[Metric]:
    is_up = None if state is None and error is None else int(error is None)
    yield _gauge("metastore_up", "1 if the metastore answered the latest call.", (), [((), is_up)])
    yield _gauge(
        "compaction_queue",
        "Compactions in the queue of the metastore.",
        ("state",),
        (((name,), count) for name, count in (state.queue.items() if state is not None else ())),
    )

    def single(name: str, text: str, value: Callable[[MetastoreState], float]) -> GaugeMetricFamily:
        return _gauge(name, text, (), [((), None if state is None else value(state))])

    yield single(
        "compaction_oldest_request_age_seconds",
        "How long the oldest request has waited for a worker.",
        lambda found: found.oldest_request_seconds,
    )
    yield single(
        "compaction_failing_partitions",
        "Partitions whose latest compaction has failed.",
        lambda found: found.failing_partitions,
    )
    yield single(
        "metastore_open_transactions", "Open transactions of all clients.", lambda found: found.open_transactions
    )
    yield single(
        "metastore_oldest_transaction_age_seconds",
        "Age of the oldest open transaction, which keeps cleaners from removing files.",
        lambda found: found.oldest_transaction_seconds,
    )
    yield single(
        "metastore_aborted_transactions",
        "Aborted transactions that are remembered until their files are removed.",
        lambda found: found.aborted_transactions,
    )


def _gauge(
    name: str, text: str, labels: Iterable[str], samples: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"hive_ingest_{name}", text, labels=[*labels])
    for values, value in samples:
        if value is not None:
            family.add_metric(values, value)
    return family


def _counter(
    name: str, text: str, labels: Iterable[str], samples: Iterable[tuple[tuple[str, ...], float]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"hive_ingest_{name}", text, labels=[*labels])
    for values, value in samples:
        family.add_metric(values, value)
    return family
