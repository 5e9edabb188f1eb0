"""The Streaming V2 API: begin, write, commit, one transaction at a time (Java: `HiveStreamingConnection`)."""

from __future__ import annotations

import functools
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

from hive_ingest.config import StreamingSettings
from hive_ingest.connection.checks import check_still_fits, check_table, checked_partition_name, existing_table
from hive_ingest.connection.connecting import ConnectedTable, connect_table
from hive_ingest.connection.context import ConnectionContext
from hive_ingest.connection.joined_transaction import PreparedWrite, SharedTransaction
from hive_ingest.connection.lock_plan import plan_locks
from hive_ingest.connection.open_transaction import CommitInfo, OpenTransaction
from hive_ingest.connection.progress import SourceProgress
from hive_ingest.connection.stats import ConnectionStats
from hive_ingest.connection.thread_affinity import ThreadAffinity
from hive_ingest.connection.transaction import Action, TransactionState, next_state
from hive_ingest.delta import WriteCounts
from hive_ingest.errors import (
    ConfigurationError,
    ConnectionMisuse,
    InvalidTransactionState,
    NoSuchTxn,
    StreamingConnectionError,
    StreamingError,
    TxnAborted,
)
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    CommitKeyValue,
    Table,
    TableName,
    TxnId,
    WriteId,
)
from hive_ingest.record_writer import RecordSchema, RecordWriter
from hive_ingest.storage import Location
from hive_ingest.transactions import (
    Guard,
    LockedTransaction,
    log_failure,
    newest_overwrite,
)

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Progress: TypeAlias = Mapping[str, SourceProgress | None]

_OPEN = TransactionState.OPEN
#: Connections by the identity of their record writer: one that two connections fed would mix their records.
_writers_in_use: weakref.WeakValueDictionary[int, StreamingConnection] = weakref.WeakValueDictionary()


