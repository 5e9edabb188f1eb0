"""The locks of a connection's transactions."""

from __future__ import annotations

import functools
from collections.abc import Callable

from hive_ingest.connection.connecting import ConnectedTable
from hive_ingest.metastore_client import check_text
from hive_ingest.model import DataOperationType, LockComponent, LockInfo, LockLevel, LockType
from hive_ingest.transactions import LockPlan, lock_timeout


def plan_locks(
    target: ConnectedTable,
    agent_info: str,
    *,
    is_overwrite: bool = False,
    on_blocked: Callable[[list[LockInfo]], None] | None = None,
) -> LockPlan:
    """SHARED_READ for INSERT on the whole table, as Java does, and what the sink's progress and bad records need.

    An overwrite excludes all others (Hive: INSERT_OVERWRITE in `AcidUtils.makeLockComponents`).

    Raises:
        ConfigurationError: `agent_info` is not a text that a metastore can store.
    """
    check_text("agent_info", agent_info)
    table, progress, settings = target.table, target.progress, target.settings
    appending = LockType.SHARED_WRITE if settings.shared_write else LockType.SHARED_READ
    data = LockComponent(
        LockType.EXCLUSIVE if is_overwrite else appending,
        LockLevel.TABLE,
        table.name.database,
        table.name.table,
        operation_type=DataOperationType.UPDATE if is_overwrite else DataOperationType.INSERT,
        is_dynamic_partition_write=table.is_partitioned,
    )
    bad_rows = target.bad_rows
    further_tables = () if bad_rows is None else (bad_rows.table.name,)
    further_locks = () if bad_rows is None else (bad_rows.lock_component(),)
    if progress is None:
        return LockPlan(
            (table.name, *further_tables),
            (data, *further_locks),
            agent_info,
            functools.partial(lock_timeout, table.name),
            on_blocked,
            is_overwrite=is_overwrite,
        )
    return LockPlan(
        (table.name, progress.table.name, *further_tables),
        (data, *progress.lock_components(), *further_locks),
        progress.owner.to_agent_info(agent_info),
        progress.timeout_error,
        _each(progress.free_dead_owners, on_blocked),
        progress.with_source_names,
        is_overwrite=is_overwrite,
    )


def _each(
    first: Callable[[list[LockInfo]], None], second: Callable[[list[LockInfo]], None] | None
) -> Callable[[list[LockInfo]], None]:
    if second is None:
        return first

    def call(blockers: list[LockInfo]) -> None:
        first(blockers)
        second(blockers)

    return call
