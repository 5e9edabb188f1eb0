"""Waits for locks: checks them repeatedly, with growing pauses, until a common deadline."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence

from hive_ingest.errors import TxnAborted
from hive_ingest.metastore_client import MetastoreClient, WaitLog
from hive_ingest.model import LockId, LockInfo, LockResponse, LockState, TableName

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5


class LockWait:
    """Waits for one lock request after another, with one deadline for all."""

    def __init__(
        self,
        client: MetastoreClient,
        tables: Sequence[TableName],
        seconds: float,
        on_blocked: Callable[[list[LockInfo]], None] | None = None,
        wanted: str = "",
        readable: Callable[[list[LockInfo]], list[LockInfo]] = list,
    ) -> None:
        """Starts the clock.

        Args:
            client: The metastore client of the owner, on whose thread this waits.
            tables: The tables of the locks.
            seconds: The limit for all requests together.
            on_blocked: Called with the blocking locks each time before the lock is checked again.
            wanted: What the log calls the locks. Default: after the first table.
            readable: Makes the blocking locks readable for the log.
        """
        self._client = client
        self._tables = tables
        self._on_blocked = on_blocked
        self._readable = readable
        self._wanted = wanted or f"locks on {tables[0]}"
        self.seconds = seconds
        self._deadline = time.monotonic() + seconds

    def on(self, table: TableName) -> LockWait:
        """The same wait, for a lock on another table."""
        other = LockWait(self._client, [table], self.seconds, wanted=self._wanted, readable=self._readable)
        other._deadline = self._deadline
        return other

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def acquires(self, answer: LockResponse) -> bool:
        """Wait for the lock. Returns whether it was granted before the deadline.

        Args:
            answer: The metastore's response to the request.

        Raises:
            TxnAborted: The lock was neither granted nor queued.
        """
        pause = _FIRST_PAUSE_SECONDS
        wait_log = WaitLog(self._wanted)
        while answer.state is LockState.WAITING:
            if self._on_blocked is not None:
                self._on_blocked(self.blockers(answer.lock_id))
            answer = self._client.check_lock(answer.lock_id)
            rest = self._deadline - time.monotonic()
            if answer.state is not LockState.WAITING:
                break
            if rest <= 0:
                return False
            wait_log.log(functools.partial(self._readable_blockers, answer.lock_id))
            time.sleep(min(pause, rest))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        if answer.state is not LockState.ACQUIRED:
            names = ", ".join(map(str, self._tables))
            raise TxnAborted(f"the lock on {names} was refused ({answer.state.name}): begin again")
        return True

    def _readable_blockers(self, lock_id: LockId) -> list[LockInfo]:
        return self._readable(self.blockers(lock_id))

    def blockers(self, lock_id: LockId) -> list[LockInfo]:
        """The locks, held or waiting, that the request waits for."""
        locks = [lock for table in self._tables for lock in self._client.show_locks(table)]
        waited_for = {
            (lock.blocked_by_lock_id, lock.blocked_by_internal_id) for lock in locks if lock.lock_id == lock_id
        }
        return [lock for lock in locks if (lock.lock_id, lock.internal_id) in waited_for]
