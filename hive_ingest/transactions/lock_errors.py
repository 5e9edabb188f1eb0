"""How a lock that was not granted is told: who is in the way, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from hive_ingest.errors import LockTimeout
from hive_ingest.model import LockInfo, TableName


def lock_timeout(table: TableName, blockers: Sequence[LockInfo], waited_seconds: float) -> LockTimeout:
    """Names who is in the way."""
    who = "; ".join(map(describe_lock, blockers)) or "overwrites, one after the other"
    return LockTimeout(
        f"no lock on {table} within lock_wait_seconds={waited_seconds:.0f}: blocked by {who}. Wait for it, abort it "
        "(hive-ingest abort), or raise the limit"
    )


def describe_lock(lock: LockInfo) -> str:
    """For messages: which lock, and whose."""
    where = ".".join(part for part in (lock.database, lock.table, lock.partition_name) if part)
    return (
        f"{lock.type.name} on {where} by transaction {lock.txn_id} of {lock.user}@{lock.hostname} ({lock.agent_info})"
    )
