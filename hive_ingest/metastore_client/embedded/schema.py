"""The tables of the transaction manager, with Hive's own names, so that whoever knows Hive can read them.

Source: `hive-schema-4.0.0.postgres.sql`, with NEXT_TXN_ID and MIN_HISTORY_LEVEL as HIVE-18747 has them. Times are
milliseconds since the epoch by the database's clock. Strings have no length limit. What Hive lacks is marked *ours*.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, MetaData, String, Table, Text

METADATA = MetaData()


def _table(name: str, *items: Column[int] | Column[str] | Index | CheckConstraint) -> Table:
    return Table(name, METADATA, *items)


def _int(name: str, *, key: bool = False, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, primary_key=key, nullable=null, autoincrement=False)


def _text(name: str, *, key: bool = False, null: bool = False) -> Column[str]:
    return Column(name, Text, primary_key=key, nullable=null)


def _char(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, String(1), nullable=null)


# -- transactions ------------------------------------------------------------------------------------

#: One row. Locked until the opener commits, so transaction ids become visible in order.
NEXT_TXN_ID = _table("NEXT_TXN_ID", _int("NTXN_NEXT"))

TXNS = _table(
    "TXNS",
    _int("TXN_ID", key=True),
    _char("TXN_STATE"),  # o: open, a: aborted, c: committed
    _int("TXN_STARTED"),
    _int("TXN_LAST_HEARTBEAT"),
    _text("TXN_USER"),
    _text("TXN_HOST"),
    _text("TXN_AGENT_INFO", null=True),
    _text("TXN_META_INFO", null=True),  # why it was aborted (HIVE-11495)
    _int("TXN_HEARTBEAT_COUNT", null=True),
    _int("TXN_TYPE"),
    _int("TXN_ENDED", null=True),  # ours: when it was aborted or committed; retention counts from here
    Index("TXN_STATE_IDX", "TXN_STATE", "TXN_ID"),
)

#: The lowest transaction that was open when MHL_TXNID was opened: what its snapshot may still need.
MIN_HISTORY_LEVEL = _table(
    "MIN_HISTORY_LEVEL",
    _int("MHL_TXNID", key=True),
    _int("MHL_MIN_OPEN_TXNID"),
    Index("MIN_HISTORY_LEVEL_IDX", "MHL_MIN_OPEN_TXNID"),
)

TXN_COMPONENTS = _table(
    "TXN_COMPONENTS",
    _int("TC_TXNID"),
    _text("TC_DATABASE"),
    _text("TC_TABLE", null=True),
    _text("TC_PARTITION", null=True),
    _char("TC_OPERATION_TYPE"),  # i: insert, u: update, d: delete, c: compact
    _int("TC_WRITEID", null=True),
    Index("TC_TXNID_INDEX", "TC_TXNID"),
)

COMPLETED_TXN_COMPONENTS = _table(
    "COMPLETED_TXN_COMPONENTS",
    _int("CTC_TXNID"),
    _text("CTC_DATABASE"),
    _text("CTC_TABLE", null=True),
    _text("CTC_PARTITION", null=True),
    _int("CTC_TIMESTAMP"),
    _int("CTC_WRITEID", null=True),
    _char("CTC_UPDATE_DELETE"),
    Index("COMPLETED_TXN_COMPONENTS_IDX", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION"),
    Index("CTC_TXNID_IDX", "CTC_TXNID"),  # ours: is this commit remembered?
)

#: What UPDATE and DELETE wrote, for as long as a transaction is open that could conflict with it.
WRITE_SET = _table(
    "WRITE_SET",
    _text("WS_DATABASE"),
    _text("WS_TABLE"),
    _text("WS_PARTITION", null=True),
    _int("WS_TXNID"),
    _int("WS_COMMIT_ID"),
    _char("WS_OPERATION_TYPE"),
    Index("WS_TXNID_IDX", "WS_TXNID"),
    Index("WS_TABLE_IDX", "WS_DATABASE", "WS_TABLE"),
)

# -- write ids ---------------------------------------------------------------------------------------

NEXT_WRITE_ID = _table("NEXT_WRITE_ID", _text("NWI_DATABASE", key=True), _text("NWI_TABLE", key=True), _int("NWI_NEXT"))

TXN_TO_WRITE_ID = _table(
    "TXN_TO_WRITE_ID",
    _int("T2W_TXNID"),
    _text("T2W_DATABASE"),
    _text("T2W_TABLE"),
    _int("T2W_WRITEID"),
    Index("TBL_TO_TXN_ID_IDX", "T2W_DATABASE", "T2W_TABLE", "T2W_TXNID", unique=True),
    Index("TBL_TO_WRITE_ID_IDX", "T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID", unique=True),
    Index("T2W_TXNID_IDX", "T2W_TXNID"),  # ours: the write ids of one transaction, at every lock request
)

# -- locks -------------------------------------------------------------------------------------------

#: One row. Locked until the request commits, so a lock sees every request with a lower id.
NEXT_LOCK_ID = _table("NEXT_LOCK_ID", _int("NL_NEXT"))

HIVE_LOCKS = _table(
    "HIVE_LOCKS",
    _int("HL_LOCK_EXT_ID", key=True),
    _int("HL_LOCK_INT_ID", key=True),
    _int("HL_TXNID"),
    _text("HL_DB"),
    _text("HL_TABLE", null=True),
    _text("HL_PARTITION", null=True),
    _char("HL_LOCK_STATE"),  # a: acquired, w: waiting
    _char("HL_LOCK_TYPE"),  # r: shared read, w: shared write, x: excl write, e: exclusive
    _int("HL_LAST_HEARTBEAT"),  # 0 inside a transaction, whose own heartbeat counts
    _int("HL_ACQUIRED_AT", null=True),
    _text("HL_USER"),
    _text("HL_HOST"),
    _int("HL_HEARTBEAT_COUNT", null=True),
    _text("HL_AGENT_INFO", null=True),
    _int("HL_BLOCKEDBY_EXT_ID", null=True),
    _int("HL_BLOCKEDBY_INT_ID", null=True),
    Index("HL_TXNID_IDX", "HL_TXNID"),
    Index("HL_DB_IDX", "HL_DB"),  # ours: the conflict check joins on it
)

# -- compaction: the tables are there, the calls are not yet ------------------------------------------

NEXT_COMPACTION_QUEUE_ID = _table("NEXT_COMPACTION_QUEUE_ID", _int("NCQ_NEXT"))


def _compaction_columns(prefix: str) -> list[Column[int] | Column[str]]:
    """What COMPACTION_QUEUE and COMPLETED_COMPACTIONS have in common."""
    return [
        _int(f"{prefix}_ID", key=True),
        _text(f"{prefix}_DATABASE"),
        _text(f"{prefix}_TABLE"),
        _text(f"{prefix}_PARTITION", null=True),
        _char(f"{prefix}_STATE"),
        _char(f"{prefix}_TYPE"),
        _text(f"{prefix}_TBLPROPERTIES", null=True),
        _text(f"{prefix}_WORKER_ID", null=True),
        _int(f"{prefix}_ENQUEUE_TIME", null=True),
        _int(f"{prefix}_START", null=True),
        _text(f"{prefix}_RUN_AS", null=True),
        _int(f"{prefix}_HIGHEST_WRITE_ID", null=True),
        _text(f"{prefix}_META_INFO", null=True),
        _text(f"{prefix}_HADOOP_JOB_ID", null=True),
        _text(f"{prefix}_ERROR_MESSAGE", null=True),
        _int(f"{prefix}_NEXT_TXN_ID", null=True),
        _int(f"{prefix}_TXN_ID", null=True),
        _int(f"{prefix}_COMMIT_TIME", null=True),
        _text(f"{prefix}_INITIATOR_ID", null=True),
        _text(f"{prefix}_INITIATOR_VERSION", null=True),
        _text(f"{prefix}_WORKER_VERSION", null=True),
        _text(f"{prefix}_POOL_NAME", null=True),
        Column(f"{prefix}_NUMBER_OF_BUCKETS", Integer, nullable=True),
        _text(f"{prefix}_ORDER_BY", null=True),
    ]


COMPACTION_QUEUE = _table(
    "COMPACTION_QUEUE",
    *_compaction_columns("CQ"),
    _int("CQ_CLEANER_START", null=True),
    _int("CQ_RETRY_RETENTION", null=True),
)
COMPLETED_COMPACTIONS = _table("COMPLETED_COMPACTIONS", *_compaction_columns("CC"), _int("CC_END", null=True))

# -- ours --------------------------------------------------------------------------------------------

#: Who keeps house, until when, and when it is next due.
HOUSEKEEPING_LEASE = _table(
    "HOUSEKEEPING_LEASE",
    _text("HKL_NAME", key=True),
    _text("HKL_HOLDER"),
    _int("HKL_EXPIRES"),
    _int("HKL_DUE"),
)

#: Present in every database of ours, and in no other.
SCHEMA_VERSION = _table("HIVE_INGEST_SCHEMA", Column("VERSION", Integer, primary_key=True, autoincrement=False))

# -- the catalog, in a compact schema of its own; lists and maps are JSON ------------------------------

#: SQLite gives ids of dropped rows out again unless AUTOINCREMENT is set; a sink remembers its table by id.
_ID = BigInteger().with_variant(Integer, "sqlite")

DBS = _table("DBS", _text("DB_NAME", key=True), _text("DB_LOCATION_URI"), _text("DB_COMMENT"), _text("DB_PARAMS"))

TBLS = Table(
    "TBLS",
    METADATA,
    Column("TBL_ID", _ID, primary_key=True, autoincrement=True),
    _text("DB_NAME"),
    _text("TBL_NAME"),
    _text("TBL_TYPE"),
    _text("OWNER"),
    _int("CREATE_TIME"),
    _text("LOCATION"),
    _text("COLUMNS"),
    _text("PARTITION_KEYS"),
    _text("BUCKET_COLUMNS"),
    _int("NUM_BUCKETS"),
    _text("SORT_COLUMNS"),
    _text("INPUT_FORMAT"),
    _text("OUTPUT_FORMAT"),
    _text("SERDE"),
    Index("TBLS_NAME_IDX", "DB_NAME", "TBL_NAME", unique=True),
    sqlite_autoincrement=True,
)

#: Rows, not JSON: a commit changes one of them (HIVE-20538).
TABLE_PARAMS = _table("TABLE_PARAMS", _int("TBL_ID", key=True), _text("PARAM_KEY", key=True), _text("PARAM_VALUE"))

PARTITIONS = _table(
    "PARTITIONS",
    _int("TBL_ID", key=True),
    _text("PART_NAME", key=True),
    _text("PART_VALUES"),
    _text("LOCATION"),
    _text("COLUMNS"),
    _text("PARAMS"),
    _int("CREATE_TIME"),
)
Index("PART_LOCATION_IDX", PARTITIONS.c.LOCATION, postgresql_using="hash")  # a path may be too long for a B-tree

# -- ours, since version 2 ---------------------------------------------------------------------------

#: One row: what distinguishes this metastore from others; a copy keeps it.
METASTORE_ID = _table("HIVE_INGEST_METASTORE_ID", _text("MI_UUID", key=True))

#: Folders that a committed DDL statement still has to move or to remove. Whoever comes by finishes what a killed
#: process has left.
FOLDER_TASKS = Table(
    "FOLDER_TASKS",
    METADATA,
    Column("FT_ID", _ID, primary_key=True, autoincrement=True),
    _text("FT_KIND"),
    _text("FT_SOURCE"),
    _text("FT_TARGET", null=True),
    _text("FT_DATABASE", null=True),
    _text("FT_TABLE", null=True),
    _text("FT_PARTITION", null=True),
    _int("FT_NEXT_WRITE_ID", null=True),  # write ids below it lie in the folder
    _int("FT_LOCK_ID", null=True),  # released when the task is done
    sqlite_autoincrement=True,
)
