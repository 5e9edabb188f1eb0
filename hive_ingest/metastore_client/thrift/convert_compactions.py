"""Thrift's structures of compactions and the values of `hive_ingest.model`, one to the other."""

from __future__ import annotations

from typing import Any

from hive_ingest.metastore_client.compaction_values import from_stringable_map, to_stringable_map
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.model import CompactionInfo, CompactionState, CompactionType, TableName, TxnId, WriteId

_STATES = {state.text: state for state in CompactionState} | {"attempted": CompactionState.DID_NOT_INITIATE}


def to_compaction_state(text: str) -> CompactionState:
    """From the words of SHOW COMPACTIONS; version 3 says "attempted" of one that was not initiated."""
    return _STATES[text]


def to_shown_compaction(found: Any) -> CompactionInfo:
    """A row of SHOW COMPACTIONS."""
    highest = found.hightestWriteId or found.hightestTxnId  # the latter has it in version 3, under its older name
    return CompactionInfo(
        id=found.id or 0,
        table=TableName(found.dbname, found.tablename),
        partition_name=found.partitionname or None,
        type=CompactionType(found.type),
        state=to_compaction_state(found.state),
        worker_id=found.workerid or None,
        worker_version=found.workerVersion or None,
        initiator_id=found.initiatorId or None,
        initiator_version=found.initiatorVersion or None,
        enqueue_time_ms=found.enqueueTime or None,
        start_ms=found.start or None,
        end_ms=found.endTime or None,
        commit_time_ms=found.commitTime or None,
        cleaner_start_ms=found.cleanerStart or None,
        highest_write_id=WriteId(highest) if highest else None,
        txn_id=TxnId(found.txnId) if found.txnId else None,
        next_txn_id=TxnId(found.nextTxnId) if found.nextTxnId else None,
        run_as=found.runAs or None,
        hadoop_job_id=found.hadoopJobId or None,
        error_message=found.errorMessage or None,
        meta_info=found.metaInfo or None,
        pool_name=found.poolName or None,
    )


def to_compaction_info(found: Any) -> CompactionInfo:
    """What a worker is given."""
    return CompactionInfo(
        id=found.id,
        table=TableName(found.dbname, found.tablename),
        partition_name=found.partitionname or None,
        type=CompactionType(found.type),
        state=CompactionState(found.state) if found.state and found.state.strip("\0") else CompactionState.INITIATED,
        properties=from_stringable_map(found.properties),
        worker_id=found.workerId or None,
        enqueue_time_ms=found.enqueueTime or None,
        start_ms=found.start or None,
        retry_retention_ms=found.retryRetention or 0,
        highest_write_id=WriteId(found.highestWriteId) if found.highestWriteId else None,
        run_as=found.runas or None,
        error_message=found.errorMessage or None,
        pool_name=found.poolname or None,
    )


def from_compaction_info(info: CompactionInfo) -> Any:
    """What a worker gives back."""
    return idl().CompactionInfoStruct(
        id=info.id,
        dbname=info.table.database,
        tablename=info.table.table,
        partitionname=info.partition_name,
        type=int(info.type),
        runas=info.run_as,
        properties=to_stringable_map(info.properties),
        toomanyaborts=False,
        state=info.state.value,
        workerId=info.worker_id,
        start=info.start_ms or 0,
        highestWriteId=info.highest_write_id or 0,
        errorMessage=info.error_message,
        hasoldabort=False,
        enqueueTime=info.enqueue_time_ms or 0,
        retryRetention=info.retry_retention_ms,
        poolname=info.pool_name,
    )
