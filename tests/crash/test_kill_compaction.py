"""Whatever step a worker or a cleaner is killed at: no row is lost, doubled or changed, and the next one finishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.compaction import CleanerSettings, Compactor, CompactorSettings
from hive_ingest.faults import CLEANER_FAULT_POINTS, WORKER_FAULT_POINTS
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState
from hive_ingest.testing import CrashPoint
from tests.support.compactions import Compacted, connect_quietly
from tests.support.metastores import housekeeping

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own cleaner"),
    pytest.mark.one_embedded,
]
CHILD = Path(__file__).with_name("compaction_child.py")


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


@pytest.mark.parametrize("point", [*WORKER_FAULT_POINTS, *CLEANER_FAULT_POINTS])
def test_killed_at_any_step_and_restarted_every_row_is_there_once(
    ms: EmbeddedMetastoreClient, metastore_uri: str, tmp_path: Path, point: str
) -> None:
    table = Compacted(ms, bucket_columns=["id"], num_buckets=2)
    for start in range(0, 60, 10):
        table.insert(*range(start, start + 10))
    table.delete(table.row_id(3))
    before = table.rows()
    command = [sys.executable, str(CHILD), metastore_uri, str(tmp_path / "warehouse")]
    environ = os.environ | CrashPoint(point, 1, signal.SIGKILL).to_environment()
    killed = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, f"{point} was never hit: {killed.stderr}"
    assert table.rows() == before
    ms.clock_offset_seconds = 2 * ms.txn_timeout_seconds
    housekeeping(ms)
    assert table.rows() == before
    table.insert(99)
    settings = CompactorSettings(cleaner=CleanerSettings(aborted_grace_seconds=0))
    for _ in range(2):
        Compactor(ms, settings=settings).run_once()
    assert [row for row in table.rows() if row[1] != 99] == before
    assert len([name for name in table.folders() if name.startswith("base_")]) == 1
    assert len(table.folders()) <= 2, "what was left of the killed one is removed"
    assert list((table.folder / ".hive_ingest").glob("*")) == []
    assert {info.state for info in table.history()} == {CompactionState.SUCCEEDED}
