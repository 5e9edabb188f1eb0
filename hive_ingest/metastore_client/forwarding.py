"""A client that consists of parts: each of its calls is answered by one of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from hive_ingest.metastore_client.catalog import DatabaseCalls, PartitionCalls, TableCalls
from hive_ingest.metastore_client.compaction_queue import (
    CompactionCleaningCalls,
    CompactionHistoryCalls,
    CompactionQueueCalls,
)
from hive_ingest.metastore_client.transaction_manager import (
    CommitCalls,
    LockCalls,
    SnapshotCalls,
    TransactionCalls,
    WriteIdCalls,
)

P = ParamSpec("P")
R = TypeVar("R")


def by(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of a client that calls the one of this name of its attribute `part`.

    Args:
        part: The attribute.
        method: Gives the name, the signature and the docstring.
    """
    find = attrgetter(f"{part}.{method.__name__}")

    def call(self: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        found: R = find(self)(*args, **kwargs)
        return found

    functools.update_wrapper(call, method)
    return call


class ForwardingClient:
    """Catalog, transaction manager and compaction queue of a client; a subclass sets the parts."""

    _databases: DatabaseCalls
    _tables: TableCalls
    _partitions: PartitionCalls
    _transactions: TransactionCalls
    _commits: CommitCalls
    _write_ids: WriteIdCalls
    _snapshots: SnapshotCalls
    _locks: LockCalls
    _compaction_queue: CompactionQueueCalls
    _compaction_history: CompactionHistoryCalls
    _compaction_cleaning: CompactionCleaningCalls

    # -- the catalog -------------------------------------------------------------------------------

    create_database = by("_databases", DatabaseCalls.create_database)
    get_database = by("_databases", DatabaseCalls.get_database)
    get_databases = by("_databases", DatabaseCalls.get_databases)
    alter_database = by("_databases", DatabaseCalls.alter_database)
    drop_database = by("_databases", DatabaseCalls.drop_database)
    create_table = by("_tables", TableCalls.create_table)
    get_table = by("_tables", TableCalls.get_table)
    get_tables = by("_tables", TableCalls.get_tables)
    alter_table = by("_tables", TableCalls.alter_table)
    add_column = by("_tables", TableCalls.add_column)
    add_columns = by("_tables", TableCalls.add_columns)
    drop_table = by("_tables", TableCalls.drop_table)
    add_partitions = by("_partitions", PartitionCalls.add_partitions)
    get_partition = by("_partitions", PartitionCalls.get_partition)
    get_partitions_by_names = by("_partitions", PartitionCalls.get_partitions_by_names)
    list_partitions = by("_partitions", PartitionCalls.list_partitions)
    list_partition_names = by("_partitions", PartitionCalls.list_partition_names)
    get_partitions_by_filter = by("_partitions", PartitionCalls.get_partitions_by_filter)
    alter_partition = by("_partitions", PartitionCalls.alter_partition)
    drop_partition = by("_partitions", PartitionCalls.drop_partition)

    # -- the transaction manager -------------------------------------------------------------------

    open_txns = by("_transactions", TransactionCalls.open_txns)
    heartbeat_txn_range = by("_transactions", TransactionCalls.heartbeat_txn_range)
    add_dynamic_partitions = by("_transactions", TransactionCalls.add_dynamic_partitions)
    abort_txn = by("_transactions", TransactionCalls.abort_txn)
    abort_txns = by("_transactions", TransactionCalls.abort_txns)
    commit_txn = by("_commits", CommitCalls.commit_txn)
    allocate_table_write_ids = by("_write_ids", WriteIdCalls.allocate_table_write_ids)
    get_max_allocated_write_id = by("_write_ids", WriteIdCalls.get_max_allocated_write_id)
    raise_write_ids = by("_write_ids", WriteIdCalls.raise_write_ids)
    raise_txn_ids = by("_write_ids", WriteIdCalls.raise_txn_ids)
    get_valid_write_ids = by("_write_ids", WriteIdCalls.get_valid_write_ids)
    get_open_txns_info = by("_snapshots", SnapshotCalls.get_open_txns_info)
    get_valid_txns = by("_snapshots", SnapshotCalls.get_valid_txns)
    add_write_ids_to_min_history = by("_snapshots", SnapshotCalls.add_write_ids_to_min_history)
    lock = by("_locks", LockCalls.lock)
    check_lock = by("_locks", LockCalls.check_lock)
    unlock = by("_locks", LockCalls.unlock)
    heartbeat = by("_locks", LockCalls.heartbeat)
    show_locks = by("_locks", LockCalls.show_locks)

    # -- the compaction queue ----------------------------------------------------------------------

    compact = by("_compaction_queue", CompactionQueueCalls.compact)
    show_compactions = by("_compaction_queue", CompactionQueueCalls.show_compactions)
    get_latest_committed_compactions = by("_compaction_queue", CompactionQueueCalls.get_latest_committed_compactions)
    find_next_compact = by("_compaction_queue", CompactionQueueCalls.find_next_compact)
    update_compactor_state = by("_compaction_queue", CompactionQueueCalls.update_compactor_state)
    set_hadoop_job_id = by("_compaction_queue", CompactionQueueCalls.set_hadoop_job_id)
    mark_compacted = by("_compaction_queue", CompactionQueueCalls.mark_compacted)
    mark_failed = by("_compaction_queue", CompactionQueueCalls.mark_failed)
    mark_refused = by("_compaction_queue", CompactionQueueCalls.mark_refused)
    revoke_from_local_workers = by("_compaction_queue", CompactionQueueCalls.revoke_from_local_workers)
    revoke_timed_out_workers = by("_compaction_queue", CompactionQueueCalls.revoke_timed_out_workers)
    find_potential_compactions = by("_compaction_history", CompactionHistoryCalls.find_potential_compactions)
    check_failed_compactions = by("_compaction_history", CompactionHistoryCalls.check_failed_compactions)
    purge_completed_compactions = by("_compaction_history", CompactionHistoryCalls.purge_completed_compactions)
    find_min_open_txn_id_for_cleaner = by(
        "_compaction_cleaning", CompactionCleaningCalls.find_min_open_txn_id_for_cleaner
    )
    find_ready_to_clean = by("_compaction_cleaning", CompactionCleaningCalls.find_ready_to_clean)
    find_ready_to_clean_aborts = by("_compaction_cleaning", CompactionCleaningCalls.find_ready_to_clean_aborts)
    get_aborted_components = by("_compaction_cleaning", CompactionCleaningCalls.get_aborted_components)
    mark_cleaner_start = by("_compaction_cleaning", CompactionCleaningCalls.mark_cleaner_start)
    set_cleaner_retry_retention = by("_compaction_cleaning", CompactionCleaningCalls.set_cleaner_retry_retention)
    mark_cleaned = by("_compaction_cleaning", CompactionCleaningCalls.mark_cleaned)
