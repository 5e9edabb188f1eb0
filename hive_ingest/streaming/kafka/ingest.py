"""Topics into tables, exactly once."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hive_ingest.compaction import CompactionPolicy, Maintenance, MaintenanceMode, hook_of, maintained
from hive_ingest.config import options_from
from hive_ingest.connection import CommitInfo, StreamingSettings
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.streaming.kafka.client_options import KafkaClientOptions
from hive_ingest.streaming.kafka.consumer import MessageConsumer
from hive_ingest.streaming.kafka.group_consumer import group_consumer, high_watermarks
from hive_ingest.streaming.kafka.inbox import RouteEvent
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.partition_lookup import CALL_MS
from hive_ingest.streaming.kafka.route_writer import RouteWriter
from hive_ingest.streaming.kafka.routes import KafkaRoute, check_record_writers, check_routes, holding_record_writers
from hive_ingest.streaming.kafka.stats import KafkaIngestStats
from hive_ingest.streaming.kafka.stats_collection import ingest_stats
from hive_ingest.streaming.kafka.takeover import Membership

_log = logging.getLogger(__name__)


class KafkaIngest:
    """Writes the messages of topics into Hive tables, each exactly once.

        KafkaIngest(
            metastore="thrift://metastore:9083",
            bootstrap_servers="broker:9092",
            group_id="events-to-hive",
            routes=[KafkaRoute(topic="events", table="db.events", record_writer=StrictJsonWriter())],
        ).run()

    The position in each topic partition is committed in the same transaction as the rows (a sink's progress), and
    read from there at each start and assignment. Several instances with one `group_id` share the partitions.
    """

    def __init__(
        self,
        *,
        metastore: MetastoreClient | str,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        routes: Sequence[KafkaRoute],
        kafka_options: Mapping[str, Any] | None = None,
        settings: StreamingSettings | Mapping[str, Any] | None = None,
        on_commit: Callable[[CommitInfo], None] | None = None,
        maintenance: MaintenanceMode | Maintenance = "off",
        compaction_policy: CompactionPolicy | None = None,
        **options: Any,
    ) -> None:
        """Check everything that can be checked without a connection.

        Args:
            metastore: A client, or the URI of a metastore.
            bootstrap_servers: `host:port` of one broker or more.
            group_id: The consumer group. Instances with the same one share the partitions.
            routes: Which topic goes to which table.
            kafka_options: Of `kafka.KafkaConsumer`, such as those of security. See `KafkaClientOptions`.
            settings: Of the connections, as for `StreamingConnection.connect`.
            on_commit: Called after each commit, on the thread of its route.
            maintenance: As for `ingest_files`.
            compaction_policy: As for `ingest_files`.
            options: Those of `KafkaOptions`: `max_rows`, `max_bytes`, `max_seconds`, `on_offset_loss` and so on.

        Raises:
            ConfigurationError: An option is not valid, or the package `kafka` is missing.
        """
        check_routes(routes)
        if not isinstance(group_id, str) or not group_id:
            raise ConfigurationError(f"group_id={group_id!r}: give the name of a consumer group")
        self._metastore = metastore
        self._servers = bootstrap_servers if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        self._group_id = group_id
        self._route_list = tuple(routes)
        self._client_options = KafkaClientOptions(kafka_options)
        self._settings = settings if isinstance(settings, StreamingSettings) else StreamingSettings.load(settings)
        self._options = options_from(KafkaOptions, ("the arguments", options))
        _check_lock_wait(self._settings, self._options)
        self._on_commit = on_commit
        self._maintenance = maintenance
        self._policy = compaction_policy
        self._is_stopping = False
        self._is_running = False
        self._routes: dict[str, RouteWriter] = {}
        self._loop: MessageConsumer | None = None

    def stop(self) -> None:
        """Have `run` commit what is written and return. Any thread, or a signal handler, may call it."""
        self._is_stopping = True

    def run(self, *, until_end: bool = False) -> None:
        """Consume until `stop` is called, or until a failure that does not pass.

        Args:
            until_end: Return when everything is committed that was in the assigned partitions at their assignment.

        Raises:
            OffsetLoss: A topic does not continue where the table's position is.
            KafkaFailure: Kafka refused a call, or could not be reached for `retry_seconds`.
            ConfigurationError: A topic does not exist, or another ingest that runs has one of the record writers.
            SchemaRegistryUnavailable: The schema registry of a route does not answer at the start. Later failures of
                the registry are retried for `retry_seconds`.
            StreamingError: What `StreamingConnection` raises; failures of the metastore first for `retry_seconds`.
        """
        if self._is_running:
            raise ConfigurationError("run() of this ingest was called already, and has not returned")
        self._is_running = True
        try:
            with (
                holding_record_writers(self._route_list),
                opened_metastore(self._metastore) as client,
                maintained(client, self._maintenance, self._policy) as keeper,
            ):
                self._run(client, hook_of(keeper, self._on_commit), until_end=until_end)
        finally:
            self._is_running = self._is_stopping = False

    @property
    def stats(self) -> KafkaIngestStats:
        """What it has done since the start of `run`, and where it is. Any thread may call this."""
        return ingest_stats(
            self._group_id, self._route_list, self._routes, self._loop, self._options, is_running=self._is_running
        )

    def _run(self, client: MetastoreClient, on_commit: Callable[[CommitInfo], None] | None, *, until_end: bool) -> None:
        events: queue.SimpleQueue[RouteEvent] = queue.SimpleQueue()
        membership = Membership()
        check_record_writers(self._route_list)
        consumer = group_consumer(self._servers, self._group_id, self._options, self._client_options)
        try:
            self._routes = {
                route.topic: RouteWriter(
                    route,
                    client,
                    self._group_id,
                    self._options,
                    self._settings,
                    membership,
                    emit=events.put,
                    on_commit=on_commit,
                )
                for route in self._route_list
            }
            self._loop = MessageConsumer(
                consumer,
                self._routes,
                events,
                membership,
                self._options,
                until_end=until_end,
                high_watermarks=lambda partitions: high_watermarks(
                    self._servers, self._client_options, partitions, CALL_MS
                ),
            )
            for writer in self._routes.values():
                writer.start()
            try:
                self._loop.run(lambda: self._is_stopping)
            finally:
                self._end_routes()
            self._loop.finish()
        finally:
            consumer.close(autocommit=False)

    def _end_routes(self) -> None:
        """The routes commit what they have written, while the client's own thread keeps the group alive."""
        for writer in self._routes.values():
            writer.inbox.finish()
        for writer in self._routes.values():
            writer.join()


def _check_lock_wait(settings: StreamingSettings, options: KafkaOptions) -> None:
    wait = settings.lock_wait_seconds
    if wait is not None and wait <= options.takeover_grace_seconds:
        raise ConfigurationError(
            f"lock_wait_seconds={wait:g} is not longer than takeover_grace_seconds="
            f"{options.takeover_grace_seconds:g}: an instance that takes over a partition would give up before it may "
            "abort the transaction of the former owner. Raise the first, or lower the second"
        )
