"""Rows of COMPACTION_QUEUE and COMPLETED_COMPACTIONS as values, and the conditions that several statements share."""

from __future__ import annotations

from hive_ingest.metastore_client.compaction_values import from_stringable_map
from hive_ingest.metastore_client.embedded.sessions import Row
from hive_ingest.model import CompactionInfo, CompactionState, CompactionType, TableName

#: Letters of CQ_TYPE (Hive: `TxnUtils.thriftCompactionType2DbType`).
TYPE_LETTERS = {
    CompactionType.MINOR: "i",
    CompactionType.MAJOR: "a",
    CompactionType.REBALANCE: "r",
    CompactionType.ABORT_TXN_CLEANUP: "c",
}
_TYPES = {letter: type_ for type_, letter in TYPE_LETTERS.items()}

#: Columns that both tables have, in the order of `to_info`.
_COLUMNS = (
    *("ID", "DATABASE", "TABLE", "PARTITION", "STATE", "TYPE", "TBLPROPERTIES", "WORKER_ID", "ENQUEUE_TIME", "START"),
    *("RUN_AS", "HIGHEST_WRITE_ID", "META_INFO", "HADOOP_JOB_ID", "ERROR_MESSAGE", "NEXT_TXN_ID", "TXN_ID"),
    *("COMMIT_TIME", "INITIATOR_ID", "INITIATOR_VERSION", "WORKER_VERSION", "POOL_NAME"),
)
_NUMBER_OF_COMMON = len(_COLUMNS)

QUEUE_COLUMNS = ", ".join(f"CQ_{name}" for name in _COLUMNS) + ", CQ_CLEANER_START, CQ_RETRY_RETENTION, NULL"
HISTORY_COLUMNS = ", ".join(f"CC_{name}" for name in _COLUMNS) + ", NULL, NULL, CC_END"

#: A row goes to the history in the state `:state`.
MOVE_TO_HISTORY = (
    f"INSERT INTO COMPLETED_COMPACTIONS ({', '.join(f'CC_{name}' for name in _COLUMNS)}, "
    "CC_NUMBER_OF_BUCKETS, CC_ORDER_BY, CC_END) "
    f"SELECT {', '.join(':state' if name == 'STATE' else f'CQ_{name}' for name in _COLUMNS)}, "
    "CQ_NUMBER_OF_BUCKETS, CQ_ORDER_BY, NOW_MS() FROM COMPACTION_QUEUE WHERE CQ_ID = :id"
)
DELETE_FROM_QUEUE = "DELETE FROM COMPACTION_QUEUE WHERE CQ_ID = :id"

#: Rows that belong to one table or partition.
OF_PARTITION = (
    "CQ_DATABASE = :database AND CQ_TABLE = :table AND CQ_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT)"
)


def to_info(row: Row) -> CompactionInfo:
    """Of a row with QUEUE_COLUMNS or HISTORY_COLUMNS."""
    cleaner_start, retry_retention, end = row[_NUMBER_OF_COMMON:]
    return CompactionInfo(
        id=row[0],
        table=TableName(row[1], row[2]),
        partition_name=row[3],
        state=CompactionState(row[4]),
        type=_TYPES[row[5]],
        properties=from_stringable_map(row[6]),
        worker_id=row[7],
        enqueue_time_ms=row[8],
        start_ms=row[9],
        run_as=row[10],
        highest_write_id=row[11],
        meta_info=row[12],
        hadoop_job_id=row[13],
        error_message=row[14],
        next_txn_id=row[15],
        txn_id=row[16],
        commit_time_ms=row[17],
        initiator_id=row[18],
        initiator_version=row[19],
        worker_version=row[20],
        pool_name=row[21],
        cleaner_start_ms=cleaner_start,
        retry_retention_ms=retry_retention or 0,
        end_ms=end,
    )


def of_partition(table: TableName, partition_name: str | None) -> dict[str, str | None]:
    """The parameters of OF_PARTITION."""
    return {"database": table.database, "table": table.table, "partition": partition_name}
