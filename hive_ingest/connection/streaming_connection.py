"""The Streaming V2 API: begin, write, commit, one transaction at a time (Java: `HiveStreamingConnection`)."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

from hive_ingest.config import StreamingSettings
from hive_ingest.connection.bad_records import BadRecordTarget, SkippedRecords
from hive_ingest.connection.bound_table import (
    BoundTable,
    check_record_writer,
    hold_record_writer,
    release_record_writer,
)
from hive_ingest.connection.connecting import ConnectedTable, connect_table
from hive_ingest.connection.context import ConnectionContext
from hive_ingest.connection.joined_transaction import PreparedWrite, SharedTransaction, prepared_writes
from hive_ingest.connection.lock_plan import plan_locks
from hive_ingest.connection.open_transaction import CommitInfo, OpenTransaction
from hive_ingest.connection.progress import SourceProgress
from hive_ingest.connection.stats import ConnectionStats
from hive_ingest.connection.thread_affinity import ThreadAffinity
from hive_ingest.connection.transaction import Action, TransactionState
from hive_ingest.connection.transaction_sequence import TransactionSequence
from hive_ingest.errors import ConfigurationError, ConnectionMisuse, StreamingError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import LockInfo, Table, TableName, TxnId, WriteId
from hive_ingest.record_writer import RecordWriter
from hive_ingest.transactions import Guard

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Progress: TypeAlias = Mapping[str, SourceProgress | None]

_OPEN = TransactionState.OPEN


def _one_call(
    method: Callable[Concatenate[StreamingConnection, _P], _R],
) -> Callable[Concatenate[StreamingConnection, _P], _R]:
    """A method during which `close` from another thread is refused."""

    @functools.wraps(method)
    def call(self: StreamingConnection, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._context.calls:
            return method(self, *args, **kwargs)

    return call


class StreamingConnection:
    """Streams records into one transactional table. Open it with `connect`; one thread owns it.

    A call from another thread (except `close`) or after a fork raises ConnectionMisuse. A connection that is not closed
    warns and aborts when it is garbage-collected or the interpreter exits.
    """

    def __init__(
        self,
        target: ConnectedTable,
        record_writer: RecordWriter,
        *,
        agent_info: str,
        transaction_batch_size: int,
        on_commit: Callable[[CommitInfo], None] | None,
        on_blocked: Callable[[list[LockInfo]], None] | None,
        overwrite: bool,
        skipped: SkippedRecords,
    ) -> None:
        client, name = target.client, target.table.name
        self._client = client
        self._progress = target.progress
        self._is_writing = False
        self._owner = ThreadAffinity(f"the connection to {name}")
        self._bound = BoundTable(client, target.table, record_writer, target.static_values)
        plan = plan_locks(target, agent_info, is_overwrite=overwrite, on_blocked=on_blocked)
        self._context = ConnectionContext(
            client,
            plan,
            target.settings,
            transaction_batch_size,
            target.progress,
            skipped,
            bad_rows=target.bad_rows,
            is_overwrite=overwrite,
            owns_client=target.owns_client,
        )
        self._lost = self._context.heartbeater.lost  # for `write`, which looks at it for each record
        self._transactions = TransactionSequence(self._context, self._bound, on_commit)
        hold_record_writer(record_writer, self)
        self._guard = Guard(
            self,
            client,
            self._context.end,
            what=f"the connection to {name}",
            warning=f"the connection to {name} was not closed; its transaction is aborted",
        )

    @classmethod
    def connect(
        cls,
        metastore: MetastoreClient | str,
        *,
        table: str | TableName,
        record_writer: RecordWriter,
        database: str | None = None,
        static_partition_values: Sequence[str] = (),
        agent_info: str = "",
        settings: StreamingSettings | Mapping[str, Any] | None = None,
        transaction_batch_size: int = 1,
        sink: str | None = None,
        sources: Iterable[str] = (),
        on_commit: Callable[[CommitInfo], None] | None = None,
        on_blocked: Callable[[list[LockInfo]], None] | None = None,
        overwrite: bool = False,
        bad_records: BadRecordTarget | None = None,
        max_bad_records: int | None = None,
        max_bad_record_share: float | None = None,
    ) -> Self:
        """Check everything that can be checked, and connect.

        Args:
            metastore: A client, or a URI, for a client that is closed with the connection.
            table: `"database.table"`, or the table's name alone with `database` beside it, as in Java.
            record_writer: What converts the records; it serves one connection at a time.
            database: The table's database, if `table` does not name it.
            static_partition_values: Values of the leading partition keys, as text; the other keys are dynamic.
            agent_info: Who writes, as shown beside the locks.
            settings: See docs/limits.md.
            transaction_batch_size: Number of transactions that are opened at a time.
            sink: Name of the application, whose progress in its sources commits with the data.
            sources: The sources that this connection owns (see `progress` and `commit_transaction`).
            on_commit: Called after each commit; its errors are logged and not raised.
            on_blocked: Called with the locks in the way before each new attempt; an error that it raises ends the wait.
            overwrite: Whether each transaction replaces the table, or the partitions that it writes; others wait.
            bad_records: A handler or function that gets what was skipped before the commit, or a `BadRecordTable`.
            max_bad_records: How many may be skipped since connect. More fail the transaction with TooManyBadRecords.
            max_bad_record_share: The same as a share of the records of one transaction.

        Raises InvalidTable, StreamingConnectionError, UnsupportedFeature, ConfigurationError.
        """
        check_record_writer(record_writer)
        skipped = SkippedRecords(record_writer, bad_records, max_bad_records, max_bad_record_share)
        target = connect_table(
            metastore,
            TableName.of(table, database),
            static_partition_values=static_partition_values,
            settings=settings,
            sink=sink,
            sources=sources,
            bad_records=bad_records,
        )
        skipped.keep_in(target.bad_rows)
        try:
            return cls(
                target,
                record_writer,
                agent_info=agent_info or f"hive-ingest pid={os.getpid()}",
                transaction_batch_size=transaction_batch_size,
                on_commit=on_commit,
                on_blocked=on_blocked,
                overwrite=overwrite,
                skipped=skipped,
            )
        except BaseException:
            target.close()
            raise

    @_one_call
    def begin_transaction(self) -> None:
        """Open the next transaction: id, write id, lock, progress; the table is read again.

        Raises LockTimeout, SinkInUse, SinkConflict, InvalidTable, InvalidTransactionState.
        """
        self._check_owner()
        self._refuse_inside_write("begin_transaction")
        self._transactions.begin()

    def write(self, records: object) -> None:
        """Write records, in any form that the record writer accepts.

        An error in a record may be raised here, by a later call, or by commit; the transaction is then FAILED,
        and nothing of it will be visible.
        """
        if not self._owner.is_caller():
            self._owner.check()
        transactions = self._transactions
        was_writing = self._is_writing
        self._is_writing = True  # cheaper than a lock, and this method is called for each record
        try:
            if transactions.state is not _OPEN or self._lost:
                self._require(Action.WRITE)
            transactions.write(records)
        except BaseException:
            if transactions.state is _OPEN:
                transactions.fail()
            raise
        finally:
            self._is_writing = was_writing

    @_one_call
    def flush(self) -> None:
        """Parse and spill all that was written. Nothing becomes visible before the commit."""
        current = self._require(Action.FLUSH)
        was_writing, self._is_writing = self._is_writing, True
        try:
            with self._transactions.failing():
                current.flush()
        finally:
            self._is_writing = was_writing

    @_one_call
    def share_transaction(self) -> SharedTransaction:
        """The open transaction as a value, for writers in other processes (`JoinedTransaction`).

        What they prepare becomes visible with `commit_transaction(prepared=…)`; anything else is removed when the
        transaction ends, or by the next connection to the table. Raises TxnAborted if the transaction has ended, and
        MetastoreError if the metastore cannot be asked; the state stays OPEN.
        """
        return self._require(Action.WRITE).share()

    @_one_call
    def commit_transaction(
        self,
        partitions: Iterable[str] = (),
        key: str | None = None,
        value: str | None = None,
        *,
        positions: Mapping[str, Any] | None = None,
        prepared: Iterable[PreparedWrite] = (),
    ) -> CommitInfo:
        """Make all rows of the transaction visible, and with them the new `positions` of the sources owned.

        Once it returns, the transaction is committed: a failure of what follows, such as removing hidden files or
        the `on_commit` hook, is logged and not raised.

        Args:
            partitions: Names ("k=v/…", keys in the table's order) of further partitions to create if missing.
            key: Name of a table parameter that changes with the commit (HIVE-20538); needs `value`.
            value: Its new value.
            positions: The new position of each source that advanced; any JSON value.
            prepared: What writers that joined the transaction (`share_transaction`) have handed over.

        Raises:
            TxnAborted: Nothing is visible; the state is ABORTED.
            CommitOutcomeUnknown: The metastore's response was lost; the state is UNKNOWN.
            ConfigurationError, ConnectionMisuse: An argument is invalid; the transaction stays OPEN.
            StreamingError: Any other; the state is FAILED: call `abort_transaction`.
        """
        return self._commit(partitions, key, value, {} if positions is None else positions, prepared, is_seek=False)

    @_one_call
    def seek(self, positions: Mapping[str, Any] | Callable[[_Progress], Mapping[str, Any]]) -> None:
        """Set the positions of sources, forward or back, in a transaction of its own. A new epoch begins.

        A function is called with the latest progress, while the sources are locked, and returns the positions to set;
        if it returns none, nothing is changed.
        """
        self.begin_transaction()
        with self._transactions.aborting():
            chosen = positions(self.progress) if callable(positions) else positions
            if chosen:
                self._commit((), None, None, chosen, (), is_seek=True)
            else:
                self.abort_transaction()

    def _commit(
        self,
        partitions: Iterable[str],
        key: str | None,
        value: str | None,
        positions: Mapping[str, Any],
        prepared: Iterable[PreparedWrite],
        *,
        is_seek: bool,
    ) -> CommitInfo:
        self._check_owner()
        self._transactions.check(Action.COMMIT)
        self._refuse_inside_write("commit_transaction")
        names = self._bound.checked_partitions(partitions)
        key_value = self._bound.key_value(key, value)
        writes = prepared_writes(prepared)
        self._transactions.check_arguments(positions, writes)
        return self._transactions.commit(names, key_value, positions, writes, is_seek=is_seek)

    @_one_call
    def abort_transaction(self) -> None:
        """Abort the transaction: nothing of it becomes visible."""
        self._check_owner()
        self._refuse_inside_write("abort_transaction")
        self._transactions.abort()

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`with conn.transaction(): …` begins, and commits at the end, or aborts on an error."""
        self.begin_transaction()
        with self._transactions.aborting():
            yield self
            if self.state is TransactionState.OPEN:  # neither committed nor aborted inside
                self.commit_transaction()

    def _refuse_inside_write(self, call: str) -> None:
        """Refuse a call from a generator that is being written, or from a signal handler, inside a transaction."""
        if self._is_writing:
            raise ConnectionMisuse(
                f"{call}() was called inside write() or flush() of the connection to {self.table.name}, by the "
                "iterable that is being written or by a signal handler: let that call return first"
            )

    def _require(self, action: Action) -> OpenTransaction:
        self._check_owner()
        return self._transactions.require(action)

    def _check_owner(self) -> None:
        if not self._guard.is_active:
            raise ConnectionMisuse(f"the connection to {self.table.name} is closed: open another one")
        self._owner.check()

    @property
    def state(self) -> TransactionState:
        return self._transactions.state

    @property
    def table(self) -> Table:
        """The table, as of the last begin."""
        return self._bound.table

    @property
    def txn_id(self) -> TxnId | None:
        """Id of the current transaction (Java: `getCurrentTxnId`)."""
        current = self._context.current
        return current.txn_id if current else None

    @property
    def write_id(self) -> WriteId | None:
        """Write id of the current transaction (Java: `getCurrentWriteId`)."""
        current = self._context.current
        return current.write_id if current else None

    @property
    def remaining_transactions(self) -> int:
        """Number of transactions that are opened ahead and not begun yet."""
        return self._context.opener.remaining

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that the last committed transaction wrote."""
        return self._transactions.partitions

    @property
    def progress(self) -> _Progress:
        """The latest committed progress of each source owned, as of the last begin or commit; None: none yet.

        It is read by `begin_transaction`, which holds the sources' locks: before, another owner may still move it.

        Raises:
            ConfigurationError: The connection has no sink.
            InvalidTransactionState: No transaction was begun yet.
        """
        if self._progress is None:
            raise ConfigurationError("progress needs a sink: connect with sink=… and sources=…")
        return MappingProxyType(self._progress.require_latest())

    @property
    def other_sources(self) -> tuple[str, ...]:
        """Sources of the sink that others own, as of the last begin at which an owned source had no progress yet."""
        return self._progress.other_sources if self._progress is not None else ()

    @property
    def stats(self) -> ConnectionStats:
        """A copy. Any thread may ask."""
        return replace(self._transactions.stats, **self._context.pending_stats())

    def __repr__(self) -> str:
        return f"<StreamingConnection {self.table.name} {self.state.name} txn={self.txn_id} write_id={self.write_id}>"

    def close(self) -> None:
        """Abort the open transactions and release everything. Idempotent.

        Any thread of the process may call it, except while the owner's thread is inside another call.

        Raises:
            ConnectionMisuse: The owner's thread is inside a call, or the connection was inherited through a fork.
            StreamingError: The metastore did not abort the transaction, which will time out.
        """
        if not self._guard.is_active:
            return
        if not self._owner.is_caller():
            self._close_from_another_thread()
            return
        self._refuse_inside_write("close")
        with self._context.calls:
            self._close()

    def _close(self) -> None:
        try:
            if self._transactions.is_under_way:
                self.abort_transaction()
            elif self._context.current is not None:
                self._transactions.end_unknown()
        finally:
            self._guard.release()
            release_record_writer(self._bound.record_writer)
            self._context.close(self._client)

    def _close_from_another_thread(self) -> None:
        self._owner.check_process()
        if self._is_writing or not self._context.calls.acquire(blocking=False):
            raise ConnectionMisuse(
                f"the connection to {self.table.name} is inside a call on its own thread: close it when that returns"
            )
        try:
            self._guard.deactivate()  # refuses every further call
            if self._transactions.is_under_way:
                self._transactions.mark_aborted()
            release_record_writer(self._bound.record_writer)
        finally:
            self._context.calls.release()
        self._wait_for_write()
        self._guard.end_now()

    def _wait_for_write(self) -> None:
        """Refuse a `write` that began just before the state changed."""
        while self._is_writing:
            time.sleep(0.001)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StreamingError as error:
            if exc is None:
                raise
            _log.warning("closing the connection to %s failed: %s", self.table.name, error)
