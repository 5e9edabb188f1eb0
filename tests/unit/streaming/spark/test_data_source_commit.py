"""Commits and aborts of the data source in all the orders that Spark may ask for them, without a JVM."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructField, StructType

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, SinkConflict, StreamingIOFailure
from hive_ingest.faults import set_hook
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnState
from hive_ingest.streaming.spark.data_source import HiveDataSource
from hive_ingest.streaming.spark.source_options import stream_options
from hive_ingest.streaming.spark.types import spark_type
from hive_ingest.testing.faults import CrashPoint, FaultError, faults
from hive_ingest.transactions.staging import STAGING_FOLDER
from tests.support.metastores import connect_in
from tests.support.rows import ids
from tests.support.tables import table_folder

SCHEMA = StructType([StructField("id", spark_type("bigint"))])
QUERY = "5f0c-11"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "bigint"})
        yield client
    set_hook(None)


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., HiveDataSource]:
    def make(**more: object) -> HiveDataSource:
        checkpoint = str(tmp_path / "checkpoint")
        place = {"metastore": f"sqlite:///{tmp_path}/metastore.db", "warehouse": f"{tmp_path}/warehouse"}
        place["checkpointLocation"] = checkpoint
        given = {**place, "table": "web.t", **{name: str(value) for name, value in more.items()}}
        return HiveDataSource(CaseInsensitiveDict(given))

    return make


class Batch:
    """One attempt of a driver at a micro-batch: its tasks have run, its commit or abort is still to come.

    `planned_ms` is when Spark planned it; a repeated batch is not planned again.
    """

    def __init__(
        self, source: HiveDataSource, number: int, *tasks: list[int], query: str = QUERY, planned_ms: int = 1
    ) -> None:
        self._source, self._number = source, number
        checkpoint = Path(source.options["checkpointLocation"])
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": query}))
        (checkpoint / "offsets" / str(number)).write_text(f'v1\n{{"batchTimestampMs":{planned_ms}}}\n{{"logOffset":0}}')
        self.messages: list[Any] = [self._run(query, ids) for ids in tasks]

    def _run(self, query: str, ids: list[int]) -> Any:
        properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(self._number)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TaskContext, "get", lambda: Task(properties))
            return self._source.streamWriter(SCHEMA, False).write(iter([rows(*ids)]))

    def commit(self) -> None:
        self._source.streamWriter(SCHEMA, False).commit(self.messages, self._number)

    def abort(self) -> None:
        self._source.streamWriter(SCHEMA, False).abort(self.messages, self._number)


class Task:
    """The properties by which Spark identifies the query of a task."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.getLocalProperty = properties.get


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def leftovers(client: MetastoreClient) -> list[Any]:
    folder = table_folder(client) / STAGING_FOLDER
    open_txns = [txn for txn in client.get_open_txns_info().transactions if txn.state is TxnState.OPEN]
    return [*folder.iterdir(), *open_txns]


# -- streams ---------------------------------------------------------------------------------------


def test_all_tasks_of_a_batch_become_visible_at_once(client: MetastoreClient, source: Any) -> None:
    batch = Batch(source(), 0, [1, 2], [], [3])
    assert ids(client) == []
    batch.commit()
    assert ids(client) == [1, 2, 3]
    assert leftovers(client) == []


def test_a_batch_without_rows_is_progress_too(client: MetastoreClient, source: Any) -> None:
    Batch(source(), 0, []).commit()
    Batch(source(), 1, [1]).commit()
    Batch(source(), 1, [1]).commit()
    assert ids(client) == [1]
    assert hi.read_table(client, "web.t__progress").num_rows == 2


def test_an_abort_after_a_commit_does_no_harm(client: MetastoreClient, source: Any) -> None:
    """Spark requests it if the response to the commit was lost."""
    batch = Batch(source(), 0, [1], [2])
    batch.commit()
    batch.abort()
    assert ids(client) == [1, 2]
    assert leftovers(client) == []


def test_an_abort_removes_what_the_tasks_staged_that_did_not_fail(client: MetastoreClient, source: Any) -> None:
    batch = Batch(source(), 0, [1])
    batch.messages.append(None)
    batch.abort()
    assert ids(client) == []
    assert leftovers(client) == []


def test_the_second_driver_to_write_a_batch_skips_it(client: MetastoreClient, source: Any) -> None:
    """This includes a commit whose staged rows the first one has removed."""
    zombie, driver = Batch(source(), 0, [1]), Batch(source(), 0, [1])
    driver.commit()
    zombie.commit()
    assert ids(client) == [1]
    assert leftovers(client) == []


