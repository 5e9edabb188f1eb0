"""Checks of a lock request before it is sent."""

from __future__ import annotations

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockRequest


def check_component(request: LockRequest, component: LockComponent) -> None:
    """Raises ConfigurationError for names that do not go with the level, or a missing operation."""
    has_table, has_partition = component.table is not None, component.partition_name is not None
    wanted = (component.level >= LockLevel.TABLE, component.level == LockLevel.PARTITION)
    if (has_table, has_partition) != wanted:
        raise ConfigurationError(
            f"{component}: a lock at {component.level.name} level names "
            f"{('no table', 'a table')[wanted[0]]} and {('no partition', 'a partition')[wanted[1]]}"
        )
    if request.txn_id and component.is_transactional and component.operation_type is DataOperationType.UNSET:
        raise ConfigurationError(
            f"{component}: say what transaction {request.txn_id} does under this lock (operation_type); "
            "NO_TXN if it touches no data"
        )
