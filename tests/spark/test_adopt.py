"""A sink and the checkpoints of real queries: another one is refused, until it is adopted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.spark import HiveSink
from hive_ingest.streaming.spark.adoption import adopt_checkpoint, adopt_query
from hive_ingest.streaming.spark.checkpoint import read_checkpoint
from tests.support.metastores import connect_in
from tests.support.rows import ids

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int"})
        yield client


class Job:
    """Reads the files of a folder into web.t. `run` starts the query and waits until all that is there is done."""

    def __init__(self, spark: SparkSession, client: MetastoreClient, folder: Path) -> None:
        self._spark, self._client, self._folder = spark, client, folder
        (folder / "in").mkdir()

    def add(self, number: int) -> None:
        (self._folder / "in" / f"{number}.json").write_text(json.dumps({"id": number}))

    def run(self, checkpoint: str) -> None:
        df = self._spark.readStream.schema("id int").option("maxFilesPerTrigger", 1).json(str(self._folder / "in"))
        sink = HiveSink(metastore=self._client, table="web.t")
        query = sink.start(df, checkpoint=self.checkpoint(checkpoint), trigger={"availableNow": True})
        query.awaitTermination()

    def checkpoint(self, name: str) -> str:
        return str(self._folder / name)

    def ids(self) -> list[Any]:
        return ids(self._client)


@pytest.fixture
def job(spark: SparkSession, ms: MetastoreClient, tmp_path: Path) -> Job:
    return Job(spark, ms, tmp_path)


def test_an_adopted_checkpoint_continues_from_its_position(job: Job, ms: MetastoreClient) -> None:
    for number in (1, 2):
        job.add(number)
    job.run("first")
    first = read_checkpoint(job.checkpoint("first"))
    assert (first.last_committed, first.last_planned) == (1, 1)
    with pytest.raises(StreamingQueryException, match="hive-ingest sinks adopt"):
        job.run("second")

    adoption = adopt_checkpoint(ms, "web.t", "t", job.checkpoint("second"))
    assert (adoption.batch_id, adoption.last_written) == (-1, None)
    job.run("second")
    assert job.ids() == [1, 1, 2, 2]  # another query reads its source from the start

    job.add(3)
    with pytest.raises(StreamingQueryException, match="hive-ingest sinks adopt"):
        job.run("first")
    assert job.ids() == [1, 1, 2, 2]


def test_a_batch_that_spark_did_not_record_as_done_is_not_duplicated_by_a_replay(
    job: Job, ms: MetastoreClient, tmp_path: Path
) -> None:
    for number in (1, 2):
        job.add(number)
    job.run("first")
    for name in ("1", ".1.crc"):
        (tmp_path / "first" / "commits" / name).unlink()
    adopt_query(ms, "web.t", "t", "another query")
    adoption = adopt_checkpoint(ms, "web.t", "t", f"file:{job.checkpoint('first')}")
    assert (adoption.batch_id, adoption.last_written) == (1, 1)
    job.add(3)
    job.run("first")
    assert job.ids() == [1, 2, 3]
