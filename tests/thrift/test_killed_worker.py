"""A worker of ours that is killed beside a real metastore: no row is lost, and its work is not lost for a day."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.compaction import Compactor, CompactorSettings
from hive_ingest.compaction.dead_workers import take_back_from_dead_workers
from hive_ingest.errors import NoSuchTxn
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionState, TxnState
from hive_ingest.testing import CrashPoint, faults
from hive_ingest.transactions import Owner
from tests.support.compactions import FAST, MAJOR, Compacted
from tests.support.fronts import Front, failing
from tests.support.metastores import connect_in

CHILD = Path(__file__).parents[1] / "crash" / "compactor_child.py"
KILL_POINTS = [
    "after_find_next_compact",
    "after_compaction_txn",
    "after_merge",
    "after_publish",
    "after_mark_compacted",
]
READY, FAILED = CompactionState.READY_FOR_CLEANING, CompactionState.FAILED


@pytest.fixture
def client(hive401_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, hive401_uri) as client:
        yield client


@pytest.fixture
def table(client: MetastoreClient) -> Compacted:
    table = Compacted(client)
    table.inserts(1, 3)
    table.delete(table.row_id(2))
    return table


def kill_worker(table: Compacted, uri: str, point: str) -> None:
    child = subprocess.run(
        [sys.executable, str(CHILD), uri, "{}", str(table.folder.parent.parent), "worker"],
        env=os.environ | CrashPoint(point, 1, signal.SIGKILL).to_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert child.returncode == -signal.SIGKILL, f"{point} was never reached: {child.stderr}"


def compact(table: Compacted) -> list[CompactionState]:
    """What a compactor on the same machine does, once."""
    done = Compactor(table.client, settings=CompactorSettings(job=FAST)).run_once()
    return [work.state for work in done.worked]


@pytest.mark.parametrize("point", KILL_POINTS)
def test_a_killed_workers_compaction_is_requested_again_and_done(
    table: Compacted, hive401_uri: str, point: str
) -> None:
    before = table.rows()
    table.request(MAJOR)
    kill_worker(table, hive401_uri, point)
    assert table.rows() == before
    assert compact(table) == [READY]
    assert table.rows() == before
    new, old = table.history()
    assert (new.state, old.state) == (READY, FAILED)
    assert "process of the compaction's worker has ended" in (old.error_message or "")
    assert "base_4_v" in table.short_folders()
    assert table.client.show_locks(table.name) == []
    open_txns = [info for info in table.client.get_open_txns_info().transactions if info.state is TxnState.OPEN]
    assert len(open_txns) == (point == "after_compaction_txn"), "which holds no lock yet, and times out"


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_commit_that_the_server_still_carries_out_is_left_alone(
    table: Compacted, hive401_uri: str, is_alive: bool
) -> None:
    """Either its worker is alive, or the abort comes too late."""
    before = table.rows()
    table.request(MAJOR)
    taken: list[int] = []

    def at(point: str) -> None:
        if point == "after_mark_compacted":
            front: Any = table.client
            if not is_alive:
                front = Front(table.client, abort_txn=failing(NoSuchTxn("committed")), mark_failed=failing(OSError()))
            taken.append(take_back_from_dead_workers(front))

    with pytest.MonkeyPatch.context() as patch, faults(observe=at):
        if not is_alive:
            patch.setattr(Owner, "is_dead", lambda _: True)
        assert table.work().state is READY
    assert taken == [0]
    assert table.rows() == before


def test_what_a_worker_committed_before_it_was_killed_stays(table: Compacted, hive401_uri: str) -> None:
    before = table.rows()
    table.request(MAJOR)
    kill_worker(table, hive401_uri, "after_commit_txn")
    assert compact(table) == []
    assert [info.state for info in table.history()] == [READY]
    assert table.rows() == before
