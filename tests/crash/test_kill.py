"""Whatever step a writer dies at: after a restart every row is there once, and none that was not committed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.faults import FAULT_POINTS
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.testing import CrashPoint
from tests.services.kinds import Address
from tests.support.rows import ids
from tests.support.tables import table_folder
from tests.support.warehouses import warehouse_in

CHILD = Path(__file__).with_name("child.py")
ROWS = 900
TABLE = "crash.numbers"
TXN_TIMEOUT_SECONDS = 5.0


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return warehouse_in(tmp_path)


@pytest.fixture
def address(metastore_timing_out: Callable[[float], Address]) -> Address:
    return metastore_timing_out(TXN_TIMEOUT_SECONDS)


@pytest.fixture
def ms(address: Address, warehouse: str) -> Iterator[MetastoreClient]:
    with connect_metastore(address.uri, warehouse=warehouse, **address.options, create=True) as client:
        client.create_database("crash")
        client.create_table(TABLE, columns={"id": "int", "text": "string"}, partition_keys={"part": "string"})
        yield client


def start(address: Address, warehouse: str, crash: CrashPoint | None = None) -> subprocess.Popen[str]:
    environ = os.environ | (crash.to_environment() if crash else {})
    place = (address.uri, json.dumps(address.options), str(warehouse))
    command = [sys.executable, str(CHILD), *place, TABLE, str(ROWS)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(address: Address, warehouse: str, crash: CrashPoint | None = None) -> tuple[int, list[int], str]:
    """Exit code, the positions that it reported as committed, and its error output."""
    child = start(address, warehouse, crash)
    out, err = child.communicate(timeout=120)
    return child.returncode, [int(line.split()[1]) for line in out.splitlines()], err


def wait_until_timed_out(client: MetastoreClient) -> None:
    """A server does that itself. For an embedded metastore, its clients do."""
    deadline = time.monotonic() + 60
    while client.get_valid_txns().open:
        assert time.monotonic() < deadline, "the transaction is still open"
        if isinstance(client, EmbeddedMetastoreClient):
            client.run_housekeeping()
        time.sleep(0.1)


@pytest.mark.parametrize("point", FAULT_POINTS)
def test_killed_at_any_step_and_restarted_every_row_is_there_once(
    ms: MetastoreClient, address: Address, warehouse: str, point: str
) -> None:
    # The second transaction, where there is one: the first has left its traces then.
    occurrence = {"lock_waiting": 1, "after_spill": 5, "between_renames": 4}.get(point, 2)
    code, reported, err = run(address, warehouse, CrashPoint(point, occurrence, signal.SIGKILL))
    assert code == -signal.SIGKILL, f"{point} was never hit: {err}"
    before = ids(ms, TABLE)
    assert before == list(range(len(before))), "a transaction is visible in part"
    assert len(before) >= (reported[-1] if reported else 0), "a row that was reported committed is gone"
    code, reported, err = run(address, warehouse)
    assert (code, reported[-1:]) == (0, [ROWS]), err
    assert ids(ms, TABLE) == list(range(ROWS))


@pytest.mark.one_embedded
@pytest.mark.parametrize("point", FAULT_POINTS)
def test_an_error_at_any_step_leaves_all_or_nothing_and_the_restart_completes_it(
    ms: MetastoreClient, address: Address, warehouse: str, point: str
) -> None:
    occurrence = {"lock_waiting": 1, "after_spill": 5, "between_renames": 4}.get(point, 2)
    code, _, err = run(address, warehouse, CrashPoint(point, occurrence))
    assert code == 1, err
    assert f"FaultError: armed at {point}" in err
    before = ids(ms, TABLE)
    assert before == list(range(len(before)))
    assert ms.show_locks() == [], "the failed writer left a lock behind"
    code, _, err = run(address, warehouse)
    assert code == 0, err
    assert ids(ms, TABLE) == list(range(ROWS))


def test_a_restart_does_not_wait_for_the_dead_owners_timeout(
    ms: MetastoreClient, address: Address, warehouse: str
) -> None:
    code, _, err = run(address, warehouse, CrashPoint("after_publish", 1, signal.SIGKILL))
    assert code == -signal.SIGKILL, err
    with hi.StreamingConnection.connect(
        ms,
        database="crash",
        table="numbers",
        record_writer=hi.StrictJsonWriter(),
        sink="crash",
        sources=["numbers"],
        settings={"lock_wait_seconds": TXN_TIMEOUT_SECONDS / 2},
    ) as conn:
        conn.begin_transaction()
        assert conn.progress == {"numbers": None}
        conn.abort_transaction()


def test_a_writer_stopped_between_two_renames_past_its_timeout_publishes_nothing(
    ms: MetastoreClient, address: Address, warehouse: str
) -> None:
    # Other stores than the local one rename all files of a commit at the same time: which are renamed first is chance.
    point = "after_publish" if "://" in warehouse else "between_renames"
    child = start(address, warehouse, CrashPoint(point, 1, signal.SIGSTOP))
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    root = table_folder(ms, TABLE)
    assert list(root.glob("part=*/delta_*/bucket_*")), "nothing was renamed yet: the test tests nothing"
    wait_until_timed_out(ms)
    assert ids(ms, TABLE) == []
    os.kill(child.pid, signal.SIGCONT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "TxnAborted" in err
    assert ids(ms, TABLE) == []
    assert list(root.glob("part=*/delta_*/bucket_*")) == [], "the late writer left its files"
    code, _, err = run(address, warehouse)
    assert code == 0, err
    assert ids(ms, TABLE) == list(range(ROWS))
