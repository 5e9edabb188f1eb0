"""A query that is stopped in the middle of a batch: Spark understands why it fails, and the next start writes it."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from hive_ingest.errors import TxnAborted
from hive_ingest.streaming.spark import HiveSink
from tests.spark.streams import Streams, streams_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_embedded

#: What Spark looks for in the text of an error, to distinguish a stopped query from a failed one.
INTERRUPTED = re.compile(
    r"py4j\.protocol\.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)java\.lang\.InterruptedException"
)


class RecordingSink(HiveSink):
    """Keeps the text by which py4j reports an error to Spark."""

    error: Exception | None = None
    traceback_text = ""

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        try:
            super().__call__(df, batch_id)
        except Exception as error:
            self.error, self.traceback_text = error, traceback.format_exc()
            raise


@pytest.fixture
def streams(metastore_uri: str, tmp_path: Path) -> Iterator[Streams]:
    with streams_in(tmp_path / "streams", metastore_uri) as streams:
        yield streams


def test_a_query_stopped_in_its_tasks_gives_spark_a_short_reason_and_resumes_later(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.add("t")
    streams.input.add_batches(1)
    started, over = tmp_path / "started", tmp_path / "over"

    def slowly(batches: Any) -> Iterator[pa.RecordBatch]:
        started.touch()
        while not over.exists():
            time.sleep(0.02)
        yield from batches

    rows = streams.input.read_stream(spark)
    sink = RecordingSink(metastore=streams.client, table=stream.table)
    query = sink.start(rows.mapInArrow(slowly, rows.schema), checkpoint=streams.checkpoint(stream))
    wait_until(started.exists, "no task has started")

    query.stop()
    over.touch()

    assert query.exception() is None
    wait_until(lambda: sink.error is not None, "the batch went on")
    assert isinstance(sink.error, TxnAborted)
    found = INTERRUPTED.search(sink.traceback_text)
    assert found, sink.traceback_text
    # Spark's expression takes some stack for each character from there on.
    assert len(sink.traceback_text) - found.start() < 500
    assert streams.ids(stream) == []

    streams.run(spark, stream)
    streams.assert_all_once()
    assert streams.tables.hidden(stream.table) == []
