"""The values that all packages share: ids, tables, partitions, locks, transactions.

Frozen values without behaviour beyond checking themselves. Names are those of Hive's
`hive_metastore.thrift`, in snake case.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType

from hive_ingest.errors import ConfigurationError

TxnId = NewType("TxnId", int)
WriteId = NewType("WriteId", int)
LockId = NewType("LockId", int)

#: `__HIVE_DEFAULT_PARTITION__`, the folder name of a null or empty partition value.
DEFAULT_PARTITION_NAME = "__HIVE_DEFAULT_PARTITION__"
DEFAULT_DATABASE = "default"
#: Columns that Hive has in every table: it does not read a column of the table that has such a name.
VIRTUAL_COLUMNS = frozenset(
    {
        "block__offset__inside__file",
        "input__file__name",
        "raw__data__size",
        "row__id",
        "row__is__deleted",
        "row__offset__inside__block",
        "grouping__id",
    }
)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """`database.table`, both in lower case as the metastore keeps them."""

    database: str
    table: str

    def __post_init__(self) -> None:
        for part in (self.database, self.table):
            if not part or not all(c.isalnum() or c == "_" for c in part):
                raise ConfigurationError(
                    f"{part!r} is not a valid name of a database or table: use letters, digits and _"
                )
        object.__setattr__(self, "database", self.database.lower())
        object.__setattr__(self, "table", self.table.lower())

    @classmethod
    def of(cls, table: str | TableName, database: str | None = None) -> TableName:
        """The table called `"database.table"`, or `"table"` in `database` (`default` if that is not given either).

        Raises:
            ConfigurationError: It is not a name, or names another database than `database`.
        """
        given: object = table
        if not isinstance(given, str | TableName):
            raise ConfigurationError(f"{given!r} is not the name of one table: write 'database.table'")
        if isinstance(table, str):
            named, dot, name = table.rpartition(".")
            if dot and not named:
                raise ConfigurationError(f"{table!r} is not a table name: write 'database.table'")
            table = cls(named or database or DEFAULT_DATABASE, name)
        if database is not None and table.database != database.lower():
            raise ConfigurationError(f"table {str(table)!r} is not in database {database!r}: leave out the database")
        return table

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column or partition key; `type` is a Hive type string such as `decimal(10,2)`."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Database:
    name: str
    location: str
    comment: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


ORC_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
ORC_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat"
ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the metastore knows it (Hive's `Table` and `StorageDescriptor` in one)."""

    name: TableName
    columns: tuple[Column, ...]
    partition_keys: tuple[Column, ...] = ()
    bucket_columns: tuple[str, ...] = ()
    num_buckets: int = -1
    sort_columns: tuple[str, ...] = ()
    location: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    table_type: str = "MANAGED_TABLE"
    input_format: str = ORC_INPUT_FORMAT
    output_format: str = ORC_OUTPUT_FORMAT
    serde: str = ORC_SERDE
    owner: str = ""
    id: int = 0
    create_time_seconds: int = 0
    #: Of a real metastore; it keeps them when the table is changed.
    serde_properties: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_partitioned(self) -> bool:
        return bool(self.partition_keys)

    @property
    def is_bucketed(self) -> bool:
        return self.num_buckets > 0

    @property
    def is_transactional(self) -> bool:
        return self.properties.get("transactional", "").lower() == "true"

    @property
    def is_insert_only(self) -> bool:
        """Transactional without the ACID columns (Hive: `AcidUtils.isInsertOnlyTable`, which ignores case)."""
        return self.properties.get("transactional_properties", "").lower() == "insert_only"

    @property
    def creation_id(self) -> int:
        """The substitute for `id` on a metastore without it (Hive 3): made of the creation time and the name."""
        return self.create_time_seconds << 30 | zlib.crc32(str(self.name).encode()) & (1 << 30) - 1

    @property
    def known_ids(self) -> tuple[int, ...]:
        """Its `id`, and the one that it had before the metastore was upgraded from Hive 3."""
        return self.id, self.creation_id


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; `values` are the text forms, unescaped, in the order of the partition keys."""

    table: TableName
    values: tuple[str, ...]
    location: str
    columns: tuple[Column, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    create_time_seconds: int = 0


class TxnState(enum.Enum):
    """State of a transaction in TXNS; the value is the letter that Hive stores."""

    OPEN = "o"
    ABORTED = "a"
    COMMITTED = "c"


class TxnType(enum.IntEnum):
    """Hive's `TxnType`."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5


