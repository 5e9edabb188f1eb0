"""Keeps DDL statements away from a table or partition while a cleaner removes files there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hive_ingest.errors import NoSuchLock
from hive_ingest.identity import this_host, this_user
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    CompactionInfo,
    DataOperationType,
    LockComponent,
    LockId,
    LockInfo,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
)
from hive_ingest.transactions import Owner, log_failure, now

_log = logging.getLogger(__name__)
_AGENT = "hive-ingest cleaner"


class CleanerLock:
    """A lock outside any transaction, so that it holds up no cleaning. It needs heartbeats, as transactions do."""

    def __init__(self, client: MetastoreClient, lock_id: LockId) -> None:
        self._client = client
        self._lock_id = lock_id
        self._due = 0.0

    def require(self) -> None:
        """Called before each removal; asks the metastore a few times per timeout.

        Raises:
            NoSuchLock: The lock has timed out: nothing may be removed any more.
        """
        if now() >= self._due:
            asked = now()
            self._client.heartbeat(lock_id=self._lock_id)
            self._due = asked + self._client.txn_timeout_seconds / 4


@contextmanager
def locked_for_cleaning(client: MetastoreClient, info: CompactionInfo) -> Iterator[CleanerLock | None]:
    """Hold a SHARED_READ lock. Readers and writers go on; DDL statements and overwrites wait.

    Without it, a rename could move the folder after it was listed. Another table of the old name may have folders of
    the same names, and these would be removed.

    Returns:
        None: a DDL statement or an overwrite holds the table.
    """
    component = LockComponent(
        LockType.SHARED_READ,
        LockLevel.PARTITION if info.partition_name else LockLevel.TABLE,
        info.table.database,
        info.table.table,
        info.partition_name,
        operation_type=DataOperationType.NO_TXN,
    )
    agent_info = Owner.of_this_process().to_agent_info(_AGENT)
    answer = client.lock(
        LockRequest((component,), user=this_user(), hostname=this_host(), agent_info=agent_info),
    )
    try:
        yield CleanerLock(client, answer.lock_id) if answer.state is LockState.ACQUIRED else None
    finally:
        log_failure(lambda: client.unlock(answer.lock_id), f"releasing the cleaner's lock on {info.table}")


def release_locks_of_dead_cleaners(client: MetastoreClient) -> int:
    """Release the locks of cleaners whose processes ran on this machine and have ended (`Owner.is_dead`).

    DDL statements would wait for them until they time out.

    Returns:
        How many locks.

    Raises:
        MetastoreError: The metastore cannot be reached, or refuses.
    """
    dead = {lock.lock_id: lock for lock in client.show_locks() if not lock.txn_id and _is_of_dead_cleaner(lock)}
    released = 0
    for lock_id, lock in dead.items():
        try:
            client.unlock(lock_id)
        except NoSuchLock:
            continue  # it has timed out, or another process was faster
        _log.warning("released lock %d on %s.%s: the cleaner's process has ended", lock_id, lock.database, lock.table)
        released += 1
    return released


def _is_of_dead_cleaner(lock: LockInfo) -> bool:
    if not lock.agent_info.endswith(_AGENT):
        return False
    owner = Owner.parse(lock.agent_info)
    return owner is not None and owner.is_dead()
