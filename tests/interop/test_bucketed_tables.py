"""Rows are in the bucket that Hive assigns: compared with Hive's own table of the same rows, and by TABLESAMPLE.

Bucket joins and bucket pruning rest on that alone. Hive plans them for ACID tables on Tez only, which has no part
here: on MapReduce it counts the folders of deltas as files of buckets, and declines.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.interop.hive import RealHive
from tests.interop.tables import orc_properties

COLUMNS = {
    "n": "int",
    "i": "int",
    "b": "bigint",
    "s": "string",
    "bo": "boolean",
    "ti": "tinyint",
    "si": "smallint",
    "f": "float",
    "d": "double",
    "dc": "decimal(20,4)",
    "c": "char(6)",
    "v": "varchar(6)",
    "da": "date",
    "ts": "timestamp",
    "ar": "array<int>",
    "st": "struct<x:bigint,y:array<string>>",
}
#: Bucket columns and number of buckets.
LAYOUTS = {
    "by_int": (["i"], 4),
    "by_bigint": (["b"], 3),
    "by_string": (["s"], 5),
    "by_all": (["s", "i", "b"], 4),
    "by_decimal": (["dc"], 5),
    "by_timestamp": (["ts"], 3),
    "by_small_numbers": (["bo", "ti", "si"], 4),
    "by_floats": (["f", "d"], 4),
    "by_further": (["c", "v", "da"], 4),
    "by_array": (["ar"], 3),
    "by_struct_and_array": (["st", "ar"], 4),
}
INTS = [0, 1, -1, 2**31 - 1, -(2**31), None, *range(7, 100_000, 1009)]
BIGINTS = [0, -1, 2**63 - 1, -(2**63), 2**32, None, *(37**k % 2**62 for k in range(50)), *range(-50, 0)]
SMALL = [0, 1, -1, 127, -128, None]
FLOATS = [0.0, -0.0, 1.5, -0.1, 3.4e38, None]
DECIMALS = ["0", "0.1", "1", "-1.5", "100", "9999999999999999.9999", "-9999999999999999.9999", None]
NANOS = [0, 1, 10**9, 1_709_210_096_789_000_000, -(10**9), -(10**18), -1_500_000_000, -(10**18) + 1, 2**62, None]
STRINGS = ["", None, " ", "a", "ab", "abc", "abcd", "é", "日本語", "🚀", "\x00", "\x7f\x80", "x" * 1000]
ROWS = 300

Place = tuple[int, str]


def rows() -> pa.Table:
    columns = {
        "n": pa.array(range(ROWS), pa.int32()),
        "i": pa.array([INTS[k % len(INTS)] for k in range(ROWS)], pa.int32()),
        "b": pa.array([BIGINTS[k % len(BIGINTS)] for k in range(ROWS)], pa.int64()),
        "s": [STRINGS[k] if k < len(STRINGS) else f"{'äs'[k % 2] * (k % 9)}{k}" for k in range(ROWS)],
    }
    small = [SMALL[k % len(SMALL)] if k < 60 else (k * 37) % 256 - 128 for k in range(ROWS)]
    columns |= {
        "bo": pa.array([None if k % 5 == 0 else k % 2 == 0 for k in range(ROWS)]),
        "ti": pa.array(small, pa.int8()),
        "si": pa.array([None if number is None else number * 256 + 5 for number in small], pa.int16()),
        "f": pa.array([FLOATS[k] if k < len(FLOATS) else k / 7 for k in range(ROWS)], pa.float32()),
        "d": pa.array([FLOATS[k] if k < len(FLOATS) else -k / 11 for k in range(ROWS)]),
        "dc": pa.array([DECIMALS[k] if k < len(DECIMALS) else f"{k / 8:.3f}" for k in range(ROWS)]).cast(
            pa.decimal128(20, 4)
        ),
        "c": [None if k % 9 == 0 else f"ä{k % 80}" for k in range(ROWS)],
        "v": [None if k % 8 == 0 else f"{k % 70} " for k in range(ROWS)],
        "da": pa.array([None if k % 7 == 0 else k * 31 - 3000 for k in range(ROWS)], pa.int32()).cast(pa.date32()),
        "ts": pa.array(
            [NANOS[k] if k < len(NANOS) else k * 123_456_789_000 * (k % 3 + 1) for k in range(ROWS)], pa.int64()
        ).cast(pa.timestamp("ns")),
        "ar": pa.array(
            [None if k % 11 == 0 else [INTS[(k + i) % len(INTS)] for i in range(k % 4)] for k in range(ROWS)],
            pa.list_(pa.int32()),
        ),
        "st": pa.array(
            [
                None if k % 10 == 0 else {"x": None if k % 6 == 0 else k, "y": None if k % 4 == 0 else [f"ä{k}", None]}
                for k in range(ROWS)
            ],
            pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]),
        ),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def tables(hive: RealHive, client: MetastoreClient, module_database: str) -> dict[str, str]:
    """For each layout our table; Hive's own is `<table>_its`."""
    found = {}
    for layout, (keys, buckets) in LAYOUTS.items():
        name = found[layout] = f"{module_database}.{layout}"
        client.create_table(
            name, columns=COLUMNS, bucket_columns=keys, num_buckets=buckets, properties=orc_properties(hive)
        )
        hi.append(client, name, rows())
        columns = ", ".join(f"{column} {type_}" for column, type_ in COLUMNS.items())
        hive.sql(
            f"create table {name}_its ({columns}) clustered by ({', '.join(keys)}) into {buckets} buckets "
            "stored as orc tblproperties ('transactional'='true')"
        )
        hive.sql(f"insert into {name}_its select * from {name}")
    return found