class LockType(enum.IntEnum):
    """Hive 4's `LockType`, with its Thrift values."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class LockLevel(enum.IntEnum):
    DB = 1
    TABLE = 2
    PARTITION = 3


class LockState(enum.IntEnum):
    ACQUIRED = 1
    WAITING = 2
    ABORT = 3
    NOT_ACQUIRED = 4


class DataOperationType(enum.IntEnum):
    """Hive's `DataOperationType`: what a transaction does to the data under a lock."""

    SELECT = 1
    INSERT = 2
    UPDATE = 3
    DELETE = 4
    UNSET = 5
    NO_TXN = 6


@dataclass(frozen=True, slots=True)
class LockComponent:
    """One thing to lock. `table` is None at DB level, `partition_name` ("k=v/…") only at PARTITION level."""

    type: LockType
    level: LockLevel
    database: str
    table: str | None = None
    partition_name: str | None = None
    operation_type: DataOperationType = DataOperationType.UNSET
    is_transactional: bool = True
    is_dynamic_partition_write: bool = False


@dataclass(frozen=True, slots=True)
class LockRequest:
    """All components of one request are granted together. `txn_id` 0 is a lock outside any transaction."""

    components: tuple[LockComponent, ...]
    txn_id: TxnId = TxnId(0)
    user: str = ""
    hostname: str = ""
    agent_info: str = "Unknown"


