"""The locks of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hive_ingest.errors import LockTimeout
from hive_ingest.model import DataOperationType, LockComponent, LockInfo, LockLevel, LockType, TableName

_WRITES = (DataOperationType.INSERT, DataOperationType.UPDATE, DataOperationType.DELETE)


@dataclass(frozen=True, slots=True)
class LockPlan:
    """The components of one lock request, and the tables to write in.

    Attributes:
        tables: The data table first.
        components: The locks, and the operations under them.
        agent_info: Shown by SHOW LOCKS.
        timeout_error: Creates the error for a wait that timed out, from the blocking locks.
        on_blocked: Called with the blocking locks while ours is WAITING. May release those of dead owners.
        readable: Makes the blocking locks readable for the log.
        is_overwrite: Whether all other readers and writers are locked out.
    """

    tables: tuple[TableName, ...]
    components: tuple[LockComponent, ...]
    agent_info: str
    timeout_error: Callable[[list[LockInfo], float], LockTimeout]
    on_blocked: Callable[[list[LockInfo]], None] | None = None
    readable: Callable[[list[LockInfo]], list[LockInfo]] = list
    is_overwrite: bool = False

    @property
    def locks_alone(self) -> tuple[LockComponent, ...]:
        """The same locks for a transaction without write ids yet: they register no writes."""
        return tuple(
            replace(component, operation_type=DataOperationType.NO_TXN, is_dynamic_partition_write=False)
            for component in self.components
        )

    @property
    def turn(self) -> LockComponent:
        """A lock that only overwrites of the data table take. Its table exists only as the name of a lock."""
        database, table = self.tables[0].database, f"{self.tables[0].table}__overwrite"
        return LockComponent(
            LockType.EXCLUSIVE, LockLevel.TABLE, database, table, operation_type=DataOperationType.NO_TXN
        )

    @property
    def registration(self) -> tuple[LockComponent, ...]:
        """Locks that register the writes of a transaction that has its locks; of the weakest type, so nobody waits."""
        return tuple(
            replace(component, type=LockType.SHARED_READ)
            for component in self.components
            if component.operation_type in _WRITES
        )
