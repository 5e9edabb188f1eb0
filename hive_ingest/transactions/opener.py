"""The first step of a transaction: id, write ids, locks, and the check that no overwrite came between.

The write id comes before the lock, because the lock's TXN_COMPONENTS row carries it. INSERT OVERWRITE and
TRUNCATE write `base_N`, which silently makes every lower write id obsolete; so a transaction that had to wait
for its lock, or that finds such a base, is begun anew with a fresh write id.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hive_ingest.acid.names import BaseName
from hive_ingest.acid.write_ids import ValidWriteIdList
from hive_ingest.config import StreamingSettings
from hive_ingest.errors import NoSuchTxn, StreamingError, TxnAborted
from hive_ingest.faults import reach
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.model import (
    LockId,
    LockInfo,
    LockRequest,
    LockState,
    TableName,
    TxnId,
    WriteId,
)
from hive_ingest.storage import Location
from hive_ingest.transactions.heartbeat import Heartbeater, now
from hive_ingest.transactions.lock_plan import LockPlan

_log = logging.getLogger(__name__)

_FIRST_POLL_SECONDS = 0.01
_SLOWEST_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LockedTransaction:
    """Open, with a write id in each table and all locks ACQUIRED; the snapshots were taken after that."""

    txn_id: TxnId
    write_ids: dict[TableName, WriteId]
    lock_id: LockId
    snapshots: dict[TableName, ValidWriteIdList]
    #: Whether the snapshots have every write id that was taken while this transaction was open.
    remembers_overtakers: bool = True

    def is_not_highest(self, table: TableName) -> bool:
        """Somebody has taken a higher write id before our lock.

        Hive 4 may tell a mark below our own write id: its lowest exception, while nothing uncompacted is committed.
        """
        return self.snapshots[table].high_water_mark != self.write_ids[table]

    def may_be_overtaken(self, table: TableName) -> bool:
        """A `base_N` above our write id is possible.

        One that began before us, took its write id after us and has ended is in no snapshot any more once a server
        without MIN_HISTORY_LEVEL has pruned TXN_TO_WRITE_ID.
        """
        return not self.remembers_overtakers or self.is_not_highest(table)


class TransactionOpener:
    """Opens transactions, several ids ahead, and gives back those that nobody begins."""

    def __init__(
        self, client: MetastoreClient, plan: LockPlan, heartbeater: Heartbeater, settings: StreamingSettings, ahead: int
    ) -> None:
        self._client = client
        self._plan = plan
        self._heartbeater = heartbeater
        self._settings = settings
        self._batch_size = ahead
        self._lock = threading.Lock()
        self._ahead: deque[TxnId] = deque()
        self._idle_since = now()

    @property
    def remaining(self) -> int:
        """Transactions fetched and not begun (Java: `remainingTransactions`)."""
        return len(self._ahead)

    def begin(self, is_overtaken: Callable[[LockedTransaction], bool]) -> LockedTransaction:
        """The next transaction. Raises LockTimeout, SinkInUse, TooManyOpenTxns, MetastoreUnavailable."""
        deadline = time.monotonic() + self._settings.lock_wait_seconds
        blockers: list[LockInfo] = []
        for _ in range(self._settings.begin_retries):
            txn_id = self._next_txn()
            try:
                transaction, waited_for = self._lock_tables(txn_id, deadline)
                blockers = waited_for or []
                if waited_for is None or self._is_only_a_queue(blockers):
                    reach("after_lock_acquired")
                    if not is_overtaken(transaction):
                        return transaction
            except (TxnAborted, NoSuchTxn) as error:
                # Fetched ahead and timed out since (the machine slept), or aborted by an operator: take the next.
                self.abort(txn_id, "gone before it was begun", first_error=error)
                continue
            except BaseException as error:
                self.abort(txn_id, f"begin failed: {type(error).__name__}", first_error=error)
                raise
            self.abort(txn_id, "its write id may be older than an overwrite's; begun anew")
            if time.monotonic() >= deadline:
                break
        raise self._plan.timeout_error(blockers, self._settings.lock_wait_seconds)

    def _lock_tables(self, txn_id: TxnId, deadline: float) -> tuple[LockedTransaction, list[LockInfo] | None]:
        """Locks that are ACQUIRED, and which ones were in the way; None when they came at once."""
        write_ids = {
            table: self._client.allocate_table_write_ids(table, [txn_id])[0].write_id for table in self._plan.tables
        }
        reach("after_write_id")
        request = LockRequest(self._plan.components, txn_id, agent_info=self._plan.agent_info)
        answer = self._client.lock(request)
        waited_for = None
        if answer.state is not LockState.ACQUIRED:
            reach("lock_waiting")
            waited_for = self._wait(answer.lock_id, deadline)
        snapshots = {snapshot.table: snapshot for snapshot in self._client.get_valid_write_ids(self._plan.tables)}
        remembers = self._client.remembers_overtakers
        return LockedTransaction(txn_id, write_ids, answer.lock_id, snapshots, remembers), waited_for

    def _wait(self, lock_id: LockId, deadline: float) -> list[LockInfo]:
        pause = _FIRST_POLL_SECONDS
        seen: list[LockInfo] = []
        while True:
            blockers = self._blockers(lock_id)
            seen += blockers
            self._plan.on_blocked(blockers)
            if self._client.check_lock(lock_id).state is LockState.ACQUIRED:
                return seen
            rest = deadline - time.monotonic()
            if rest <= 0:
                raise self._plan.timeout_error(blockers, self._settings.lock_wait_seconds)
            time.sleep(min(pause, rest))
            pause = min(pause * 2, _SLOWEST_POLL_SECONDS)

    def _is_only_a_queue(self, blockers: list[LockInfo]) -> bool:
        """Whether it is known that nothing but other owners of our sources was in the way.

        Then the write id is not stale: they overwrite nothing, and whoever does is found by its base. Begun anew
        instead, two owners would make each other wait for ever.
        """
        return bool(blockers) and all(map(self._plan.is_source_lock, blockers))

    def _blockers(self, lock_id: LockId) -> list[LockInfo]:
        """The components of locks that one of ours waits for."""
        locks = [lock for table in self._plan.tables for lock in self._client.show_locks(table)]
        waited_for = {
            (lock.blocked_by_lock_id, lock.blocked_by_internal_id) for lock in locks if lock.lock_id == lock_id
        }
        return [lock for lock in locks if (lock.lock_id, lock.internal_id) in waited_for]

    # -- ids ---------------------------------------------------------------------------------------

    def _next_txn(self) -> TxnId:
        with self._lock:
            while self._ahead:
                txn_id = self._ahead.popleft()
                if txn_id not in self._heartbeater.lost:
                    return txn_id
                self._heartbeater.forget([txn_id])
        opened = self._client.open_txns(self._batch_size, agent_info=self._plan.agent_info)
        reach("after_open_txns")
        self._heartbeater.watch(opened)
        with self._lock:
            self._ahead.extend(opened[1:])
            self._idle_since = now()
        return opened[0]

    def ended(self) -> None:
        """A transaction has ended: from now on the ones ahead are idle."""
        self._idle_since = now()

    def give_back_idle(self, client: MetastoreClient) -> None:
        """An open transaction holds up all cleaning, so none is kept for long without work."""
        if now() - self._idle_since >= self._settings.max_idle_seconds:
            self.give_back(client)

    def give_back(self, client: MetastoreClient) -> None:
        """Abort all transactions that were fetched and not begun."""
        with self._lock:
            idle = list(self._ahead)
            self._ahead.clear()
        if idle:
            self._heartbeater.forget(idle)
            client.abort_txns(idle, reason="fetched ahead and not used")

    def abort(self, txn_id: TxnId, reason: str, *, first_error: BaseException | None = None) -> None:
        """Abort; with `first_error`, an error of this call is logged and does not hide that one."""
        self._heartbeater.forget([txn_id])
        try:
            self._client.abort_txns([txn_id], reason=reason)
        except StreamingError as error:
            if first_error is None:
                raise
            _log.warning("transaction %d could not be aborted, it will time out: %s", txn_id, error)


def newest_overwrite(location: Location) -> WriteId:
    """The highest N of all `base_N` in the folder of a table or partition; 0 when there is none."""
    names = [entry.name for entry in location.list() if entry.is_folder and entry.name.startswith(BaseName.PREFIX)]
    return max((BaseName.parse(name).write_id for name in names), default=WriteId(0))
