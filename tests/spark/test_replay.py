"""What a sink does with a batch that comes again, or from a query that it does not know."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, SinkConflict
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.spark import BatchStats, HiveSink
from tests.spark.numbers import Tables, assert_once, numbered
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


def test_a_batch_that_spark_had_not_noted_as_done_is_skipped_and_told(spark: SparkSession, streams: Streams) -> None:
    stream = streams.add("t")
    streams.input.add_batches(2)
    assert outcomes(streams.run(spark, stream)) == [(0, 40, False), (1, 40, False)]

    assert streams.forget_last_commit(stream) == 1
    streams.input.add_batches(1)

    assert outcomes(streams.run(spark, stream)) == [(1, 0, True), (2, 40, False)]
    streams.assert_all_once()


def test_at_least_once_doubles_a_replayed_batch_and_must_be_asked_for_by_name(
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


@pytest.mark.parametrize("seed", [4, 23])
def test_batches_that_come_again_in_any_order_are_there_once(
    spark: SparkSession, client: MetastoreClient, tables: Tables, seed: int
) -> None:
    chance = random.Random(seed)
    table = tables.create("t", "both")
    for batch_id in range(3):
        sink = HiveSink(metastore=client, table=table, query_id="q")
        sink(numbered(spark, 10 * batch_id, 10 * batch_id + 10), batch_id)
        for again in chance.choices(range(batch_id + 1), k=2):
            sink(numbered(spark, 10 * again, 10 * again + 10), again)
            assert sink.last_batch is not None
            assert sink.last_batch.is_skipped
    assert_once(tables.ids(table), list(range(30)))


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
    HiveSink(metastore=client, table=table, query_id="first", sink="s")(numbered(spark, 0, 10), 0)
    second = HiveSink(metastore=client, table=table, query_id="second", sink="s")
    with pytest.raises(SinkConflict, match="another sink name"):
        second(numbered(spark, 10, 20), 0)
    assert_once(tables.ids(table), list(range(10)))


def test_a_sink_name_that_writes_another_table_is_refused(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    first, second = tables.create("first"), tables.create("second")
    HiveSink(metastore=client, table=first, query_id="q", sink="s")(numbered(spark, 0, 10), 0)
    with pytest.raises(SinkConflict, match="another table"):
        HiveSink(metastore=client, table=second, query_id="q", sink="s")(numbered(spark, 0, 10), 1)
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


def test_two_sinks_of_a_table_keep_progress_of_their_own(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    for number, name in enumerate(("a", "b")):
        sink = HiveSink(metastore=client, table=table, query_id=name, sink=name)
        sink(numbered(spark, 10 * number, 10 * number + 10), 0)
    assert_once(tables.ids(table), list(range(20)))


def test_a_call_outside_of_a_query_needs_a_query_id(
    spark: SparkSession, client: MetastoreClient, tables: Tables
) -> None:
    table = tables.create("t")
    with pytest.raises(ConfigurationError, match="query_id="):
        HiveSink(metastore=client, table=table)(numbered(spark, 0, 10), 0)
    assert hi.read_table(client, table).num_rows == 0
