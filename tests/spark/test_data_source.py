"""`format("hive_ingest")` for batch jobs: what is written is read back, in one transaction or not at all."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.model import CompactionState
from tests.spark.warehouse import Warehouse
from tests.support.store_path import remove_tree
from tests.support.tables import folder_of
from tests.support.warehouses import warehouse_in

pytestmark = pytest.mark.one_embedded

COLUMNS = {"id": "bigint", "msg": "string"}
KEYS = {"day": "date"}


@pytest.fixture
def warehouse(metastore_uri: str, tmp_path: Path) -> Iterator[Warehouse]:
    found = Warehouse(metastore_uri, warehouse_in(tmp_path))
    yield found
    found.close()


@pytest.fixture
def days(warehouse: Warehouse) -> Path:
    """The folder of web.days, which has ten ids in each of three partitions; nothing of it was written by Spark."""
    table = warehouse.client.create_table("web.days", columns=COLUMNS, partition_keys=KEYS)
    days = [dt.date(2024, 1, 1 + id % 3) for id in range(30)]
    hi.append(
        warehouse.client, "web.days", pa.table({"id": range(30), "msg": [f"m{i}" for i in range(30)], "day": days})
    )
    return folder_of(table)


def numbers(spark: SparkSession, count: int, start: int = 0) -> DataFrame:
    return spark.range(start, start + count, 1, 3).selectExpr(
        "id", "concat('m', id) as msg", "date_add(date'2024-01-01', cast(id % 3 as int)) as day"
    )


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.collect())


#: Hive type, a Spark expression of it, and the value that is in the table.
VALUES: dict[str, tuple[str, Any]] = {
    "boolean": ("true", True),
    "tinyint": ("-128y", -128),
    "smallint": ("32767s", 32767),
    "int": ("-2147483648", -(2**31)),
    "bigint": ("9223372036854775807L", 2**63 - 1),
    "float": ("float(0.5)", 0.5),
    "double": ("0.1d", 0.1),
    "decimal(38,18)": ("12345678901234567890.123456789012345678bd", Decimal("12345678901234567890.123456789012345678")),
    "string": ("'äöü😀'", "äöü😀"),
    "varchar(5)": ("'ab   '", "ab   "),
    "char(5)": ("'ab'", "ab   "),
    "binary": ("X'00FF'", b"\x00\xff"),
    "date": ("date'0001-01-01'", dt.date(1, 1, 1)),
    "timestamp": ("timestamp_ntz'2024-03-10 02:30:00.123456'", dt.datetime(2024, 3, 10, 2, 30, 0, 123456)),
    "array<timestamp>": ("array(timestamp'2024-07-01 12:00:00Z', null)", [dt.datetime(2024, 7, 1, 8), None]),
    "map<string,bigint>": ("map('a', 1L, 'b', null)", {"a": 1, "b": None}),
    "struct<a:int,b:array<string>>": ("named_struct('a', 1, 'b', array('x', null))", (1, ["x", None])),
}


def test_every_type_is_read_back_as_it_was_written(
    warehouse: Warehouse, spark_in: Callable[[str], SparkSession]
) -> None:
    """Instants become what clocks in the session's time zone show, here that of New York."""
    spark = spark_in("America/New_York")
    columns = {f"c{i}": type_ for i, type_ in enumerate(VALUES)} | {"at": "timestamp"}
    warehouse.client.create_table("web.types", columns=columns)
    expressions = [*(expression for expression, _ in VALUES.values()), "timestamp'2024-01-01 04:59:59.5Z'"]
    full = spark.sql(f"select {', '.join(f'{e} as {name}' for name, e in zip(columns, expressions, strict=True))}")
    empty = full.selectExpr(*(f"if(rand() < 2, null, {name}) as {name}" for name in columns))

    warehouse.write(full.union(empty), "web.types")

    expected = [*(value for _, value in VALUES.values()), dt.datetime(2023, 12, 31, 23, 59, 59, 500_000)]
    rows = sorted(warehouse.read(spark, "web.types").collect(), key=lambda row: row.at is None)
    assert [tuple(row) for row in rows] == [tuple(expected), (None,) * len(columns)]


def test_rows_go_to_their_partitions_and_buckets(warehouse: Warehouse, spark: SparkSession) -> None:
    warehouse.client.create_table(
        "web.both", columns=COLUMNS, partition_keys=KEYS, bucket_columns=["id"], num_buckets=4
    )
    written = numbers(spark, 60)
    warehouse.write(written.select("DAY", "msg", "ID"), "web.both")

    read = warehouse.read(spark, "web.both", row_ids=True)
    assert sorted(map(tuple, read.drop("row__id").collect())) == sorted(map(tuple, written.collect()))
    assert warehouse.client.list_partition_names("web.both") == ["day=2024-01-01", "day=2024-01-02", "day=2024-01-03"]
    assert read.selectExpr("row__id.bucketid").distinct().count() == 4
    assert read.selectExpr("day", "row__id").distinct().count() == 60
    assert read.selectExpr("row__id.writeid").distinct().collect() == [(1,)]
    assert warehouse.leftovers("web.both") == []


def test_overwrite_is_hives_insert_overwrite(warehouse: Warehouse, spark: SparkSession, days: Path) -> None:
    """Replaces the partitions of the new rows, or a table without partitions."""
    warehouse.client.create_table("web.plain", columns=COLUMNS)
    hi.append(warehouse.client, "web.plain", pa.table({"id": [1], "msg": ["old"]}))
    new = numbers(spark, 3, start=100).where("day < '2024-01-03'")

    warehouse.write(new, "web.days", mode="overwrite")
    warehouse.write(new.drop("day"), "web.plain", mode="overwrite")

    assert warehouse.ids("web.days") == [*(id for id in range(30) if id % 3 == 2), 100, 102]
    assert warehouse.ids("web.plain") == [100, 102]


