"""Ends the transaction of a previous owner of a partition, once the group has confirmed the new one."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import LockInfo, TableName

_log = logging.getLogger(__name__)

#: A confirmation is used at once or not at all.
_VALID_SECONDS = 5.0


class Membership:
    """Whether the group still has this process as a member. Routes ask; the consumer's thread answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_wanted = False
        self._confirmed_at: float | None = None

    def confirmed(self) -> bool:
        """Whether the group has confirmed the membership within the last seconds; if not, requests it."""
        with self._lock:
            at, self._confirmed_at = self._confirmed_at, None
            if at is not None and time.monotonic() - at < _VALID_SECONDS:
                return True
            self._is_wanted = True
            return False

    @property
    def is_wanted(self) -> bool:
        return self._is_wanted

    def answer(self, *, is_member: bool) -> None:
        with self._lock:
            self._is_wanted = False
            self._confirmed_at = time.monotonic() if is_member else None


def group_tag(group_id: str) -> str:
    """Marks the locks of a group's members. Short: there is little room for it in a lock."""
    return f"group={hashlib.sha256(group_id.encode()).hexdigest()[:8]}"


class Takeover:
    """Handles the locks that block one `begin_transaction`.

    Safety does not depend on it: an instance that loses its transaction commits nothing, and reads the positions
    again. It only decides how long to wait. The transaction of another group is never aborted: two groups that write
    to one sink would otherwise abort each other's transactions forever.
    """

    def __init__(
        self,
        client: MetastoreClient,
        progress_table: TableName,
        group_id: str,
        grace_seconds: float,
        membership: Membership,
        check: Callable[[], None],
    ) -> None:
        self._client = client
        self._table = progress_table
        self._tag = group_tag(group_id)
        self._grace = grace_seconds
        self._membership = membership
        self._check = check
        self._since: float | None = None

    def begin(self) -> None:
        """Start the wait from the beginning."""
        self._since = None

    def on_blocked(self, blockers: list[LockInfo]) -> None:
        """Called each time before the lock is checked again. Raises what `check` raises."""
        self._check()
        held = [lock for lock in blockers if self._is_of_the_group(lock)]
        if not held:
            return
        now = time.monotonic()
        self._since = self._since if self._since is not None else now
        if now - self._since < self._grace or not self._membership.confirmed():
            return
        for lock in held:
            _log.warning(
                "transaction %d of a previous owner of %s is aborted: %s", lock.txn_id, self._table, lock.agent_info
            )
            self._client.abort_txns([lock.txn_id], reason="the group has assigned its partitions to another instance")
        self._since = None

    def _is_of_the_group(self, lock: LockInfo) -> bool:
        is_source = lock.table == self._table.table and (lock.partition_name or "").startswith("source=")
        return is_source and self._tag in lock.agent_info.split()
