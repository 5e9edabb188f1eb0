"""Batch jobs: a DataFrame is appended or overwrites, in one transaction or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import hive_ingest as hi
from hive_ingest.compaction import MaintenanceMode
from hive_ingest.connection import CommitInfo
from hive_ingest.errors import ConfigurationError, StreamingConnectionError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionState, TxnState
from hive_ingest.streaming.spark import write_dataframe
from tests.spark.numbers import FAILED_IN_JAVA, LAYOUTS, Tables, assert_once, numbered
from tests.support.metastores import connect_in
from tests.support.warehouses import warehouse_in

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def client(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def tables(client: MetastoreClient) -> Tables:
    return Tables(client)


def shaped(rows: DataFrame, layout: str) -> DataFrame:
    return rows if layout in ("parts", "both") else rows.drop("part")


def folders(tables: Tables, table: str) -> set[str]:
    """Names of the folders that hold files, without partitions."""
    return {file.split("/")[-2] for file in tables.files(table)}


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_append_adds_to_what_is_there(
    spark: SparkSession, client: MetastoreClient, tables: Tables, layout: str
) -> None:
    table = tables.create("t", layout)
    infos = [
        write_dataframe(shaped(numbered(spark, start, start + 30), layout), table, metastore=client)
        for start in (0, 30)
    ]
    assert [info.rows for info in infos] == [30, 30]
    assert_once(tables.ids(table), list(range(60)))
    assert tables.hidden(table) == []


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_overwrite_makes_a_new_base_of_the_table_or_of_each_partition_written(
    spark: SparkSession, client: MetastoreClient, tables: Tables, layout: str
) -> None:
    table = tables.create("t", layout)
    write_dataframe(shaped(numbered(spark, 0, 30), layout), table, metastore=client)
    new = numbered(spark, 0, 30, 4).where("id % 3 < 2").withColumn("id", F.col("id") + 90)  # p0 and p1 again

    info = write_dataframe(shaped(new, layout), table, "overwrite", metastore=client)

    assert info.rows == 20
    kept = [number for number in range(30) if number % 3 == 2] if layout in ("parts", "both") else []
    found = hi.read_table(client, table)["id"].to_pylist()
    assert_once(found, kept + [number + 90 for number in range(30) if number % 3 < 2])
    assert f"base_{info.write_id:07}" in folders(tables, table)


def test_an_overwrite_without_rows_empties_the_table_or_the_one_static_partition(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    plain, parts = tables.create("plain", "plain"), tables.create("parts", "parts")
    rows = numbered(spark, 0, 30)
    nothing = rows.where("id < 0")
    write_dataframe(rows.drop("part"), plain, metastore=client)
    write_dataframe(rows, parts, metastore=client)

    write_dataframe(nothing.drop("part"), plain, "overwrite", metastore=client)
    write_dataframe(nothing.drop("part"), parts, "overwrite", metastore=client, static_partition_values=["p1"])

    assert tables.ids(plain) == []
    assert tables.ids(parts) == [number for number in range(30) if number % 3 != 1]


def test_an_overwrite_of_a_bucketed_table_is_one_file_a_bucket_however_many_tasks_there_are(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "buckets")
    write_dataframe(numbered(spark, 0, 300, 8).drop("part"), table, "overwrite", metastore=client)
    assert tables.files(table) == [f"base_0000001/bucket_{number:05}" for number in range(3)]
    assert_once(tables.ids(table), list(range(300)))
    with pytest.raises(ConfigurationError, match="leave out cluster"):
        write_dataframe(numbered(spark, 0, 9).drop("part"), table, "overwrite", metastore=client, cluster=False)
    assert_once(tables.ids(table), list(range(300)))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("layout", ["plain", "both"])
def test_a_job_that_fails_leaves_nothing_and_what_was_there_stays(
    spark: SparkSession, client: MetastoreClient, tables: Tables, layout: str, mode: Any
) -> None:
    table = tables.create("t", layout)
    write_dataframe(shaped(numbered(spark, 0, 30), layout), table, metastore=client)
    before = tables.files(table)
    bad = numbered(spark, 30, 60, 4).withColumn("text", F.expr("if(id = 59, raise_error('on purpose'), text)"))
    with pytest.raises(FAILED_IN_JAVA, match="on purpose"):
        write_dataframe(shaped(bad, layout), table, mode, metastore=client)
    assert_once(tables.ids(table), list(range(30)))
    assert tables.files(table) == before
    assert open_txns(client) == []
    assert client.show_locks(table) == []


def open_txns(client: MetastoreClient) -> list[str]:
    return [txn.agent_info for txn in client.get_open_txns_info().transactions if txn.state is TxnState.OPEN]


def test_the_metastore_may_be_a_uri(spark: SparkSession, metastore_uri: str, tables: Tables, tmp_path: Path) -> None:
    table = tables.create("t")
    info = write_dataframe(numbered(spark, 0, 30), table, metastore=metastore_uri, warehouse=warehouse_in(tmp_path))
    assert isinstance(info, CommitInfo)
    assert_once(tables.ids(table), list(range(30)))


def test_invalid_arguments_are_refused_before_a_transaction_is_open(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    with pytest.raises(StreamingConnectionError, match="part"):
        write_dataframe(numbered(spark, 0, 30).drop("part"), table, metastore=client)
    with pytest.raises(ConfigurationError, match="mode='replace'"):
        write_dataframe(numbered(spark, 0, 30), table, "replace", metastore=client)  # type: ignore[arg-type]
    assert client.get_open_txns_info().high_water_mark == 0


@pytest.mark.parametrize("mode", ["request", "inline"])
def test_jobs_request_or_make_compactions_before_they_end(
    spark: SparkSession, client: MetastoreClient, tables: Tables, mode: MaintenanceMode
) -> None:
    table = tables.create("t", "plain")
    policy = hi.CompactionPolicy(max_deltas=2)
    for start in range(0, 40, 10):
        rows = shaped(numbered(spark, start, start + 10, tasks=1), "plain")
        write_dataframe(rows, table, metastore=client, maintenance=mode, compaction_policy=policy)
    states = {info.state for info in client.show_compactions(table)}
    assert_once(tables.ids(table), list(range(40)))
    if mode == "request":
        assert states == {CompactionState.INITIATED}
        assert len(tables.files(table)) == 4
    else:
        assert states == {CompactionState.SUCCEEDED}
        assert len(tables.files(table)) == 2, "the base of the third job, and the delta of the fourth"
    assert tables.hidden(table) == []


def test_a_job_adds_the_columns_that_the_table_lacks_with_merge_schema(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "parts")
    wider = numbered(spark, 0, 10).withColumn("tags", F.array(F.lit("a")))
    with pytest.raises(StreamingConnectionError, match="'tags' is not in the table"):
        write_dataframe(wider, table, metastore=client)
    write_dataframe(wider, table, metastore=client, merge_schema=True)
    assert client.get_table(table).columns[-1].type == "array<string>"
    assert hi.read_table(client, table)["tags"].to_pylist() == [["a"]] * 10
