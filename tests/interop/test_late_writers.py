"""Writers that die or sleep until Hive has aborted, compacted, cleaned and forgotten their transaction."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnId
from hive_ingest.testing import CrashPoint
from tests.interop.hive import RealHive
from tests.interop.late_writer import rows
from tests.interop.tables import orc_properties
from tests.services.metastore import RealMetastore
from tests.support.rows import ids
from tests.support.tables import table_folder
from tests.support.waiting import wait_until

TIMEOUT_SECONDS = 10.0
#: Between the last heartbeat and the commit: before, within and after publishing.
STOPS = ("after_commit_heartbeat", "between_renames", "after_publish")


@pytest.fixture(scope="module", params=["3.1.3", "4.0.1"])
def hive(
    request: pytest.FixtureRequest,
    real_metastores: Callable[..., RealMetastore],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealHive]:
    """On a metastore with a short timeout."""
    home = tmp_path_factory.mktemp(f"hive-{request.param}")
    with RealHive(real_metastores(request.param, TIMEOUT_SECONDS), home) as hive:
        hive.set("hive.txn.timeout", f"{TIMEOUT_SECONDS:.0f}s")  # by which Hive's own heartbeats go
        yield hive


def create(client: MetastoreClient, hive: RealHive, table: str) -> None:
    client.create_table(
        table,
        columns={"id": "bigint"},
        partition_keys={"part": "string"},
        bucket_columns=["id"],
        num_buckets=2,
        properties=orc_properties(hive),
    )


def start(hive: RealHive, table: str, crash: CrashPoint) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.interop.late_writer", hive.metastore.uri, table]
    environ = os.environ | crash.to_environment()
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], env=environ, stderr=subprocess.PIPE, text=True)


def remembered(client: MetastoreClient) -> set[TxnId]:
    return {txn.id for txn in client.get_open_txns_info().transactions}


def read(hive: RealHive, client: MetastoreClient, table: str) -> list[int]:
    """Hive and we must agree."""
    ours = ids(client, table)
    assert sorted(row[0] for row in hive.sql(f"select id from {table}")) == ours
    return ours


def visible(client: MetastoreClient, table: str) -> list[str]:
    """The folders with a visible name in the table's partition."""
    return sorted(path.name for path in (table_folder(client, table) / "part=a").glob("[!._]*"))


def test_no_row_of_a_writer_that_died_after_its_first_spill_appears_when_hive_has_forgotten_it(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    table = f"{database}.t"
    create(client, hive, table)
    dead = start(hive, table, CrashPoint("after_spill", 1, signal.SIGKILL))
    dead.communicate(timeout=120)
    assert dead.returncode == -signal.SIGKILL
    [txn_id] = client.get_valid_txns().open
    wait_until(
        lambda: txn_id not in client.get_valid_txns().open,
        "the metastore has not timed the dead writer out",
        seconds=90,
    )
    if hive.version == "3.1.3":
        # It has no components in the metastore's tables, so an initiator takes it for empty.
        hive.call("compactor_pass", thread="initiator")
        assert txn_id not in remembered(client), "it is still remembered: the test tests nothing"
    for first in (0, 5):
        hi.append(client, table, rows(range(first, first + 5)))
    assert read(hive, client, table) == list(range(10))
    hive.compact(table, "major", partition="part='a'")
    assert read(hive, client, table) == list(range(10))


def test_a_writer_that_sleeps_until_its_transaction_is_forgotten_leaves_no_row(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    tables = {point: f"{database}.{point}" for point in STOPS}
    for table in tables.values():
        create(client, hive, table)
        for first in (0, 5):
            hi.append(client, table, rows(range(first, first + 5)))
    sleepers = {point: start(hive, table, CrashPoint(point, 1, signal.SIGSTOP)) for point, table in tables.items()}
    for point, sleeper in sleepers.items():
        _, status = os.waitpid(sleeper.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{point} was not reached"
    suspended = set(client.get_valid_txns().open)
    assert len(suspended) == len(STOPS)
    assert [len(visible(client, tables[point])) for point in STOPS] == [2, 3, 3]

    wait_until(
        lambda: not suspended & set(client.get_valid_txns().open), "the metastore has not timed them out", seconds=90
    )
    for table in tables.values():
        assert read(hive, client, table) == list(range(10))
        hive.compact(table, "major", partition="part='a'")
        assert len(visible(client, table)) == 1, "Hive has not cleaned: the test tests nothing"
    if hive.version == "3.1.3":
        hive.call("compactor_pass", thread="initiator")
    wait_until(lambda: not suspended & remembered(client), "the metastore has not forgotten them", seconds=90)

    for point, sleeper in sleepers.items():
        os.kill(sleeper.pid, signal.SIGCONT)
        _, err = sleeper.communicate(timeout=120)
        assert sleeper.returncode == 1, point
        assert "TxnAborted" in err
    for point, table in tables.items():
        assert len(visible(client, table)) == 1, f"the writer that slept at {point} left a file"
        hi.append(client, table, rows(range(10, 12)))
        assert read(hive, client, table) == list(range(12))