def places(hive: RealHive, table: str) -> dict[int, Place]:
    """The bucket property of each row, and the file in which it lies (4.0.1 adds a task's attempt to the name)."""
    found = hive.sql(f"select n, (row__id).bucketid, input__file__name from {table}")
    return {n: (bucket, Path(file).name.removesuffix("_0")) for n, bucket, file in found}


def sample(hive: RealHive, table: str, bucket: int, buckets: int, key: str) -> set[int]:
    hive.set("hive.cbo.enable", "false")  # Hive 4 samples without it only
    try:
        found = hive.sql(f"select n from {table} tablesample(bucket {bucket} out of {buckets} on {key})")
    finally:
        hive.set("hive.cbo.enable", "true")
    return {row[0] for row in found}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_row_has_the_bucket_and_the_file_that_hive_gives_it(
    hive: RealHive, client: MetastoreClient, tables: dict[str, str], layout: str
) -> None:
    name = tables[layout]
    ours = places(hive, name)
    assert sorted(ours) == list(range(ROWS))
    assert len(set(ours.values())) == LAYOUTS[layout][1]
    assert ours == places(hive, f"{name}_its")
    versions = {client.get_table(table).properties["bucketing_version"] for table in (name, f"{name}_its")}
    assert versions == {"2"}


def test_rows_that_hive_put_into_buckets_by_nested_columns_are_read(
    client: MetastoreClient, tables: dict[str, str]
) -> None:
    """Hive had them from our table, so its rows are what both hold."""
    for name in (tables["by_array"], tables["by_struct_and_array"]):
        for table in (name, f"{name}_its"):
            found = hi.read_table(client, table, columns=["n", "ar", "st"]).sort_by("n")
            assert found.to_pylist() == rows().select(["n", "ar", "st"]).to_pylist()


@pytest.mark.parametrize("layout", ["by_int", "by_bigint", "by_string"])
def test_a_sample_of_buckets_is_what_hives_own_hash_assigns(
    hive: RealHive, tables: dict[str, str], layout: str
) -> None:
    name, ([key], buckets) = tables[layout], LAYOUTS[layout]
    by_file = places(hive, name)
    for bucket in range(1, buckets + 1):
        expected = {n for n, (_, file) in by_file.items() if file == f"bucket_{bucket - 1:05}"}
        assert sample(hive, name, bucket, buckets, key) == expected
    halves = [sample(hive, name, bucket, 2 * buckets, key) for bucket in (1, 1 + buckets)]
    assert halves[0] | halves[1] == {n for n, (_, file) in by_file.items() if file == "bucket_00000"}
    assert halves == [sample(hive, f"{name}_its", bucket, 2 * buckets, key) for bucket in (1, 1 + buckets)]


def test_rows_that_join_by_the_bucket_column_lie_in_buckets_of_one_number(
    hive: RealHive, tables: dict[str, str]
) -> None:
    name = tables["by_string"]
    found = hive.sql(
        f"select (ours.row__id).bucketid - (its.row__id).bucketid, count(*) from {name} ours join {name}_its its "
        "on ours.s = its.s group by (ours.row__id).bucketid - (its.row__id).bucketid"
    )
    assert found == [[0, ROWS - 1]], "every row but the null meets itself"
