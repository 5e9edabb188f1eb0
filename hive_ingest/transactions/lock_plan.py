"""What a transaction locks, in one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hive_ingest.errors import LockTimeout
from hive_ingest.model import LockComponent, LockInfo, TableName


@dataclass(frozen=True, slots=True)
class LockPlan:
    """The components of one lock request, and the tables to write in: the data table first."""

    tables: tuple[TableName, ...]
    components: tuple[LockComponent, ...]
    agent_info: str
    #: Called while the lock is WAITING with the locks in the way: may free those of dead owners.
    on_blocked: Callable[[list[LockInfo]], None]
    #: The error to raise when the wait is over, from the locks in the way.
    timeout_error: Callable[[list[LockInfo], float], LockTimeout]
    #: Whether a lock is one that the owners of a source queue up for.
    is_source_lock: Callable[[LockInfo], bool]
