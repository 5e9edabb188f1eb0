"""How a sink handles a repeated batch, and a batch of an unknown query."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, SinkConflict, TxnAborted, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.spark import BatchStats, HiveSink
from hive_ingest.streaming.spark.progress import SparkPosition
from tests.services.spark_versions import LOWEST
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.numbers import Tables, assert_once, numbered
from tests.spark.planned import checkpoint_of
from tests.spark.streams import Streams, streams_in

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def streams(metastore_uri: str, tmp_path: Path) -> Iterator[Streams]:
    with streams_in(tmp_path / "streams", metastore_uri) as streams:
        yield streams


@pytest.fixture
def client(streams: Streams) -> MetastoreClient:
    return streams.client


@pytest.fixture
def tables(streams: Streams) -> Tables:
    return streams.tables


def outcomes(batches: list[BatchStats]) -> list[tuple[int, int, bool]]:
    return [(batch.batch_id, batch.rows, batch.is_skipped) for batch in batches]


# -- the same query ----------------------------------------------------------------------------------


def test_a_batch_that_spark_had_not_recorded_as_done_is_skipped_and_reported(
    spark: SparkSession, streams: Streams
) -> None:
    stream = streams.add("t")
    streams.input.add_batches(2)
    assert outcomes(streams.run(spark, stream)) == [(0, 40, False), (1, 40, False)]

    assert streams.forget_last_commit(stream) == 1
    streams.input.add_batches(1)

    assert outcomes(streams.run(spark, stream)) == [(1, 0, True), (2, 40, False)]
    streams.assert_all_once()


def test_on_the_lowest_version_of_spark_a_batch_is_recognised_and_another_under_its_number_refused(
    streams: Streams, install_spark: Callable[..., Installation], start_driver: Callable[..., Driver]
) -> None:
    """What identifies a batch lies in Spark's interior, which changes from version to version."""
    stream = streams.add("t")
    streams.input.add_batches(2)
    spark = install_spark(version=LOWEST)

    def drive() -> str:
        return streams.drive(start_driver, spark).wait().out

    drive()
    streams.forget_last_commit(stream)
    out = drive()
    assert "batch web.t 1 skipped" in out
    assert "ended web.t" in out
    streams.assert_all_once()

    forget_batch(Path(streams.checkpoint(stream)), 1)
    streams.input.add_batches(1)
    assert "planned again" in drive()
    assert_once(streams.ids(stream), list(range(80)))


def test_at_least_once_duplicates_a_replayed_batch_and_must_be_requested_by_name(
    spark: SparkSession, streams: Streams
) -> None:
    stream = streams.add("t")
    streams.input.add_batches(1)
    streams.run(spark, stream, delivery="at-least-once")
    streams.forget_last_commit(stream)

    batches = streams.run(spark, stream, delivery="at-least-once")

    assert outcomes(batches) == [(0, 40, False)]
    assert streams.ids(stream) == sorted(2 * streams.input.ids)
    assert streams.client.get_tables("web", "*__progress") == []


def test_a_delivery_that_is_not_known_or_cannot_keep_progress_is_refused(client: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match="'exactly-once' or 'at-least-once'"):
        HiveSink(metastore=client, table="web.t", delivery="at-most-once")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="leave out one"):
        HiveSink(metastore=client, table="web.t", sink="s", delivery="at-least-once")


# -- another batch under a number that was committed -------------------------------------------------


def forget_batch(checkpoint: Path, batch_id: int) -> None:
    """Simulates a crash: Spark does not sync its logs, and the newest entries are lost."""
    for log in ("offsets", "commits", "sources/0"):
        for name in (str(batch_id), f".{batch_id}.crc"):
            (checkpoint / log / name).unlink()


def test_a_batch_that_spark_plans_again_after_it_lost_its_plan_is_refused(
    spark: SparkSession, streams: Streams
) -> None:
    """It was skipped, with the rows that had come since. Its offset is the same: a number of the file source's own."""
    stream = streams.add("t")
    streams.input.add_batches(2)
    streams.run(spark, stream)
    forget_batch(Path(streams.checkpoint(stream)), 1)
    streams.input.add_batches(1)
    for _ in range(2):  # also when Spark repeats the new plan
        with pytest.raises(StreamingQueryException, match=r"(?s)SinkConflict.*planned again.*--batch-id 0"):
            streams.run(spark, stream)
    assert_once(streams.ids(stream), list(range(80)))


