"""What the data source checks and plans before Spark runs a task, and what tasks read: all of it without a JVM."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from pyspark.sql import types as T

import hive_ingest as hi
from hive_ingest.errors import (
    ConfigurationError,
    InvalidTable,
    StreamingConnectionError,
    StreamingIOFailure,
    UnsupportedFeature,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnState
from hive_ingest.streaming.spark.data_source import HiveDataSource
from hive_ingest.streaming.spark.types import spark_type
from hive_ingest.transactions.staging import STAGING_FOLDER
from tests.support.metastores import connect_in
from tests.support.tables import folder_of

Source = Callable[..., HiveDataSource]


def struct(nullable: bool = True, **columns: str) -> T.StructType:
    """Columns by name, in the Spark types of the Hive types given."""
    return T.StructType([T.StructField(name, spark_type(type_), nullable) for name, type_ in columns.items()])


FIT = struct(id="bigint", msg="string", DAY="date")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path) as client:
        client.create_database("web")
        yield client


@pytest.fixture
def days(client: MetastoreClient) -> Path:
    """The folder of web.days, with ten ids in each of three partitions."""
    table = client.create_table("web.days", columns={"id": "bigint", "msg": "string"}, partition_keys={"day": "date"})
    days = [dt.date(2024, 1, 1 + id % 3) for id in range(30)]
    hi.append(client, "web.days", pa.table({"id": range(30), "msg": [f"m{id}" for id in range(30)], "day": days}))
    return folder_of(table)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    def make(table: str = "web.days", **more: object) -> HiveDataSource:
        place = {"metastore": f"sqlite:///{tmp_path}/metastore.db", "warehouse": f"{tmp_path}/warehouse"}
        place["checkpointLocation"] = str(tmp_path / "checkpoint")
        given = {**place, "table": table, **{name: str(value) for name, value in more.items()}}
        return HiveDataSource(spark.CaseInsensitiveDict(given))

    return make


def rows(source: HiveDataSource, schema: T.StructType | None = None, filters: Any = ()) -> list[dict[str, Any]]:
    """Follows Spark: the reader is pickled before its partitions are known."""
    reader = source.reader(schema or source.schema())
    if filters:
        assert list(reader.pushFilters(list(filters))) == []
    in_task = pickle.loads(pickle.dumps(reader))
    found: list[dict[str, Any]] = []
    for partition in [pickle.loads(pickle.dumps(partition)) for partition in reader.partitions()]:
        for batch in in_task.read(partition):
            found += batch.to_pylist()
    return found


def ids(*arguments: Any, **more: Any) -> list[int]:
    return sorted(row["id"] for row in rows(*arguments, **more))


# -- writing ---------------------------------------------------------------------------------------


def writers(source: HiveDataSource, schema: T.StructType) -> Iterator[Callable[[], object]]:
    yield lambda: source.writer(schema, False)
    yield lambda: source.streamWriter(schema, False)


def test_columns_that_do_not_fit_are_all_named(source: Source, days: Path) -> None:
    misfit = struct(id="string", message="string", day="date")
    for write in writers(source(), misfit):
        with pytest.raises(StreamingConnectionError) as failure:
            write()
        for problem in ("'id' is string", "'msg' (string) is missing", "'message' is not in the table"):
            assert problem in str(failure.value)
    assert list((days / STAGING_FOLDER).iterdir()) == []


def test_instants_as_keys_of_a_map_are_refused(source: Source, client: MetastoreClient) -> None:
    """Two of them may be one wall clock."""
    client.create_table("web.maps", columns={"m": "struct<a:array<map<timestamp,int>>>"})

    def schema(key: T.DataType) -> T.StructType:
        of_a = T.StructType([T.StructField("a", T.ArrayType(T.MapType(key, T.IntegerType())))])
        return T.StructType([T.StructField("m", of_a)])

    for write in writers(source("web.maps"), schema(T.TimestampType())):
        with pytest.raises(UnsupportedFeature, match=r"column 'm\.a' has instants as keys of a map"):
            write()
    for write in writers(source("web.maps"), schema(T.TimestampNTZType())):
        write()


def test_an_unwritable_target_is_refused_before_the_first_row(source: Source, client: MetastoreClient) -> None:
    client.create_table("web.plain", columns={"id": "bigint"}, properties={"transactional": "false"})
    for write in writers(source("web.nowhere"), FIT):
        with pytest.raises(InvalidTable, match=r"there is no table web\.nowhere"):
            write()
    for write in writers(source("web.plain"), FIT):
        with pytest.raises(InvalidTable, match="not transactional"):
            write()
    for write in writers(source(colour="red"), FIT):
        with pytest.raises(ConfigurationError, match="no option 'colour'"):
            write()


def test_a_stream_refuses_unsupported_options(source: Source, days: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="output mode 'complete'"):
        source().streamWriter(FIT, True)
    with pytest.raises(ConfigurationError, match="'Not A Name' is not a valid sink name"):
        source(sink="Not A Name").streamWriter(FIT, False)
    writer = source().streamWriter(FIT, False)
    with pytest.raises(ConfigurationError, match="this task has no query id"):
        writer.write(iter([]))


# -- reading ---------------------------------------------------------------------------------------


def test_the_schema_is_that_of_the_table_keys_last(source: Source, days: Path) -> None:
    assert source().schema().simpleString() == "struct<id:bigint,msg:string,day:date>"
    with_row_ids = source(row_ids=True).schema()
    assert with_row_ids.names == ["id", "msg", "day", "row__id"]
    assert with_row_ids["row__id"].dataType.simpleString() == "struct<writeid:bigint,bucketid:int,rowid:bigint>"


def test_rows_are_read_by_tasks_without_a_metastore(source: Source, client: MetastoreClient, days: Path) -> None:
    assert rows(source(row_ids=True)) == hi.read_table(client, "web.days", row_ids=True).to_pylist()


def test_only_the_columns_of_the_schema_are_read(source: Source, days: Path) -> None:
    found = rows(source(), struct(DAY="date", id="bigint"))
    assert found[0] == {"DAY": dt.date(2024, 1, 1), "id": 0}
    assert len(found) == 30


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (struct(id="int"), "'id' is read as bigint, not int"),
        (struct(nowhere="int"), "'nowhere' is not a column: choose from id, msg, day, row__id"),
        (struct(nullable=False, msg="string"), "'msg' may be null in Hive"),
        (struct(id="bigint", ID="bigint"), "'id' is there twice"),
        (T.StructType(), "it has no column"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(source: Source, days: Path, schema: T.StructType, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        source().reader(schema)


def test_where_leaves_out_rows_and_does_not_open_other_partitions(source: Source, days: Path) -> None:
    shutil.rmtree(days / "day=2024-01-03")
    found = source(where="day <= '2024-01-02' and id < 10")
    assert ids(found) == [id for id in range(10) if id % 3 < 2]
    assert rows(found, struct(msg="string"))[0] == {"msg": "m0"}
    with pytest.raises(ConfigurationError, match=r"there is no column 'nowhere' \(the columns are id, "):
        rows(source(where="nowhere = 3"))


def test_pushed_filters_keep_the_same_rows(source: Source, days: Path) -> None:
    shutil.rmtree(days / "day=2024-01-03")
    filters = [spark.LessThan(("DAY",), dt.date(2024, 1, 3)), spark.In(("id",), (3, 4, 5, 100))]
    assert ids(source(push_filters=True), filters=filters) == [3, 4]
    assert ids(source(push_filters=True, where="id > 3"), filters=filters) == [4]


def test_only_exact_filters_are_pushed_down(source: Source, client: MetastoreClient) -> None:
    client.create_table("web.ratios", columns={"id": "int", "ratio": "double"})
    reader = source("web.ratios", push_filters=True).reader(struct(id="int"))
    exact, inexact = spark.EqualTo(("id",), 1), spark.EqualTo(("ratio",), 1.0)
    assert list(reader.pushFilters([exact, inexact])) == [inexact]


def test_filters_are_not_pushed_unless_asked_for(source: Source, days: Path) -> None:
    """A reader that takes filters fails in sessions that push none."""
    unasked, asked = (source(push_filters=push).reader(FIT) for push in (False, True))
    assert type(unasked).pushFilters is spark.DataSourceReader.pushFilters
    assert type(asked).pushFilters is not spark.DataSourceReader.pushFilters


@pytest.mark.parametrize(("split_bytes", "tasks"), [(1 << 30, 1), (1, 3)])
def test_small_files_share_a_task_and_large_ones_do_not(
    source: Source, days: Path, split_bytes: int, tasks: int
) -> None:
    found = source(split_bytes=split_bytes)
    assert len(found.reader(found.schema()).partitions()) == tasks
    assert ids(found) == [*range(30)]


def test_a_table_without_files_is_read(source: Source, client: MetastoreClient) -> None:
    client.create_table("web.empty", columns={"id": "bigint"})
    found = source("web.empty")
    reader = found.reader(found.schema())
    assert reader.partitions() == []
    assert list(reader.read(spark.InputPartition(None))) == []  # what Spark makes of no partitions


def test_a_file_that_was_cleaned_away_is_an_error_that_says_so(source: Source, days: Path) -> None:
    found = source()
    reader = found.reader(found.schema())
    (partition,) = reader.partitions()
    shutil.rmtree(days / "day=2024-01-03")
    with pytest.raises(StreamingIOFailure, match=r"was in the snapshot of web\.days .* compacted and cleaned"):
        list(reader.read(partition))


def test_timestamps_are_cut_to_sparks_microseconds(source: Source, client: MetastoreClient) -> None:
    client.create_table("web.times", columns={"id": "int", "at": "array<timestamp>"})
    nanos = pa.array([[1_700_000_000_000_000_999]], pa.list_(pa.timestamp("ns")))
    hi.append(client, "web.times", pa.table({"id": pa.array([1], pa.int32()), "at": nanos}))
    (row,) = rows(source("web.times"))
    assert row["at"] == [dt.datetime(2023, 11, 14, 22, 13, 20)]


def test_large_stripes_go_to_spark_in_small_batches(source: Source, client: MetastoreClient) -> None:
    client.create_table("web.many", columns={"id": "bigint"})
    hi.append(client, "web.many", pa.table({"id": range(70_000)}))
    found = source("web.many")
    reader = found.reader(found.schema())
    sizes = [
        cast(pa.RecordBatch, batch).num_rows for partition in reader.partitions() for batch in reader.read(partition)
    ]
    assert (max(sizes), sum(sizes)) == (65_536, 70_000)


def test_planning_leaves_no_transaction_open(source: Source, client: MetastoreClient, days: Path) -> None:
    source().reader(FIT).partitions()
    assert [txn for txn in client.get_open_txns_info().transactions if txn.state is TxnState.OPEN] == []