def test_a_batch_that_was_planned_again_is_refused(client: MetastoreClient, source: Any) -> None:
    """After its checkpoint was restored from an older copy: it was skipped with the rows that had come since."""
    Batch(source(), 0, [1]).commit()
    again = Batch(source(), 0, [1, 2], planned_ms=2)
    with pytest.raises(SinkConflict, match="planned again"):
        again.commit()
    again.abort()
    assert ids(client) == [1]
    assert leftovers(client) == []


def test_exactly_once_needs_the_checkpoint_and_its_batch(client: MetastoreClient, source: Any) -> None:
    with pytest.raises(ConfigurationError, match="checkpointLocation"):
        stream_options({name: text for name, text in source().options.items() if name != "checkpointlocation"})
    batch = Batch(source(), 0, [1])
    Path(source().options["checkpointLocation"], "metadata").write_text('{"id": "7a-22"}')
    with pytest.raises(ConfigurationError, match="does not have batch 0 of query 5f0c-11"):
        batch.commit()
    assert ids(client) == []


def test_an_abort_of_one_driver_leaves_the_rows_of_the_other(client: MetastoreClient, source: Any) -> None:
    zombie, driver = Batch(source(), 0, [1]), Batch(source(), 0, [1])
    zombie.abort()
    driver.commit()
    assert ids(client) == [1]


def test_another_query_is_refused_and_its_rows_are_removed(client: MetastoreClient, source: Any) -> None:
    Batch(source(), 0, [1]).commit()
    other = Batch(source(), 0, [1], query="7a-22")
    with pytest.raises(SinkConflict, match="sinks adopt"):
        other.commit()
    other.abort()
    assert ids(client) == [1]
    assert leftovers(client) == []


def test_a_commit_whose_rows_are_gone_commits_nothing(client: MetastoreClient, source: Any) -> None:
    batch = Batch(source(), 0, [1], [2])
    batch.abort()
    with pytest.raises(StreamingIOFailure, match=r"Run the job again"):
        batch.commit()
    assert ids(client) == []
    assert leftovers(client) == []


@pytest.mark.parametrize(
    ("point", "is_committed"), [("after_lock_acquired", False), ("after_publish", False), ("after_commit_txn", True)]
)
def test_an_interrupted_commit_is_repeated_without_losing_or_duplicating_rows(
    client: MetastoreClient, source: Any, point: str, is_committed: bool
) -> None:
    """Spark aborts, then runs the same batch again after a restart."""
    batch = Batch(source(), 0, [1], [2])
    with faults(CrashPoint(point)), pytest.raises(FaultError):
        batch.commit()
    assert ids(client) == ([1, 2] if is_committed else [])
    batch.abort()
    again = Batch(source(), 0, [1], [2])
    again.commit()
    assert ids(client) == [1, 2]
    assert leftovers(client) == []


def test_at_least_once_keeps_no_progress(client: MetastoreClient, source: Any) -> None:
    for _ in range(2):
        Batch(source(delivery="at-least-once"), 0, [1]).commit()
    assert ids(client) == [1, 1]
    assert client.get_tables("web") == ["t"]


def test_tasks_of_a_stream_get_no_access_to_the_metastore(client: MetastoreClient, source: Any) -> None:
    """Its URI and options, which may hold a password, were pickled to the executors."""
    pickled = pickle.dumps(source().streamWriter(SCHEMA, False))
    assert b"sqlite" not in pickled
    assert b"warehouse" in pickled  # where they stage their rows


def test_tasks_of_two_queries_are_not_one_batch(client: MetastoreClient, source: Any) -> None:
    batch, other = Batch(source(), 0, [1]), Batch(source(), 0, [1], query="7a-22")
    batch.messages += other.messages
    with pytest.raises(ConfigurationError, match="name 2 queries"):
        batch.commit()


# -- batch writes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_batch_write_is_one_transaction(client: MetastoreClient, source: Any, overwrite: bool) -> None:
    hi.append(client, "web.t", rows(0))
    writer = source().writer(SCHEMA, overwrite)
    messages = [writer.write(iter([rows(*ids)])) for ids in ([1, 2], [], [3])]
    assert ids(client) == [0]
    writer.commit(messages)
    writer.abort(messages)
    assert ids(client) == ([1, 2, 3] if overwrite else [0, 1, 2, 3])
    assert leftovers(client) == []


def test_an_overwrite_without_rows_empties_the_table(client: MetastoreClient, source: Any) -> None:
    hi.append(client, "web.t", rows(0))
    writer = source().writer(SCHEMA, True)
    writer.commit([writer.write(iter([]))])
    assert ids(client) == []


def test_a_task_that_outlives_its_job_leaves_nothing(client: MetastoreClient, source: Any) -> None:
    writer = source().writer(SCHEMA, False)
    writer.write(iter([rows(1)]))
    writer.abort([None])
    with pytest.raises(StreamingIOFailure):
        writer.write(iter([rows(1)]))
    assert leftovers(client) == []