def test_a_checkpoint_restored_from_an_older_copy_is_refused_and_the_newest_one_continues(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    """Its next batch has a number that was committed, with rows that were not: they were lost silently."""
    stream = streams.add("t")
    checkpoint, old, newest = Path(streams.checkpoint(stream)), tmp_path / "old", tmp_path / "newest"
    for copy in (old, newest):
        streams.input.add_batches(1)
        streams.run(spark, stream)
        shutil.copytree(checkpoint, copy)
    streams.input.add_batches(1)
    shutil.rmtree(checkpoint)
    shutil.copytree(old, checkpoint)
    with pytest.raises(StreamingQueryException, match=r"(?s)SinkConflict.*restored from an older copy"):
        streams.run(spark, stream)
    shutil.rmtree(checkpoint)
    shutil.copytree(newest, checkpoint)
    streams.run(spark, stream)
    streams.assert_all_once()


def test_a_position_of_an_older_version_is_of_the_batch_that_was_planned_before_it(
    spark: SparkSession, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those have no fingerprint, and stay usable."""
    stream = streams.add("t")
    streams.input.add_batches(2)
    with monkeypatch.context() as patch:
        patch.setattr(SparkPosition, "to_json", lambda self: {"query_id": self.query_id, "batch_id": self.batch_id})
        streams.run(spark, stream)
    streams.forget_last_commit(stream)
    assert outcomes(streams.run(spark, stream)) == [(1, 0, True)]
    forget_batch(Path(streams.checkpoint(stream)), 1)
    streams.input.add_batches(1)
    with pytest.raises(StreamingQueryException, match=r"(?s)SinkConflict.*planned again"):
        streams.run(spark, stream)


@pytest.mark.parametrize("how", ["one sink", "one name"])
def test_a_sink_called_twice_in_a_batch_is_an_error(spark: SparkSession, streams: Streams, how: str) -> None:
    """The second half was taken for a repetition and skipped."""
    stream = streams.add("t")
    streams.input.add_batches(1)
    sinks = [HiveSink(metastore=streams.client, table=stream.table) for _ in range(2)]

    def in_halves(df: DataFrame, batch_id: int) -> None:
        sinks[0](df.where("id < 20"), batch_id)
        df.sparkSession.sparkContext.setJobGroup("mine", "a group of the user's")
        sinks[1 if how == "one name" else 0](df.where("id >= 20"), batch_id)

    def start() -> None:
        writer = streams.input.read_stream(spark).writeStream.foreachBatch(in_halves)
        writer = writer.option("checkpointLocation", streams.checkpoint(stream)).trigger(availableNow=True)
        writer.start().awaitTermination()

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=r"(?s)SinkConflict.*called twice for batch 0.*union"):
            start()
    assert_once(streams.ids(stream), list(range(20)))


def test_a_call_that_failed_may_be_repeated_within_its_batch(spark: SparkSession, streams: Streams) -> None:
    stream = streams.add("t")
    streams.input.add_batches(1)
    sink = HiveSink(metastore=streams.client, table=stream.table)

    def stubborn(df: DataFrame, batch_id: int) -> None:
        # Spark 3.5 has no error of its own for this in Python.
        with pytest.raises((PySparkException, TxnAborted), match="on purpose"):
            sink(df.withColumn("text", F.expr("if(id = 3, raise_error('on purpose'), text)")), batch_id)
        sink(df, batch_id)

    writer = streams.input.read_stream(spark).writeStream.foreachBatch(stubborn)
    writer = writer.option("checkpointLocation", streams.checkpoint(stream)).trigger(availableNow=True)
    writer.start().awaitTermination()
    streams.assert_all_once()


# -- another query -----------------------------------------------------------------------------------


def test_a_changed_checkpoint_is_refused_with_what_to_do(spark: SparkSession, streams: Streams) -> None:
    stream = streams.add("t")
    streams.input.add_batches(1)
    streams.run(spark, stream)
    stream.checkpoint = "another"
    with pytest.raises(
        StreamingQueryException, match=r"(?s)SinkConflict.*belongs to Spark query.*hive-ingest sinks adopt"
    ):
        streams.run(spark, stream)
    streams.assert_all_once()


def test_a_sink_name_that_another_query_uses_is_refused(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    HiveSink(metastore=client, table=table, checkpoint=checkpoint_of("first"), sink="s")(numbered(spark, 0, 10), 0)
    second = HiveSink(metastore=client, table=table, checkpoint=checkpoint_of("second"), sink="s")
    with pytest.raises(SinkConflict, match="another sink name"):
        second(numbered(spark, 10, 20), 0)
    assert_once(tables.ids(table), list(range(10)))


def test_a_sink_name_that_writes_another_table_is_refused(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    first, second = tables.create("first"), tables.create("second")
    HiveSink(metastore=client, table=first, checkpoint=checkpoint_of("q"), sink="s")(numbered(spark, 0, 10), 0)
    with pytest.raises(SinkConflict, match="another table"):
        HiveSink(metastore=client, table=second, checkpoint=checkpoint_of("q"), sink="s")(numbered(spark, 0, 10), 1)
    assert tables.ids(second) == []


def test_a_used_checkpoint_is_refused_by_a_new_sink_name(spark: SparkSession, streams: Streams) -> None:
    stream = streams.add("t")
    streams.input.add_batches(1)
    streams.run(spark, stream, sink="old")
    streams.input.add_batches(1)
    with pytest.raises(StreamingQueryException, match="its checkpoint was used before"):
        streams.run(spark, stream, sink="new")
    streams.run(spark, stream, sink="old")
    streams.assert_all_once()


def test_two_sinks_of_a_table_keep_separate_progress(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    for number, name in enumerate(("a", "b")):
        sink = HiveSink(metastore=client, table=table, checkpoint=checkpoint_of(name), sink=name)
        sink(numbered(spark, 10 * number, 10 * number + 10), 0)
    assert_once(tables.ids(table), list(range(20)))


def test_exactly_once_is_refused_where_a_batch_cannot_be_identified(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    with pytest.raises(ConfigurationError, match=r"exactly once is not possible.*checkpoint="):
        HiveSink(metastore=client, table=table)(numbered(spark, 0, 10), 0)
    assert hi.read_table(client, table).num_rows == 0
    HiveSink(metastore=client, table=table, delivery="at-least-once")(numbered(spark, 0, 10), 0)
    assert_once(tables.ids(table), list(range(10)))


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_an_output_mode_that_repeats_results_is_refused(spark: SparkSession, streams: Streams, mode: str) -> None:
    """Every state of the results was appended beside those before it."""
    streams.client.create_table("web.counts", columns={"part": "string", "count": "bigint"})
    sink = HiveSink(metastore=streams.client, table="web.counts")
    counts = streams.input.read_stream(spark).groupBy("part").count()
    with pytest.raises(UnsupportedFeature, match=rf"{mode}.*watermark.*write_dataframe\(mode='overwrite'\)"):
        sink.start(counts, checkpoint=str(streams.folder / "checkpoint"), output_mode=mode)
    assert spark.streams.active == []
