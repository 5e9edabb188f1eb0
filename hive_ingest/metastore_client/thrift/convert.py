"""Conversion between Thrift's structures and the values of `hive_ingest.model`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.versions import ServerVersion
from hive_ingest.model import (
    Column,
    Database,
    LockId,
    LockInfo,
    LockResponse,
    LockState,
    LockType,
    Partition,
    Table,
    TableName,
    TxnId,
    TxnInfo,
    TxnState,
    WriteId,
)

_ASCENDING = 1
_TXN_STATES = {1: TxnState.COMMITTED, 2: TxnState.ABORTED, 3: TxnState.OPEN}

# -- catalog -----------------------------------------------------------------------------------------


def to_database(found: Any) -> Database:
    """Convert a database. Its location is that of managed tables, if they have a separate one."""
    location = found.managedLocationUri or found.locationUri or ""
    return Database(found.name, location, found.description or "", dict(found.parameters or {}))


def from_columns(columns: Sequence[Column]) -> list[Any]:
    return [idl().FieldSchema(name=column.name, type=column.type, comment=column.comment) for column in columns]


def to_columns(fields: Sequence[Any] | None) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type, field.comment or "") for field in fields or ())


def from_new_table(table: Table) -> Any:
    """Convert a table that is to be created."""
    t = idl()
    descriptor = t.StorageDescriptor(
        cols=from_columns(table.columns),
        location=table.location or None,
        inputFormat=table.input_format,
        outputFormat=table.output_format,
        compressed=False,
        numBuckets=table.num_buckets,
        serdeInfo=t.SerDeInfo(serializationLib=table.serde, parameters={"serialization.format": "1"}),
        bucketCols=list(table.bucket_columns),
        sortCols=[t.Order(col=name, order=_ASCENDING) for name in table.sort_columns],
        parameters={},
    )
    return t.Table(
        tableName=table.name.table,
        dbName=table.name.database,
        owner=table.owner,
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=descriptor,
        partitionKeys=from_columns(table.partition_keys),
        parameters=dict(table.properties),
        tableType=table.table_type,
    )


def change_table(found: Any, new: Table) -> Any:
    """Change `found`, as returned by the server, to `new`. Fields that `new` cannot change are kept."""
    found.tableName, found.dbName = new.name.table, new.name.database
    found.owner = new.owner
    found.parameters = dict(new.properties)
    found.sd.cols = from_columns(new.columns)
    found.sd.sortCols = [idl().Order(col=name, order=_ASCENDING) for name in new.sort_columns]
    found.sd.inputFormat, found.sd.outputFormat = new.input_format, new.output_format
    found.sd.serdeInfo.serializationLib = new.serde
    return found


def to_table(found: Any, version: ServerVersion) -> Table:
    sd = found.sd
    table = Table(
        name=TableName(found.dbName, found.tableName),
        columns=to_columns(sd.cols),
        partition_keys=to_columns(found.partitionKeys),
        bucket_columns=tuple(name.lower() for name in sd.bucketCols or ()),
        num_buckets=sd.numBuckets if sd.numBuckets and sd.numBuckets > 0 else -1,
        sort_columns=tuple(order.col for order in sd.sortCols or ()),
        location=sd.location or "",
        properties=dict(found.parameters or {}),
        table_type=found.tableType or "",
        input_format=sd.inputFormat or "",
        output_format=sd.outputFormat or "",
        serde=(sd.serdeInfo.serializationLib or "") if sd.serdeInfo else "",
        owner=found.owner or "",
        id=found.id or 0,
        create_time_seconds=found.createTime or 0,
        serde_properties=dict(sd.serdeInfo.parameters or {}) if sd.serdeInfo else {},
    )
    return table if version.has_table_ids else replace(table, id=table.creation_id)


def from_new_partition(table: Any, values: Sequence[str], location: str) -> Any:
    """A partition of `table`, as returned by the server, with the table's formats and columns."""
    t, sd = idl(), table.sd
    descriptor = t.StorageDescriptor(**{name: getattr(sd, name) for _, name, *_ in sd.thrift_spec.values()})
    descriptor.location = location
    return t.Partition(
        values=list(values),
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=0,
        lastAccessTime=0,
        sd=descriptor,
        parameters={},
    )


def to_partition(found: Any) -> Partition:
    return Partition(
        table=TableName(found.dbName, found.tableName),
        values=tuple(found.values),
        location=found.sd.location or "",
        columns=to_columns(found.sd.cols),
        properties=dict(found.parameters or {}),
        create_time_seconds=found.createTime or 0,
    )


# -- snapshots ---------------------------------------------------------------------------------------


def split_by_bits(ids: Sequence[int], aborted_bits: bytes | str) -> tuple[list[int], list[int]]:
    """Split ids into open and aborted ones: ids[i] is aborted if bit i, from the lowest of each byte, is set."""
    bits = aborted_bits.encode("latin-1") if isinstance(aborted_bits, str) else aborted_bits
    is_aborted = [i // 8 < len(bits) and bool(bits[i // 8] >> (i % 8) & 1) for i in range(len(ids))]
    aborted = sorted(id_ for id_, was in zip(ids, is_aborted, strict=True) if was)
    return sorted(id_ for id_, was in zip(ids, is_aborted, strict=True) if not was), aborted


def to_valid_txns(answer: Any, own: TxnId | None) -> ValidTxnList:
    """Convert a snapshot. `own` is left out of the exceptions."""
    open_ids, aborted = split_by_bits(answer.open_txns, answer.abortedBits)
    return ValidTxnList(
        TxnId(answer.txn_high_water_mark),
        tuple(TxnId(id_) for id_ in open_ids if id_ != own),
        tuple(TxnId(id_) for id_ in aborted if id_ != own),
    )


def to_valid_write_ids(answer: Any) -> ValidWriteIdList:
    open_ids, aborted = split_by_bits(answer.invalidWriteIds, answer.abortedBits)
    return ValidWriteIdList(
        TableName.of(answer.fullTableName),
        WriteId(answer.writeIdHighWaterMark),
        tuple(map(WriteId, open_ids)),
        tuple(map(WriteId, aborted)),
    )


def to_txn_info(found: Any) -> TxnInfo:
    return TxnInfo(
        id=TxnId(found.id),
        state=_TXN_STATES[found.state],
        user=found.user,
        hostname=found.hostname,
        agent_info=found.agentInfo or "",
        started_ms=found.startedTime or 0,
        last_heartbeat_ms=found.lastHeartbeatTime or 0,
        abort_reason=found.metaInfo or "",
    )


# -- locks -------------------------------------------------------------------------------------------


def to_lock_response(answer: Any) -> LockResponse:
    return LockResponse(LockId(answer.lockid), LockState(answer.state), answer.errorMessage or "")


def to_lock_info(found: Any) -> LockInfo:
    return LockInfo(
        lock_id=LockId(found.lockid),
        internal_id=found.lockIdInternal or 0,
        database=found.dbname,
        table=found.tablename,
        partition_name=found.partname,
        state=LockState(found.state),
        type=LockType(found.type),
        txn_id=TxnId(found.txnid or 0),
        last_heartbeat_ms=found.lastheartbeat,
        acquired_at_ms=found.acquiredat or None,
        user=found.user,
        hostname=found.hostname,
        agent_info=found.agentInfo or "",
        blocked_by_lock_id=LockId(found.blockedByExtId) if found.blockedByExtId else None,
        blocked_by_internal_id=found.blockedByIntId or None,
    )
