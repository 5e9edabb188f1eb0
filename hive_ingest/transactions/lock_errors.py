"""Errors for locks that were not granted: who blocks them, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from hive_ingest.errors import LockTimeout
from hive_ingest.metastore_client import describe_lock
from hive_ingest.model import LockInfo, TableName
from hive_ingest.plurals import counted


def lock_timeout(
    table: TableName | str, blockers: Sequence[LockInfo], waited_seconds: float, *, wanted: str = "lock"
) -> LockTimeout:
    """The error that names the holders of blocking locks. `wanted` names the requested lock."""
    holders = "".join(f" {txn_id}" for txn_id in sorted({lock.txn_id for lock in blockers if lock.txn_id}))
    return LockTimeout(
        f"no {wanted} on {table} within lock_wait_seconds={waited_seconds:g}: {describe_locks(blockers)}. Wait for it, "
        f"abort it (hive-ingest abort{holders}), or raise the limit"
    )


def begin_limit_reached(
    table: TableName, times: int, reason: str, begin_retries: int, waited_seconds: float
) -> LockTimeout:
    """The error for a transaction that was begun several times and never usable, although no lock blocked it."""
    return LockTimeout(
        f"no transaction on {table} could begin: {times_begun_again(times)}, the last time because {reason}. "
        f"The limits are begin_retries={begin_retries} and lock_wait_seconds={waited_seconds:g}: try again later, or "
        "raise them"
    )


def times_begun_again(times: int) -> str:
    return f"it was begun again {counted(times, 'time')}"


def describe_locks(locks: Sequence[LockInfo]) -> str:
    return "; ".join(map(describe_lock, locks)) or "the blocking locks have been released since"
