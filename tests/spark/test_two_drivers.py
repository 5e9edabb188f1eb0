"""Two drivers on one checkpoint: both alive, and one that counted as dead and resumes late."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from hive_ingest.acid.names import DeltaName
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import LockState
from tests.services.kinds import Address
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.streams import Streams, streams_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_embedded

Install = Callable[..., Installation]
Start = Callable[..., Driver]

#: A driver is stopped here for longer than its transaction lives.
PUBLISH_POINTS = (
    "after_tasks",
    "after_create_partitions",
    "after_add_dynamic_partitions",
    "after_commit_heartbeat",
    "between_renames",
    "after_publish",
)
TXN_TIMEOUT_SECONDS = 10.0


def is_waiting(client: MetastoreClient, table: str) -> bool:
    return any(lock.state is LockState.WAITING for lock in client.show_locks(f"{table}__progress"))


def test_a_second_driver_on_a_checkpoint_is_refused_or_waits_and_every_row_is_there_once(
    spark: SparkSession, install_spark: Install, start_driver: Start, metastore_uri: str, tmp_path: Path
) -> None:
    with streams_in(tmp_path / "streams", metastore_uri) as streams:
        refused = streams.add("refused", point="after_tasks")
        waiting = streams.add("waiting", point="after_tasks")
        streams.input.add_batches(2)
        driver = streams.drive(start_driver, install_spark())
        streams.wait_until_held(driver)

        with pytest.raises(StreamingQueryException, match=rf"(?s)SinkInUse.*/{driver.process.pid}/"):
            streams.run(spark, refused, settings={"lock_wait_seconds": 0.5})
        batches: list[Any] = []
        query = streams.start(spark, waiting, on_batch=batches.append)
        wait_until(lambda: is_waiting(streams.client, "web.waiting"), "the second driver has not come to its lock")
        streams.release()
        with contextlib.suppress(StreamingQueryException):  # Spark's own: one of the two comes late to its commit log
            query.awaitTermination()

        assert [(batch.batch_id, batch.is_skipped) for batch in batches] == [(1, True)]
        driver.wait_for("ended web.refused")
        driver.wait()
        streams.assert_all_once()


def line_starting_with(out: str, prefix: str) -> str:
    """The only line of the output with this prefix."""
    [line] = [line for line in out.splitlines() if line.startswith(prefix)]
    return line


def suspend_between_writes(driver: Driver, uri: str) -> None:
    """Stop it only while it does not hold the lock of an SQLite file, for which all others would wait."""
    while True:
        driver.suspend()
        if is_writable(uri):
            return
        driver.resume()


def is_writable(uri: str) -> bool:
    """Whether no process holds the lock by which writers of an SQLite file exclude each other."""
    path = uri.removeprefix("sqlite:///")
    if path == uri:
        return True  # the sessions of a server go on without their client, or end
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        database.execute("ROLLBACK")
    return True


def take_over(spark: SparkSession, streams: Streams) -> None:
    """While the other driver is stopped: its locks are free once it has timed out."""
    time.sleep(TXN_TIMEOUT_SECONDS)
    streams.run_all(spark)
    streams.assert_all_once()


def files_of_aborted(streams: Streams, table: str) -> list[str]:
    """Files with a visible name whose transaction was aborted."""
    [snapshot] = streams.client.get_valid_write_ids([table])
    return [
        file
        for file in streams.tables.files(table)
        if DeltaName.parse(file.split("/")[-2]).min_write_id in snapshot.aborted
    ]


def test_a_driver_that_resumes_after_its_timeout_commits_nothing(
    spark: SparkSession,
    install_spark: Install,
    start_driver: Start,
    metastore_timing_out: Callable[[float], Address],
    tmp_path: Path,
) -> None:
    arms = Arms(tmp_path / "arms")
    address = metastore_timing_out(TXN_TIMEOUT_SECONDS)
    with streams_in(tmp_path / "streams", address.uri, **address.options) as streams:
        for point in PUBLISH_POINTS:
            streams.add(point, point=point, batch_id=1)
        streams.add("in_tasks", point="before_batch", batch_id=2)
        streams.input.add_batches(3)
        driver = streams.drive(start_driver, install_spark(conf=arms.conf), environ=arms.environ)
        streams.wait_until_held(driver)
        arms.arm("before_prepare", "sleep")
        streams.release(2)
        wait_until(lambda: arms.is_hit("before_prepare"), "no task has come to before_prepare")

        suspend_between_writes(driver, address.uri)
        take_over(spark, streams)
        arms.wake("before_prepare")
        streams.release()
        driver.resume()
        ended = driver.wait()

        assert ended.returncode == 0, ended.err
        for stream in streams.streams:
            failed = line_starting_with(ended.out, f"failed {stream.table} ")
            assert "hive_ingest.errors.TxnAborted: " in failed, f"{failed}\n{ended.err}"
            assert files_of_aborted(streams, stream.table) == []
        streams.assert_all_once()
