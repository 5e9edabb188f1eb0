"""The Spark job of a merge: errors of its tasks, and its end when the driver gives up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from pyspark.sql import SparkSession

from hive_ingest.compaction import MergeTasks
from hive_ingest.errors import CorruptFile, StreamingIOFailure
from hive_ingest.streaming.spark.merge_job import SparkTaskRunner


@dataclass(frozen=True)
class Tasks:
    """What `SparkTaskRunner` needs of `MergeTasks`. A task waits for the file `go` in `folder`, once it has said so."""

    folder: Path
    count: int = 2

    @property
    def context(self) -> Any:
        return SimpleNamespace(table=SimpleNamespace(name="web.t", location=str(self.folder)))

    @property
    def tasks(self) -> range:
        return range(self.count)

    def run(self, number: int, threads: int) -> tuple[int, int]:
        (self.folder / f"started-{number}").touch()
        deadline = time.monotonic() + 60
        while not (self.folder / "go").exists():
            if time.monotonic() > deadline:
                (self.folder / "forgotten").touch()
                raise AssertionError("nobody said go, and nobody cancelled")
            time.sleep(0.02)
        return self._result(number, threads)

    def _result(self, number: int, threads: int) -> tuple[int, int]:
        return number * number, threads

    def all_started(self) -> bool:
        return len(list(self.folder.glob("started-*"))) == self.count


@dataclass(frozen=True)
class FailingTasks(Tasks):
    error: type[Exception] = StreamingIOFailure

    def _result(self, number: int, threads: int) -> NoReturn:
        raise self.error("'/w/t/bucket_00000' cannot be read")


class GivenUp(Exception):
    """Raised by the driver's check."""


def run(spark: SparkSession, tasks: Tasks, check: Any = lambda: None) -> list[Any]:
    return SparkTaskRunner(spark, shared_filesystem=True)(cast("MergeTasks", tasks), check)


def test_results_come_in_the_order_of_the_tasks_and_a_task_has_the_threads_of_its_cores(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    assert run(spark, Tasks(tmp_path, 20)) == [(number * number, 1) for number in range(20)]


def test_the_driver_checks_while_tasks_run(spark: SparkSession, tmp_path: Path) -> None:
    tasks = Tasks(tmp_path)

    def check() -> None:
        if tasks.all_started():
            (tmp_path / "go").touch()

    assert [result for result, _ in run(spark, tasks, check)] == [0, 1]


def test_what_the_check_raises_cancels_the_job(spark: SparkSession, tmp_path: Path) -> None:
    tasks = Tasks(tmp_path)

    def check() -> None:
        if tasks.all_started():
            raise GivenUp

    with pytest.raises(GivenUp):
        run(spark, tasks, check)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert not (tmp_path / "forgotten").exists()


def test_a_job_that_is_given_up_before_spark_knows_it_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    def check() -> NoReturn:
        raise GivenUp

    with pytest.raises(GivenUp):
        run(spark, Tasks(tmp_path), check)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert not (tmp_path / "forgotten").exists()


def test_an_error_of_a_task_is_reported_without_javas_stack(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with pytest.raises(StreamingIOFailure) as caught:
        run(spark, FailingTasks(tmp_path))
    message = str(caught.value)
    assert message.startswith("Spark gave up on a task of the compaction: ")
    assert "'/w/t/bucket_00000' cannot be read" in message
    assert "\tat " not in message
    assert len(message) < 1500


def test_a_damaged_file_is_found_once_and_its_error_is_the_drivers(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with pytest.raises(CorruptFile, match=r"^'/w/t/bucket_00000' cannot be read$"):
        run(spark, FailingTasks(tmp_path, error=CorruptFile))