FAILURES = {
    "in Spark": ("if(id = 17, raise_error('broken'), concat('m', id))", "broken"),
    "in the writer": ("if(id = 17, 'far too long', 'm')", "column 'msg': a text that is too long"),
}


@pytest.mark.not_on("s3", because="a task that is under way may still upload its file, which is removed by its age")
@pytest.mark.parametrize("cause", FAILURES)
def test_a_job_with_a_task_that_fails_leaves_nothing(warehouse: Warehouse, spark: SparkSession, cause: str) -> None:
    expression, message = FAILURES[cause]
    warehouse.client.create_table("web.short", columns={"id": "bigint", "msg": "varchar(5)"})
    rows = spark.range(0, 30, 1, 3).selectExpr("id", f"cast({expression} as string) as msg")
    with pytest.raises(PySparkException, match=message):
        warehouse.write(rows, "web.short")
    assert warehouse.rows("web.short") == []
    assert warehouse.leftovers("web.short") == []


def test_a_commit_that_fails_leaves_nothing(warehouse: Warehouse, spark: SparkSession, days: Path) -> None:
    with StreamingConnection.connect(
        warehouse.client, database="web", table="days", record_writer=hi.ArrowWriter(), overwrite=True
    ) as other:
        other.begin_transaction()
        with pytest.raises(PySparkException, match="LockTimeout"):
            warehouse.write(numbers(spark, 3, start=30), "web.days", lock_wait_seconds=0.3)
    assert warehouse.ids("web.days") == [*range(30)]
    assert warehouse.leftovers("web.days") == []


# -- reading ---------------------------------------------------------------------------------------


def test_only_the_columns_and_rows_that_are_asked_for_are_read(
    warehouse: Warehouse, spark: SparkSession, days: Path
) -> None:
    remove_tree(days / "day=2024-01-03")
    read = warehouse.read(spark, "web.days", schema="DAY date, id bigint", where="day <= '2024-01-02' and id < 10")
    assert read.columns == ["DAY", "id"]
    expected = [(dt.date(2024, 1, 1 + id % 3), id) for id in range(10) if id % 3 < 2]
    assert sorted(map(tuple, read.collect())) == sorted(expected)


def test_a_data_frame_is_one_snapshot(warehouse: Warehouse, spark: SparkSession, days: Path) -> None:
    before = warehouse.read(spark, "web.days", split_bytes=1)
    assert before.rdd.getNumPartitions() == 3
    hi.append(warehouse.client, "web.days", pa.table({"id": [30], "msg": ["new"], "day": [dt.date(2024, 1, 1)]}))
    assert ids(before) == [*range(30)]
    assert ids(warehouse.read(spark, "web.days")) == [*range(31)]


def test_filters_of_the_query_are_pushed_when_asked_for(warehouse: Warehouse, spark: SparkSession, days: Path) -> None:
    remove_tree(days / "day=2024-01-03")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    read = warehouse.read(spark, "web.days", push_filters=True)
    assert ids(read.where("day < '2024-01-03' and id % 2 = 0")) == [id for id in range(0, 30, 2) if id % 3 < 2]


def test_filters_are_not_pushed_unless_asked_for(warehouse: Warehouse, spark: SparkSession, days: Path) -> None:
    """Before SPARK-58551 Spark uses the filters of one query for others of the same DataFrame, without a word."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    read = warehouse.read(spark, "web.days")
    assert ids(read.where("id = 1").union(read.where("id = 2"))) == [1, 2]


# -- errors ------------------------------------------------------------------------------------------

#: Of what Spark shows of an error: its own first line, two of a traceback, the message, and an SQL state.
MOST_LINES = 7


def test_an_error_is_a_message_and_not_the_traceback_of_a_worker(spark: SparkSession, warehouse: Warehouse) -> None:
    """Bad options and bad values came below 20 lines of a Python worker's frames."""
    warehouse.client.create_table("web.short", columns={"id": "bigint", "msg": "varchar(3)"})
    good, bad = (spark.range(5).selectExpr("id", f"'{text}' msg") for text in ("abc", "abcdef"))
    for message, fails in {
        "no option 'nonsense' for writing": lambda: warehouse.write(good, "web.short", nonsense=1),
        "no option 'nonsense' for reading": lambda: warehouse.read(spark, "web.short", nonsense=1),
        "column 'msg': a text that is too long": lambda: warehouse.write(bad, "web.short"),
        "there is no database 'nowhere'": lambda: warehouse.write(good, "nowhere.short"),
        "there is no table web.nowhere": lambda: warehouse.read(spark, "web.nowhere"),
    }.items():
        with pytest.raises(PySparkException, match=message) as caught:
            fails()
        shown = str(caught.value).partition("JVM stacktrace")[0].strip().splitlines()
        assert len(shown) <= MOST_LINES, "\n".join(shown)


@pytest.mark.parametrize("mode", ["request", "inline"])
def test_jobs_request_or_make_compactions_before_they_end(warehouse: Warehouse, spark: SparkSession, mode: str) -> None:
    table = warehouse.client.create_table("web.t", columns={"id": "bigint"})
    for start in range(0, 60, 10):
        warehouse.write(spark.range(start, start + 10, 1, 1), "web.t", maintenance=mode)
    states = [info.state for info in warehouse.client.show_compactions(table.name)]
    assert states == [CompactionState.INITIATED if mode == "request" else CompactionState.SUCCEEDED]
    assert warehouse.ids("web.t") == list(range(60))
    assert len(list(folder_of(table).glob("delta_*"))) == (6 if mode == "request" else 0)
    assert warehouse.leftovers("web.t") == []
