"""Whatever step a worker or a cleaner dies at: every row stays, and the next one finishes what was begun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.compaction import Compactor, CompactorSettings, FolderState
from hive_ingest.faults import CLEANER_FAULT_POINTS, WORKER_FAULT_POINTS
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState, CompactionType
from hive_ingest.storage import Location
from hive_ingest.testing import CrashPoint
from tests.support.compactions import FAST, MAJOR, MINOR, Compacted, connect_quietly
from tests.support.metastores import housekeeping

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore gives a lost job back after a day")

CHILD = Path(__file__).with_name("compactor_child.py")
FOLDERS = {MINOR: ["delete_delta_1_8_v", "delta_1_8_v"], MAJOR: ["base_8_v"]}


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


@pytest.fixture
def table(ms: EmbeddedMetastoreClient) -> Compacted:
    """Rows of several transactions, one of them aborted, and delete events."""
    table = Compacted(ms)
    table.inserts(1, 4)
    table.delete(table.row_id(2))
    table.aborted_insert(9)  # takes two write ids
    table.insert(10)
    return table


def kill(table: Compacted, role: str, point: str, occurrence: int, uri: str) -> None:
    """Run a worker or cleaner in a process that dies at this point."""
    options = {"housekeeping_interval_seconds": 1e6, "aborted_txn_retention_seconds": 0.001}
    warehouse = str(table.folder.parent.parent)
    child = subprocess.run(
        [sys.executable, str(CHILD), uri, json.dumps(options), warehouse, role],
        env=os.environ | CrashPoint(point, occurrence, signal.SIGKILL).to_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert child.returncode == -signal.SIGKILL, f"{point} was never reached: {child.stderr}"


def wait_until_found_dead(table: Compacted) -> None:
    table.client.clock_offset_seconds += 2 * table.client.txn_timeout_seconds
    housekeeping(table.client)


def assert_clean(table: Compacted) -> None:
    """No file is left that no snapshot needs, and nothing is remembered of aborted transactions."""
    valid_txns = table.client.get_valid_txns()
    (snapshot,) = table.client.get_valid_write_ids([table.name], valid_txns)
    state = FolderState.read(Location.of(str(table.folder)), snapshot, valid_txns)
    assert (state.obsolete, state.aborted) == ((), ())
    assert list(table.folder.glob(".hive_ingest/*")) == []
    assert list(table.client.get_aborted_components(table.name)) == []


def check_killed_worker(table: Compacted, kind: CompactionType, point: str, uri: str) -> None:
    before = table.rows()
    table.request(kind)
    with hi.scan(table.client, table.name, columns=["id"]) as reader:
        kill(table, "worker", point, 1, uri)
        assert table.rows() == before
        is_committed = point == "after_commit_txn"
        assert sorted(reader.read_all()["id"].to_pylist()) == [row[1] for row in before]
    wait_until_found_dead(table)
    state = CompactionState.READY_FOR_CLEANING if is_committed else CompactionState.INITIATED
    assert [info.state for info in table.history()] == [state]
    assert table.rows() == before
    if not is_committed:
        assert table.work().state is CompactionState.READY_FOR_CLEANING
    assert table.rows() == before
    table.clean()
    assert table.short_folders() == FOLDERS[kind]
    assert table.rows() == before
    assert_clean(table)


@pytest.mark.parametrize("point", WORKER_FAULT_POINTS)
def test_a_worker_that_is_killed_leaves_nothing_visible_and_another_one_takes_up_its_job(
    table: Compacted, metastore_uri: str, point: str
) -> None:
    check_killed_worker(table, MINOR, point, metastore_uri)


@pytest.mark.one_embedded
@pytest.mark.parametrize("point", WORKER_FAULT_POINTS)
def test_a_killed_workers_job_does_not_wait_for_a_timeout_on_its_machine(
    table: Compacted, metastore_uri: str, point: str
) -> None:
    before = table.rows()
    table.request(MINOR)
    kill(table, "worker", point, 1, metastore_uri)
    worked = Compactor(table.client, roles=["worker"], settings=CompactorSettings(job=FAST)).run_once().worked
    is_committed = point == "after_commit_txn"
    assert [work.state for work in worked] == ([] if is_committed else [CompactionState.READY_FOR_CLEANING])
    assert table.client.get_valid_txns().open == ()
    assert table.rows() == before


@pytest.mark.one_embedded
@pytest.mark.parametrize("point", ["after_merge", "after_publish", "after_mark_compacted", "after_commit_txn"])
def test_the_same_holds_for_major_compactions(table: Compacted, metastore_uri: str, point: str) -> None:
    check_killed_worker(table, MAJOR, point, metastore_uri)


@pytest.mark.parametrize("kind", [MINOR, MAJOR], ids=["minor", "major"])
@pytest.mark.parametrize("point", CLEANER_FAULT_POINTS)
def test_a_cleaner_that_is_killed_loses_no_row_and_another_one_finishes(
    table: Compacted, metastore_uri: str, point: str, kind: CompactionType
) -> None:
    table.compact(kind)
    before = table.rows()
    kill(table, "cleaner", point, 2 if point == "between_removals" else 1, metastore_uri)
    assert table.rows() == before
    table.clean()
    assert table.history()[0].state is CompactionState.SUCCEEDED
    assert table.short_folders() == FOLDERS[kind]
    assert table.rows() == before
    assert_clean(table)
