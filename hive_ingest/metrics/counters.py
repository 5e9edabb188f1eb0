"""Counts the events of this process in counters and histograms of prometheus_client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from hive_ingest.events import (
    CommitUnknown,
    CompactionEnded,
    Event,
    PartitionExamined,
    TransactionAborted,
    TransactionCommitted,
)
from hive_ingest.metrics.backlog import Backlog

#: A process that writes more tables and sinks than this counts the rest together, under the table `OTHER`.
MAX_TABLES = 1_000
OTHER = "(other)"

_M = TypeVar("_M", bound=MetricWrapperBase)
_TABLE = ("table", "sink")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LONG_SECONDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


class Counters:
    """A listener of `events`. Its metrics stay when connections are closed, as counters must not decrease."""

    def __init__(self, registry: CollectorRegistry, backlog: Backlog, clock: Callable[[], float] = time.time) -> None:
        """Register all metrics.

        Raises:
            ValueError: The registry has metrics of these names.
        """
        self._registry = registry
        self._backlog = backlog
        self._clock = clock
        self._lock = threading.Lock()
        self._tables: set[tuple[str, str]] = set()
        self._metrics: list[MetricWrapperBase] = []
        try:
            self._register()
        except BaseException:
            self.unregister()
            raise

    def _register(self) -> None:
        self._rows = self._counter("rows", "Rows committed.")
        self._files = self._counter("files", "ORC files committed.")
        self._file_bytes = self._counter("file_bytes", "Size of the ORC files committed.")
        self._commits = self._counter("commits", "Transactions committed.")
        self._aborts = self._counter("aborts", "Transactions aborted.")
        self._unknown = self._counter("unknown_commits", "Commits whose outcome is unknown: the response was lost.")
        self._bad_records = self._counter("bad_records", "Records that were skipped in committed transactions.")
        self._begin = self._histogram("begin_duration_seconds", "Beginning a transaction, with waits for locks.")
        self._commit = self._histogram("commit_duration_seconds", "Committing: encoding what is left, publish, commit.")
        self._last_commit = self._keep(
            Gauge(
                "hive_ingest_last_commit_timestamp_seconds",
                "When the last transaction was committed, in seconds since 1970.",
                _TABLE,
                registry=self._registry,
            )
        )
        self._compactions = self._counter(
            "compactions", "Compactions that workers have ended.", "table", "type", "state"
        )
        self._compacted = self._counter("compacted_file_bytes", "Size of the files made.", "table", "type")
        self._compaction = self._histogram(
            "compaction_duration_seconds", "Compacting a partition.", "type", buckets=_LONG_SECONDS
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return self._keep(Counter(f"hive_ingest_{name}", text, labels or _TABLE, registry=self._registry))

    def _histogram(self, name: str, text: str, *labels: str, buckets: Iterable[float] = _SECONDS) -> Histogram:
        return self._keep(
            Histogram(f"hive_ingest_{name}", text, labels or _TABLE, registry=self._registry, buckets=tuple(buckets))
        )

    def _keep(self, metric: _M) -> _M:
        self._metrics.append(metric)
        return metric

    def unregister(self) -> None:
        """Remove all metrics from the registry. Idempotent."""
        while self._metrics:
            self._registry.unregister(self._metrics.pop())

    # -- events ------------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        """Count an event. Any thread may call it."""
        match event:
            case TransactionCommitted():
                self._committed(event)
            case TransactionAborted():
                self._aborts.labels(*self.labels(event.table, event.sink)).inc()
            case CommitUnknown():
                self._unknown.labels(*self.labels(event.table, event.sink)).inc()
            case PartitionExamined():
                self._backlog.examined(event)
            case CompactionEnded():
                self._compacted_partition(event)

    def _committed(self, event: TransactionCommitted) -> None:
        labels = self.labels(event.table, event.sink)
        self._commits.labels(*labels).inc()
        self._rows.labels(*labels).inc(event.rows)
        self._files.labels(*labels).inc(event.files)
        self._file_bytes.labels(*labels).inc(event.file_bytes)
        self._bad_records.labels(*labels).inc(event.bad_records)
        self._begin.labels(*labels).observe(event.begin_seconds)
        self._commit.labels(*labels).observe(event.commit_seconds)
        self._last_commit.labels(*labels).set(self._clock())

    def _compacted_partition(self, event: CompactionEnded) -> None:
        self._backlog.compacted(event)
        table, _ = self.labels(event.table, "")
        self._compactions.labels(table, event.type, event.state).inc()
        if event.state == "succeeded":
            self._compacted.labels(table, event.type).inc(event.file_bytes)
            self._compaction.labels(event.type).observe(event.seconds)

    # -- labels ------------------------------------------------------------------------------------

    def labels(self, table: str, sink: str) -> tuple[str, str]:
        """The labels of a table and a sink. The first time, their counters start at 0, so that a rate sees each one."""
        key = table, sink
        with self._lock:
            if key in self._tables:
                return key
            if len(self._tables) >= MAX_TABLES:
                return OTHER, ""
            self._tables.add(key)
        for counter in (
            self._rows,
            self._files,
            self._file_bytes,
            self._commits,
            self._aborts,
            self._unknown,
            self._bad_records,
        ):
            counter.labels(*key)
        return key
