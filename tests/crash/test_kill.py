"""Whatever step a writer dies at: after a restart every row is there once, and none that was not committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.faults import FAULT_POINTS
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.testing import CrashPoint

CHILD = Path(__file__).with_name("child.py")
ROWS = 900
TABLE = "crash.numbers"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def ms(metastore_uri: str, warehouse: Path) -> Any:
    options = {"txn_timeout_seconds": 4.0, "housekeeping_interval_seconds": 1.0}
    with connect_metastore(metastore_uri, warehouse=str(warehouse), **options) as client:
        client.create_database("crash")
        client.create_table(TABLE, columns={"id": "int", "text": "string"}, partition_keys={"part": "string"})
        yield client


def start(ms_uri: str, warehouse: Path, crash: CrashPoint | None = None) -> subprocess.Popen[str]:
    environ = os.environ | (crash.to_environment() if crash else {})
    command = [sys.executable, str(CHILD), ms_uri, str(warehouse), TABLE, str(ROWS)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(ms_uri: str, warehouse: Path, crash: CrashPoint | None = None) -> tuple[int, list[int], str]:
    """Exit code, the positions that it was told are committed, and its error output."""
    child = start(ms_uri, warehouse, crash)
    out, err = child.communicate(timeout=120)
    return child.returncode, [int(line.split()[1]) for line in out.splitlines()], err


def read_ids(client: MetastoreClient) -> list[int]:
    found: list[int] = hi.read_table(client, TABLE, columns=["id"]).column("id").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_killed_at_any_step_and_restarted_every_row_is_there_once(
    ms: MetastoreClient, metastore_uri: str, warehouse: Path, point: str
) -> None:
    # The second transaction, where there is one: the first has left its traces then.
    occurrence = {"lock_waiting": 1, "after_spill": 5, "between_renames": 4}.get(point, 2)
    code, told, err = run(metastore_uri, warehouse, CrashPoint(point, occurrence, signal.SIGKILL))
    assert code == -signal.SIGKILL, f"{point} was never hit: {err}"
    before = read_ids(ms)
    assert before == list(range(len(before))), "a transaction is visible in part"
    assert len(before) >= (told[-1] if told else 0), "a row that was reported committed is gone"
    code, told, err = run(metastore_uri, warehouse)
    assert (code, told[-1:]) == (0, [ROWS]), err
    assert read_ids(ms) == list(range(ROWS))


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_an_error_at_any_step_leaves_all_or_nothing_and_the_restart_completes_it(
    ms: MetastoreClient, metastore_uri: str, warehouse: Path, point: str
) -> None:
    occurrence = {"lock_waiting": 1, "after_spill": 5, "between_renames": 4}.get(point, 2)
    code, _, err = run(metastore_uri, warehouse, CrashPoint(point, occurrence))
    assert code == 1, err
    assert f"FaultError: armed at {point}" in err
    before = read_ids(ms)
    assert before == list(range(len(before)))
    assert ms.show_locks() == [], "the failed writer left a lock behind"
    code, _, err = run(metastore_uri, warehouse)
    assert code == 0, err
    assert read_ids(ms) == list(range(ROWS))


def test_a_restart_does_not_wait_for_the_dead_owners_time_out(
    ms: MetastoreClient, metastore_uri: str, warehouse: Path
) -> None:
    code, _, err = run(metastore_uri, warehouse, CrashPoint("after_publish", 1, signal.SIGKILL))
    assert code == -signal.SIGKILL, err
    began = time.monotonic()
    with hi.StreamingConnection.connect(
        ms,
        database="crash",
        table="numbers",
        record_writer=hi.StrictJsonWriter(),
        sink="crash",
        sources=["numbers"],
        settings={"lock_wait_seconds": 2.0},
    ) as conn:
        conn.begin_transaction()
        assert conn.progress == {"numbers": None}
        conn.abort_transaction()
    assert time.monotonic() - began < 2.0


def test_a_writer_stopped_between_two_renames_past_its_time_out_publishes_nothing(
    ms: MetastoreClient, metastore_uri: str, warehouse: Path
) -> None:
    child = start(metastore_uri, warehouse, CrashPoint("between_renames", 1, signal.SIGSTOP))
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    root = Path(ms.get_table(TABLE).location.removeprefix("file:"))
    assert list(root.glob("part=*/delta_*/bucket_*")), "nothing was renamed yet: the test tests nothing"
    time.sleep(5.0)  # longer than the child's time-out of 4 s
    ms.run_housekeeping()  # type: ignore[attr-defined]  # the embedded metastore's own
    assert read_ids(ms) == []
    os.kill(child.pid, signal.SIGCONT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "TxnAborted" in err
    assert read_ids(ms) == []
    assert list(root.glob("part=*/delta_*/bucket_*")) == [], "the late writer left its files"
    code, _, err = run(metastore_uri, warehouse)
    assert code == 0, err
    assert read_ids(ms) == list(range(ROWS))
