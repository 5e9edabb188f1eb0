"""A wait for a lock is logged: who is in the way, and since when."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Sequence

from hive_ingest.model import LockInfo, LockState

#: The command line prints what is logged here.
WAIT_LOGGER = "hive_ingest.lock_wait"
_log = logging.getLogger(WAIT_LOGGER)

_FIRST_SECONDS = 1.0
_INTERVAL_SECONDS = 30.0


class WaitLog:
    """Logs one wait at level INFO: after a second, then every half minute."""

    def __init__(self, wanted: str) -> None:
        """The wait begins now; `wanted` is the lock or the operation that waits."""
        self._wanted = wanted
        self._started = time.monotonic()
        self._next = self._started + _FIRST_SECONDS

    def log(self, blockers: Callable[[], Sequence[LockInfo]]) -> None:
        """Call it each time the lock was not granted; `blockers` gives the locks in the way, and is called rarely."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL_SECONDS
        in_the_way = "; ".join(map(describe_lock, blockers())) or "a lock that has just been released"
        _log.info("waiting for %s, %.0f s so far: %s", self._wanted, now - self._started, in_the_way)


def describe_lock(lock: LockInfo) -> str:
    """Whose lock it is, which, and since when, for messages."""
    where = ".".join(part for part in (lock.database, lock.table, lock.partition_name) if part)
    owner = f"transaction {lock.txn_id}" if lock.txn_id else f"lock {lock.lock_id}"
    who = f"{owner} of {lock.user or 'unknown'}@{lock.hostname or 'unknown'} ({lock.agent_info})"
    if lock.state is LockState.WAITING:
        return f"{who} waits for {lock.type.name} on {where}"
    if not lock.acquired_at_ms:
        return f"{who} holds {lock.type.name} on {where}"
    since = dt.datetime.fromtimestamp(lock.acquired_at_ms / 1000, dt.UTC)
    return f"{who} holds {lock.type.name} on {where} since {since:%Y-%m-%d %H:%M:%S} UTC"
