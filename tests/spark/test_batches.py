"""What a micro-batch may hold: nothing, partitions of every kind, a table that changes, and what is refused."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import hive_ingest as hi
from hive_ingest.errors import PartitionCreationFailed, StreamingConnectionError, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metrics import Metrics
from hive_ingest.model import TxnState, columns_of
from hive_ingest.streaming.spark import BatchStats, HiveSink
from hive_ingest.streaming.spark.maintained import stop_maintenance
from tests.spark.numbers import FAILED_IN_JAVA, Tables, assert_once, numbered
from tests.spark.planned import checkpoint_of
from tests.spark.streams import Streams, streams_in
from tests.support.metastores import connect_in

pytestmark = pytest.mark.one_embedded

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def client(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def tables(client: MetastoreClient) -> Tables:
    return Tables(client)


@pytest.fixture
def streams(metastore_uri: str, tmp_path: Path) -> Iterator[Streams]:
    with streams_in(tmp_path / "streams", metastore_uri) as streams:
        yield streams


def sink_into(client: MetastoreClient, table: str, **options: Any) -> HiveSink:
    return HiveSink(metastore=client, table=table, checkpoint=checkpoint_of(), **options)


def write(client: MetastoreClient, table: str, df: DataFrame, batch_id: int = 0, **options: Any) -> BatchStats:
    sink = sink_into(client, table, **options)
    sink(df, batch_id)
    assert sink.last_batch is not None
    return sink.last_batch


def open_txns(client: MetastoreClient) -> list[str]:
    return [txn.agent_info for txn in client.get_open_txns_info().transactions if txn.state is TxnState.OPEN]


# -- nothing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["plain", "parts", "buckets", "both"])
def test_an_empty_batch_commits_its_progress_and_no_file(
    spark: SparkSession, client: MetastoreClient, tables: Tables, layout: str
) -> None:
    table = tables.create("t", layout)
    columns = ["id", "text", "part"] if layout in ("parts", "both") else ["id", "text"]
    without_rows = numbered(spark, 0, 10).where("id < 0").select(*columns)
    without_tasks = spark.createDataFrame(spark.sparkContext.emptyRDD(), without_rows.schema)
    assert without_tasks.rdd.getNumPartitions() == 0

    stats = [write(client, table, df, batch_id) for batch_id, df in enumerate((without_rows, without_tasks))]
    again = write(client, table, without_rows, 1)

    assert [batch.rows for batch in stats] == [0, 0]
    assert again.is_skipped
    assert tables.files(table) == []


# -- partitions --------------------------------------------------------------------------------------


def test_null_empty_and_hives_name_are_one_partition_whichever_task_writes_them(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    rows = spark.range(0, 40, 1, 4).selectExpr(
        "id", "'x' text", f"element_at(array(null, '', '{NULL}', 'p'), cast(id div 10 as int) + 1) part"
    )
    stats = write(client, table, rows, cluster=False)
    assert stats.tasks == 4
    assert stats.commit is not None
    assert sorted(stats.commit.partitions) == [f"part={NULL}", "part=p"]
    found = hi.read_table(client, table)
    assert_once(found["id"].to_pylist(), list(range(40)))
    assert {row["id"] // 10 for row in found.to_pylist() if row["part"] is None} == {0, 1, 2}


def test_fifty_partitions_are_created_and_none_is_lost(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    rows = spark.range(0, 500, 1, 4).selectExpr("id", "concat('row ', id) text", "concat('p', id % 50) part")
    stats = write(client, table, rows)
    assert stats.commit is not None
    assert len(stats.commit.partitions_created) == 50
    assert_once(hi.read_table(client, table)["id"].to_pylist(), list(range(500)))
    assert len(tables.files(table)) == 50


def test_more_partitions_than_are_allowed_are_refused_by_all_tasks_together(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "'x' text", "concat('p', id) part")
    with pytest.raises(PartitionCreationFailed, match="max_partitions_per_transaction=15"):
        write(client, table, rows, cluster=False, settings={"max_partitions_per_transaction": 15})
    assert hi.read_table(client, table).num_rows == 0


def test_static_partition_values_apply_to_all_rows(spark: SparkSession, client: MetastoreClient) -> None:
    client.create_database("web")
    keys = {"day": "date", "part": "string"}
    client.create_table("web.t", columns={"id": "bigint", "text": "string"}, partition_keys=keys)
    write(client, "web.t", numbered(spark, 0, 30), static_partition_values=["2026-11-22"])
    write(client, "web.t", numbered(spark, 30, 60).drop("part"), 1, static_partition_values=["2026-11-23", "p9"])
    assert sorted(client.list_partition_names("web.t")) == [
        "day=2026-11-22/part=p0",
        "day=2026-11-22/part=p1",
        "day=2026-11-22/part=p2",
        "day=2026-11-23/part=p9",
    ]
    assert_once(hi.read_table(client, "web.t")["id"].to_pylist(), list(range(60)))


# -- columns -----------------------------------------------------------------------------------------


def test_a_column_added_between_batches_is_filled_with_null_or_refused(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    lenient, strict = sink_into(client, table, missing_columns="null"), sink_into(client, table)
    lenient(numbered(spark, 0, 10), 0)
    add_column(client, table, "extra", "int")

    with pytest.raises(StreamingConnectionError, match="extra"):
        strict(numbered(spark, 10, 20), 1)
    lenient(numbered(spark, 10, 20), 1)
    strict(numbered(spark, 20, 30).withColumn("extra", F.lit(7)), 2)

    found = {row["id"]: row["extra"] for row in hi.read_table(client, table).to_pylist()}
    assert found == {number: 7 if number >= 20 else None for number in range(30)}


def test_new_columns_are_added_before_the_first_row_of_a_batch(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    sink = sink_into(client, table, merge_schema=True, missing_columns="null")
    wider = numbered(spark, 10, 20).withColumn("Extra", F.col("id").cast("int"))
    sink(numbered(spark, 0, 10), 0)
    sink.check(wider)
    assert "extra" not in {column.name for column in client.get_table(table).columns}

    sink(wider, 1)
    sink(wider, 1)  # repeated by Spark
    sink(numbered(spark, 20, 30), 2)

    found = {row["id"]: row["extra"] for row in hi.read_table(client, table).to_pylist()}
    assert found == {number: number if 10 <= number < 20 else None for number in range(30)}


def test_columns_that_no_table_can_have_are_not_added(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    sink = sink_into(client, table, merge_schema=True)
    with pytest.raises(UnsupportedFeature, match="'extra'"):
        sink(numbered(spark, 0, 10).withColumn("extra", F.lit(None)), 0)
    assert tables.ids(table) == []
    assert "extra" not in {column.name for column in client.get_table(table).columns}


def add_column(client: MetastoreClient, table: str, name: str, type_: str) -> None:

    old = client.get_table(table)
    client.alter_table(table, dataclasses.replace(old, columns=(*old.columns, *columns_of({name: type_}))))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "text"], "'part' .* is missing"),
        (["id", "text", "part", "1 more"], "'more' is not in the table"),
        (["'x' id", "text", "part"], "'id' is string"),
        (["id", "interval '1' day text", "part"], "'text': .* no Hive type"),
    ],
    ids=["missing", "extra", "retyped", "not in Hive"],
)
def test_rows_that_do_not_fit_are_refused_before_the_query_starts(
    spark: SparkSession, streams: Streams, columns: list[str], message: str
) -> None:
    stream = streams.add("t")
    streams.input.add_batches(1)
    sink = HiveSink(metastore=streams.client, table=stream.table)
    rows = streams.input.read_stream(spark).selectExpr(*columns)
    for refused in (lambda: sink.check(rows), lambda: sink.start(rows, checkpoint=streams.checkpoint(stream))):
        with pytest.raises(StreamingConnectionError, match=message):
            refused()
    assert spark.streams.active == []
    assert not Path(streams.checkpoint(stream)).exists()
    assert open_txns(streams.client) == []


def test_a_bad_value_fails_its_batch_with_the_column_named(spark: SparkSession, streams: Streams) -> None:
    streams.client.create_table("web.short", columns={"id": "bigint", "text": "varchar(6)"})
    rows = streams.input.read_stream(spark, "id, text")
    streams.input.add_batches(1)  # numbers up to 39: "row 10" has six letters
    sink = HiveSink(metastore=streams.client, table="web.short")
    checkpoint = str(streams.folder / "checkpoint")
    sink.start(rows, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()
    for _ in range(2):
        streams.input.add_batches(1)  # up to 119: "row 100" has seven
    query = sink.start(rows, checkpoint=checkpoint, trigger={"availableNow": True})
    with pytest.raises(StreamingQueryException, match="column 'text': a text that is too long"):
        query.awaitTermination()
    found = sorted(hi.read_table(streams.client, "web.short")["id"].to_pylist())
    assert found == list(range(80)), "the good batches are there, and nothing of the bad one"
    assert streams.tables.hidden("web.short") == []


# -- tasks that fail for good ------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["parts", "both"])
def test_a_job_that_fails_leaves_nothing_and_the_next_attempt_writes_every_row(
    spark: SparkSession, client: MetastoreClient, tables: Tables, layout: str
) -> None:
    table = tables.create("t", layout)
    bad = numbered(spark, 0, 40, 4).withColumn("text", F.expr("if(id = 35, raise_error('on purpose'), text)"))
    with pytest.raises(FAILED_IN_JAVA, match="on purpose"):
        write(client, table, bad)
    assert tables.ids(table) == []
    assert tables.files(table) == []
    assert open_txns(client) == []

    write(client, table, numbered(spark, 0, 40, 4))

    assert_once(tables.ids(table), list(range(40)))
    assert tables.hidden(table) == []


def slowly(resume_file: Path) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """Fails in the task of row 0 at once; the others finish once `resume_file` exists."""

    def run(batches: Any) -> Iterator[pa.RecordBatch]:

        for batch in batches:
            if 0 in batch.column(0).to_pylist():
                raise ValueError("on purpose")
            while not resume_file.exists():
                time.sleep(0.02)
            yield batch

    return run


def test_files_of_a_task_that_outlives_its_failed_job_are_removed_by_the_next_batch(
    spark: SparkSession, client: MetastoreClient, tables: Tables, tmp_path: Path
) -> None:
    table = tables.create("t", "plain")
    df = numbered(spark, 0, 20).select("id", "text")
    bad = df.mapInArrow(slowly(tmp_path / "go-on"), df.schema)
    with pytest.raises(PySparkException, match="on purpose"):
        write(client, table, bad)
    (tmp_path / "go-on").touch()
    write(client, table, df)
    assert_once(tables.ids(table), list(range(20)))
    write(client, table, df, 1)
    assert tables.hidden(table) == []


# -- compaction --------------------------------------------------------------------------------------


def test_the_driver_compacts_the_table_and_the_progress_of_its_sink(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "plain")
    policy = hi.CompactionPolicy(max_deltas=2)
    try:
        for batch in range(4):
            rows = numbered(spark, 10 * batch, 10 * batch + 10).drop("part").coalesce(1)
            write(client, table, rows, batch, maintenance="inline", compaction_policy=policy)
    finally:
        stop_maintenance()
    assert_once(hi.read_table(client, table)["id"].to_pylist(), list(range(40)))
    folders = {file.partition("/")[0] for file in tables.files(table)}
    assert len(folders) < 4, "one for each batch"
    assert {info.table.table for info in client.show_compactions()} == {"t", "t__progress"}


# -- metrics -----------------------------------------------------------------------------------------


def test_the_metrics_of_the_driver_count_what_its_sinks_write(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    registry = CollectorRegistry()
    with Metrics(registry):
        for batch_id in range(2):
            write(client, table, numbered(spark, batch_id * 30, batch_id * 30 + 30), batch_id)
        write(client, table, numbered(spark, 30, 60), 1)

        labels = {"table": table, "sink": table.partition(".")[2]}
        names = ("hive_ingest_commits_total", "hive_ingest_rows_total", "hive_ingest_commit_duration_seconds_count")
        assert [registry.get_sample_value(name, labels) for name in names] == [2, 60, 2], "the third call was skipped"
        assert registry.get_sample_value("hive_ingest_connections", labels) is None
