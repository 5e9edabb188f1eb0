"""`Metrics`: the metrics of a process in a registry of prometheus_client, its health, and the server of both."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from prometheus_client import REGISTRY, CollectorRegistry

import hive_ingest
from hive_ingest.connection import open_connections
from hive_ingest.errors import ConfigurationError
from hive_ingest.events import Event, TransactionCommitted, listen, stop_listening
from hive_ingest.metrics.backlog import Backlog
from hive_ingest.metrics.counters import MAX_TABLES, Counters
from hive_ingest.metrics.gauges import Gauges
from hive_ingest.metrics.health import Health, HealthChecks, HealthLimits, Problem
from hive_ingest.metrics.metastore import MetastoreWatch
from hive_ingest.metrics.server import MetricsServer

if TYPE_CHECKING:
    from hive_ingest.metastore_client import MetastoreClient
    from hive_ingest.streaming.kafka import KafkaIngestStats

_log = logging.getLogger(__name__)


class HasKafkaStats(Protocol):
    """The part of `KafkaIngest` that metrics use."""

    @property
    def stats(self) -> KafkaIngestStats: ...


class Metrics:
    """Counts everything that this process writes from now on.

        metrics = Metrics()
        metrics.serve(9400)

    All connections of the process are counted: those of `StreamingConnection.connect`, and those inside `append`,
    `ingest_files`, a `HiveSink` and a `KafkaIngest`; and the compactions of a `Compactor` or of `Maintenance`. Nothing
    has to be passed to them. Counters stay when a connection is closed; its gauges disappear. Any thread may call the
    methods. A forked child counts nothing until it creates `Metrics` of its own.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        metastore: MetastoreClient | str | None = None,
        limits: HealthLimits | None = None,
        partition_labels: bool = False,
    ) -> None:
        """Register the metrics, and count from now on.

        Args:
            registry: Where they are registered. None: prometheus_client's default, which also has those of the
                process and the application.
            metastore: Also show the compaction queue and the open transactions of this metastore; a client, which is
                cloned, or a URI. A thread polls it every 15 s. One process for each metastore is enough, such as its
                compactor.
            limits: When `health` reports a problem.
            partition_labels: Whether each partition of a table has a series with its deltas. A table may have very
                many partitions.

        Raises:
            ConfigurationError: The registry has these metrics already.
            MetastoreError: The metastore cannot be reached.
        """
        self._registry = REGISTRY if registry is None else registry
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._watched: list[HasKafkaStats] = []
        self._servers: list[MetricsServer] = []
        self._commits: dict[tuple[str, str], float] = {}
        self._checks = HealthChecks(limits or HealthLimits())
        self._is_closed = False
        _unregister_parents(self._registry)
        backlog = Backlog()
        try:
            self._counters = Counters(self._registry, backlog)
        except ValueError as error:
            raise ConfigurationError(
                "this registry has the metrics of hive-ingest already: use the Metrics that made them, or close() it"
            ) from error
        try:
            self._metastore = MetastoreWatch(metastore) if metastore is not None else None
        except BaseException:
            self._counters.unregister()
            raise
        self._gauges = Gauges(
            hive_ingest.__version__,
            backlog,
            self._kafka_stats,
            self._counters.labels,
            self._metastore,
            partition_labels=partition_labels,
        )
        self._registry.register(self._gauges)
        _open.add(self)
        listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TransactionCommitted):
            key = event.table, event.sink
            with self._lock:
                if key in self._commits or len(self._commits) < MAX_TABLES:
                    self._commits[key] = time.monotonic()
        self._counters(event)

    def watch(self, ingest: HasKafkaStats) -> None:
        """Also show the partitions of an ingest from Kafka, and check that it consumes, until `unwatch`.

        Args:
            ingest: A `KafkaIngest`.
        """
        with self._lock:
            self._watched.append(ingest)

    def unwatch(self, ingest: HasKafkaStats) -> None:
        """Stop showing the ingest. Idempotent."""
        with self._lock:
            self._watched = [each for each in self._watched if each is not ingest]

    def serve(self, port: int, host: str = "127.0.0.1") -> MetricsServer:
        """Serve `/metrics` and `/health` on threads of the process, until `close`.

        There is no authentication: let only the monitoring system reach the port.

        Args:
            port: 0 takes a free one; see `MetricsServer.port`.
            host: An address of this machine. `"0.0.0.0"` listens on all of them.

        Raises:
            ConfigurationError: The port is in use, or the host is not an address of this machine.
        """
        server = MetricsServer(self._registry, self.health, port, host)
        with self._lock:
            self._servers.append(server)
        return server

    def health(self) -> Health:
        """Whether heartbeats, commits and consumers are within the limits."""
        kafka, errors = self._ask_kafka()
        if self._metastore is not None and self._metastore.error is not None:
            errors.append(Problem("metastore", "metastore", f"it gave no answer: {self._metastore.error}"))
        now = time.monotonic()
        with self._lock:
            ages = {key: now - at for key, at in self._commits.items()}
        return self._checks.check(open_connections(), ages, kafka, errors)

    def _kafka_stats(self) -> list[KafkaIngestStats]:
        return self._ask_kafka()[0]

    def _ask_kafka(self) -> tuple[list[KafkaIngestStats], list[Problem]]:
        """The statistics of all ingests. An ingest that fails to answer does not affect the others."""
        with self._lock:
            watched = [*self._watched]
        found: list[KafkaIngestStats] = []
        errors: list[Problem] = []
        for ingest in watched:
            try:
                found.append(ingest.stats)
            except Exception as error:  # noqa: BLE001 (a scrape shows what it can)
                _log.warning("an ingest from Kafka gave no statistics", exc_info=True)
                errors.append(Problem("kafka_stats", "kafka", f"no statistics: {error}"))
        return found, errors

    def close(self) -> None:
        """Stop counting and serving, and remove the metrics from the registry. Idempotent."""
        with self._lock:
            if self._is_closed or os.getpid() != self._pid:
                return
            self._is_closed = True
            servers, self._servers = self._servers, []
        stop_listening(self._on_event)
        for server in servers:
            server.close()
        if self._metastore is not None:
            self._metastore.close()
        self._unregister()
        _open.discard(self)

    def _unregister(self) -> None:
        self._registry.unregister(self._gauges)
        self._counters.unregister()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_open: weakref.WeakSet[Metrics] = weakref.WeakSet()


def _unregister_parents(registry: CollectorRegistry) -> None:
    """In a forked child, unregister the parent's metrics. Not at the fork, which may occur during a scrape."""
    for metrics in [*_open]:
        if metrics._pid != os.getpid() and metrics._registry is registry:
            metrics._unregister()
            _open.discard(metrics)