def _one_call(
    method: Callable[Concatenate[StreamingConnection, _P], _R],
) -> Callable[Concatenate[StreamingConnection, _P], _R]:
    """A method that another thread's `close` must not come into."""

    @functools.wraps(method)
    def call(self: StreamingConnection, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._context.calls:
            return method(self, *args, **kwargs)

    return call


class StreamingConnection:
    """Streams records into one transactional table. Make it by `connect`; one thread owns it.

    A call from another thread (but for `close`) or after a fork raises ConnectionMisuse. Left unclosed, it warns and
    aborts when it is collected or the interpreter exits.
    """

    def __init__(
        self,
        target: ConnectedTable,
        record_writer: RecordWriter,
        *,
        agent_info: str,
        transaction_batch_size: int,
        on_commit: Callable[[CommitInfo], None] | None,
        overwrite: bool,
    ) -> None:
        client, table = target.client, target.table
        self._client = client
        self._table = table
        self._record_writer = record_writer
        self._static_values = target.static_values
        self._progress = target.progress
        self._on_commit = on_commit
        self._overwrite = overwrite
        self._state = TransactionState.INACTIVE
        self._stats = ConnectionStats()
        self._partitions: tuple[str, ...] = ()
        self._warned_columns = False
        self._is_writing = False
        # The open transaction's `write`, bound once: looking it up for each record costs a tenth of a small write
        # (80 of 830 ns, CPython 3.11).
        self._write_records: Callable[[object], None] = _nobody_writes
        self._owner = ThreadAffinity(f"the connection to {table.name}")
        self._bind(table)
        plan = plan_locks(table, target.progress, target.settings, agent_info, is_overwrite=overwrite)
        self._context = ConnectionContext(
            client,
            plan,
            target.settings,
            transaction_batch_size,
            target.progress,
            is_overwrite=overwrite,
            owns_client=target.owns_client,
        )
        _writers_in_use[id(record_writer)] = self
        self._guard = Guard(
            self,
            client,
            self._context.end,
            what=f"the connection to {table.name}",
            warning=f"the connection to {table.name} was not closed; its transaction is aborted",
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
        overwrite: bool = False,
    ) -> Self:
        """Check everything that can be checked, and connect.

        `metastore` is a client, or the URI of a metastore for a client that is closed with the connection.
        `table` is `"database.table"`, or the table's name alone with `database` beside it, as in Java.
        `static_partition_values` are those of the leading partition keys, as text; the other keys are dynamic.
        `transaction_batch_size` transactions are opened at a time. With `sink` and `sources`, the progress of
        those sources commits with the data (see `progress` and `commit_transaction`). With `overwrite`, each
        transaction replaces what was there, as Hive's INSERT OVERWRITE: the whole table, or the partitions that it
        writes; all others wait meanwhile.

        Raises InvalidTable, StreamingConnectionError, UnsupportedFeature, ConfigurationError.
        """
        if transaction_batch_size < 1:
            raise ConfigurationError(f"transaction_batch_size={transaction_batch_size}: give 1 or more")
        if not isinstance(record_writer, RecordWriter):
            raise StreamingConnectionError(
                f"{record_writer!r} is not a record writer: use StrictJsonWriter, StrictDelimitedInputWriter, "
                "ArrowWriter or an object with the methods of hive_ingest.record_writer.RecordWriter"
            )
        _refuse_shared_writer(record_writer)
        target = connect_table(
            metastore,
            TableName.of(table, database),
            static_partition_values=static_partition_values,
            settings=settings,
            sink=sink,
            sources=sources,
        )
        try:
            return cls(
                target,
                record_writer,
                agent_info=agent_info or f"hive-ingest pid={os.getpid()}",
                transaction_batch_size=transaction_batch_size,
                on_commit=on_commit,
                overwrite=overwrite,
            )
        except BaseException:
            target.close()
            raise

    # -- transactions ------------------------------------------------------------------------------

    @_one_call
    def begin_transaction(self) -> None:
        """Open the next transaction: id, write id, lock, progress; the table is read again.

        Raises LockTimeout, SinkInUse, SinkConflict, InvalidTable, InvalidTransactionState.
        """
        self._check_owner()
        self._refuse_inside_write("begin_transaction")
        after = next_state(self._state, Action.BEGIN)
        if self._context.current is not None:
            self._end_unknown()
        locked = self._context.opener.begin(self._is_overtaken)
        try:
            self._read_table_again()
            current = OpenTransaction(self._context, self._table, locked, self._record_writer, self._static_values)
        except BaseException as error:
            self._context.opener.abort(locked.txn_id, "begin failed", first_error=error)
            raise
        self._context.current = current
        self._write_records = current.write
        self._state = after

    def write(self, records: object) -> None:
        """Write records, of whatever kind the record writer takes.

        An error in a record may be raised here, by a later call, or by commit; the transaction is then FAILED,
        and nothing of it will be visible.
        """
        if not self._owner.is_caller():
            self._owner.check()
        was_writing = self._is_writing
        self._is_writing = True  # a lock costs more, and this is the call that is made for each record
        try:
            if self._state is not _OPEN or self._context.heartbeater.lost:
                self._refuse_or_get(Action.WRITE)
            self._write_records(records)
        except BaseException:
            if self._state is _OPEN:
                self._state = next_state(self._state, Action.FAIL)
            raise
        finally:
            self._is_writing = was_writing

    @_one_call
    def flush(self) -> None:
        """Parse and spill all that was written. Nothing becomes visible before the commit."""
        current = self._refuse_or_get(Action.FLUSH)
        was_writing, self._is_writing = self._is_writing, True
        try:
            with self._failing():
                current.flush()
        finally:
            self._is_writing = was_writing

    @_one_call
    def share_transaction(self) -> SharedTransaction:
        """The open transaction as a value, for writers in other processes (`JoinedTransaction`).

        What they prepare becomes visible with `commit_transaction(prepared=…)`; the rest is removed with the end of
        the transaction, or by the next connection to the table.
        """
        return self._refuse_or_get(Action.WRITE).share()

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
            CommitOutcomeUnknown: The answer was lost; the state is UNKNOWN.
            ConfigurationError, ConnectionMisuse: An argument is invalid; the transaction stays OPEN.
            StreamingError: Any other; the state is FAILED: call `abort_transaction`.
        """
        return self._commit(partitions, key, value, positions or {}, prepared, is_seek=False)

    @_one_call
    def seek(self, positions: Mapping[str, Any] | Callable[[_Progress], Mapping[str, Any]]) -> None:
        """In a transaction of its own, set the positions of sources on purpose, also back: a new epoch begins.

        A function is called with the latest progress, while the sources are locked, and returns the positions to set;
        without any, nothing is changed.
        """
        self.begin_transaction()
        try:
            chosen = positions(self.progress) if callable(positions) else positions
            if chosen:
                self._commit((), None, None, chosen, (), is_seek=True)
            else:
                self.abort_transaction()
        except BaseException as error:
            if self._state in (TransactionState.OPEN, TransactionState.FAILED):
                self._abort_after(error)
            raise

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
        current = self._refuse_or_get(Action.COMMIT)
        self._refuse_inside_write("commit_transaction")
        names = [checked_partition_name(self._table, self._static_values, name) for name in partitions]
        key_value = self._key_value(key, value)
        writes = list(prepared)
        current.check_arguments(positions, writes)
        if not positions:
            self._refuse_rows_without_position(current, writes)
        try:
            info = current.commit(
                partitions=names, prepared=writes, key_value=key_value, positions=positions, is_seek=is_seek
            )
        except TxnAborted as error:
            self._abort_after(error)
            raise
        except BaseException:
            self._state = next_state(self._state, Action.LOSE if current.may_be_committed else Action.FAIL)
            raise
        self._state = TransactionState.COMMITTED
        self._committed(current, info)
        return info

    def _refuse_rows_without_position(self, current: OpenTransaction, prepared: Sequence[PreparedWrite]) -> None:
        with self._failing():  # by a bad record, but not by the missing position
            needs_position = current.needs_position(prepared)
        if needs_position:
            raise ConfigurationError(
                f"transaction {current.txn_id} has rows and no position, so they would be written again after a "
                "restart: pass positions=… with the source that they come from"
            )

    def _committed(self, current: OpenTransaction, info: CommitInfo) -> None:
        self._stats.add(current.counts, info)
        self._partitions = info.partitions
        self._warn_of_unmatched_columns(current.counts)
        self._forget_current(at_once=False)
        on_commit = self._on_commit
        if on_commit is not None:
            log_failure(lambda: on_commit(info), f"on_commit, after transaction {info.txn_id} was committed,")
        reach("after_commit_answer")

    @_one_call
    def abort_transaction(self) -> None:
        """Give the transaction up: nothing of it is or becomes visible."""
        self._check_owner()
        self._refuse_inside_write("abort_transaction")
        after = next_state(self._state, Action.ABORT)
        try:
            self._undo("aborted by its owner", first_error=None)
        finally:
            self._state = after  # also when the metastore is out of reach: the transaction times out

    def _abort_after(self, error: BaseException) -> None:
        """The transaction is lost: clean up without hiding the error."""
        self._undo(f"failed: {type(error).__name__}", first_error=error)
        self._state = TransactionState.ABORTED

    def _undo(self, reason: str, *, first_error: BaseException | None) -> None:
        current = self._context.current
        assert current is not None
        self._stats.transactions_aborted += 1
        current.withdraw()
        try:
            self._context.opener.abort(current.txn_id, reason, first_error=first_error)
        finally:
            self._forget_current()

    def _forget_current(self, *, at_once: bool = True) -> None:
        current = self._context.current
        assert current is not None
        self._context.current = None
        self._write_records = _nobody_writes
        self._context.opener.ended()
        current.clean_up(at_once=at_once)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`with conn.transaction(): …` begins, and commits at the end, or aborts on an error."""
        self.begin_transaction()
        try:
            yield self
        except BaseException as error:
            if self._state in (TransactionState.OPEN, TransactionState.FAILED):
                self._abort_after(error)
            raise
        if self._state is not TransactionState.OPEN:
            return  # committed or aborted inside
        try:
            self.commit_transaction()
        except BaseException as error:
            if self._state in (TransactionState.OPEN, TransactionState.FAILED):
                self._abort_after(error)
            raise

    # -- helpers of the above ----------------------------------------------------------------------

    def _bind(self, table: Table) -> None:
        keys = table.partition_keys[len(self._static_values) :]
        self._record_writer.bind(RecordSchema(table.columns, keys))

    def _read_table_again(self) -> None:
        table = existing_table(self._client, self._table.name)
        if table == self._table:
            return
        check_table(table)
        check_still_fits(self._table, table)
        self._bind(table)
        self._table = table  # only now: after an error the next begin reads it again

    def _is_overtaken(self, locked: LockedTransaction) -> bool:
        """After ACQUIRED, before anything is written: has an overwrite passed our write id?"""
        name = self._table.name
        if self._progress is not None:
            progress = self._progress.table.name
            fits = self._progress.read(locked.write_ids[progress], locked.snapshots[progress])
            reach("after_progress_read")
            if not fits:
                return True
        if self._overwrite:
            return locked.is_older_than_a_commit(name)  # rows that were committed above it would outlive the overwrite
        if not locked.may_be_overtaken(name) or self._table.is_partitioned:
            return False  # the partitions are not known yet: they are looked at before the commit
        return newest_overwrite(Location.of(self._table.location)) > locked.write_ids[name]

    def _key_value(self, key: str | None, value: str | None) -> CommitKeyValue | None:
        if key is None and value is None:
            return None
        if key is None or value is None:
            raise ConfigurationError("commit_transaction wants both key and value, or neither")
        return CommitKeyValue(self._table.id, key, value)

    def _refuse_inside_write(self, call: str) -> None:
        """A generator that is being written, or a signal handler, must not end the transaction that it is in."""
        if self._is_writing:
            raise ConnectionMisuse(
                f"{call}() was called inside write() or flush() of the connection to {self._table.name}, by the "
                "iterable that is being written or by a signal handler: let that call return first"
            )

    def _end_unknown(self) -> None:
        """A commit without an answer may leave the transaction open, with all its locks.

        Asking for an abort is safe: it is refused if the commit has taken effect.
        """
        current = self._context.current
        assert current is not None
        try:
            self._client.abort_txn(current.txn_id, reason="the outcome of its commit is unknown")
        except NoSuchTxn:
            pass  # it was committed
        except StreamingError as error:
            _log.warning("transaction %d could not be ended, its time-out will do it: %s", current.txn_id, error)
        self._forget_current()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._state = next_state(self._state, Action.FAIL)
            raise

    def _refuse_or_get(self, action: Action) -> OpenTransaction:
        self._check_owner()
        next_state(self._state, action)
        current = self._context.current
        assert current is not None
        try:
            self._context.heartbeater.raise_if_lost(current.txn_id)
        except TxnAborted:
            self._state = TransactionState.FAILED
            raise
        return current

    def _check_owner(self) -> None:
        if not self._guard.is_active:
            raise ConnectionMisuse(f"the connection to {self._table.name} is closed: open another one")
        self._owner.check()

    def _warn_of_unmatched_columns(self, counts: WriteCounts) -> None:
        matched = counts.matched_columns
        if self._warned_columns or matched is None or not counts.rows:
            return
        self._warned_columns = True
        keys = self._table.partition_keys[len(self._static_values) :]
        missing = [column.name for column in (*self._table.columns, *keys) if column.name not in matched]
        if missing:
            _log.warning("no record had a field for %s of %s: they are null", missing, self._table.name)

    # -- what can be asked -------------------------------------------------------------------------

    @property
    def state(self) -> TransactionState:
        return self._state

    @property
    def table(self) -> Table:
        """As of the last begin."""
        return self._table

    @property
    def txn_id(self) -> TxnId | None:
        """Of the transaction under way (Java: `getCurrentTxnId`)."""
        current = self._context.current
        return current.txn_id if current else None

    @property
    def write_id(self) -> WriteId | None:
        """Of the transaction under way (Java: `getCurrentWriteId`)."""
        current = self._context.current
        return current.write_id if current else None

    @property
    def remaining_transactions(self) -> int:
        """Transactions that are open already and not begun."""
        return self._context.opener.remaining

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that the last committed transaction wrote."""
        return self._partitions

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
        if not self._progress.latest:
            raise InvalidTransactionState(
                f"the progress of sink {self._progress.sink!r} has not been read yet: call begin_transaction() first, "
                "which locks the sources and reads it"
            )
        return MappingProxyType(self._progress.latest)

    @property
    def other_sources(self) -> tuple[str, ...]:
        """Sources of the sink that are not owned here, as of the last begin where one that is had no progress yet."""
        return self._progress.other_sources if self._progress is not None else ()

    @property
    def stats(self) -> ConnectionStats:
        current = self._context.current
        age = self._context.heartbeater.age_seconds(current.txn_id) if current else None
        return replace(self._stats, last_heartbeat_age_seconds=age)

    def __repr__(self) -> str:
        return f"<StreamingConnection {self._table.name} {self._state.name} txn={self.txn_id} write_id={self.write_id}>"

    # -- life --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Abort what is open and give everything back. Idempotent.

        Any thread of the process may call it. While the owner's thread is inside a call, another one is refused.

        Raises:
            ConnectionMisuse: The owner's thread is inside a call, or the connection came through a fork.
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
            if self._state in (TransactionState.OPEN, TransactionState.FAILED):
                self.abort_transaction()
            elif self._context.current is not None:
                self._end_unknown()
        finally:
            self._guard.release()
            _writers_in_use.pop(id(self._record_writer), None)
            self._context.close(self._client)

    def _close_from_another_thread(self) -> None:
        self._owner.check_process()
        if self._is_writing or not self._context.calls.acquire(blocking=False):
            raise ConnectionMisuse(
                f"the connection to {self._table.name} is inside a call on its own thread: close it when that returns"
            )
        try:
            self._guard.deactivate()  # refuses every further call
            if self._state in (TransactionState.OPEN, TransactionState.FAILED):
                self._stats.transactions_aborted += 1
                self._state = TransactionState.ABORTED
            _writers_in_use.pop(id(self._record_writer), None)
        finally:
            self._context.calls.release()
        self._wait_for_write()
        self._guard.end_now()

    def _wait_for_write(self) -> None:
        """For a `write` that began just before the state changed."""
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
            _log.warning("closing the connection to %s failed: %s", self._table.name, error)


def _refuse_shared_writer(record_writer: RecordWriter) -> None:
    other = _writers_in_use.get(id(record_writer))
    if other is not None:
        raise StreamingConnectionError(
            f"the record writer serves {other!r} already: give each connection one of its own"
        )


def _nobody_writes(records: object) -> None:
    """Between transactions: the state has refused before."""
