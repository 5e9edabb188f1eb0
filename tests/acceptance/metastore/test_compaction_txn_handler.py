"""Hive's own cases of the compaction queue (`TestCompactionTxnHandler`), on SQLite and on PostgreSQL.

Each has the name of Hive's in snake case. Hive's sleeps are steps of the database's clock here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hive_ingest.errors import NoSuchCompaction
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    CompactionInfo,
    CompactionState,
    CompactionType,
    DataOperationType,
    TableName,
    TxnId,
    TxnType,
    WriteId,
)
from tests.acceptance.metastore.requests import WRITE, component, lock
from tests.support.hive_cases import check_ported
from tests.support.metastores import connect_in, housekeeping

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own queue")

#: Every case of Hive's class.
CASES = (
    "test_find_next_to_compact",
    "test_find_next_to_compact2",
    "test_find_next_to_compact_nothing_to_compact",
    "test_mark_compacted",
    "test_find_next_to_clean",
    "test_mark_cleaned",
    "test_show_compactions",
    "test_get_latest_committed_compaction",
    "test_get_latest_committed_compaction_partition",
    "test_get_latest_succeeded_compaction",
    "test_get_latest_compaction_with_id_filter",
    "test_get_no_compaction",
    "test_mark_failed",
    "test_purge_compaction_history",
    "test_purge_compaction_history_timeout",
    "test_revoke_from_local_workers",
    "test_revoke_timed_out_workers",
    "test_find_potential_compactions",
    "test_mark_cleaned_cleans_txns_and_txn_components",
    "test_add_dynamic_partitions",
    "test_enqueue_time_even_after_failed",
    "test_enqueue_time_through_life_cycle",
    "test_find_potential_compactions_limit_fetch_size",
    "test_find_next_to_clean_limit_fetch_size",
    "test_find_ready_to_clean_aborts_limit_fetch_size",
)
#: Cases that are left out, and why.
LEFT_OUT: dict[str, str] = {}

TABLE, TODAY = "foo.bar", "ds=today"
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
WORKING, READY, SUCCEEDED = CompactionState.WORKING, CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED
UPDATE = DataOperationType.UPDATE


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    """Runs housekeeping only on request, and keeps ended transactions no longer than necessary."""
    with connect_in(
        tmp_path, metastore_uri, housekeeping_interval_seconds=1e6, aborted_txn_retention_seconds=0.001
    ) as client:
        assert isinstance(client, EmbeddedMetastoreClient)
        client.run_housekeeping()
        yield client


def take(ms: EmbeddedMetastoreClient, worker: str = "fred") -> CompactionInfo:
    info = ms.find_next_compact(worker, worker_version="4.0.0")
    assert info is not None
    return info


def request(
    ms: EmbeddedMetastoreClient, table: str = TABLE, partition: str | None = None, kind: CompactionType = MINOR
) -> int:
    answer = ms.compact(table, compaction_type=kind, partition_name=partition)
    assert answer.accepted
    return answer.id


def compactor_txn(ms: EmbeddedMetastoreClient) -> TxnId:
    return ms.open_txns(txn_type=TxnType.COMPACTION)[0]


def compact(
    ms: EmbeddedMetastoreClient, table: str = TABLE, partition: str | None = None, *, highest: int = 0
) -> CompactionInfo:
    """A compaction up to its commit."""
    request(ms, table, partition)
    info = replace(take(ms), highest_write_id=WriteId(highest))
    txn_id = compactor_txn(ms)
    ms.update_compactor_state(info, txn_id)
    ms.mark_compacted(info)
    ms.commit_txn(txn_id)
    return info


def fail(ms: EmbeddedMetastoreClient, table: str = TABLE, partition: str | None = None) -> CompactionInfo:
    request(ms, table, partition)
    info = replace(take(ms), error_message="Dummy error")
    ms.mark_failed(info)
    return info


def aborted_write(ms: EmbeddedMetastoreClient, table: str, *partitions: str, database: str = "mydb") -> TxnId:
    (txn_id,) = ms.open_txns()
    ms.allocate_table_write_ids(f"{database}.{table}", [txn_id])
    for partition in partitions or (None,):
        lock(ms, component(WRITE, database, table, partition, operation=UPDATE), txn_id=txn_id)
    ms.abort_txn(txn_id)
    return txn_id


def shown(ms: EmbeddedMetastoreClient) -> CompactionInfo:
    (info,) = ms.show_compactions()
    return info


def known_txns(ms: EmbeddedMetastoreClient) -> list[TxnId]:
    return [info.id for info in ms.get_open_txns_info().transactions]


# -- the worker --------------------------------------------------------------------------------------


def test_find_next_to_compact(ms: EmbeddedMetastoreClient) -> None:
    request(ms, partition=TODAY)
    info = take(ms)
    assert (info.table, info.partition_name, info.type) == (TableName("foo", "bar"), TODAY, MINOR)
    assert info.run_as is None
    assert ms.find_next_compact("fred") is None
    ms.update_compactor_state(replace(info, run_as="bob"), compactor_txn(ms))
    found = shown(ms)
    assert (found.table, found.partition_name, found.type, found.state) == (info.table, TODAY, MINOR, WORKING)
    assert (found.worker_id, found.worker_version, found.run_as) == ("fred", "4.0.0", "bob")
    assert found.start_ms is not None
    assert found.enqueue_time_ms is not None
    assert 0 <= found.start_ms - found.enqueue_time_ms < 60_000


def test_find_next_to_compact2(ms: EmbeddedMetastoreClient) -> None:
    request(ms, partition=TODAY)
    request(ms, partition="ds=yesterday")
    assert {take(ms).partition_name, take(ms).partition_name} == {TODAY, "ds=yesterday"}
    assert ms.find_next_compact("fred") is None
    assert [(info.state, info.worker_id) for info in ms.show_compactions()] == [(WORKING, "fred")] * 2


def test_find_next_to_compact_nothing_to_compact(ms: EmbeddedMetastoreClient) -> None:
    assert ms.find_next_compact("fred") is None


def test_mark_compacted(ms: EmbeddedMetastoreClient) -> None:
    request(ms, partition=TODAY)
    ms.mark_compacted(take(ms))
    assert ms.find_next_compact("fred") is None
    found = shown(ms)
    assert (found.partition_name, found.type, found.state, found.worker_id) == (TODAY, MINOR, READY, None)


def test_mark_failed(ms: EmbeddedMetastoreClient) -> None:
    info = fail(ms, partition=TODAY)
    assert ms.find_next_compact("fred") is None
    with pytest.raises(NoSuchCompaction, match=f"compaction {info.id} of foo.bar"):
        ms.mark_failed(info)
    assert not ms.check_failed_compactions(TABLE, TODAY, threshold=2)
    fail(ms, partition=TODAY)
    assert ms.check_failed_compactions(TABLE, TODAY, threshold=2)
    ms.clock_offset_seconds = 1
    assert not ms.check_failed_compactions(TABLE, TODAY, threshold=2, retry_seconds=0.001)
    assert ms.check_failed_compactions(TABLE, TODAY, threshold=2)
    for _ in range(300):
        fail(ms, partition=TODAY)
    found = ms.show_compactions()
    assert len(found) == 302
    assert {(i.table, i.partition_name, i.state, i.error_message) for i in found} == {
        (info.table, TODAY, CompactionState.FAILED, "Dummy error")
    }
    assert ms.purge_completed_compactions() == 299


def test_revoke_from_local_workers(ms: EmbeddedMetastoreClient) -> None:
    for table in ("foo.bar", "foo.baz", "foo.bazzoo"):
        request(ms, table)
    for worker in ("fred-193892", "bob-193892", "fred-193893"):
        take(ms, worker)
    assert ms.revoke_from_local_workers("fred") == 2
    found = {(info.state, info.worker_id) for info in ms.show_compactions()}
    assert found == {(WORKING, "bob-193892"), (CompactionState.INITIATED, None)}
    assert len(ms.show_compactions()) == 3


def test_revoke_timed_out_workers(ms: EmbeddedMetastoreClient) -> None:
    request(ms, "foo.bar")
    request(ms, "foo.baz")
    take(ms, "fred-193892")
    ms.clock_offset_seconds = 0.2
    take(ms, "fred-193892")
    assert ms.revoke_timed_out_workers(0.1) == 1
    assert [info.state for info in ms.show_compactions()] == [WORKING, CompactionState.INITIATED]


# -- the history -------------------------------------------------------------------------------------


def test_show_compactions(ms: EmbeddedMetastoreClient) -> None:
    compaction_id = request(ms, partition=TODAY)
    found = shown(ms)
    assert (found.table, found.partition_name, found.type) == (TableName("foo", "bar"), TODAY, MINOR)
    assert (found.id, found.state, found.state.text) == (compaction_id, CompactionState.INITIATED, "initiated")


def test_get_latest_committed_compaction(ms: EmbeddedMetastoreClient) -> None:
    info = compact(ms)
    assert [found.id for found in ms.get_latest_committed_compactions(TABLE)] == [info.id]
    ms.mark_cleaned(info)
    assert [found.id for found in ms.get_latest_committed_compactions(TABLE)] == [info.id]
    fail(ms)
    assert [found.id for found in ms.get_latest_committed_compactions(TABLE)] == [info.id]


def test_get_latest_committed_compaction_partition(ms: EmbeddedMetastoreClient) -> None:
    first, second = compact(ms, partition=TODAY), compact(ms, partition="ds=yesterday")
    latest = ms.get_latest_committed_compactions(TABLE)
    assert {(info.partition_name, info.id) for info in latest} == {(TODAY, first.id), ("ds=yesterday", second.id)}
    (found,) = ms.get_latest_committed_compactions(TABLE, ["ds=yesterday"])
    assert (found.id, found.type, found.partition_name) == (second.id, MINOR, "ds=yesterday")


def test_get_latest_succeeded_compaction(ms: EmbeddedMetastoreClient) -> None:
    first, second = compact(ms, highest=1), compact(ms, highest=2)
    ms.mark_cleaned(first)
    assert [info.id for info in ms.get_latest_committed_compactions(TABLE)] == [second.id]
    ms.mark_cleaned(second)
    (found,) = ms.get_latest_committed_compactions(TABLE)
    assert (found.id, found.state) == (second.id, SUCCEEDED)


def test_get_latest_compaction_with_id_filter(ms: EmbeddedMetastoreClient) -> None:
    info = compact(ms)
    assert ms.get_latest_committed_compactions(TABLE, after_id=info.id) == []
    assert len(ms.get_latest_committed_compactions(TABLE, after_id=info.id - 1)) == 1


def test_get_no_compaction(ms: EmbeddedMetastoreClient) -> None:
    assert ms.get_latest_committed_compactions(TABLE) == []
    request(ms)
    assert ms.get_latest_committed_compactions(TABLE, [TODAY]) == []


def test_purge_compaction_history(ms: EmbeddedMetastoreClient) -> None:
    for _ in range(4):
        fail(ms)
    for highest in range(1, 5):
        ms.mark_cleaned(compact(ms, highest=highest))
    for _ in range(3):
        ms.mark_failed(CompactionInfo(0, TableName.of(TABLE), None, MINOR, CompactionState.INITIATED))
    fail(ms, "foo.other")
    kept = {"succeeded": 2, "failed": 3, "did_not_initiate": 1}
    assert ms.purge_completed_compactions(**kept) == 2 + 1 + 2
    found = [(info.table.table, info.state) for info in ms.show_compactions()]
    assert found == [
        ("other", CompactionState.FAILED),
        ("bar", CompactionState.DID_NOT_INITIATE),
        *[("bar", SUCCEEDED)] * 2,
        *[("bar", CompactionState.FAILED)] * 3,
    ]
    assert ms.purge_completed_compactions(**kept) == 0


def test_purge_compaction_history_timeout(ms: EmbeddedMetastoreClient) -> None:
    """A failure that is old goes once a compaction succeeded that makes it good."""
    fail(ms)
    request(ms, kind=MAJOR)
    major = take(ms)
    ms.mark_failed(major)
    ms.clock_offset_seconds = 10
    assert ms.purge_completed_compactions(timeout_seconds=5) == 0
    ms.mark_cleaned(compact(ms))
    assert ms.purge_completed_compactions(timeout_seconds=60) == 0
    assert ms.purge_completed_compactions(timeout_seconds=5) == 1
    assert [(info.type, info.state) for info in ms.show_compactions()] == [
        (MINOR, SUCCEEDED),
        (MAJOR, CompactionState.FAILED),
    ]


# -- the cleaner -------------------------------------------------------------------------------------


def test_find_next_to_clean(ms: EmbeddedMetastoreClient) -> None:
    request(ms, partition=TODAY)
    assert ms.find_ready_to_clean() == []
    info = take(ms)
    assert ms.find_ready_to_clean() == []
    ms.mark_compacted(info)
    assert ms.find_next_compact("fred") is None
    assert [found.id for found in ms.find_ready_to_clean()] == [info.id]
    found = shown(ms)
    assert (found.partition_name, found.type, found.state, found.worker_id) == (TODAY, MINOR, READY, None)


def test_mark_cleaned(ms: EmbeddedMetastoreClient) -> None:
    info = compact(ms, partition=TODAY)
    assert len(ms.find_ready_to_clean()) == 1
    ms.mark_cleaned(info)
    assert ms.find_next_compact("fred") is None
    assert ms.find_ready_to_clean() == []
    assert shown(ms).state is SUCCEEDED


def test_mark_cleaned_cleans_txns_and_txn_components(ms: EmbeddedMetastoreClient) -> None:
    first, second, third = (
        aborted_write(ms, "mytable"),
        aborted_write(ms, "yourtable"),
        aborted_write(ms, "foo", "bar=compact", "baz=compact"),
    )
    ms.clock_offset_seconds = 1
    ms.mark_cleaned(compact(ms, "mydb.mytable", highest=1))
    assert known_txns(ms) == [second, third]
    assert first not in known_txns(ms)
    ms.mark_cleaned(compact(ms, "mydb.foo", "bar=compact", highest=1))
    assert known_txns(ms) == [second, third], "it wrote another partition too"
    ms.mark_cleaned(compact(ms, "mydb.foo", "baz=compact", highest=1))
    assert known_txns(ms) == [second]


def test_enqueue_time_even_after_failed(ms: EmbeddedMetastoreClient) -> None:
    request(ms, partition=TODAY)
    enqueued = shown(ms).enqueue_time_ms
    assert enqueued is not None
    ms.clock_offset_seconds = 5
    ms.mark_failed(take(ms))
    assert shown(ms).enqueue_time_ms == enqueued


def test_enqueue_time_through_life_cycle(ms: EmbeddedMetastoreClient) -> None:
    request(ms, partition=TODAY)
    enqueued = shown(ms).enqueue_time_ms
    assert enqueued is not None
    ms.clock_offset_seconds = 5
    info, txn_id = take(ms), compactor_txn(ms)
    ms.update_compactor_state(replace(info, run_as="bob"), txn_id)
    assert shown(ms).enqueue_time_ms == enqueued
    ms.mark_compacted(info)
    assert shown(ms).enqueue_time_ms == enqueued
    ms.commit_txn(txn_id)
    ms.mark_cleaned(info)
    assert shown(ms).enqueue_time_ms == enqueued


def test_find_next_to_clean_limit_fetch_size(ms: EmbeddedMetastoreClient) -> None:
    compact(ms, partition=TODAY)
    compact(ms, partition="ds=yesterday")
    assert len(ms.find_ready_to_clean()) == 2
    assert len(ms.find_ready_to_clean(limit=1)) == 1


def test_find_ready_to_clean_aborts_limit_fetch_size(ms: EmbeddedMetastoreClient) -> None:
    aborted_write(ms, "mytable")
    aborted_write(ms, "yourtable")
    assert len(ms.find_ready_to_clean_aborts(aborted_threshold=0)) == 2
    assert len(ms.find_ready_to_clean_aborts(aborted_threshold=0, limit=1)) == 1


# -- the initiator -----------------------------------------------------------------------------------


def update_two_tables(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    for table in ("mytable", "yourtable"):
        ms.allocate_table_write_ids(f"mydb.{table}", [txn_id])
    components = (
        component(WRITE, "mydb", "mytable", operation=UPDATE),
        component(WRITE, "mydb", "yourtable", "mypartition=myvalue", operation=UPDATE),
    )
    lock(ms, *components, txn_id=txn_id)
    ms.commit_txn(txn_id)
    assert ms.show_locks() == []


def test_find_potential_compactions(ms: EmbeddedMetastoreClient) -> None:
    update_two_tables(ms)
    found = ms.find_potential_compactions(aborted_threshold=100)
    assert {(each.table.table, each.partition_name) for each in found} == {
        ("mytable", None),
        ("yourtable", "mypartition=myvalue"),
    }
    assert len(ms.find_potential_compactions(aborted_threshold=100, check_interval_seconds=60)) == 2
    ms.clock_offset_seconds = 120
    assert ms.find_potential_compactions(aborted_threshold=100, check_interval_seconds=60) == []
    fail(ms, "mydb.mytable")
    (candidate,) = ms.find_potential_compactions(aborted_threshold=100, check_interval_seconds=60)
    assert candidate.table == TableName("mydb", "mytable")


def test_add_dynamic_partitions(ms: EmbeddedMetastoreClient) -> None:
    """Both partitions are candidates, also when they existed before (HIVE-24020)."""
    (txn_id,) = ms.open_txns()
    write_id = ms.allocate_table_write_ids("default.adp_table", [txn_id])[0].write_id
    assert write_id == 1
    lock(ms, component(WRITE, "default", "adp_table", operation=UPDATE, dynamic=True), txn_id=txn_id)
    ms.add_dynamic_partitions(txn_id, write_id, "default.adp_table", ["ds=yesterday", "ds=today"], UPDATE)
    ms.commit_txn(txn_id)
    found = ms.find_potential_compactions(aborted_threshold=1000)
    assert sorted((str(each.table), each.partition_name or "") for each in found) == [
        ("default.adp_table", "ds=today"),
        ("default.adp_table", "ds=yesterday"),
    ]


def test_find_potential_compactions_limit_fetch_size(ms: EmbeddedMetastoreClient) -> None:
    update_two_tables(ms)
    assert len(ms.find_potential_compactions(aborted_threshold=100)) == 2
    assert len(ms.find_potential_compactions(aborted_threshold=100, limit=1)) == 1


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported_or_left_out_with_a_reason() -> None:
    assert len(CASES) == 25
    check_ported("TestCompactionTxnHandler", CASES, LEFT_OUT, [Path(__file__)])


def test_housekeeping_keeps_the_history_short(ms: EmbeddedMetastoreClient) -> None:
    for _ in range(5):
        fail(ms)
    assert housekeeping(ms).purged_compactions == 2
