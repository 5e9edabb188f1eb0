"""All that the metrics of a busy process expose: names of samples with their labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from hive_ingest.connection import ConnectionActivity
from hive_ingest.events import CompactionEnded, PartitionExamined, TransactionCommitted
from hive_ingest.metrics import Metrics, gauges
from hive_ingest.model import OpenTxnsInfo, TableName, TxnId
from tests.support.kafka_stats import Ingest
from tests.support.waiting import wait_until

_EVENTS = (
    TransactionCommitted(
        "web.t", "s", 1, 1, rows=1, files=1, file_bytes=1, bad_records=0, begin_seconds=0, commit_seconds=0
    ),
    PartitionExamined("web.t", "p=1", deltas=1, delta_bytes=1, base_bytes=1),
    CompactionEnded("web.u", "", type="minor", state="succeeded", file_bytes=1, seconds=1),
)


class _Metastore:
    """Empty, and it answers."""

    def clone(self) -> _Metastore:
        return self

    def show_compactions(self) -> list[Any]:
        return []

    def get_open_txns_info(self) -> OpenTxnsInfo:
        return OpenTxnsInfo(TxnId(0), ())

    def close(self) -> None: ...


@contextmanager
def busy_metrics(monkeypatch: Any) -> Iterator[CollectorRegistry]:
    """A registry in which each metric has a sample."""
    activity = ConnectionActivity(TableName.of("web.t"), "s", 1.0, 1, 1.0, 300.0)
    monkeypatch.setattr(gauges, "open_connections", lambda: [activity])
    registry = CollectorRegistry()
    with Metrics(registry, metastore=_Metastore(), partition_labels=True) as metrics:  # type: ignore[arg-type]
        metrics.watch(Ingest())
        for event in _EVENTS:
            metrics._on_event(event)
        wait_until(lambda: registry.get_sample_value("hive_ingest_metastore_up") == 1)
        yield registry


def samples(registry: CollectorRegistry) -> dict[str, set[str]]:
    """Labels by the name of the sample."""
    found: dict[str, set[str]] = {}
    for family in registry.collect():
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def families(registry: CollectorRegistry) -> dict[str, str]:
    """Types by name, as they are queried: a counter with `_total`, an info with `_info`."""
    suffix = {"counter": "_total", "info": "_info"}
    return {family.name + suffix.get(family.type, ""): family.type for family in registry.collect()}
