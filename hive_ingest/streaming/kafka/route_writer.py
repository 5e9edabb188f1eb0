"""The thread of a route: a connection for each assignment, and what is retried."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hive_ingest.connection import (
    CommitInfo,
    ConnectionStats,
    StreamingConnection,
    StreamingSettings,
    progress_table_name,
)
from hive_ingest.errors import (
    CommitOutcomeUnknown,
    LockTimeout,
    MetastoreUnavailable,
    NoSuchTxn,
    SchemaRegistryUnavailable,
    SinkInUse,
    TooManyOpenTxns,
    TxnAborted,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.kafka.inbox import (
    Assignment,
    AssignmentChanged,
    Finished,
    RouteCommitted,
    RouteEnded,
    RouteEvent,
    RouteInbox,
    StartRequest,
)
from hive_ingest.streaming.kafka.message_writer import MessageWriter
from hive_ingest.streaming.kafka.options import SHARE_OF_TIMEOUT, KafkaOptions
from hive_ingest.streaming.kafka.positions import KnownPosition, source_name
from hive_ingest.streaming.kafka.route_session import RouteSession
from hive_ingest.streaming.kafka.routes import KafkaRoute
from hive_ingest.streaming.kafka.takeover import Membership, Takeover, group_tag
from hive_ingest.streaming.sinks import latest_progress

_log = logging.getLogger(__name__)

#: After these the positions in the table are read again, and the messages after them are written again.
_RETRIED = (
    TxnAborted,
    NoSuchTxn,
    MetastoreUnavailable,
    SchemaRegistryUnavailable,
    CommitOutcomeUnknown,
    LockTimeout,
    TooManyOpenTxns,
)
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0


@dataclass(slots=True)
class RouteCounts:
    """Of a route, since its thread was started; read by other threads."""

    rows: int = 0
    file_bytes: int = 0
    commits: int = 0
    aborts: int = 0
    bad_messages: int = 0
    last_commit_seconds: float | None = None
    last_commit_at: float | None = None


class RouteWriter:
    """Owns the connections of a route, one after another, on a thread of its own."""

    def __init__(
        self,
        route: KafkaRoute,
        client: MetastoreClient,
        group_id: str,
        options: KafkaOptions,
        settings: StreamingSettings,
        membership: Membership,
        *,
        emit: Callable[[RouteEvent], None],
        on_commit: Callable[[CommitInfo], None] | None,
    ) -> None:
        self.route = route
        self.inbox = RouteInbox()
        self.counts = RouteCounts()
        #: The positions that are committed, of the partitions owned.
        self.committed: Mapping[int, KnownPosition] = {}
        #: Of the messages that it wants: it grows each time when the positions are read.
        self.version = 0
        self._client = client
        self._group_id = group_id
        self._options = options
        self._settings = settings
        self._membership = membership
        self._emit = emit
        self._on_commit = on_commit
        self._record_writer = MessageWriter(route.record_writer, route.columns, tombstones=route.tombstones)
        self._failing_since: float | None = None
        self._pause = _FIRST_PAUSE_SECONDS
        #: The failure that was logged last: its repetitions are not, until it has passed.
        self._logged: type[Exception] | None = None
        #: Whether only messages can show that the last failure has passed.
        self._needs_messages = False
        self._connection: StreamingConnection | None = None
        #: Of that connection, as far as they are counted.
        self._skipped = 0
        self._thread = threading.Thread(target=self._run, name=f"hive-ingest-kafka {route.topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread's end. Returns whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def heartbeat_age_seconds(self) -> float | None:
        """Age of the last heartbeat that the metastore answered, while a transaction is open."""
        connection = self._connection
        return None if connection is None else connection.stats.last_heartbeat_age_seconds

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while True:
                self._serve_or_retry()
        except Finished:
            pass
        except BaseException as failure:  # noqa: BLE001  # the consumer's thread raises it
            failure.add_note(self.route.note)
            error = failure
        self._emit(RouteEnded(self.route.topic, error))

    def _serve_or_retry(self) -> None:
        try:
            self._serve(self.inbox.wait_for_partitions())
        except AssignmentChanged:
            self._has_been_idle()
        except _RETRIED as error:
            self._wait_to_retry(error)

    def _wait_to_retry(self, error: Exception) -> None:
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        self._needs_messages = isinstance(error, SchemaRegistryUnavailable)
        if self.inbox.is_finishing and isinstance(error, TxnAborted | NoSuchTxn):
            _log.warning("topic %s: the last transaction was not committed: %s", self.route.topic, error)
            raise Finished  # the next start, or the partitions' new owner, writes its messages again
        if self.inbox.is_finishing or isinstance(error, SinkInUse):
            raise error
        if now - self._failing_since > self._options.retry_seconds:
            error.add_note(f"it was retried for {now - self._failing_since:.0f} s (retry_seconds)")
            raise error
        _log.log(
            logging.DEBUG if type(error) is self._logged else logging.WARNING,
            "topic %s to %s: the transaction is begun again, for %.0f s if necessary: %s: %s",
            self.route.topic,
            self.route.table,
            self._options.retry_seconds,
            type(error).__name__,
            error,
        )
        self._logged = type(error)
        self.inbox.pause(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)

    def _has_recovered(self) -> None:
        if self._failing_since is not None:
            seconds = time.monotonic() - self._failing_since
            _log.warning("topic %s to %s: written again after %.1f s", self.route.topic, self.route.table, seconds)
        self._failing_since, self._pause, self._logged = None, _FIRST_PAUSE_SECONDS, None

    def _has_been_idle(self) -> None:
        """A transaction without messages shows that the metastore answers, but nothing of the schema registry."""
        if not self._needs_messages:
            self._has_recovered()

    def _serve(self, assignment: Assignment) -> None:
        takeover = self._takeover(assignment)
        with StreamingConnection.connect(
            self._client,
            table=self.route.table_name,
            record_writer=self._record_writer,
            static_partition_values=self.route.static_partition_values,
            agent_info=group_tag(self._group_id),
            settings=self._settings,
            sink=self.route.sink_name,
            sources=[source_name(self.route.topic, number) for number in sorted(assignment.partitions)],
            on_commit=self._count_commit,
            on_blocked=takeover.on_blocked,
            bad_records=self.route.bad_records,
            max_bad_records=self.route.max_bad_records,
            max_bad_record_share=self.route.max_bad_record_share,
        ) as connection:
            self._connection, self._skipped = connection, 0
            try:
                self._session(connection, assignment, takeover).run()
            finally:
                self._connection = None
                self._count_end(connection.stats)
                self.inbox.clear()

    def _takeover(self, assignment: Assignment) -> Takeover:
        return Takeover(
            self._client,
            progress_table_name(self.route.table_name.database, self.route.sink_name),
            self._group_id,
            self._options.takeover_grace_seconds,
            self._membership,
            lambda: self.inbox.check(assignment),
        )

    def _session(self, connection: StreamingConnection, assignment: Assignment, takeover: Takeover) -> RouteSession:
        table_id = connection.table.id

        def request_start(known: Mapping[int, KnownPosition | None]) -> int:
            self.version += 1
            self.committed = {number: row for number, row in known.items() if row is not None}
            count = self._known_partitions(known)
            topic = self.route.topic
            self._emit(StartRequest(topic, self.version, assignment.generation, table_id, known, count))
            return self.version

        def on_committed(known: Mapping[int, KnownPosition], seconds: float) -> None:
            stats = connection.stats
            if stats.records_written or stats.records_skipped:
                self._has_recovered()
            else:
                self._has_been_idle()
            self.counts.last_commit_seconds, self.counts.last_commit_at = seconds, time.time()
            self.committed = known
            self._emit(RouteCommitted(self.route.topic, assignment.generation, table_id, known))

        max_seconds = min(self._options.max_seconds, self._client.txn_timeout_seconds * SHARE_OF_TIMEOUT)
        return RouteSession(
            connection,
            self.inbox,
            assignment,
            self.route.topic,
            self._options,
            max_seconds,
            on_begin=takeover.begin,
            request_start=request_start,
            on_committed=on_committed,
            on_idle=self._has_been_idle,  # without messages there is no commit to show it
        )

    def _known_partitions(self, known: Mapping[int, KnownPosition | None]) -> int:
        """How many partitions the topic had when the sink first met it; 0 for a new topic."""
        found = [each.position for each in known.values() if each is not None]
        if len(found) < len(known) and self._options.auto_offset_reset == "latest":
            # Another instance may have begun with the topic.
            table = progress_table_name(self.route.table_name.database, self.route.sink_name)
            rows = latest_progress(self._client, table).values()
            found += [KnownPosition.of(row).position for row in rows]
        return min((each.partitions for each in found if each.topic == self.route.topic), default=0)

    def _count_commit(self, info: CommitInfo) -> None:
        self.counts.rows += info.rows
        self.counts.file_bytes += info.file_bytes
        self.counts.commits += 1
        if self._connection is not None:
            skipped = self._connection.stats.records_skipped
            self.counts.bad_messages += skipped - self._skipped
            self._skipped = skipped
        if self._on_commit is not None:
            self._on_commit(info)

    def _count_end(self, stats: ConnectionStats) -> None:
        self.counts.aborts += stats.transactions_aborted
