"""kill -9 in the middle of a run, then the same run again: each record is there once, at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.record_writer import StrictJsonWriter
from hive_ingest.streaming import ingest_files
from hive_ingest.testing import CrashPoint
from tests.support.warehouses import warehouse_in

#: Beside these, only points that need a second writer, a spill or a lost answer.
POINTS = (
    "after_open_txns",
    "after_write_id",
    "after_lock_acquired",
    "after_progress_read",
    "after_create_partitions",
    "after_add_dynamic_partitions",
    "after_commit_heartbeat",
    "between_renames",
    "after_publish",
    "after_commit_txn",
    "after_commit_answer",
)
COMMITTED = {"after_commit_txn", "after_commit_answer"}
ROWS = 35


@pytest.mark.one_embedded
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_resumes_exactly_once(point: str, metastore_uri: str, tmp_path: Path) -> None:
    warehouse = warehouse_in(tmp_path)
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, numbers in zip(paths, (range(17), range(17, ROWS)), strict=True):
        path.write_text("".join(json.dumps({"id": i, "part": f"p{i % 2}"}) + "\n" for i in numbers))
    with connect_metastore(metastore_uri, warehouse=warehouse, create=True) as client:
        client.create_database("web")
        client.create_table("web.events", columns={"id": "int"}, partition_keys={"part": "string"})
        child = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("child.py")), metastore_uri, warehouse, *map(str, paths)],
            env=os.environ | CrashPoint(point, _occurrence(point), signal.SIGKILL).to_environment(),
            check=False,
        )
        assert child.returncode == -signal.SIGKILL
        rows = hi.read_table(client, "web.events").num_rows
        assert rows == (20 if point in COMMITTED else 10)
        started = time.monotonic()
        ingest_files(client, "web.events", paths, sink="s", record_writer=StrictJsonWriter())
        assert time.monotonic() - started < client.txn_timeout_seconds / 5
        assert sorted(hi.read_table(client, "web.events")["id"].to_pylist()) == list(range(ROWS))


def _occurrence(point: str) -> int:
    """In the second transaction. Each one renames three files: two partitions and the progress."""
    return 4 if point == "between_renames" else 2
