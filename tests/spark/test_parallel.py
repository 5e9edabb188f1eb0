"""How many tasks write, how they are distinguished, how many files they write, and how much memory each uses."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession

import hive_ingest as hi
from hive_ingest.acid.bucket_codec import decode_bucket
from hive_ingest.acid.bucketing import bucket_ids
from hive_ingest.config import MIB
from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.streaming.spark import BatchStats, HiveSink
from hive_ingest.streaming.spark.spread import session_settings, spread
from hive_ingest.streaming.spark.target import HiveTarget
from tests.spark.numbers import Tables, assert_once, numbered
from tests.spark.planned import checkpoint_of
from tests.support.metastores import connect_in

pytestmark = pytest.mark.one_embedded

#: `docs/guarantees.md`: memory is the buffer and at most so much.
BEYOND_THE_BUFFER_BYTES = 300 * MIB


@pytest.fixture
def client(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def tables(client: MetastoreClient) -> Tables:
    return Tables(client)


def write(client: MetastoreClient, table: str, df: DataFrame, **options: Any) -> BatchStats:
    sink = HiveSink(metastore=client, table=table, checkpoint=checkpoint_of(), **options)
    sink(df, 0)
    assert sink.last_batch is not None
    return sink.last_batch


def row_ids(client: MetastoreClient, table: str) -> list[tuple[int, ...]]:
    """(bucket, statement, row id) of all rows."""
    found = hi.read_table(client, table, row_ids=True)["row__id"].to_pylist()
    properties = [decode_bucket(row["bucketid"]) for row in found]
    return [(p.bucket_id, p.statement_id, row["rowid"]) for p, row in zip(properties, found, strict=True)]


# -- more tasks than ids -----------------------------------------------------------------------------


def sparse_rows(spark: SparkSession, tasks: int) -> DataFrame:
    """A row in every tenth task."""
    rows = spark.range(0, tasks, 1, tasks).where("id % 10 = 0")
    return rows.selectExpr("id", "concat('row ', id) text")


def test_five_thousand_tasks_share_the_bucket_numbers_of_an_unbucketed_table(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    """Checks Spark's plan; `scripts/test soak` runs the tasks."""
    table = tables.create("t", "plain")
    with StreamingConnection.connect(client, database="web", table="t", record_writer=ArrowWriter()) as connection:
        connection.begin_transaction()
        shared = connection.share_transaction()
        planned = spread(sparse_rows(spark, 5000), shared, cluster=False, target_file_bytes=MIB)
    assert (planned.most_tasks, planned.ids) == (4096, "bucket")
    assert planned.rows.rdd.getNumPartitions() == 4096
    assert tables.files(table) == []


def check_that_4096_tasks_write(spark: SparkSession, client: MetastoreClient, tables: Tables) -> None:
    table = tables.create("t", "plain")
    stats = write(client, table, sparse_rows(spark, 5000), cluster=False)
    assert stats.tasks == 4096
    assert_once(tables.ids(table), list(range(0, 5000, 10)))
    written = row_ids(client, table)
    assert len(set(written)) == len(written) == 500
    assert max(bucket for bucket, _, _ in written) <= 4095


def test_five_thousand_tasks_are_at_most_a_hundred_statements_of_a_bucketed_table(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "buckets")
    stats = write(client, table, sparse_rows(spark, 5000), cluster=False)
    assert stats.tasks == 100
    assert_once(tables.ids(table), list(range(0, 5000, 10)))
    written = row_ids(client, table)
    assert len({(bucket, statement, row) for bucket, statement, row in written}) == 500
    assert {statement for _, statement, _ in written} <= set(range(100))


# -- by size -----------------------------------------------------------------------------------------


