"""Tasks, executors and drivers of a compaction that die: nothing is lost, and nothing half done is visible."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState
from hive_ingest.testing import CrashPoint
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.installation import LOCAL_CLUSTER, Installation
from tests.spark.standalone import SPECULATION, standalone_cluster
from tests.spark.tables_to_compact import SPLIT_BYTES, STRIPE_BYTES, fill, hidden
from tests.support.compactions import Compacted, connect_quietly
from tests.support.metastores import housekeeping
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_embedded

SCRIPT = Path(__file__).with_name("compact_job.py")
Install = Callable[..., Installation]
Start = Callable[..., Driver]


@pytest.fixture
def arms(tmp_path: Path) -> Arms:
    return Arms(tmp_path / "arms")


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def table(ms: EmbeddedMetastoreClient) -> Compacted:
    table = Compacted(ms)
    fill(table)
    return table


class Drive:
    """Starts the driver script on a table."""

    def __init__(self, start_driver: Start, uri: str) -> None:
        self._start = start_driver
        self._uri = uri

    def __call__(
        self, table: Compacted, installation: Installation, environ: dict[str, str] | None = None, **options: Any
    ) -> Driver:
        warehouse = table.folder.parent.parent
        arguments = {"stripe_bytes": STRIPE_BYTES} | options
        return self._start(
            installation, SCRIPT, self._uri, warehouse, table.name, json.dumps(arguments), environ=environ
        )


@pytest.fixture
def drive(start_driver: Start, metastore_uri: str) -> Drive:
    return Drive(start_driver, metastore_uri)


def wait_until_hit(arms: Arms, point: str, driver: Driver) -> None:
    def is_hit() -> bool:
        assert driver.process.poll() is None, driver.err
        return arms.is_hit(point)

    wait_until(is_hit, f"no task has come to {point}", 240)


def assert_compacted(table: Compacted, before: list[tuple[Any, ...]], driver: Driver) -> None:
    done = driver.wait()
    assert done.returncode == 0, done.err
    assert done.out.splitlines() == ["compacting", "ready for cleaning "]
    assert table.rows() == before
    assert [info.state for info in table.history()] == [CompactionState.READY_FOR_CLEANING]


@pytest.mark.parametrize(
    ("where", "actions"),
    [("local[2,4]", ("raise", "kill")), (LOCAL_CLUSTER, ("kill-executor", "raise"))],
    ids=["local", "cluster"],
)
def test_a_task_that_fails_twice_is_run_a_third_time(
    install_spark: Install, drive: Drive, table: Compacted, arms: Arms, where: str, actions: tuple[str, str]
) -> None:
    """The one task of the table: before its work, then when its file is complete. Or its executor dies."""
    before = table.rows()
    points = ("before_merge_task", "after_merge_task")
    for point, action in zip(points, actions, strict=True):
        arms.arm(point, action)

    driver = drive(table, install_spark(master=where, conf=arms.conf), arms.environ)

    assert_compacted(table, before, driver)
    assert all(map(arms.is_hit, points))
    assert hidden(table) == []


def test_a_range_of_row_ids_whose_executor_is_killed_is_merged_again(
    install_spark: Install, drive: Drive, table: Compacted, arms: Arms
) -> None:
    """Armed for the first stage, which cuts the bucket; then for one of the ranges."""
    before = table.rows()
    arms.arm("before_merge_task", "sleep")
    driver = drive(
        table, install_spark(master=LOCAL_CLUSTER, conf=arms.conf), arms.environ, split_bucket_bytes=SPLIT_BYTES
    )
    wait_until_hit(arms, "before_merge_task", driver)
    arms.wake("before_merge_task")
    arms.arm("before_merge_task", "kill-executor")

    assert_compacted(table, before, driver)
    assert arms.is_hit("before_merge_task")
    assert hidden(table) == []


def test_of_two_attempts_of_a_task_one_counts(
    install_spark: Install, drive: Drive, ms: EmbeddedMetastoreClient, arms: Arms
) -> None:
    """The first attempt sleeps with its file complete."""
    table = Compacted(ms, bucket_columns=["id"], num_buckets=4)
    fill(table)
    before = table.rows()
    arms.arm("after_merge_task", "sleep")
    with standalone_cluster(install_spark()) as master:
        installation = install_spark(master=master, conf=arms.conf | SPECULATION)
        driver = drive(table, installation, shared_filesystem=True)
        assert_compacted(table, before, driver)
        assert arms.is_hit("after_merge_task")
        arms.wake("after_merge_task")
    assert len(list(table.folder.glob("base_*_v*/bucket_*"))) == 4
    hi.compact(table.client, table.name, wait=True)  # whatever the attempt that lost wrote in the end
    assert hidden(table) == []


@pytest.mark.parametrize("point", ["before_merge_task", "after_merge", "after_publish"])
def test_a_driver_that_is_killed_leaves_nothing_visible_and_another_compactor_takes_over(
    install_spark: Install, drive: Drive, table: Compacted, arms: Arms, point: str
) -> None:
    before = table.rows()
    if point == "before_merge_task":  # while a task runs
        arms.arm(point, "sleep")
        driver = drive(table, install_spark(conf=arms.conf), arms.environ)
        wait_until_hit(arms, point, driver)
        driver.kill()
        arms.wake(point)
        driver.wait()
    else:
        crash = CrashPoint(point, 1, signal.SIGKILL).to_environment()
        driver = drive(table, install_spark(), dict(os.environ) | crash)
        assert driver.wait().returncode == -signal.SIGKILL
    assert table.rows() == before
    assert [info.state for info in table.history()] == [CompactionState.WORKING]

    table.client.clock_offset_seconds += 2 * table.client.txn_timeout_seconds
    housekeeping(table.client)
    assert [info.state for info in table.history()] == [CompactionState.INITIATED]
    assert table.work().state is CompactionState.READY_FOR_CLEANING
    table.clean()
    assert table.rows() == before
    assert table.short_folders() == ["base_6_v"]
    assert hidden(table) == []
