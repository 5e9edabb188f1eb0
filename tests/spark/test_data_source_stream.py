"""`format("hive_ingest")` for streams: every row once, whatever is killed, repeated or confused."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.services.spark_versions import LOWEST_WITH_DATA_SOURCES
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.warehouse import Warehouse, register
from tests.support.warehouses import warehouse_in

pytestmark = pytest.mark.one_embedded

ROWS_PER_FILE = 10
SCRIPT = Path(__file__).with_name("data_source_query.py")


@pytest.fixture
def warehouse(metastore_uri: str, tmp_path: Path) -> Iterator[Warehouse]:
    """With the empty table web.numbers."""
    found = Warehouse(metastore_uri, warehouse_in(tmp_path))
    found.client.create_table("web.numbers", columns={"id": "bigint"})
    yield found
    found.close()


class Files:
    """Input of streams: JSON files, each with the next ten numbers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        folder.mkdir()

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            first = self._count * ROWS_PER_FILE
            lines = [json.dumps({"id": number}) + "\n" for number in range(first, first + ROWS_PER_FILE)]
            # Not seen before it is complete.
            hidden = self.folder / f".{self._count:04d}"
            hidden.write_text("".join(lines))
            os.utime(hidden, (self._count, self._count))  # Spark takes the oldest first
            hidden.rename(self.folder / f"{self._count:04d}.json")
            self._count += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        """One file a micro-batch."""
        return spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(str(self.folder))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "input")


def run(rows: DataFrame, checkpoint: Path, options: dict[str, str]) -> StreamingQuery:
    """Until the input is used up, or the query fails."""
    register(rows.sparkSession)
    query = (
        rows.writeStream.format("hive_ingest")
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Simulates a driver that died after the commit of the batch and before Spark recorded it."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def numbers(count: int) -> list[int]:
    return list(range(count * ROWS_PER_FILE))


def test_a_query_resumes_after_a_restart_and_a_repeated_batch_is_not_written_again(
    warehouse: Warehouse, spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    checkpoint, options = tmp_path / "checkpoint", warehouse.options("web.numbers", sink="all")
    files.add(2)
    query_id = run(files.stream(spark), checkpoint, options).id
    assert warehouse.ids("web.numbers") == numbers(2)

    forget_commit(checkpoint, 1)
    files.add()
    run(files.stream(spark), checkpoint, options)

    assert warehouse.ids("web.numbers") == numbers(3)
    positions = [json.loads(row["position"]) for row in warehouse.rows("web.all__progress")]
    found = [(position["query_id"], position["batch_id"]) for position in positions]
    assert found == [(query_id, batch) for batch in (0, 1, 2)]
    assert warehouse.leftovers("web.numbers") == []


def test_a_second_query_cannot_use_the_sink_of_the_first(
    warehouse: Warehouse, spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    """This includes the same query with a new checkpoint, which would write everything again."""
    files.add()
    run(files.stream(spark), tmp_path / "first", warehouse.options("web.numbers"))
    with pytest.raises(StreamingQueryException, match=r"(?s)SinkConflict.*'numbers' belongs to Spark.*sinks adopt"):
        run(files.stream(spark), tmp_path / "second", warehouse.options("web.numbers"))
    assert warehouse.ids("web.numbers") == numbers(1)
    assert warehouse.leftovers("web.numbers") == []


def test_at_least_once_is_requested_by_name_and_repeats_what_spark_repeats(
    warehouse: Warehouse, spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    options = warehouse.options("web.numbers", delivery="at-least-once")
    files.add()
    for _ in range(2):
        run(files.stream(spark), tmp_path / "checkpoint", options)
        forget_commit(tmp_path / "checkpoint", 0)
    assert warehouse.ids("web.numbers") == sorted(2 * numbers(1))
    assert warehouse.leftovers("web.numbers") == []


def test_a_batch_that_fails_is_written_completely_once_its_cause_is_gone(
    warehouse: Warehouse, spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    checkpoint, options = tmp_path / "checkpoint", warehouse.options("web.numbers")
    files.add(2)
    broken = files.stream(spark).selectExpr("if(id = 15, raise_error('broken'), id) as id").repartition(2)
    with pytest.raises(StreamingQueryException, match="broken"):
        run(broken, checkpoint, options)
    assert warehouse.ids("web.numbers") == numbers(1)

    run(files.stream(spark).repartition(2), checkpoint, options)
    assert warehouse.ids("web.numbers") == numbers(2)
    assert warehouse.leftovers("web.numbers") == []


def test_kill_9_of_the_driver_within_a_commit_and_a_task_that_is_retried_leave_every_row_once(
    warehouse: Warehouse,
    files: Files,
    tmp_path: Path,
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
) -> None:
    """On the lowest version of Spark, where Python data sources are younger."""
    marks = tmp_path / "marks"
    marks.mkdir()
    files.add(3)
    arguments = [json.dumps(warehouse.options("web.numbers")), files.folder, tmp_path / "checkpoint", marks]
    installation = install_spark(master="local[2,3]", version=LOWEST_WITH_DATA_SOURCES)  # three attempts at a task

    driver = start_driver(installation, SCRIPT, *arguments, environ={"PAUSE_AT": "after_publish"})
    wait_for(marks / "paused", driver)
    assert warehouse.ids("web.numbers") == numbers(1)  # the second batch lies there, and nobody sees it
    driver.kill()

    finished = start_driver(installation, SCRIPT, *arguments).wait(240)
    assert finished.returncode == 0, finished.err
    assert (marks / "failed").exists()
    assert warehouse.ids("web.numbers") == numbers(3)
    assert finished.out.splitlines()[-1] == str(numbers(3))
    assert warehouse.leftovers("web.numbers") == []


@pytest.mark.not_on("s3", because="with SPARK_TESTING Spark's launcher takes HADOOP_CONF_DIR out of the environment")
def test_a_spark_connect_session_streams_and_reads_too(
    warehouse: Warehouse,
    files: Files,
    tmp_path: Path,
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
) -> None:
    """Its client knows no query id, the tasks do."""
    files.add(2)
    (tmp_path / "failed").touch()  # no attempt shall fail
    arguments = [json.dumps(warehouse.options("web.numbers")), files.folder, tmp_path / "checkpoint", tmp_path]
    remote = {"SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1"}  # a server of its own, at a port of its own

    finished = start_driver(install_spark(), SCRIPT, *arguments, environ=remote).wait(300)

    assert finished.returncode == 0, finished.err
    kind, read = finished.out.splitlines()[-2:]
    assert kind.startswith("pyspark.sql.connect.")
    assert read == str(numbers(2))
    assert len(warehouse.rows("web.numbers__progress")) == 2


def wait_for(path: Path, driver: Driver, timeout_seconds: float = 240) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not path.exists():
        assert driver.process.poll() is None, driver.err
        assert time.monotonic() < deadline, driver.err
        time.sleep(0.05)


def test_each_batch_requests_compactions_of_the_table_and_of_its_progress(
    warehouse: Warehouse, spark: SparkSession, files: Files, tmp_path: Path
) -> None:
    files.add(6)
    run(files.stream(spark), tmp_path / "checkpoint", warehouse.options("web.numbers", maintenance="request"))
    requested = {(info.table.table, info.state.text) for info in warehouse.client.show_compactions()}
    assert requested == {("numbers", "initiated"), ("numbers__progress", "initiated")}
    assert warehouse.ids("web.numbers") == numbers(6)