@dataclass(frozen=True, slots=True)
class LockResponse:
    lock_id: LockId
    state: LockState
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A row of SHOW LOCKS (Hive's `ShowLocksResponseElement`). Times are milliseconds since the epoch."""

    lock_id: LockId
    internal_id: int
    database: str
    table: str | None
    partition_name: str | None
    state: LockState
    type: LockType
    txn_id: TxnId
    last_heartbeat_ms: int
    acquired_at_ms: int | None
    user: str
    hostname: str
    agent_info: str
    blocked_by_lock_id: LockId | None = None
    blocked_by_internal_id: int | None = None


@dataclass(frozen=True, slots=True)
class TxnInfo:
    """A transaction that is open or aborted (Hive's `TxnInfo`). Times are milliseconds since the epoch."""

    id: TxnId
    state: TxnState
    user: str
    hostname: str
    agent_info: str
    started_ms: int
    last_heartbeat_ms: int
    type: TxnType = TxnType.DEFAULT
    abort_reason: str = ""


@dataclass(frozen=True, slots=True)
class OpenTxnsInfo:
    """Hive's `GetOpenTxnsInfoResponse`: all open and aborted transactions below the high-water mark."""

    high_water_mark: TxnId
    transactions: tuple[TxnInfo, ...]


@dataclass(frozen=True, slots=True)
class TxnToWriteId:
    txn_id: TxnId
    write_id: WriteId


@dataclass(frozen=True, slots=True)
class HeartbeatTxnRange:
    """Hive's `HeartbeatTxnRangeResponse`: the transactions of the range that are no longer open."""

    aborted: frozenset[TxnId] = frozenset()
    nosuch: frozenset[TxnId] = frozenset()


@dataclass(frozen=True, slots=True)
class CommitKeyValue:
    """A table parameter changed by the commit itself (HIVE-20538). The key starts with `_meta`."""

    table_id: int
    key: str
    value: str


class CompactionType(enum.IntEnum):
    """Hive 4's `CompactionType`, with its Thrift values."""

    MINOR = 1
    MAJOR = 2
    REBALANCE = 3
    ABORT_TXN_CLEANUP = 4


class CompactionState(enum.Enum):
    """State of a compaction; the value is the letter that Hive stores."""

    INITIATED = "i"
    WORKING = "w"
    READY_FOR_CLEANING = "r"
    FAILED = "f"
    SUCCEEDED = "s"
    DID_NOT_INITIATE = "a"
    REFUSED = "c"
    ABORTED = "x"

    @property
    def text(self) -> str:
        """As Hive's SHOW COMPACTIONS writes it: `ready for cleaning`."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class CompactionInfo:
    """One compaction, in the queue or in the history (Hive's `CompactionInfo` and `ShowCompactResponseElement`).

    Times are milliseconds since the epoch, None where there has been none yet.

    Attributes:
        id: Its id in the queue. 0: it has no row there, such as a clean-up of aborted transactions.
        highest_write_id: The last write id that the compactor's snapshot holds.
        txn_id: The compaction's own transaction.
        next_txn_id: The first transaction that was opened after the compaction had committed.
        min_open_write_txn_id: Of a clean-up of aborted transactions: the lowest open transaction that writes there.
        retry_retention_ms: How long after `commit_time_ms` the cleaner waits before it tries again.
        meta_info: What the worker reports about its result, as text.
    """

    id: int
    table: TableName
    partition_name: str | None
    type: CompactionType
    state: CompactionState
    properties: Mapping[str, str] = field(default_factory=dict)
    worker_id: str | None = None
    worker_version: str | None = None
    initiator_id: str | None = None
    initiator_version: str | None = None
    enqueue_time_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    commit_time_ms: int | None = None
    cleaner_start_ms: int | None = None
    retry_retention_ms: int = 0
    highest_write_id: WriteId | None = None
    txn_id: TxnId | None = None
    next_txn_id: TxnId | None = None
    min_open_write_txn_id: TxnId | None = None
    run_as: str | None = None
    hadoop_job_id: str | None = None
    error_message: str | None = None
    meta_info: str | None = None
    pool_name: str | None = None


@dataclass(frozen=True, slots=True)
class CompactionResponse:
    """The answer to a request (Hive's `CompactionResponse`).

    Where `accepted` is false the same table or partition is being compacted already, by compaction `id`, which is in
    `state`.
    """

    id: int
    state: CompactionState
    accepted: bool


@dataclass(frozen=True, slots=True)
class AbortedComponent:
    """A table or partition that an aborted transaction may have written (a row of TXN_COMPONENTS).

    Its files are those of `write_id`. Those of a compaction end with `_v<txn_id>`, and `write_id` is only the highest
    one that it read.
    """

    txn_id: TxnId
    write_id: WriteId | None
    is_compaction: bool


@dataclass(frozen=True, slots=True)
class CompactionCandidate:
    """A table or partition that may need a compaction, as the metastore can tell without looking at its files.

    `commits` and `highest_write_id` are of the transactions that wrote it since its last compaction was cleaned.
    """

    table: TableName
    partition_name: str | None
    too_many_aborts: bool = False
    has_old_abort: bool = False
    commits: int = 0
    highest_write_id: WriteId | None = None


def columns_of(columns: Mapping[str, str] | Sequence[Column] | None) -> tuple[Column, ...]:
    """Columns given as `{"name": "type"}` or as Column values; names in lower case, as the metastore keeps them."""
    if columns is None:
        return ()
    pairs: list[object] = [Column(n, t) for n, t in columns.items()] if isinstance(columns, Mapping) else [*columns]
    found = [column for column in pairs if isinstance(column, Column)]
    if len(found) < len(pairs):
        raise ConfigurationError(f"columns={columns!r}: pass names with their types, as in {{'id': 'int'}}")
    return tuple(Column(c.name.lower(), c.type.strip().lower(), c.comment) for c in found)
