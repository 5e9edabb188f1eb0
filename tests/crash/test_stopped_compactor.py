"""A worker or cleaner that is stopped past its timeout, and continues after others did its work, changes nothing.

As after SIGSTOP, or in a virtual machine that was suspended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hive_ingest.inspection import check_table
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState, TableName
from hive_ingest.testing import CrashPoint
from tests.support.compactions import MINOR, Compacted, connect_quietly
from tests.support.metastores import housekeeping
from tests.support.warehouses import NEEDS_FOLDER_RENAMES

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore gives a lost job back after a day"),
    pytest.mark.one_embedded,
]

CHILD = Path(__file__).with_name("compactor_child.py")
#: Nobody else runs housekeeping, so a child is found dead only when a test says so.
TIMEOUT_SECONDS = 1.0


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


@contextmanager
def stopped(table: Compacted, role: str, point: str, uri: str, timeout_seconds: float) -> Iterator[Callable[[], None]]:
    """Start a worker or a cleaner that stops at this point; what is yielded has it go on to its end."""
    options = {
        "housekeeping_interval_seconds": 1e6,
        "aborted_txn_retention_seconds": 0.001,
        "txn_timeout_seconds": timeout_seconds,
    }
    child = subprocess.Popen(
        [sys.executable, str(CHILD), uri, json.dumps(options), str(table.folder.parent.parent), role],
        env=os.environ | CrashPoint(point, 1, signal.SIGSTOP).to_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )

    def go_on() -> None:
        os.kill(child.pid, signal.SIGCONT)
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors

    with child:
        try:
            _, status = os.waitpid(child.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), f"{point} was never reached: {child.communicate()[1]}"
            yield go_on
        finally:
            child.kill()


def find_dead(table: Compacted) -> None:
    table.client.clock_offset_seconds += 2 * table.client.txn_timeout_seconds
    housekeeping(table.client)


@pytest.mark.parametrize("point", ["after_compaction_txn", "between_renames", "after_publish", "after_mark_compacted"])
def test_a_worker_that_continues_after_another_one_has_done_its_work_changes_nothing(
    ms: EmbeddedMetastoreClient, metastore_uri: str, point: str
) -> None:
    table = Compacted(ms)
    table.inserts(1, 4)
    table.delete(table.row_id(2))
    table.request(MINOR)
    with stopped(table, "worker", point, metastore_uri, ms.txn_timeout_seconds) as go_on:
        find_dead(table)
        table.insert(7)
        assert table.work().state is CompactionState.READY_FOR_CLEANING
        table.clean()
        housekeeping(ms)  # the transaction of the stopped worker is forgotten
        before, folders = table.rows(), table.folders()
        go_on()
    assert table.rows() == before
    assert table.folders() == folders
    assert list(table.folder.glob(".hive_ingest/*")) == []
    assert table.states() == [CompactionState.SUCCEEDED]
    assert ms.get_valid_txns().open == ()
    assert not check_table(ms, table.name).findings


@NEEDS_FOLDER_RENAMES
def test_a_cleaner_that_continues_after_its_lock_has_timed_out_removes_nothing(
    ms: EmbeddedMetastoreClient, metastore_uri: str
) -> None:
    """Meanwhile another table, with folders of the same names, has taken the name and the place of its table."""
    table, other = Compacted(ms), Compacted(ms, "other")
    for each in (table, other):
        each.inserts(1, 3)
    rows, others = table.rows(), other.rows()
    table.compact(MINOR)
    with stopped(table, "cleaner", "between_removals", metastore_uri, TIMEOUT_SECONDS) as go_on:
        stopped_at = time.monotonic()
        find_dead(table)
        for old, new in ((table.name, "web.old"), (other.name, str(table.name))):
            ms.alter_table(old, replace(ms.get_table(old), name=TableName.of(new)))
        time.sleep(max(0.0, stopped_at + TIMEOUT_SECONDS - time.monotonic()))
        go_on()
    assert table.rows() == others
    table.name = TableName.of("web.old")
    assert table.rows() == rows
