"""Hive's `TestTxnHandler` and its two variants with few connections, on SQLite and on PostgreSQL.

Each test has the name of Hive's case in snake case. Its cases of locks are in `test_txn_handler_locks.py`. Hive's
sleeps are steps of the database's clock here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.pool import NullPool, QueuePool

from hive_ingest.errors import NoSuchTxn, TxnAborted
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.metastore_client.embedded.backends import Backend
from hive_ingest.model import CompactionInfo, CompactionState, CompactionType, TableName, TxnId, TxnState, TxnType
from tests.support.hive_cases import check_ported
from tests.support.metastores import connect_in, housekeeping

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own transaction manager")

#: The cases that are ported, in Hive's order.
CASES = (
    "test_valid_txns_empty",
    "test_open_txn",
    "test_abort_txn",
    "test_abort_txns",
    "test_abort_invalid_txn",
    "test_valid_txns_none_open",
    "test_valid_txns_some_open",
    "test_lock_different_d_bs",
    "test_lock_same_db",
    "test_lock_db_locks_table",
    "test_lock_db_does_not_lock_table_in_different_db",
    "test_lock_different_tables",
    "test_lock_same_table",
    "test_lock_table_locks_partition",
    "test_lock_different_table_doesnt_lock_partition",
    "test_lock_different_partitions",
    "test_lock_same_partition",
    "test_lock_srsr",
    "test_lock_esrsr",
    "test_lock_srsw",
    "test_lock_esrsw",
    "test_lock_sre",
    "test_lock_esre",
    "test_lock_swsr",
    "test_lock_swswsr",
    "test_lock_swswsw",
    "test_lock_ewewsr",
    "test_lock_ewewew",
    "test_lock_eesw",
    "test_lock_eesr",
    "test_check_lock_acquire_after_waiting",
    "test_check_lock_no_such_lock",
    "test_check_lock_txn_aborted",
    "test_multiple_lock",
    "test_multiple_lock_wait",
    "test_unlock_on_commit",
    "test_unlock_on_abort",
    "test_unlock_with_txn",
    "test_heartbeat_txn_aborted",
    "test_heartbeat_no_txn",
    "test_heartbeat_lock",
    "test_heartbeat_no_lock",
    "test_heartbeat_txn_range",
    "test_heartbeat_txn_range_one_committed",
    "test_heartbeat_txn_range_one_aborted",
    "test_lock_timeout",
    "test_recover_many_timeouts",
    "test_show_locks",
    "test_compact_major_with_partition",
    "test_compact_when_already_compacting",
    "test_compact_minor_no_partition",
    "test_allocate_next_write_id_retries_after_detecting_conflicting_concurrent_insert",
    # TestTxnHandlerWithOneConnection.testGetValidWriteIds and TestTxnHandlerNoConnectionPool.testOpenTxn
    "test_get_valid_write_ids_with_one_connection",
    "test_open_txn_no_connection_pool",
)
_REPLICATION = "there is no replication of transactions between metastores"
_MATERIALIZED_VIEWS = "materialized views belong to HiveServer2"
#: Cases that are left out, and why.
LEFT_OUT = {
    "test_wrong_lock_for_operation": "Hive itself ignores it",
    "test_mutex_api": "Hive itself ignores it",
    "test_deadlock_detected": "Hive itself ignores it",
    "test_retryable_regex": "there is no option for it: errors of the driver are told apart by their codes",
    "test_repl_timeouts": _REPLICATION,
    "test_repl_open_txn": _REPLICATION,
    "test_repl_alloc_write_id": _REPLICATION,
    **{
        f"test_get_materialization_invalidation_info{rest}": _MATERIALIZED_VIEWS
        for rest in (
            "",
            "_when_table_has_no_exception",
            "_when_current_txn_list_has_no_exception",
            "_with_valid_reader_write_id_list",
            "_with_valid_reader_write_id_list_when_table_has_no_exception",
            "_with_valid_reader_write_id_list_when_current_txn_list_has_no_exception",
        )
    },
    "test_heartbeat_lock_materialization_rebuild": _MATERIALIZED_VIEWS,
}

OPEN, ABORTED = TxnState.OPEN, TxnState.ABORTED
MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
TODAY = "ds=today"


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    """Runs housekeeping only on request."""
    with connect_in(tmp_path, metastore_uri, housekeeping_interval_seconds=1e6) as client:
        assert isinstance(client, EmbeddedMetastoreClient)
        client.run_housekeeping()
        yield client


def states(ms: MetastoreClient) -> dict[TxnId, TxnState]:
    """What `getOpenTxnsInfo` reports, after a comparison with `getOpenTxns`."""
    found = {info.id: info.state for info in ms.get_open_txns_info().transactions}
    valid = ms.get_valid_txns()
    assert valid.high_water_mark == ms.get_open_txns_info().high_water_mark
    assert set(valid.open) == {txn_id for txn_id, state in found.items() if state is OPEN}
    assert set(valid.aborted) == {txn_id for txn_id, state in found.items() if state is ABORTED}
    return found


# -- transactions ------------------------------------------------------------------------------------


def test_valid_txns_empty(ms: EmbeddedMetastoreClient) -> None:
    assert ms.get_valid_txns().high_water_mark == 0
    assert states(ms) == {}


def check_open_txn(ms: MetastoreClient) -> None:
    assert ms.open_txns(user="me") == [1]
    assert ms.open_txns(user="me") == [2]
    assert ms.get_valid_txns().high_water_mark == 2
    assert states(ms) == {1: OPEN, 2: OPEN}
    second = ms.get_open_txns_info().transactions[1]
    assert second.user == "me"
    assert second.hostname


def test_open_txn(ms: EmbeddedMetastoreClient) -> None:
    check_open_txn(ms)


def test_abort_txn(ms: EmbeddedMetastoreClient) -> None:
    first, second, third = ms.open_txns(3)
    assert (first, second, third) == (1, 2, 3)
    ms.abort_txn(first)
    (allocated,) = ms.allocate_table_write_ids("default.t", [third])
    assert (allocated.txn_id, allocated.write_id) == (third, 1)
    ms.add_dynamic_partitions(third, allocated.write_id, "default.t", ["p=1"])
    assert ms.get_valid_txns().high_water_mark == 3
    assert states(ms) == {first: ABORTED, second: OPEN, third: OPEN}

    ms.commit_txn(second)
    ms.abort_txn(first)
    with pytest.raises(NoSuchTxn, match=r"transaction 2\b"):
        ms.abort_txn(second)
    ms.commit_txn(third)
    with pytest.raises(NoSuchTxn, match=r"transaction 3 .*already committed"):
        ms.abort_txn(third)
    with pytest.raises(NoSuchTxn, match=r"transaction 4\b"):
        ms.abort_txn(TxnId(4))


def test_abort_txns(ms: EmbeddedMetastoreClient) -> None:
    ms.abort_txns(ms.open_txns(3))
    assert states(ms) == {1: ABORTED, 2: ABORTED, 3: ABORTED}


def test_abort_invalid_txn(ms: EmbeddedMetastoreClient) -> None:
    with pytest.raises(NoSuchTxn):
        ms.abort_txn(TxnId(195))


def test_valid_txns_none_open(ms: EmbeddedMetastoreClient) -> None:
    for txn_id in ms.open_txns(2):
        ms.commit_txn(txn_id)
    assert ms.get_valid_txns().high_water_mark == 2
    assert states(ms) == {}


def test_valid_txns_some_open(ms: EmbeddedMetastoreClient) -> None:
    first, second, third = ms.open_txns(3)
    ms.abort_txn(first)
    ms.commit_txn(second)
    assert ms.get_valid_txns().high_water_mark == 3
    assert states(ms) == {first: ABORTED, third: OPEN}


# -- heartbeats and timeouts -------------------------------------------------------------------------


def test_heartbeat_txn_aborted(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    ms.abort_txn(txn_id)
    with pytest.raises(TxnAborted):
        ms.heartbeat(txn_id=txn_id)


def test_heartbeat_no_txn(ms: EmbeddedMetastoreClient) -> None:
    with pytest.raises(NoSuchTxn):
        ms.heartbeat(txn_id=TxnId(939393))


def beat_range(ms: EmbeddedMetastoreClient) -> tuple[set[int], set[int]]:
    """The transactions from 1 to 3 that are unknown, and those that are aborted."""
    answer = ms.heartbeat_txn_range(TxnId(1), TxnId(3))
    return set(answer.nosuch), set(answer.aborted)


def test_heartbeat_txn_range(ms: EmbeddedMetastoreClient) -> None:
    assert [ms.open_txns() for _ in range(3)] == [[1], [2], [3]]
    assert beat_range(ms) == (set(), set())


def test_heartbeat_txn_range_one_committed(ms: EmbeddedMetastoreClient) -> None:
    (first,) = ms.open_txns()
    ms.commit_txn(first)
    ms.open_txns()
    ms.open_txns()
    assert beat_range(ms) == ({first}, set())


def test_heartbeat_txn_range_one_aborted(ms: EmbeddedMetastoreClient) -> None:
    third = [ms.open_txns() for _ in range(3)][-1][0]
    ms.abort_txn(third)
    assert beat_range(ms) == (set(), {third})


def test_recover_many_timeouts(ms: EmbeddedMetastoreClient) -> None:
    opened = ms.open_txns(503)
    ms.clock_offset_seconds = 301
    assert set(housekeeping(ms).timed_out_txns) == set(opened)
    assert states(ms) == dict.fromkeys(opened, ABORTED)
    assert len(opened) == 503


# -- requests for compactions ------------------------------------------------------------------------


def shown(ms: MetastoreClient) -> CompactionInfo:
    (info,) = ms.show_compactions()
    assert (info.table, info.state, info.state.text) == (
        TableName("foo", "bar"),
        CompactionState.INITIATED,
        "initiated",
    )
    assert info.start_ms is None
    return info


def test_compact_major_with_partition(ms: EmbeddedMetastoreClient) -> None:
    ms.compact("foo.bar", compaction_type=MAJOR, partition_name=TODAY)
    assert (shown(ms).partition_name, shown(ms).type) == (TODAY, MAJOR)


def test_compact_when_already_compacting(ms: EmbeddedMetastoreClient) -> None:
    first = ms.compact("foo.bar", compaction_type=MAJOR, partition_name=TODAY)
    assert (first.id, first.state, first.accepted) == (1, CompactionState.INITIATED, True)
    assert shown(ms).id == first.id
    second = ms.compact("foo.bar", compaction_type=MINOR, partition_name=TODAY)
    assert (second.id, second.state, second.accepted) == (1, CompactionState.INITIATED, False)
    assert (shown(ms).partition_name, shown(ms).type) == (TODAY, MAJOR)


def test_compact_minor_no_partition(ms: EmbeddedMetastoreClient) -> None:
    """Here the worker names the user whom it runs as, not the request."""
    ms.compact("foo.bar", compaction_type=MINOR)
    assert (shown(ms).partition_name, shown(ms).type) == (None, MINOR)
    taken = ms.find_next_compact("worker")
    assert taken is not None
    (txn_id,) = ms.open_txns(txn_type=TxnType.COMPACTION)
    ms.update_compactor_state(replace(taken, run_as="fred"), txn_id)
    (info,) = ms.show_compactions()
    assert info.run_as == "fred"


# -- write ids ---------------------------------------------------------------------------------------


def test_allocate_next_write_id_retries_after_detecting_conflicting_concurrent_insert(
    ms: EmbeddedMetastoreClient,
) -> None:
    """Two first allocations for a table at once, of two transactions each: both succeed, with different ids."""
    for table in (f"abc.def{i}" for i in range(20)):
        found: dict[int, int] = {}
        at_once = threading.Barrier(2)
        pairs = [ms.open_txns(2), ms.open_txns(2)]

        def allocate(
            txn_ids: list[TxnId], table: str = table, at_once: threading.Barrier = at_once, found: Any = found
        ) -> None:
            at_once.wait()
            found.update((each.txn_id, each.write_id) for each in ms.allocate_table_write_ids(table, txn_ids))

        threads = [threading.Thread(target=allocate, args=(pair,)) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one, two = ([found[txn_id] for txn_id in pair] for pair in pairs)
        assert [one, two] in ([[1, 2], [3, 4]], [[3, 4], [1, 2]])


# -- few connections ---------------------------------------------------------------------------------


def with_pool(monkeypatch: pytest.MonkeyPatch, **pool: Any) -> None:
    """Give the clients that are made from now on another pool of connections."""

    def create_engine(backend: Backend) -> object:
        return backend._new_engine(isolation_level="AUTOCOMMIT", **pool)

    monkeypatch.setattr(Backend, "create_engine", create_engine)


def test_get_valid_write_ids_with_one_connection(
    monkeypatch: pytest.MonkeyPatch, metastore_uri: str, tmp_path: Path
) -> None:
    with_pool(monkeypatch, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.25)
    with connect_in(tmp_path, metastore_uri) as client:
        (valid,) = client.get_valid_write_ids(["foo.bar"])
    assert valid.high_water_mark == 0


def test_open_txn_no_connection_pool(monkeypatch: pytest.MonkeyPatch, metastore_uri: str, tmp_path: Path) -> None:
    with_pool(monkeypatch, poolclass=NullPool)
    with connect_in(tmp_path, metastore_uri) as client:
        check_open_txn(client)


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported_or_left_out_with_a_reason() -> None:
    check_ported("TestTxnHandler", CASES, LEFT_OUT, Path(__file__).parent.glob("test_txn_handler*.py"))
