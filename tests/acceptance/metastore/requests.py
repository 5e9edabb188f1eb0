"""Lock requests in a few words, for the tests of this folder."""

from __future__ import annotations

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    TxnId,
)

READ = LockType.SHARED_READ
WRITE = LockType.SHARED_WRITE
EXCL_WRITE = LockType.EXCL_WRITE
EXCLUSIVE = LockType.EXCLUSIVE

ACQUIRED = LockState.ACQUIRED
WAITING = LockState.WAITING

NO_TXN = DataOperationType.NO_TXN


def component(
    type_: LockType,
    database: str = "db",
    table: str | None = None,
    partition: str | None = None,
    *,
    operation: DataOperationType = NO_TXN,
    dynamic: bool = False,
) -> LockComponent:
    """At the level that the arguments make it."""
    level = LockLevel.DB if table is None else LockLevel.TABLE if partition is None else LockLevel.PARTITION
    return LockComponent(
        type_, level, database, table, partition, operation_type=operation, is_dynamic_partition_write=dynamic
    )


def lock(
    ms: MetastoreClient, *components: LockComponent, txn_id: TxnId | None = None, agent_info: str = "test"
) -> LockResponse:
    """In `txn_id`, or in a new transaction."""
    if txn_id is None:
        (txn_id,) = ms.open_txns()
    return ms.lock(LockRequest(components, txn_id, user="me", hostname="localhost", agent_info=agent_info))


def states(ms: MetastoreClient, *types: LockType, table: str | None = "table") -> list[LockState]:
    """Lock the same object by each type, one after the other, each in its own transaction."""
    return [lock(ms, component(type_, table=table)).state for type_ in types]


def update_partition(ms: MetastoreClient, txn_id: TxnId, partition: str, operation: DataOperationType) -> None:
    """The write of an UPDATE or DELETE of one partition of db.table, as registered with the metastore."""
    write_id = ms.allocate_table_write_ids("db.table", [txn_id])[0].write_id
    lock(ms, component(WRITE, table="table", operation=operation, dynamic=True), txn_id=txn_id)
    ms.add_dynamic_partitions(txn_id, write_id, "db.table", [partition], operation)
