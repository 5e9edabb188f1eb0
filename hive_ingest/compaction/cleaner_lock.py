"""Keeps DDL statements away from a table or partition while a cleaner removes files there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from hive_ingest.identity import this_host, this_user
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    CompactionInfo,
    DataOperationType,
    LockComponent,
    LockId,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
)
from hive_ingest.transactions import Owner, log_failure

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
        if time.monotonic() >= self._due:
            asked = time.monotonic()
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
