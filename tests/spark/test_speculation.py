"""Two attempts of a task that both write: one of them counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.held_batch import run_held_batch
from tests.spark.installation import LOCAL_CLUSTER, Installation
from tests.spark.standalone import SPECULATION, standalone_cluster
from tests.spark.streams import streams_in

pytestmark = pytest.mark.one_embedded

Install = Callable[..., Installation]
Start = Callable[..., Driver]

#: The executors share this machine's disk, whatever Spark thinks of their hosts.
AS_LOCAL = {"spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false", "spark.master": LOCAL_CLUSTER}


def test_of_two_attempts_of_a_task_one_counts_and_nothing_is_left_of_the_other(
    install_spark: Install, start_driver: Start, metastore_uri: str, tmp_path: Path
) -> None:
    """The first attempt sleeps once it has prepared its files (batch 0), and before it does so (batch 1)."""
    arms = Arms(tmp_path / "arms")
    points = ("after_prepare", "before_prepare")
    with streams_in(tmp_path / "streams", metastore_uri) as streams:
        streams.add("numbers", "plain", columns="id, text", point="before_batch", batch_id=None)
        streams.input.add_batches(3)
        with standalone_cluster(install_spark()) as master:
            installation = install_spark(master=master, conf=arms.conf | SPECULATION)
            driver = streams.drive(start_driver, installation, conf=AS_LOCAL)
            for batch_id, point in enumerate(points):
                run_held_batch(streams, driver, arms, batch_id, point=point, action="sleep")
            streams.release()
            assert driver.wait().returncode == 0

        streams.assert_all_once()
        assert len(streams.tables.files("web.numbers")) == 2 * 3, "of each batch and task one file"
        # The attempt that lost may have written on after the commit; now that the executors are gone it has ended.
        hi.append(streams.tables.client, "web.numbers", pa.table({"id": [1000], "text": ["the next writer"]}))
        assert streams.tables.hidden("web.numbers") == []
