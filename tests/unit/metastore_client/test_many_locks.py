"""Two requests for many partitions each, as of Kafka consumers: the cost grows with their number, not its square."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import locks
from hive_ingest.model import LockResponse
from tests.acceptance.metastore.requests import ACQUIRED, EXCL_WRITE, WAITING, component, lock
from tests.support.metastores import connect_in


def lock_partitions(client: MetastoreClient, numbers: range) -> LockResponse:
    return lock(client, *(component(EXCL_WRITE, "db", "t", f"source={number}") for number in numbers))


def steps(folder: Path, lock_id: int) -> int:
    """How many hundreds of instructions SQLite's virtual machine executes to find what a lock waits for."""
    found = 0

    def count() -> None:
        nonlocal found
        found += 1

    with contextlib.closing(sqlite3.connect(folder / "metastore.db")) as connection:
        connection.set_progress_handler(count, 100)
        connection.execute(locks._BLOCKER, {"lock_id": lock_id}).fetchall()
    return found


def test_the_cost_of_a_lock_check_grows_with_the_number_of_partitions(tmp_path: Path) -> None:
    with connect_in(tmp_path) as client:
        found = []
        for count in (200, 800):
            lock_partitions(client, range(count))
            second = lock_partitions(client, range(count, 2 * count))
            assert second.state is ACQUIRED
            found.append(steps(tmp_path, second.lock_id))
            client.abort_txns(sorted({each.txn_id for each in client.show_locks()}))
    assert found[1] < 6 * found[0], "16 times as many for 4 times the partitions would be quadratic"


def test_one_partition_of_hundreds_that_is_locked_is_found(tmp_path: Path) -> None:
    with connect_in(tmp_path) as client:
        first, second = lock_partitions(client, range(500)), lock_partitions(client, range(499, 999))
        assert second.state is WAITING
        (blocked,) = [each for each in client.show_locks() if each.blocked_by_lock_id is not None]
        assert (blocked.lock_id, blocked.blocked_by_lock_id) == (second.lock_id, first.lock_id)
        assert blocked.partition_name == "source=499"
