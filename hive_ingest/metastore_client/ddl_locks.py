"""The EXCLUSIVE lock under which objects are dropped and changed, as HiveServer2 takes it for its clients."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from hive_ingest.errors import LockTimeout, StreamingError
from hive_ingest.metastore_client.wait_log import WaitLog, describe_lock
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockId,
    LockInfo,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    Table,
    TableName,
)

_log = logging.getLogger(__name__)

_FIRST_POLL_SECONDS, _SLOWEST_POLL_SECONDS = 0.01, 0.5


class LockCalls(Protocol):
    """The calls of a metastore client that are needed here."""

    def lock(self, request: LockRequest) -> LockResponse: ...

    def check_lock(self, lock_id: LockId) -> LockResponse: ...

    def unlock(self, lock_id: LockId) -> None: ...

    def show_locks(self, table: str | TableName | None = None) -> list[LockInfo]: ...


def on_database(name: str) -> LockComponent:
    """EXCLUSIVE on a database and all that is in it."""
    return LockComponent(LockType.EXCLUSIVE, LockLevel.DB, name.lower(), operation_type=DataOperationType.NO_TXN)


def on_table(name: TableName, partition: str | None = None) -> LockComponent:
    """EXCLUSIVE on a table, or on one of its partitions."""
    level = LockLevel.TABLE if partition is None else LockLevel.PARTITION
    return LockComponent(
        LockType.EXCLUSIVE, level, name.database, name.table, partition, operation_type=DataOperationType.NO_TXN
    )


def needs_exclusive_lock(old: Table, new: Table) -> bool:
    """Whether a change harms readers and writers at work: a rename, or more than columns added at the end."""
    kept = [(column.name, column.type) for column in new.columns[: len(old.columns)]]
    return new.name != old.name or kept != [(column.name, column.type) for column in old.columns]


@contextmanager
def exclusive_lock(locks: LockCalls, what: str, *components: LockComponent, wait_seconds: float) -> Iterator[LockId]:
    """Hold the lock for a block.

    Raises:
        LockTimeout: Somebody reads or writes the object for longer than `wait_seconds`; the message names the holders.
    """
    response = locks.lock(LockRequest(components, agent_info=f"hive-ingest: {what}"))
    try:
        if response.state is not LockState.ACQUIRED:
            _wait(locks, response.lock_id, what, wait_seconds)
        yield response.lock_id
    finally:
        _release(locks, response.lock_id, what)


def _release(locks: LockCalls, lock_id: LockId, what: str) -> None:
    try:
        locks.unlock(lock_id)
    except StreamingError as error:
        _log.warning("lock %d of %s could not be released, it will time out: %s", lock_id, what, error)


def _wait(locks: LockCalls, lock_id: LockId, what: str, wait_seconds: float) -> None:
    deadline, pause = time.monotonic() + wait_seconds, _FIRST_POLL_SECONDS
    wait_log = WaitLog(f"the EXCLUSIVE lock to {what}")
    while locks.check_lock(lock_id).state is not LockState.ACQUIRED:
        rest = deadline - time.monotonic()
        if rest <= 0:
            holders = "; ".join(map(describe_lock, _holders(locks, lock_id))) or "its holder has just ended"
            raise LockTimeout(
                f"{what}: no EXCLUSIVE lock within ddl_lock_wait_seconds={wait_seconds:g}: {holders}. "
                "Wait until it ends, or end it with `hive-ingest abort`"
            )
        wait_log.log(functools.partial(_holders, locks, lock_id))
        time.sleep(min(pause, rest))
        pause = min(pause * 2, _SLOWEST_POLL_SECONDS)


def _holders(locks: LockCalls, lock_id: LockId) -> list[LockInfo]:
    found = locks.show_locks()
    waited_for = {lock.blocked_by_lock_id for lock in found if lock.lock_id == lock_id}
    return list({lock.lock_id: lock for lock in found if lock.lock_id in waited_for}.values())
