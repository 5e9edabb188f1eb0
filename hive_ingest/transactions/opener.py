"""Begins a transaction: id, write ids, locks, and the check that no overwrite came in between.

INSERT OVERWRITE and TRUNCATE write `base_N`, which silently makes every lower write id obsolete. So a transaction whose
write id may be older than an overwrite's is begun again, with a new write id.

There are two orders. An appender takes its write id first and its lock last, as Hive does, with one request whose row
carries the write id (TXN_COMPONENTS). That is the cheapest order, and right if the lock is granted at once. An appender
that has to wait, and every overwrite, takes its lock first: it gets a place in the metastore's queue, which is served
in order, and takes a write id only after the lock is granted. With the lock last, a write id would be stale after each
wait, and appenders that commit without pause would starve an overwrite.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hive_ingest.acid import BaseName, RangeResponse, ValidWriteIdList
from hive_ingest.config import StreamingSettings
from hive_ingest.errors import LockTimeout, NoSuchLock, NoSuchTxn, StreamingError, TxnAborted
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    LockId,
    LockInfo,
    LockRequest,
    LockState,
    LockType,
    TableName,
    TxnId,
    WriteId,
)
from hive_ingest.storage import Location
from hive_ingest.transactions.heartbeat import Heartbeater, now
from hive_ingest.transactions.lock_errors import begin_limit_reached, times_begun_again
from hive_ingest.transactions.lock_plan import LockPlan
from hive_ingest.transactions.lock_wait import LockWait
from hive_ingest.transactions.reaper import opening
from hive_ingest.transactions.registered_folders import list_registered

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockedTransaction:
    """An open transaction with a write id in each table and all locks ACQUIRED. The snapshots were taken after that."""

    txn_id: TxnId
    write_ids: dict[TableName, WriteId]
    snapshots: dict[TableName, ValidWriteIdList]
    #: Whether the snapshots have every write id that was taken while this transaction was open.
    keeps_min_history: bool = True

    def is_older_than_a_commit(self, table: TableName) -> bool:
        """Whether a transaction with a higher write id has committed: an overwrite of ours would not replace its rows.

        Higher write ids of open transactions do not matter: those wait for our locks.
        """
        snapshot, write_id = self.snapshots[table], self.write_ids[table]
        above = snapshot.is_range_valid(WriteId(write_id + 1), snapshot.high_water_mark)
        return above is not RangeResponse.NONE

    def may_be_overtaken(self, table: TableName) -> bool:
        """Whether a `base_N` above our write id is possible: another writer took a higher one before our lock.

        One that began before us, took its write id after us and has ended is in no snapshot any more once a server
        without MIN_HISTORY_LEVEL has pruned TXN_TO_WRITE_ID. Hive 4 may report a high-water mark below our own write
        id: its lowest exception, while nothing uncompacted is committed.
        """
        return not self.keeps_min_history or self.snapshots[table].high_water_mark != self.write_ids[table]


class TransactionOpener:
    """Opens transactions, prefetching several ids, and aborts prefetched ones that are not begun."""

    def __init__(
        self, client: MetastoreClient, plan: LockPlan, heartbeater: Heartbeater, settings: StreamingSettings, ahead: int
    ) -> None:
        self._client = client
        self._plan = plan
        self._heartbeater = heartbeater
        self._settings = settings
        self._batch_size = ahead
        self._lock = threading.Lock()
        self._prefetched: deque[TxnId] = deque()
        #: Taken from those, and not ended yet.
        self._begun: TxnId | None = None
        self._idle_since = now()
        #: The transaction that holds the turn of overwrites, where one is needed.
        self._turn: TxnId | None = None

    @property
    def remaining(self) -> int:
        """Transactions that were prefetched and not begun (Java: `remainingTransactions`)."""
        return len(self._prefetched)

    def begin(self, is_overtaken: Callable[[LockedTransaction], bool]) -> LockedTransaction:
        """Begin the next transaction.

        Args:
            is_overtaken: Called with a transaction that has its locks: whether its write id is too low all the same.

        Raises:
            LockTimeout: The limits `lock_wait_seconds` and `begin_retries` were reached. SinkInUse is one.
            TooManyOpenTxns, MetastoreUnavailable: Raised by the metastore.
        """
        plan, seconds = self._plan, self._settings.lock_wait_seconds
        wait = LockWait(self._client, plan.tables, seconds, plan.on_blocked, readable=plan.readable)
        try:
            if self._plan.is_overwrite and self._client.checks_write_conflicts:
                self._take_turn(wait)
            return self._begin(is_overtaken, wait)
        except BaseException:
            self._end_turn(self._client)
            raise

    def _begin(self, is_overtaken: Callable[[LockedTransaction], bool], wait: LockWait) -> LockedTransaction:
        locks_first = self._plan.is_overwrite
        begun_again, reason = 0, ""
        while True:
            txn_id = self._next_txn()
            try:
                locked = self._lock_first(txn_id, wait, begun_again) if locks_first else self._lock_last(txn_id)
                if locked is not None:
                    reach("after_lock_acquired")
                    if not is_overtaken(locked):
                        return locked
            except (TxnAborted, NoSuchTxn, NoSuchLock) as error:
                # Prefetched and timed out since (the machine was suspended), or aborted by an operator: take the next.
                self._abort(txn_id, "gone before it was begun", self._client, error)
                begun_again, reason = begun_again + 1, str(error)
            except BaseException as error:
                self._abort(txn_id, f"begin failed: {type(error).__name__}", self._client, error)
                raise
            else:
                self._abort(txn_id, "its write id may be older than an overwrite's; begun again", self._client, None)
                locks_first = True
                if locked is not None:
                    begun_again, reason = begun_again + 1, "a transaction with a higher write id committed before it"
            if begun_again >= self._settings.begin_retries or (begun_again and wait.is_over):
                raise begin_limit_reached(
                    self._plan.tables[0], begun_again, reason, self._settings.begin_retries, wait.seconds
                )

    def _lock_last(self, txn_id: TxnId) -> LockedTransaction | None:
        """Take write ids, then all locks with one request. Returns None if they are not granted at once."""
        write_ids = self._allocate_write_ids(txn_id)
        request = LockRequest(self._plan.components, txn_id, agent_info=self._plan.agent_info)
        if self._client.lock(request).state is not LockState.ACQUIRED:
            return None
        return self._with_snapshots(txn_id, write_ids)

    def _lock_first(self, txn_id: TxnId, wait: LockWait, begun_again: int) -> LockedTransaction:
        """Wait for the locks, then take write ids, then register the writes.

        The metastore grants locks in the order of the requests, so no waiter starves, and a write id that is
        taken under a granted lock is not stale. Raises LockTimeout.
        """
        request = LockRequest(self._plan.locks_alone, txn_id, agent_info=self._plan.agent_info)
        answer = self._client.lock(request)
        if answer.state is not LockState.ACQUIRED:
            reach("lock_waiting")
            writers = self._writers_before(answer.lock_id) if self._turn is not None else ()
            if not wait.acquires(answer):
                raise self._timeout_error(wait.blockers(answer.lock_id), wait, begun_again)
            if writers and any(map(self._client.get_valid_txns().is_valid, writers)):
                raise TxnAborted("another writer committed while it waited, and the server would refuse its commit")
        write_ids = self._allocate_write_ids(txn_id)
        self._register(txn_id)
        return self._with_snapshots(txn_id, write_ids)

    def _register(self, txn_id: TxnId) -> None:
        """Register the writes and their write ids in TXN_COMPONENTS, which only a lock request does.

        The locks are held already, so the response does not matter. Requests that wait for us may be before this one in
        the queue, so waiting for it would be a deadlock.
        """
        answer = self._client.lock(LockRequest(self._plan.registration, txn_id, agent_info=self._plan.agent_info))
        if answer.state is LockState.WAITING:
            self._client.unlock(answer.lock_id)

    def _allocate_write_ids(self, txn_id: TxnId) -> dict[TableName, WriteId]:
        write_ids = {
            table: self._client.allocate_table_write_ids(table, [txn_id])[0].write_id for table in self._plan.tables
        }
        reach("after_write_id")
        return write_ids

    def _with_snapshots(self, txn_id: TxnId, write_ids: dict[TableName, WriteId]) -> LockedTransaction:
        snapshots = {snapshot.table: snapshot for snapshot in self._client.get_valid_write_ids(self._plan.tables)}
        return LockedTransaction(txn_id, write_ids, snapshots, self._client.keeps_min_history)

    def _timeout_error(self, blockers: list[LockInfo], wait: LockWait, begun_again: int) -> LockTimeout:
        error = self._plan.timeout_error(blockers, wait.seconds)
        if begun_again:
            error.add_note(f"{times_begun_again(begun_again)} meanwhile")
        return error

    # -- turns of overwrites -----------------------------------------------------------------------

    def _take_turn(self, wait: LockWait) -> None:
        """Wait until no other overwrite by this library is open, in a separate transaction that only waits.

        For servers that check write conflicts: there an overwrite must be opened after the one before it has
        committed, so it cannot wait for that one in its own transaction. Raises LockTimeout.
        """
        with opening():
            (txn_id,) = self._client.open_txns(1, agent_info=self._plan.agent_info)
            self._turn = txn_id
        self._heartbeater.watch([txn_id])
        component = self._plan.turn
        wait = wait.on(TableName(component.database, str(component.table)))
        answer = self._client.lock(LockRequest((component,), txn_id, agent_info=self._plan.agent_info))
        if not wait.acquires(answer):
            raise self._plan.timeout_error(wait.blockers(answer.lock_id), wait.seconds)

    def _end_turn(self, client: MetastoreClient) -> None:
        txn_id, self._turn = self._turn, None
        if txn_id is not None:
            self._heartbeater.forget([txn_id])
            try:
                client.abort_txns([txn_id], reason="its overwrite has ended")
            except StreamingError as error:
                _log.warning("transaction %d could not be aborted, it will time out: %s", txn_id, error)

    def _writers_before(self, lock_id: LockId) -> set[TxnId]:
        """Wait for other writers, such as an UPDATE by Hive, whose commit would conflict with ours."""
        locks = self._client.show_locks(self._plan.tables[0])
        return {lock.txn_id for lock in locks if lock.lock_id < lock_id and lock.type is not LockType.SHARED_READ}

    # -- ids ---------------------------------------------------------------------------------------

    def _next_txn(self) -> TxnId:
        while (txn_id := self._take_prefetched()) is None:
            self._fetch()
        return txn_id

    def _take_prefetched(self) -> TxnId | None:
        with self._lock:
            while self._prefetched:
                txn_id = self._prefetched.popleft()
                if txn_id not in self._heartbeater.lost:
                    self._begun = txn_id
                    return txn_id
                self._heartbeater.forget([txn_id])
        return None

    def _fetch(self) -> None:
        """Open the next transactions."""
        # A turn does not help a transaction that was opened before it.
        count = 1 if self._turn is not None else self._batch_size
        with opening():
            opened = self._client.open_txns(count, agent_info=self._plan.agent_info)
            with self._lock:
                self._prefetched.extend(opened)
                self._idle_since = now()
        try:
            reach("after_open_txns")
            self._heartbeater.watch(opened)
        except BaseException:  # as when no thread can be started: nothing would keep them alive
            try:
                self._abort_all_prefetched(self._client)
            except StreamingError as error:
                _log.warning("transactions %s could not be aborted, they will time out: %s", opened, error)
            raise

    def ended(self) -> None:
        """Note that a transaction has ended: from now on the prefetched ones are idle."""
        self._idle_since = now()
        self._begun = None
        self._end_turn(self._client)

    def abort_idle_prefetched(self, client: MetastoreClient) -> None:
        """Abort prefetched transactions that are idle for long: an open transaction holds up all cleaning."""
        if now() - self._idle_since >= self._settings.max_idle_seconds:
            self._abort_all_prefetched(client)

    def abort_prefetched(self, client: MetastoreClient) -> None:
        """Abort all prefetched transactions, and the one that is being begun on a thread that will not end."""
        self._end_turn(client)
        with self._lock:
            if self._begun is not None:
                self._prefetched.append(self._begun)
                self._begun = None
        self._abort_all_prefetched(client)

    def _abort_all_prefetched(self, client: MetastoreClient) -> None:
        with self._lock:
            idle = list(self._prefetched)
            self._prefetched.clear()
        if idle:
            self._heartbeater.forget(idle)
            client.abort_txns(idle, reason="prefetched and not used")

    def abort(
        self,
        txn_id: TxnId,
        reason: str,
        *,
        first_error: BaseException | None = None,
        client: MetastoreClient | None = None,
    ) -> None:
        """Abort a transaction that was begun.

        Args:
            txn_id: Its id.
            reason: For the metastore's log and SHOW TRANSACTIONS.
            first_error: The error that led to the abort. If the abort fails too, that is logged and does not hide it.
            client: The client of the calling thread, if that is not the owner's thread.
        """
        client = client or self._client
        self._end_turn(client)
        self._abort(txn_id, reason, client, first_error)

    def _abort(self, txn_id: TxnId, reason: str, client: MetastoreClient, first_error: BaseException | None) -> None:
        self._heartbeater.forget([txn_id])
        try:
            client.abort_txns([txn_id], reason=reason)
            self._begun = None
        except StreamingError as error:
            self._begun = None
            if first_error is None:
                raise
            _log.warning("transaction %d could not be aborted, it will time out: %s", txn_id, error)


def newest_overwrite(location: Location) -> WriteId:
    """The highest N of all `base_N` in the folder of a table or partition; 0 if there is none."""
    names = [
        entry.name for entry in list_registered(location) if entry.is_folder and entry.name.startswith(BaseName.PREFIX)
    ]
    return max((BaseName.parse(name).write_id for name in names), default=WriteId(0))
