"""The schema and the metadata of Hive's ACID files, as its `OrcRecordUpdater` writes them.

    struct<operation:int, originalTransaction:bigint, bucket:int, rowId:bigint, currentTransaction:bigint,
           row:struct<the table's columns>>

A row is identified by `originalTransaction`, `bucket` and `rowId`; `currentTransaction` is the write id of the last
change. A delete event has the ids of the row that it deletes, its own write id in `currentTransaction`, and a null
`row`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from hive_ingest.orc.normalise import check_writable

OPERATION, ORIGINAL_WRITE_ID, BUCKET, ROW_ID, WRITE_ID, ROW = ACID_COLUMNS = (
    "operation",
    "originalTransaction",
    "bucket",
    "rowId",
    "currentTransaction",
    "row",
)
#: Values of `operation`.
INSERT, DELETE = 0, 2

ACID_KEY_INDEX = "hive.acid.key.index"
ACID_STATS = "hive.acid.stats"
ACID_VERSION = "hive.acid.version"
ACID_ITEMS = frozenset({ACID_KEY_INDEX, ACID_STATS, ACID_VERSION})

#: A row's identity: write id, bucket property, row id.
Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows from the key `low` on and below the key `end`; None means unbounded."""

    low: Key | None = None
    end: Key | None = None

    def contains(self, key: Key) -> bool:
        return (self.low is None or self.low <= key) and (self.end is None or key < self.end)


@lru_cache(maxsize=128)
def acid_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of an ACID file of a table with the columns of `schema`.

    Raises:
        UnsupportedFeature: A column has a type that Hive's ORC files do not have.
    """
    check_writable(schema)
    types = (pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.struct(list(schema)))
    return pa.schema(list(zip(ACID_COLUMNS, types, strict=True)))


def orc_column_id(name: str) -> int:
    """The id of an ACID column in a file's types and statistics, where 0 is the root."""
    return ACID_COLUMNS.index(name) + 1


def acid_user_metadata(keys: Iterable[Key], *, inserts: int = 0, deletes: int = 0) -> dict[str, bytes]:
    """The user metadata that Hive's readers need. `keys` are the keys of the last row of each stripe."""
    index = "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in keys)
    return {
        ACID_KEY_INDEX: index.encode(),
        ACID_STATS: f"{inserts},0,{deletes}".encode(),
        ACID_VERSION: b"2",
    }


def parse_key_index(value: bytes) -> list[Key]:
    """The keys of a `hive.acid.key.index`. Raises ValueError."""
    keys = []
    for entry in value.decode("ascii").split(";"):
        if entry:
            write_id, bucket, row_id = map(int, entry.split(","))
            keys.append((write_id, bucket, row_id))
    return keys
