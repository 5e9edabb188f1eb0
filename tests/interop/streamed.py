"""A table with every type, streamed in five transactions of different fates, and what must be read from it.

The expectation comes from the input alone: rows, their partition, their bucket by Hive's hash, and ROW__ID.
Run as a script it is the writer that gets killed: `python streamed.py <uri> <table>`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.schema import arrow_schema
from hive_ingest.testing import arm_from_environment

NUM_BUCKETS = 3
COLUMNS = {
    "id": "int",
    "yes": "boolean",
    "t": "tinyint",
    "s": "smallint",
    "b": "bigint",
    "f": "float",
    "d": "double",
    "n": "decimal(20,4)",
    "txt": "string",
    "c": "char(5)",
    "v": "varchar(10)",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "numbers": "array<int>",
    "counts": "map<string,int>",
    "nested": "struct<a:int,inner_struct:struct<x:string,y:double>>",
    "many": "array<struct<k:string,v:array<bigint>>>",
}
PARTITION_KEYS = {"region": "string", "month": "int"}
REGIONS = ["north", "süd/öst=1", None]
#: Every bucket is worth a spill of its own.
SETTINGS = {"min_spill_bytes": 1}


@dataclass(frozen=True)
class ExpectedRow:
    region: str | None
    month: int
    row_id: tuple[int, int, int]
    cells: dict[str, Any]


def row(i: int) -> dict[str, Any]:
    """Row `i`, partition columns included; every value is null in some rows, at every level."""
    values: dict[str, Any] = {
        "yes": i % 2 == 0,
        "t": (i % 256) - 128,
        "s": (i * 37 % 65536) - 32768,
        "b": (-1) ** i * (2**63 - 1 - i),
        "f": float(i) / 4,
        "d": [0.1 * i, float("inf"), -1e300, 5e-324][i % 4],
        "n": decimal.Decimal(i * 10007 - 5_000_000).scaleb(-4),
        "txt": ["", "plain", 'tab\tquote"back\\slash', "日本語 🚀 é", "x" * 300][i % 5],
        "c": "ab é"[: i % 5],
        "v": "varchar ü!"[: i % 11],
        "raw": bytes([i % 256, 0, 255]) * (i % 4),
        "day": dt.date(1970, 1, 1) + dt.timedelta(days=i * 97 % 40_000 - 20_000),
        "at": timestamp(i),
        "numbers": [j if j % 3 else None for j in range(i % 5)],
        "counts": {f"k{j}": (None if j == 1 else j * i) for j in range(i % 4)},
        "nested": {"a": i, "inner_struct": None if i % 6 == 0 else {"x": f"x{i}", "y": None if i % 4 == 0 else i / 8}},
        "many": [None if j == 2 else {"k": f"{i}.{j}", "v": [i, None][: j + 1]} for j in range(i % 4)],
    }
    null = {name: None for at, name in enumerate(values) if (i + at) % 7 == 0}
    return {"id": i, **values, **null, "region": REGIONS[i % 3], "month": 1 + i // 3 % 2}


def timestamp(i: int) -> dt.datetime:
    """Around a daylight-saving gap with microseconds; every fifth one before 1970."""
    if i % 5 == 0:
        return dt.datetime(1969, 12, 31, 23, 59, 58) - dt.timedelta(days=i % 20_000, microseconds=i * 7919 % 10**6)
    return dt.datetime(2024, 3, 31, 1, 59, 59) + dt.timedelta(hours=i * 13 % 100_000, microseconds=i * 7919)


def batch(table: Table, ids: range) -> pa.RecordBatch:
    schema = arrow_schema((*table.columns, *table.partition_keys))
    rows = [row(i) for i in ids]
    arrays = [
        pa.array(
            [list(r[f.name].items()) if pa.types.is_map(f.type) and r[f.name] else r[f.name] for r in rows], f.type
        )
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def expected(table: Table, ids_by_write_id: dict[int, range]) -> list[ExpectedRow]:
    """In the order (write id, partition, bucket, row id): row ids count the rows of one file in input order."""
    found, counts = [], Counter[tuple[Any, ...]]()
    for write_id, ids in ids_by_write_id.items():
        for i in ids:
            cells = row(i)
            region, month = cells.pop("region"), cells.pop("month")
            bucket = murmur3_of_int(i) % 2**31 % NUM_BUCKETS
            place = (write_id, region, month, bucket)
            row_id = (write_id, 1 << 29 | bucket << 16, counts[place])
            counts[place] += 1
            found.append(ExpectedRow(region, month, row_id, cells))
    return found


def murmur3_of_int(value: int) -> int:
    """Murmur3 (32 bits, seed 104729) of four big-endian bytes, written down from its public description."""

    def rotate(x: int, by: int) -> int:
        return (x << by | x >> 32 - by) & 0xFFFFFFFF

    k = int.from_bytes(value.to_bytes(4, "big", signed=True), "little")
    k = rotate(k * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    h = (rotate(104729 ^ k, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def connect(client: MetastoreClient, table: TableName) -> StreamingConnection:
    return StreamingConnection.connect(
        client,
        database=table.database,
        table=table.table,
        record_writer=ArrowWriter(),
        agent_info="streamed",
        settings=SETTINGS,
    )


def main(uri: str, name: str) -> None:
    """Write one transaction and die of the fault that the environment names."""
    with connect_metastore(uri) as client, connect(client, TableName.of(name)) as conn:
        arm_from_environment()
        with conn.transaction():
            conn.write(batch(conn.table, KILLED_IDS))


KILLED_IDS = range(700_000, 700_040)

if __name__ == "__main__":
    main(*sys.argv[1:])
