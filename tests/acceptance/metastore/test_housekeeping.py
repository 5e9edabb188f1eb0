"""Timeouts and forgetting, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.errors import NoSuchLock, NoSuchTxn, TxnAborted
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient, HousekeepingResult
from hive_ingest.metastore_client.embedded.housekeeping import LEASE_SECONDS
from hive_ingest.model import DataOperationType, TxnId, TxnState
from tests.acceptance.metastore.requests import (
    ACQUIRED,
    EXCL_WRITE,
    READ,
    WAITING,
    component,
    lock,
    update_partition,
)
from tests.support.metastores import connect_in, housekeeping

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="housekeeping is called by hand")

HOUR = 3600.0


def embedded(uri: str, folder: Path, **options: float) -> EmbeddedMetastoreClient:
    client = connect_in(folder, uri, **options)
    assert isinstance(client, EmbeddedMetastoreClient)
    return client


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    """Runs housekeeping only on request."""
    options = {"housekeeping_interval_seconds": 1e6, "aborted_txn_retention_seconds": 24 * HOUR}
    with embedded(metastore_uri, tmp_path, **options) as client:
        client.run_housekeeping()
        yield client


def write(ms: EmbeddedMetastoreClient, txn_id: TxnId, table: str = "t") -> None:
    ms.allocate_table_write_ids(f"db.{table}", [txn_id])
    lock(ms, component(READ, table=table, operation=DataOperationType.INSERT), txn_id=txn_id)


# -- timeouts ---------------------------------------------------------------------------------------


def test_a_transaction_without_heartbeats_times_out_and_its_locks_are_released(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    lock_id = lock(ms, component(EXCL_WRITE, table="t"), txn_id=txn_id).lock_id
    waiting = lock(ms, component(EXCL_WRITE, table="t"), txn_id=TxnId(0)).lock_id
    ms.clock_offset_seconds = 301
    ms.heartbeat(lock_id=waiting)
    assert housekeeping(ms).timed_out_txns == (txn_id,)
    with pytest.raises(NoSuchLock):
        ms.check_lock(lock_id)
    assert ms.check_lock(waiting).state is ACQUIRED
    (info,) = ms.get_open_txns_info().transactions
    assert info.state is TxnState.ABORTED
    assert info.abort_reason.startswith("timed out, last heartbeat 20")
    with pytest.raises(TxnAborted, match="timed out, last heartbeat"):
        ms.commit_txn(txn_id)


def test_a_transaction_with_heartbeats_does_not_time_out(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    for seconds in (200, 400, 600):
        ms.clock_offset_seconds = seconds
        ms.heartbeat(txn_id=txn_id)
    assert housekeeping(ms).timed_out_txns == ()
    ms.commit_txn(txn_id)


def test_waiting_for_a_lock_counts_as_a_heartbeat(ms: EmbeddedMetastoreClient) -> None:
    lock(ms, component(EXCL_WRITE, table="t"))
    waiting = lock(ms, component(EXCL_WRITE, table="t"))
    ms.clock_offset_seconds = 200
    assert ms.check_lock(waiting.lock_id).state is WAITING
    ms.clock_offset_seconds = 400
    assert housekeeping(ms).timed_out_txns == (1,)
    assert ms.check_lock(waiting.lock_id).state is ACQUIRED


def test_what_was_done_is_logged_in_words(ms: EmbeddedMetastoreClient, caplog: pytest.LogCaptureFixture) -> None:
    lock(ms, component(EXCL_WRITE, table="t"), txn_id=TxnId(0))
    ms.open_txns(2)
    ms.clock_offset_seconds = 301
    with caplog.at_level("INFO", "hive_ingest"):
        housekeeping(ms)
    (line,) = [record.getMessage() for record in caplog.records if "housekeeping on" in record.getMessage()]
    assert line.endswith(": 2 transactions timed out; 1 lock timed out")


def test_any_number_of_transactions_times_out_in_one_run(ms: EmbeddedMetastoreClient) -> None:
    for _ in range(3):
        ms.open_txns(1000)
    ms.clock_offset_seconds = 301
    assert len(housekeeping(ms).timed_out_txns) == 3000
    assert len(ms.get_valid_txns().aborted) == 3000


def test_a_clock_that_was_set_back_keeps_nobody_alive(ms: EmbeddedMetastoreClient) -> None:
    """It was a day ahead. Then it is right again: who still lives has a whole time-out to say so."""
    ms.clock_offset_seconds = 24 * HOUR
    dead, alive = ms.open_txns(2)
    lock_id = lock(ms, component(EXCL_WRITE, table="t"), txn_id=TxnId(0)).lock_id
    ms.clock_offset_seconds = 0
    assert housekeeping(ms).timed_out_txns == ()
    ms.clock_offset_seconds = 200
    ms.heartbeat(txn_id=alive)
    ms.clock_offset_seconds = 301
    assert housekeeping(ms).timed_out_txns == (dead,)
    with pytest.raises(NoSuchLock):
        ms.heartbeat(lock_id=lock_id)
    ms.heartbeat(txn_id=alive)


def test_the_timeout_is_an_option(metastore_uri: str, tmp_path: Path) -> None:
    with embedded(metastore_uri, tmp_path, txn_timeout_seconds=5) as client:
        assert client.txn_timeout_seconds == 5
        client.open_txns()
        client.clock_offset_seconds = 6
        assert len(housekeeping(client).timed_out_txns) == 1


# -- forgetting --------------------------------------------------------------------------------------


def test_an_empty_aborted_transaction_is_forgotten_after_its_retention(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    ms.abort_txn(txn_id)
    ms.clock_offset_seconds = 23 * HOUR
    assert housekeeping(ms).forgotten_txns == 0
    ms.clock_offset_seconds = 25 * HOUR
    assert housekeeping(ms).forgotten_txns == 1
    with pytest.raises(NoSuchTxn, match="no longer remembered"):
        ms.abort_txn(txn_id)


def test_retention_counts_from_the_abort_not_from_the_last_heartbeat(ms: EmbeddedMetastoreClient) -> None:
    ms.open_txns()
    ms.clock_offset_seconds = 48 * HOUR
    result = housekeeping(ms)
    assert (result.timed_out_txns, result.forgotten_txns) == ((1,), 0)
    assert housekeeping(ms).forgotten_txns == 0
    ms.clock_offset_seconds = 73 * HOUR
    assert housekeeping(ms).forgotten_txns == 1


def test_an_aborted_transaction_that_wrote_is_never_forgotten(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    write(ms, txn_id)
    ms.clock_offset_seconds = 48 * HOUR
    housekeeping(ms)
    ms.clock_offset_seconds = 10_000 * HOUR
    result = housekeeping(ms)
    assert (result.forgotten_txns, result.pruned_write_ids) == (0, 0)
    (valid,) = ms.get_valid_write_ids(["db.t"])
    assert valid.aborted == (1,)


def test_a_partition_named_by_add_dynamic_partitions_counts_as_written(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    update_partition(ms, txn_id, "ds=today", DataOperationType.INSERT)
    ms.abort_txn(txn_id)
    ms.clock_offset_seconds = 10_000 * HOUR
    assert housekeeping(ms).forgotten_txns == 0


# -- TXN_TO_WRITE_ID by min(Z, A, N) of HIVE-18747 -----------------------------------------------------


def test_write_ids_of_committed_transactions_are_pruned(ms: EmbeddedMetastoreClient) -> None:
    for txn_id in ms.open_txns(3):
        write(ms, txn_id)
        ms.commit_txn(txn_id)
    assert housekeeping(ms).pruned_write_ids == 3
    (valid,) = ms.get_valid_write_ids(["db.t"])
    assert valid.to_string() == f"db.t:3:{2**63 - 1}::"


def test_an_open_snapshot_keeps_the_write_ids_that_were_open_when_it_began(ms: EmbeddedMetastoreClient) -> None:
    (writer,) = ms.open_txns()
    write(ms, writer)
    (reader,) = ms.open_txns()
    ms.commit_txn(writer)
    assert housekeeping(ms).pruned_write_ids == 0
    ms.commit_txn(reader)
    assert housekeeping(ms).pruned_write_ids == 1


def test_the_lowest_aborted_transaction_keeps_all_above_it(ms: EmbeddedMetastoreClient) -> None:
    before, aborted, after = ms.open_txns(3)
    for txn_id in (before, aborted, after):
        write(ms, txn_id)
    ms.commit_txn(before)
    ms.abort_txn(aborted)
    ms.commit_txn(after)
    assert housekeeping(ms).pruned_write_ids == 1
    (valid,) = ms.get_valid_write_ids(["db.t"])
    assert valid.to_string() == f"db.t:3:{2**63 - 1}::2"


def test_write_sets_are_kept_while_a_transaction_is_open_that_could_conflict(ms: EmbeddedMetastoreClient) -> None:
    one, two = ms.open_txns(2)
    for txn_id in (one, two):
        update_partition(ms, txn_id, "ds=today", DataOperationType.UPDATE)
    ms.commit_txn(one)
    assert housekeeping(ms).pruned_write_sets == 0
    with pytest.raises(TxnAborted, match="write conflict"):
        ms.commit_txn(two, excl_write_enabled=False)
    ms.open_txns()
    assert housekeeping(ms).pruned_write_sets == 1


# -- the lease ---------------------------------------------------------------------------------------


def test_of_writes_that_were_never_compacted_the_last_ones_are_remembered(ms: EmbeddedMetastoreClient) -> None:
    """Hive: `removeDuplicateCompletedTxnComponents`. The last update counts apart, as there."""
    written: list[TxnId] = []
    for operation in (DataOperationType.INSERT, DataOperationType.UPDATE, *[DataOperationType.INSERT] * 3):
        (txn_id,) = ms.open_txns()
        ms.allocate_table_write_ids("db.t", [txn_id])
        lock(ms, component(READ, table="t", operation=operation), txn_id=txn_id)
        ms.commit_txn(txn_id)
        written.append(txn_id)
    assert housekeeping(ms).pruned_components == 0, "a writer may still ask what became of its commit"
    ms.clock_offset_seconds = 24 * HOUR + 1
    assert housekeeping(ms).pruned_components == 3
    assert housekeeping(ms).pruned_components == 0
    for txn_id in (written[1], written[4]):
        ms.commit_txn(txn_id)
    with pytest.raises(NoSuchTxn):
        ms.commit_txn(written[3])
    assert [each.table.table for each in ms.find_potential_compactions(aborted_threshold=1)] == ["t"]


def test_writes_of_one_partition_do_not_hide_those_of_others(ms: EmbeddedMetastoreClient) -> None:
    for partition in ("k=1", "k=2"):
        (txn_id,) = ms.open_txns()
        (allocated,) = ms.allocate_table_write_ids("db.t", [txn_id])
        ms.add_dynamic_partitions(
            txn_id, allocated.write_id, "db.t", [partition], operation_type=DataOperationType.INSERT
        )
        ms.commit_txn(txn_id)
    ms.clock_offset_seconds = 24 * HOUR + 1
    assert housekeeping(ms).pruned_components == 0
    found = ms.find_potential_compactions(aborted_threshold=1)
    assert sorted(str(each.partition_name) for each in found) == ["k=1", "k=2"]


def test_only_one_process_runs_housekeeping_at_a_time(
    ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ms.clone()
    seen: list[HousekeepingResult | None] = []
    time_out = ms._housekeeping._time_out_txns

    def meanwhile() -> tuple[TxnId, ...]:
        seen.append(other.run_housekeeping())
        return time_out()

    monkeypatch.setattr(ms._housekeeping, "_time_out_txns", meanwhile)
    assert ms.run_housekeeping() is not None
    assert seen == [None]
    assert other.run_housekeeping() is not None
    other.close()


def test_the_lease_of_a_dead_process_expires(ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ms._housekeeping, "_keep_house", lambda: HousekeepingResult()
    )  # dies before it gives the lease back
    ms.run_housekeeping()
    with ms.clone() as other:
        assert other.run_housekeeping() is None
        other.clock_offset_seconds = LEASE_SECONDS + 1
        assert other.run_housekeeping() is not None


def test_opening_a_transaction_runs_housekeeping(metastore_uri: str, tmp_path: Path) -> None:
    with embedded(metastore_uri, tmp_path, housekeeping_interval_seconds=0) as client:
        (silent,) = client.open_txns()
        client.clock_offset_seconds = 301
        client.open_txns()
        assert client.get_valid_txns().aborted == (silent,)


def test_waiting_for_a_dead_holder_runs_housekeeping(metastore_uri: str, tmp_path: Path) -> None:
    with embedded(metastore_uri, tmp_path, housekeeping_interval_seconds=0) as client:
        lock(client, component(EXCL_WRITE, table="t"))
        waiting = lock(client, component(EXCL_WRITE, table="t"))
        client.clock_offset_seconds = 200
        client.check_lock(waiting.lock_id)
        client.clock_offset_seconds = 400
        assert client.check_lock(waiting.lock_id).state is WAITING
        assert client.check_lock(waiting.lock_id).state is ACQUIRED


def test_housekeeping_runs_once_an_interval_whatever_the_number_of_clients(metastore_uri: str, tmp_path: Path) -> None:
    options = {"housekeeping_interval_seconds": 60, "txn_timeout_seconds": 10}
    with embedded(metastore_uri, tmp_path, **options) as client, client.clone() as other:
        (silent,) = client.open_txns()  # keeps house: it is due in an empty metastore
        other.clock_offset_seconds = 30
        other.open_txns()
        assert silent in other.get_valid_txns().open
        with client.clone() as third:
            third.clock_offset_seconds = 61
            third.open_txns()
            assert silent in third.get_valid_txns().aborted