def test_a_partition_larger_than_a_file_goes_to_several_tasks(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    """All rows of a day went to one task, whatever their number and that of the cores."""
    table = tables.create("t", "parts")
    rows = spark.range(0, 80_000, 1, 8).selectExpr("id", "concat('row ', id, repeat(uuid(), 3)) text", "'p0' part")
    stats = write(client, table, rows, target_file_bytes=MIB)
    assert stats.tasks >= 3
    assert stats.commit is not None
    assert stats.commit.files == stats.tasks
    found = hi.read_table(client, table, columns=["id"], row_ids=True).to_pylist()
    assert_once([row["id"] for row in found], list(range(80_000)))
    assert len({tuple(row["row__id"].values()) for row in found}) == 80_000


def test_a_partition_smaller_than_a_file_is_written_by_every_core(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    """A day's batch of half the target was one task, on a cluster of any size."""
    table = tables.create("t", "parts")
    rows = spark.range(0, 80_000, 1, 8).selectExpr("id", "concat('row ', id, repeat(uuid(), 3)) text", "'p0' part")
    stats = write(client, table, rows, target_file_bytes=16 * MIB)
    assert stats.tasks >= 2
    assert_once(hi.read_table(client, table, columns=["id"])["id"].to_pylist(), list(range(80_000)))


def test_a_large_partition_of_a_micro_batch_goes_to_several_tasks(
    spark: SparkSession, client: MetastoreClient, tables: Tables, tmp_path: Path
) -> None:
    """There Spark switches off the adaptive execution that measures rows."""
    table, text = tables.create("t", "parts"), "concat('row ', id)"
    rows = spark.range(0, 60_000, 1, 8).selectExpr("id", f"rpad({text}, 60, uuid()) text", "'p0' part")
    rows.write.json(str(tmp_path / "input"))
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(MIB))
    stream = spark.readStream.schema("id bigint, text string, part string").json(str(tmp_path / "input"))
    sink = HiveSink(metastore=client, table=table, target_file_bytes=MIB)
    query = sink.start(stream, checkpoint=str(tmp_path / "checkpoint"), trigger={"availableNow": True})
    query.awaitTermination()
    assert sink.last_batch is not None
    assert sink.last_batch.tasks >= 3
    found = hi.read_table(client, table, columns=["id"])["id"].to_pylist()
    assert_once(found, list(range(60_000)))


def test_rows_are_spread_by_size_where_adaptive_execution_is_off(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    """As Spark 3.5 has it for all micro-batches, and Spark 4 for those with state: it ignored the hint."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    stats = write(client, tables.create("t", "parts"), numbered(spark, 0, 640, 64))
    assert stats.tasks <= 3
    assert_once(tables.ids("web.t"), list(range(640)))


def test_many_small_inputs_are_few_files_and_every_input_is_read_by_a_task_of_its_own(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    """64 small partitions of a DataFrame made 64 small files; joined by coalesce they would be read by one task."""
    table = tables.create("t", "plain")
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        seen.add(1)
        yield from batches

    rows = numbered(spark, 0, 640, 64).select("id", "text")
    stats = write(client, table, rows.mapInArrow(count, rows.schema))
    assert seen.value == 64
    assert (stats.tasks, len(tables.files(table))) == (1, 1)
    assert_once(tables.ids(table), list(range(640)))


def test_spreading_rows_does_not_change_the_settings_of_the_session(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    names = ["enabled", "advisoryPartitionSizeInBytes", "coalescePartitions.minPartitionSize"]
    before = [spark.conf.get(f"spark.sql.adaptive.{name}", None) for name in names]
    write(client, tables.create("t", "parts"), numbered(spark, 0, 40, 4))
    assert [spark.conf.get(f"spark.sql.adaptive.{name}", None) for name in names] == before


def test_writes_that_overlap_do_not_change_the_settings_of_their_session(spark: SparkSession) -> None:
    """The session of a query may be another object in Python for each batch."""
    name = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
    spark.conf.set(name, "5000000")
    session: Any = spark
    both = [each.range(1) for each in (spark, SparkSession(spark.sparkContext, session._jsparkSession))]
    first, second = (session_settings(df, {name: str(size)}) for df, size in zip(both, (MIB, 2 * MIB), strict=True))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.get(name) == str(2 * MIB), "the other write needs its settings"
    second.__exit__(None, None, None)
    assert spark.conf.get(name) == "5000000"


def test_there_are_no_more_groups_than_ids_for_writers(
    spark: SparkSession, client: MetastoreClient, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster of more than a thousand cores."""
    tables.create("t", "parts")
    monkeypatch.setattr("hive_ingest.streaming.spark.spread.parallelism", lambda rows: 5000)
    with StreamingConnection.connect(client, database="web", table="t", record_writer=ArrowWriter()) as connection:
        connection.begin_transaction()
        shared = connection.share_transaction()
        planned: Any = spread(numbered(spark, 0, 10), shared, cluster=None, target_file_bytes=MIB).rows
    assert re.search(
        r"RebalancePartitions \[part#\d+\], 4096$", planned._jdf.queryExecution().analyzed().toString(), re.M
    )


@pytest.mark.parametrize("name", ["target_file_bytes", "task_buffer_bytes"])
def test_sizes_below_a_mebibyte_are_refused(client: MetastoreClient, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=100 is below"):
        HiveSink(metastore=client, table="web.t", **{name: 100})  # type: ignore[arg-type]


def test_an_unknown_option_is_named_with_the_known_ones(client: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match=r"'max_writers': known are .*target_file_bytes"):
        HiveSink(metastore=client, table="web.t", max_writers=3)  # type: ignore[call-arg]


def test_neither_metastore_nor_its_options_are_shown(client: MetastoreClient) -> None:
    """They may hold passwords."""
    options = {"password": "geheim"}
    target = HiveTarget.of("postgresql://user:geheim@db/hive", "web.t", metastore_options=options)
    assert "geheim" not in repr(target)


# -- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "cluster", "files"),
    [
        ("plain", None, 1),  # by size
        ("plain", True, 4),  # nothing to cluster by
        ("plain", False, 4),  # of each task one
        ("parts", None, 3),  # by size, of each partition one
        ("parts", True, 3),
        ("parts", False, 12),  # of each partition and task
        ("buckets", None, 3),
        ("buckets", False, 12),
        ("both", None, 9),
        ("both", False, 36),
    ],
)
def test_rows_are_clustered_where_that_makes_fewer_files(
    spark: SparkSession, client: MetastoreClient, tables: Tables, layout: str, cluster: bool | None, files: int
) -> None:
    table = tables.create("t", layout)
    rows = numbered(spark, 0, 400, 4)
    stats = write(client, table, rows if layout in ("parts", "both") else rows.drop("part"), cluster=cluster)
    assert stats.commit is not None
    assert (stats.commit.files, len(tables.files(table))) == (files, files)
    assert_once(tables.ids(table), list(range(400)))
    written = hi.read_table(client, table, row_ids=True).to_pylist()
    unique = {(row.get("part"), *row["row__id"].values()) for row in written}
    assert len(unique) == 400, "two rows of a partition have one ROW__ID"


@pytest.mark.parametrize("cluster", [None, False])
def test_buckets_are_those_that_hive_would_choose(
    spark: SparkSession, client: MetastoreClient, tables: Tables, cluster: bool | None
) -> None:
    table = tables.create("t", "both")
    write(client, table, numbered(spark, 0, 400, 4), cluster=cluster)
    found = hi.read_table(client, table, row_ids=True)
    expected = bucket_ids([found["id"]], ["bigint"], 3).tolist()
    assert [decode_bucket(row["bucketid"]).bucket_id for row in found["row__id"].to_pylist()] == expected
    by_file: dict[str, set[str]] = defaultdict(set)
    for file in tables.files(table):
        by_file[file.rpartition("/")[2]].add(file)
    assert sorted(by_file) == ["bucket_00000", "bucket_00001", "bucket_00002"]


# -- memory ------------------------------------------------------------------------------------------


@contextmanager
def python_workers_watched() -> Iterator[list[int]]:
    """Resident bytes of the largest Python worker, once it is over."""
    peak = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            peak[0] = max([peak[0], *map(_resident_bytes, psutil.Process().children(recursive=True))])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss if "pyspark.daemon" in process.cmdline() else 0
    except psutil.Error:
        return 0


def test_a_task_of_600_megabytes_of_rows_takes_its_buffer_and_little_more(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "parts")
    count, buffer = 1_500_000, 32 * MIB
    rows = spark.range(0, count, 1, 1).selectExpr("id", f"concat(id, '{'x' * 400}') text", "concat('p', id % 5) part")
    with python_workers_watched() as peak:
        stats = write(client, table, rows, task_buffer_bytes=buffer, cluster=False)
    assert (stats.rows, stats.tasks) == (count, 1)
    assert 0 < peak[0] < buffer + BEYOND_THE_BUFFER_BYTES, f"{peak[0] / MIB:.0f} MiB"


# -- where the warehouse is --------------------------------------------------------------------------


@pytest.mark.local_warehouse(because="executors elsewhere reach every other store")
def test_a_warehouse_on_this_machines_disk_is_refused_where_executors_run_elsewhere(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t", "parts")
    spark.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    spark.conf.set("spark.master", "spark://elsewhere:7077")
    sink = HiveSink(metastore=client, table=table, checkpoint=checkpoint_of())
    for refused in (lambda: sink.check(numbered(spark, 0, 1)), lambda: sink(numbered(spark, 0, 1), 0)):
        with pytest.raises(ConfigurationError, match=r"spark://elsewhere:7077.*local-cluster\[…\]"):
            refused()
    assert tables.hidden(table) == []


@pytest.mark.local_warehouse(because="the option is about local paths")
def test_a_shared_disk_is_accepted_when_the_user_declares_it(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    """It was refused with no way to say so, and with the advice to use a store that is refused as well."""
    table = tables.create("t", "parts")
    spark.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    spark.conf.set("spark.master", "spark://elsewhere:7077")
    with pytest.raises(ConfigurationError, match="shared_filesystem=True") as caught:
        HiveSink(metastore=client, table=table).check(numbered(spark, 0, 1))
    assert "s3a" not in str(caught.value)
    write(client, table, numbered(spark, 0, 10), shared_filesystem=True)
    assert_once(tables.ids(table), list(range(10)))
