"""The transactions of a connection, one after another: how each begins and ends, and the resulting state.

`streaming_connection` checks beforehand which thread calls, and from where.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hive_ingest.connection.activity import report_aborted, report_committed, report_unknown
from hive_ingest.connection.bound_table import BoundTable
from hive_ingest.connection.context import ConnectionContext
from hive_ingest.connection.joined_transaction import PreparedWrite
from hive_ingest.connection.open_transaction import CommitInfo, OpenTransaction
from hive_ingest.connection.stats import ConnectionStats
from hive_ingest.connection.transaction import Action, TransactionState, next_state
from hive_ingest.errors import ConfigurationError, NoSuchTxn, StreamingError, TxnAborted
from hive_ingest.faults import reach
from hive_ingest.model import CommitKeyValue
from hive_ingest.storage import Location
from hive_ingest.transactions import LockedTransaction, log_failure, newest_overwrite

_log = logging.getLogger(__name__)


class TransactionSequence:
    """Has at most one transaction at a time, in the connection's context.

    Attributes:
        state: Of the last transaction.
        stats: Of all that have ended.
        partitions: Names of the partitions that the last committed one wrote.
        write: Writes records into the open one. Bound once for each: looking it up for each record costs a tenth of a
            small write (80 of 830 ns, CPython 3.11).
    """

    def __init__(
        self, context: ConnectionContext, table: BoundTable, on_commit: Callable[[CommitInfo], None] | None
    ) -> None:
        self._context = context
        self._table = table
        self._on_commit = on_commit
        self.state = TransactionState.INACTIVE
        self.stats = ConnectionStats()
        self.partitions: tuple[str, ...] = ()
        self.write: Callable[[object], None] = _nobody_writes
        self._begin_seconds = 0.0

    @property
    def is_under_way(self) -> bool:
        """Whether there is a transaction that must be ended by a commit or an abort."""
        return self.state in (TransactionState.OPEN, TransactionState.FAILED)

    # -- from the begin to the commit --------------------------------------------------------------

    def begin(self) -> None:
        """Open the next one. Raises what `StreamingConnection.begin_transaction` does."""
        after = next_state(self.state, Action.BEGIN)
        if self._context.current is not None:
            self.end_unknown()
        started = time.monotonic()
        locked = self._context.opener.begin(self._is_overtaken)
        table = self._table
        try:
            table.read_again()
            current = OpenTransaction(self._context, table.table, locked, table.record_writer, table.static_values)
        except BaseException as error:
            self._context.opener.abort(locked.txn_id, "begin failed", first_error=error)
            raise
        self._begin_seconds = time.monotonic() - started
        self._context.current = current
        self.write = current.write
        self.state = after

    def _is_overtaken(self, locked: LockedTransaction) -> bool:
        """Whether an overwrite has passed our write id; checked after ACQUIRED, before anything is written."""
        table, progress = self._table.table, self._context.progress
        if progress is not None:
            name = progress.table.name
            fits = progress.read(locked.write_ids[name], locked.snapshots[name])
            reach("after_progress_read")
            if not fits:
                return True
        if self._context.is_overwrite:
            # Rows that were committed above it would outlive the overwrite.
            return locked.is_older_than_a_commit(table.name)
        if not locked.may_be_overtaken(table.name) or table.is_partitioned:
            return False  # the partitions are not known yet: they are checked before the commit
        return newest_overwrite(Location.of(table.location)) > locked.write_ids[table.name]

    def check(self, action: Action) -> None:
        """Raises InvalidTransactionState for an action that is not legal in this state."""
        next_state(self.state, action)

    def require(self, action: Action) -> OpenTransaction:
        """The open transaction, if `action` is legal and no heartbeat has reported it as ended.

        Raises:
            InvalidTransactionState: The action is not legal in this state.
            TxnAborted: The metastore has ended the transaction; the state is FAILED.
        """
        self.check(action)
        current = self._current()
        try:
            self._context.heartbeater.raise_if_lost(current.txn_id)
        except TxnAborted:
            self.state = TransactionState.FAILED
            raise
        return current

    def fail(self) -> None:
        """Handle an error inside the open transaction."""
        self.state = next_state(self.state, Action.FAIL)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """An error inside makes the open transaction FAILED."""
        try:
            yield
        except BaseException:
            self.fail()
            raise

    @contextmanager
    def aborting(self) -> Iterator[None]:
        """An error inside aborts the transaction, unless it has ended."""
        try:
            yield
        except BaseException as error:
            if self.is_under_way:
                self.abort_after(error)
            raise

    def check_arguments(self, positions: Mapping[str, Any], prepared: Sequence[PreparedWrite]) -> None:
        """Check what was passed to a commit. An invalid argument leaves the transaction open; a bad record fails it.

        Raises:
            ConfigurationError, ConnectionMisuse: An argument is invalid.
            StreamingError: A record is bad.
        """
        self.check(Action.COMMIT)  # an iterable of the caller's may have ended the transaction
        current = self._current()
        current.check_arguments(positions, prepared)
        if positions:
            return
        with self.failing():
            needs_position = current.needs_position(prepared)
        if needs_position:
            raise ConfigurationError(
                f"transaction {current.txn_id} has rows and no position, so they would be written again after a "
                "restart: pass positions=… with the source that they come from"
            )

    def commit(
        self,
        partitions: Iterable[str],
        key_value: CommitKeyValue | None,
        positions: Mapping[str, Any],
        prepared: Sequence[PreparedWrite],
        *,
        is_seek: bool,
    ) -> CommitInfo:
        """Commit the open one. Raises what `StreamingConnection.commit_transaction` does."""
        current, started = self._current(), time.monotonic()
        try:
            info = current.commit(
                partitions=partitions, prepared=prepared, key_value=key_value, positions=positions, is_seek=is_seek
            )
        except TxnAborted as error:
            self.abort_after(error)
            raise
        except BaseException:
            self.state = next_state(self.state, Action.LOSE if current.may_be_committed else Action.FAIL)
            if current.may_be_committed:
                report_unknown(self._context, current.txn_id)
            raise
        self.state = TransactionState.COMMITTED
        self._committed(current, info, time.monotonic() - started)
        return info

    def _committed(self, current: OpenTransaction, info: CommitInfo, seconds: float) -> None:
        self.stats.add(current.counts, info)
        report_committed(self._context, info, current.counts, begin_seconds=self._begin_seconds, commit_seconds=seconds)
        self._context.skipped.committed(current.counts)
        self.partitions = info.partitions
        self._table.warn_of_unmatched_columns(current.counts)
        self._forget_current(at_once=False)
        on_commit = self._on_commit
        if on_commit is not None:
            log_failure(lambda: on_commit(info), f"on_commit, after transaction {info.txn_id} was committed,")
        reach("after_commit_answer")

    # -- the other ends ----------------------------------------------------------------------------

    def abort(self) -> None:
        """As `StreamingConnection.abort_transaction`."""
        after = next_state(self.state, Action.ABORT)
        try:
            self._undo("aborted by its owner", first_error=None)
        finally:
            self.state = after  # even if the metastore cannot be reached: the transaction times out

    def abort_after(self, error: BaseException) -> None:
        """The transaction is lost: clean up without hiding the error."""
        self._undo(f"failed: {type(error).__name__}", first_error=error)
        self.state = TransactionState.ABORTED

    def mark_aborted(self) -> None:
        """Mark a current transaction that another thread aborts."""
        self.stats.transactions_aborted += 1
        self.state = TransactionState.ABORTED

    def end_unknown(self) -> None:
        """A commit without a response may leave the transaction open, with all its locks.

        Requesting an abort is safe: it is refused if the commit has taken effect.
        """
        current = self._current()
        try:
            self._context.client.abort_txn(current.txn_id, reason="the outcome of its commit is unknown")
        except NoSuchTxn:
            pass  # it was committed
        except StreamingError as error:
            _log.warning("transaction %d could not be aborted and will time out: %s", current.txn_id, error)
        self._forget_current()

    def _undo(self, reason: str, *, first_error: BaseException | None) -> None:
        current = self._current()
        self.stats.transactions_aborted += 1
        report_aborted(self._context, current.txn_id, reason)
        current.withdraw()
        try:
            self._context.opener.abort(current.txn_id, reason, first_error=first_error)
        finally:
            self._forget_current()

    def _forget_current(self, *, at_once: bool = True) -> None:
        current = self._current()
        self._context.current = None
        self.write = _nobody_writes
        self._context.opener.ended()
        current.clean_up(at_once=at_once)

    def _current(self) -> OpenTransaction:
        current = self._context.current
        assert current is not None
        return current


def _nobody_writes(records: object) -> None:
    """Used between transactions, where the check of the state has already refused the call."""
