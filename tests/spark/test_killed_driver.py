"""kill -9 of a driver at every step of a batch: after the restart every row is there once.

One driver runs a query for each fault point. When each query is held at its own, the driver is killed: for each of
them this is a kill at that very point, and all of them share one start of a JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hive_ingest.connection import StreamingConnection
from hive_ingest.faults import BATCH_FAULT_POINTS, FAULT_POINTS
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import ArrowWriter
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.numbers import Tables
from tests.spark.streams import Streams, streams_in

#: Rows are spilled in executors only: `test_killed_tasks.py`.
SINK_POINTS = tuple(point for point in (*FAULT_POINTS, *BATCH_FAULT_POINTS) if point != "after_spill")
#: From here on the batch is committed.
COMMITTED = ("commit_before_answer", "after_commit_txn", "after_commit_answer", "after_batch")

Install = Callable[..., Installation]
Start = Callable[..., Driver]


def holding_the_table(client: MetastoreClient, table: str) -> StreamingConnection:
    """An overwrite under way, for which every other writer waits."""
    database, name = table.split(".")
    connection = StreamingConnection.connect(
        client, database=database, table=name, record_writer=ArrowWriter(), overwrite=True
    )
    connection.begin_transaction()
    return connection


def kill_at_every_point(streams: Streams, start_driver: Start, installation: Installation, layout: str) -> None:
    """Each query in its second batch, which finds traces of a first one; but who waits for a lock, in the first."""
    for point in SINK_POINTS:
        streams.add(point, layout, point=point, batch_id=0 if point == "lock_waiting" else 1)
    streams.input.add_batches(3)
    with holding_the_table(streams.client, "web.lock_waiting"):
        driver = streams.drive(start_driver, installation)
        streams.wait_until_held(driver)
        driver.kill()
    driver.wait()


def visible_after_the_kill(streams: Streams) -> dict[str, int]:
    """Rows, by the point."""
    return {str(stream.point): len(streams.ids(stream)) for stream in streams.streams}


def rows_of_batches(committed: int) -> int:
    return 40 * committed


EXPECTED = {
    point: rows_of_batches(0 if point == "lock_waiting" else 2 if point in COMMITTED else 1) for point in SINK_POINTS
}


@pytest.mark.one_embedded
def test_a_driver_killed_at_any_step_leaves_whole_batches_and_the_restart_every_row_once(
    spark: SparkSession,
    install_spark: Install,
    start_driver: Start,
    metastore_uri: str,
    metastore_kind: str,
    tmp_path: Path,
) -> None:
    layout = "parts" if metastore_kind == "sqlite" else "both"
    with streams_in(tmp_path / "streams", metastore_uri) as streams:
        kill_at_every_point(streams, start_driver, install_spark(), layout)
        assert visible_after_the_kill(streams) == EXPECTED

        streams.run_all(spark)

        streams.assert_all_once()
        assert leftovers(streams.tables) == {}


def leftovers(tables: Tables) -> dict[str, list[str]]:
    """Hidden files, by table; the data's and the progress's."""
    names = [f"web.{name}" for name in tables.client.get_tables("web", "*")]
    return {name: found for name in names if (found := tables.hidden(name))}
