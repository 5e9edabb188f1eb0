"""Rows that change when Spark computes them again: a transaction never has two versions of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.services.spark_versions import LOWEST
from tests.spark.arms import Arms
from tests.spark.driver import Driver, Finished
from tests.spark.installation import LOCAL_CLUSTER, Installation
from tests.spark.numbers import Tables, assert_once
from tests.support.metastores import connect_in

pytestmark = [pytest.mark.one_embedded, pytest.mark.local_warehouse(because="a cluster of this machine")]

SCRIPT = Path(__file__).with_name("unstable_job.py")
ROWS = 20_000

Write = Callable[[str | None], Finished]


@pytest.fixture
def client(sqlite_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, sqlite_uri) as client:
        Tables(client).create("t")
        yield client


@pytest.fixture
def write(
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
    client: MetastoreClient,
    sqlite_uri: str,
    tmp_path: Path,
) -> Write:
    """Has an executor die that takes shuffled rows with it, after others have been read and written."""

    def write(version: str | None) -> Finished:
        arms = Arms(tmp_path / "arms")
        arms.wake("after_prepare")  # it only shows that a task has come there
        arms.arm("after_prepare", "sleep")
        job = {
            "metastore": sqlite_uri,
            "warehouse": client.get_table("web.t").location.removesuffix("/web.db/t"),
            "table": "web.t",
            "rows": ROWS,
            "arms": str(tmp_path / "arms"),
        }
        (tmp_path / "job.json").write_text(json.dumps(job))
        installation = install_spark(master=LOCAL_CLUSTER, conf=arms.conf, version=version)
        done = start_driver(installation, SCRIPT, tmp_path / "job.json").wait()
        assert arms.is_hit("after_join"), done.err
        return done

    return write


def test_rows_that_change_when_an_executor_is_lost_are_all_written_again(write: Write, client: MetastoreClient) -> None:
    """By Spark 3.5, which does not notice it: rows were lost, and others were there twice."""
    done = write(LOWEST)
    assert done.out == f"rows {ROWS}\n", done.err
    assert_once(hi.read_table(client, "web.t")["id"].to_pylist(), list(range(ROWS)))
    assert "they are written again" in done.err


def test_rows_that_change_when_an_executor_is_lost_fail_a_job_of_a_newer_spark(
    write: Write, client: MetastoreClient
) -> None:
    done = write(None)
    assert "A shuffle map stage with indeterminate output was failed and retried" in done.out, done.err
    assert hi.read_table(client, "web.t").num_rows == 0
