"""A real cluster: Spark's standalone master and two workers, a warehouse on HDFS, and a real metastore."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hive_ingest.storage import Location
from hive_ingest.transactions.staging import STAGING_FOLDER
from tests.services.hdfs import Hdfs
from tests.services.metastore import RealMetastore
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.standalone import HOSTS, kill_worker, standalone_cluster
from tests.spark.streams import Streams, streams_in

Install = Callable[..., Installation]
Start = Callable[..., Driver]


@pytest.fixture
def streams(hive401_metastore: RealMetastore, tmp_path: Path) -> Iterator[Streams]:
    with Hdfs(tmp_path / "hdfs") as hdfs:
        warehouse = f"{hdfs.uri}/warehouse"
        Location.of(warehouse).make_folder()
        with streams_in(tmp_path / "streams", hive401_metastore.uri, warehouse=warehouse) as streams:
            yield streams


def test_an_executor_a_worker_and_tasks_that_are_lost_on_a_cluster_leave_every_row_once(
    install_spark: Install, start_driver: Start, streams: Streams, tmp_path: Path
) -> None:
    arms = Arms(tmp_path / "arms")
    streams.add("numbers", "parts", point="before_batch", batch_id=None)
    streams.input.add_batches(3)
    with standalone_cluster(install_spark()) as master:
        installation = install_spark(master=master, conf=arms.conf)
        driver = streams.drive(start_driver, installation)

        def run(batch_id: int, point: str | None = None, action: str = "", meanwhile: Callable[[], None] | None = None):
            driver.wait_for(f"held web.numbers before_batch {batch_id}")
            if point is not None:
                arms.arm(point, action)
            if meanwhile is not None:
                meanwhile()
            streams.release(batch_id)
            driver.wait_for(f"batch web.numbers {batch_id} committed")
            assert point is None or arms.is_hit(point), f"no task came to {point}"

        run(0, "after_prepare", "kill-executor")
        run(1, "before_prepare", "kill")
        run(2, meanwhile=lambda: kill_worker(HOSTS[1]))
        streams.release()
        assert driver.wait().returncode == 0

    streams.assert_all_once()
    folder = Location.of(streams.client.get_table("web.numbers").location) / STAGING_FOLDER
    assert folder.uri.startswith("hdfs://")
    assert [entry.name for entry in folder.list(missing_ok=True)] == []
