"""A real cluster: Spark's standalone master and two workers, with warehouses on HDFS and S3 and in a shared folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.storage import Location
from hive_ingest.transactions.staging import STAGING_FOLDER
from tests.services.hdfs import Hdfs
from tests.services.metastore import RealMetastore
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.held_batch import run_held_batch
from tests.spark.installation import Installation
from tests.spark.standalone import HOSTS, SPECULATION, kill_worker, standalone_cluster
from tests.spark.streams import Streams, streams_in
from tests.support.warehouses import STORES

Install = Callable[..., Installation]
Start = Callable[..., Driver]


@pytest.fixture
def streams(hive401_metastore: RealMetastore, tmp_path: Path) -> Iterator[Streams]:
    with Hdfs(tmp_path / "hdfs") as hdfs:
        warehouse = f"{hdfs.uri}/warehouse"
        Location.of(warehouse).make_folder()
        with streams_in(tmp_path / "streams", hive401_metastore.uri, warehouse=warehouse) as streams:
            yield streams


@pytest.fixture(params=["s3", "local"], ids=["s3", "shared folder"])
def streams_elsewhere(request: pytest.FixtureRequest, sqlite_uri: str, tmp_path: Path) -> Iterator[Streams]:
    """On S3, or in a folder that both workers have, with an embedded metastore that only the driver has."""
    with STORES[request.param].running(lambda name: tmp_path / name) as store:
        warehouse = store.warehouse_of(tmp_path)
        with streams_in(tmp_path / "streams", sqlite_uri, warehouse=warehouse) as streams:
            yield streams


def test_an_executor_a_worker_and_tasks_that_are_lost_on_a_cluster_leave_every_row_once(
    install_spark: Install, start_driver: Start, streams: Streams, tmp_path: Path
) -> None:
    arms = Arms(tmp_path / "arms")
    streams.add("numbers", "parts", point="before_batch", batch_id=None)
    streams.input.add_batches(3)
    with standalone_cluster(install_spark()) as master:
        driver = streams.drive(start_driver, install_spark(master=master, conf=arms.conf))
        run_held_batch(streams, driver, arms, 0, point="after_prepare", action="kill-executor")
        run_held_batch(streams, driver, arms, 1, point="before_prepare", action="kill")
        run_held_batch(streams, driver, arms, 2, meanwhile=lambda: kill_worker(HOSTS[1]))
        streams.release()
        assert driver.wait().returncode == 0

    streams.assert_all_once()
    assert _staged(streams) == []


@pytest.mark.local_warehouse(because="it has warehouses of its own")
@pytest.mark.one_embedded
def test_an_executor_and_a_worker_that_are_lost_leave_every_row_once_on_s3_and_in_a_shared_folder(
    install_spark: Install, start_driver: Start, streams_elsewhere: Streams, tmp_path: Path
) -> None:
    streams, arms = streams_elsewhere, Arms(tmp_path / "arms")
    streams.add("numbers", "parts", point="before_batch", batch_id=None)
    streams.input.add_batches(2)
    with standalone_cluster(install_spark()) as master:
        installation = install_spark(master=master, conf=arms.conf)
        driver = streams.drive(start_driver, installation, sink={"shared_filesystem": True})
        run_held_batch(streams, driver, arms, 0, point="after_prepare", action="kill-executor")
        run_held_batch(streams, driver, arms, 1, meanwhile=lambda: kill_worker(HOSTS[1]))
        streams.release()
        assert driver.wait().returncode == 0

    streams.assert_all_once()
    assert _staged(streams) == []


def test_of_two_attempts_of_the_only_task_of_a_batch_one_counts(
    install_spark: Install, start_driver: Start, streams: Streams, tmp_path: Path
) -> None:
    """Spark coalesces the rows of these batches into one task, which it compares with a duration, as there is no other.

    The first attempt sleeps once it has prepared its files (batch 0), and before it does so (batch 1).
    """
    arms = Arms(tmp_path / "arms")
    streams.add("numbers", "parts", point="before_batch", batch_id=None)
    streams.input.add_batches(2)
    conf = arms.conf | SPECULATION | {"spark.speculation.task.duration.threshold": "1s"}
    with standalone_cluster(install_spark()) as master:
        driver = streams.drive(start_driver, install_spark(master=master, conf=conf))
        run_held_batch(streams, driver, arms, 0, point="after_prepare", action="sleep")
        run_held_batch(streams, driver, arms, 1, point="before_prepare", action="sleep")
        streams.release()
        assert driver.wait().returncode == 0

    streams.assert_all_once()
    # The attempt that lost may have written on after the commit; now that the executors are gone it has ended.
    hi.append(streams.client, "web.numbers", pa.table({"id": [1000], "text": ["the next writer"], "part": ["p1"]}))
    assert _staged(streams) == []


def _staged(streams: Streams) -> list[str]:
    """What is left under hidden names."""
    folder = Location.of(streams.client.get_table("web.numbers").location) / STAGING_FOLDER
    return [entry.name for entry in folder.list(missing_ok=True)]
