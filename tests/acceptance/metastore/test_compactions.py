"""What compactions of an embedded metastore promise beyond Hive's own cases, on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hive_ingest.errors import InvalidTransactionState, NoSuchCompaction, NoSuchTxn, TxnAborted, UnsupportedFeature
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    AbortedComponent,
    CompactionInfo,
    CompactionResponse,
    CompactionState,
    CompactionType,
    DataOperationType,
    TableName,
    TxnId,
    TxnType,
    WriteId,
)
from tests.acceptance.metastore.requests import READ, component, lock
from tests.support.metastores import connect_in, housekeeping

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own queue")

TABLE = "db.t"
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
INITIATED, WORKING = CompactionState.INITIATED, CompactionState.WORKING
READY, SUCCEEDED = CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    """Runs housekeeping only on request."""
    options = {"housekeeping_interval_seconds": 1e6, "aborted_txn_retention_seconds": 0.001}
    with connect_in(tmp_path, metastore_uri, **options) as client:
        assert isinstance(client, EmbeddedMetastoreClient)
        client.run_housekeeping()
        yield client


def write(ms: EmbeddedMetastoreClient, table: str = TABLE, *, ends: str = "commit") -> tuple[TxnId, WriteId]:
    (txn_id,) = ms.open_txns()
    write_id = ms.allocate_table_write_ids(table, [txn_id])[0].write_id
    name = TableName.of(table)
    lock(ms, component(READ, name.database, name.table, operation=DataOperationType.INSERT), txn_id=txn_id)
    if ends == "commit":
        ms.commit_txn(txn_id)
    elif ends == "abort":
        ms.abort_txn(txn_id)
    return txn_id, write_id


def start(
    ms: EmbeddedMetastoreClient, table: str = TABLE, *, highest: int = 1, kind: CompactionType = MINOR
) -> tuple[CompactionInfo, TxnId]:
    """A compaction at work in its transaction."""
    assert ms.compact(table, compaction_type=kind).accepted
    info = ms.find_next_compact("worker-1")
    assert info is not None
    info = replace(info, highest_write_id=WriteId(highest))
    (txn_id,) = ms.open_txns(txn_type=TxnType.COMPACTION)
    ms.update_compactor_state(info, txn_id)
    return info, txn_id


def finish(
    ms: EmbeddedMetastoreClient, table: str = TABLE, *, highest: int = 1, kind: CompactionType = MINOR
) -> CompactionInfo:
    """A compaction up to its commit."""
    info, txn_id = start(ms, table, highest=highest, kind=kind)
    ms.mark_compacted(info)
    ms.commit_txn(txn_id)
    return info


def states(ms: EmbeddedMetastoreClient) -> list[CompactionState]:
    return [info.state for info in ms.show_compactions()]


# -- requests ----------------------------------------------------------------------------------------


def test_a_second_request_is_not_accepted_and_names_the_first(ms: EmbeddedMetastoreClient) -> None:
    write(ms)
    first = ms.compact(TABLE, compaction_type=MINOR)
    assert first == CompactionResponse(first.id, INITIATED, accepted=True)
    assert ms.compact(TABLE, compaction_type=MAJOR) == CompactionResponse(first.id, INITIATED, accepted=False)
    assert ms.find_next_compact("worker-1") is not None
    assert ms.compact(TABLE, compaction_type=MAJOR) == CompactionResponse(first.id, WORKING, accepted=False)
    assert ms.compact(TABLE, compaction_type=MAJOR, partition_name="p=1").accepted


def test_a_request_for_what_is_compacted_already_is_not_accepted(ms: EmbeddedMetastoreClient) -> None:
    write(ms)
    info = finish(ms)
    assert ms.compact(TABLE, compaction_type=MINOR) == CompactionResponse(info.id, READY, accepted=False)
    major = ms.compact(TABLE, compaction_type=MAJOR)
    assert major.accepted, "a major one does more than the minor one"
    ms.mark_refused(replace(info, id=major.id, worker_id=None, start_ms=None))
    write(ms)
    assert ms.compact(TABLE, compaction_type=MINOR).accepted


def test_only_minor_and_major_compactions_can_be_asked_for(ms: EmbeddedMetastoreClient) -> None:
    with pytest.raises(UnsupportedFeature, match="MINOR or MAJOR"):
        ms.compact(TABLE, compaction_type=CompactionType.REBALANCE)


def test_properties_of_a_request_reach_the_worker(ms: EmbeddedMetastoreClient) -> None:
    properties = {"compactor.threads": "2", "": "3:x", "é": ""}
    ms.compact(TABLE, compaction_type=MAJOR, properties=properties, initiator_id="me-1", initiator_version="0.1")
    info = ms.find_next_compact("worker-1")
    assert info is not None
    assert (info.properties, info.initiator_id, info.initiator_version) == (properties, "me-1", "0.1")


def test_many_requests_at_once_for_one_table_make_one_compaction(ms: EmbeddedMetastoreClient) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: ms.compact(TABLE, compaction_type=MINOR), range(24)))
    assert sum(answer.accepted for answer in answers) == 1
    assert {answer.id for answer in answers} == {ms.show_compactions()[0].id}


# -- workers -----------------------------------------------------------------------------------------


def test_each_request_goes_to_one_worker(ms: EmbeddedMetastoreClient) -> None:
    for number in range(30):
        ms.compact(f"db.t{number}", compaction_type=MINOR)
    barrier = threading.Barrier(6)

    def work(number: int) -> list[int]:
        barrier.wait()
        with ms.clone() as client:
            found = iter(lambda: client.find_next_compact(f"worker-{number}"), None)
            return [info.id for info in found]

    with ThreadPoolExecutor(6) as threads:
        taken = [id_ for ids in threads.map(work, range(6)) for id_ in ids]
    assert len(taken) == len(set(taken)) == 30


def test_each_request_goes_to_one_worker_also_of_several_processes(ms: EmbeddedMetastoreClient, tmp_path: Path) -> None:
    for number in range(30):
        ms.compact(f"db.t{number}", compaction_type=MINOR)
    children = [fork_worker(ms, tmp_path / f"taken-{number}") for number in range(3)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    taken = [id_ for path in tmp_path.glob("taken-*") for id_ in path.read_text().split()]
    assert len(taken) == len(set(taken)) == 30


def fork_worker(ms: EmbeddedMetastoreClient, path: Path) -> int:
    """A process that takes what it can get, and writes the ids down."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            found = iter(lambda: ms.find_next_compact(path.name), None)
            path.write_text(" ".join(str(info.id) for info in found))
            status = 0
        finally:
            os._exit(status)
    return child


def test_a_table_is_compacted_by_one_worker_at_a_time(ms: EmbeddedMetastoreClient) -> None:
    """Published, but not yet committed: the old files are still the ones that everybody reads."""
    write(ms)
    info, txn_id = start(ms)
    ms.mark_compacted(info)
    assert ms.compact(TABLE, compaction_type=MAJOR) == CompactionResponse(info.id, READY, accepted=False)
    assert ms.find_ready_to_clean() == []
    ms.commit_txn(txn_id)
    assert [each.id for each in ms.find_ready_to_clean()] == [info.id]
    assert ms.compact(TABLE, compaction_type=MAJOR).accepted


def test_a_compaction_whose_transaction_has_ended_goes_back_into_the_queue(ms: EmbeddedMetastoreClient) -> None:
    """Killed before or after `mark_compacted`: its result is never seen, so another worker begins again."""
    for number, is_published in enumerate((False, True)):
        info, txn_id = start(ms, f"db.t{number}")
        if is_published:
            ms.mark_compacted(info)
        ms.abort_txn(txn_id)
    assert housekeeping(ms).revoked_compactions == 2
    assert states(ms) == [INITIATED, INITIATED]
    info = ms.show_compactions()[0]
    assert (info.worker_id, info.start_ms, info.txn_id, info.highest_write_id) == (None, None, None, None)


def test_a_worker_that_is_alive_keeps_its_compaction_however_long_it_takes(ms: EmbeddedMetastoreClient) -> None:
    info, txn_id = start(ms)
    for seconds in range(200, 2000, 200):
        ms.clock_offset_seconds = seconds
        ms.heartbeat(txn_id=txn_id)
        assert housekeeping(ms).revoked_compactions == 0
    ms.mark_compacted(info)
    ms.commit_txn(txn_id)
    assert states(ms) == [READY]


def test_a_worker_that_seemed_dead_can_end_nothing(ms: EmbeddedMetastoreClient) -> None:
    info, txn_id = start(ms)
    ms.clock_offset_seconds = 301
    assert housekeeping(ms).revoked_compactions == 1
    taken = ms.find_next_compact("worker-2")
    assert taken is not None
    with pytest.raises(NoSuchCompaction, match="not being carried out by worker-1"):
        ms.mark_compacted(info)
    with pytest.raises(NoSuchCompaction):
        ms.mark_failed(info)
    with pytest.raises(TxnAborted):
        ms.commit_txn(txn_id)
    assert ms.show_compactions()[0].worker_id == "worker-2"


@pytest.mark.parametrize("is_taken_again", [False, True])
def test_a_worker_that_seemed_dead_cannot_fail_what_went_back_into_the_queue(
    ms: EmbeddedMetastoreClient, is_taken_again: bool
) -> None:
    info, _ = start(ms)
    ms.clock_offset_seconds = 301
    assert housekeeping(ms).revoked_compactions == 1
    if is_taken_again:
        taken = ms.find_next_compact("worker-2")
        assert taken is not None
        (other,) = ms.open_txns(txn_type=TxnType.COMPACTION)
        ms.update_compactor_state(replace(taken, highest_write_id=WriteId(1)), other)
        ms.mark_compacted(taken)
        ms.commit_txn(other)
    for end in (ms.mark_failed, ms.mark_refused):
        with pytest.raises(NoSuchCompaction, match="seemed dead"):
            end(info)
    assert states(ms) == [READY if is_taken_again else INITIATED]


def test_a_worker_that_never_opened_a_transaction_is_dead_after_the_time_out(ms: EmbeddedMetastoreClient) -> None:
    ms.compact(TABLE, compaction_type=MINOR)
    ms.find_next_compact("worker-1")
    assert housekeeping(ms).revoked_compactions == 0
    ms.clock_offset_seconds = 301
    assert housekeeping(ms).revoked_compactions == 1


def test_a_compaction_needs_a_transaction_of_its_type_that_is_open(ms: EmbeddedMetastoreClient) -> None:
    ms.compact(TABLE, compaction_type=MINOR)
    info = ms.find_next_compact("worker-1")
    assert info is not None
    (other,) = ms.open_txns()
    with pytest.raises(InvalidTransactionState, match="is not a compaction's"):
        ms.update_compactor_state(info, other)
    with pytest.raises(NoSuchTxn):
        ms.update_compactor_state(info, TxnId(99))


def test_calls_that_are_repeated_after_a_lost_answer_do_no_harm(ms: EmbeddedMetastoreClient) -> None:
    write(ms)
    info, txn_id = start(ms)
    ms.update_compactor_state(info, txn_id)
    for _ in range(2):
        ms.mark_compacted(replace(info, meta_info="2 files"))
    for _ in range(2):
        ms.commit_txn(txn_id)
    for _ in range(2):
        ms.mark_cleaned(info)
    (found,) = ms.show_compactions()
    assert (found.state, found.meta_info, found.txn_id) == (SUCCEEDED, "2 files", txn_id)
    with pytest.raises(NoSuchCompaction, match="not ready for cleaning"):
        ms.mark_cleaned(replace(info, id=99))


# -- what may be cleaned -----------------------------------------------------------------------------


def test_nothing_is_cleaned_while_a_transaction_is_open_that_was_open_at_the_commit(
    ms: EmbeddedMetastoreClient,
) -> None:
    """Also the very newest one, whose snapshot may have been taken before."""
    write(ms)
    info, txn_id = start(ms)
    (reader,) = ms.open_txns(txn_type=TxnType.READ_ONLY)
    ms.mark_compacted(info)
    ms.commit_txn(txn_id)
    ms.open_txns(txn_type=TxnType.READ_ONLY)  # sees the result
    assert ms.find_min_open_txn_id_for_cleaner() == reader
    assert ms.find_ready_to_clean() == []
    ms.commit_txn(reader)
    assert [each.id for each in ms.find_ready_to_clean()] == [info.id]
    assert ms.find_ready_to_clean(min_open_txn_id=reader) == []


def test_compactions_of_a_table_are_cleaned_in_the_order_of_their_write_ids(ms: EmbeddedMetastoreClient) -> None:
    write(ms)
    first = finish(ms, highest=1)
    write(ms)
    second = finish(ms, highest=2, kind=MAJOR)
    assert [each.id for each in ms.find_ready_to_clean()] == [first.id]
    ms.mark_cleaned(first)
    assert [each.id for each in ms.find_ready_to_clean()] == [second.id]


def test_what_could_not_be_removed_is_tried_again_later_and_delays_nothing_else(ms: EmbeddedMetastoreClient) -> None:
    write(ms)
    first = finish(ms, highest=1)
    write(ms)
    second = finish(ms, highest=2)
    ms.clock_offset_seconds = 1000
    ms.mark_cleaner_start(first)
    ms.set_cleaner_retry_retention(replace(first, error_message="permission denied"), 60)
    assert [each.id for each in ms.find_ready_to_clean()] == [second.id]
    ms.clock_offset_seconds = 1061
    (found,) = ms.find_ready_to_clean()
    assert (found.id, found.error_message) == (first.id, "permission denied")
    assert found.cleaner_start_ms is not None
    assert ms.find_ready_to_clean(retention_seconds=2000) == []


def test_cleaning_forgets_what_was_compacted_and_nothing_newer(ms: EmbeddedMetastoreClient) -> None:
    write(ms)
    _, aborted = write(ms, ends="abort")
    info = finish(ms, highest=aborted)
    newer, write_id = write(ms, ends="abort")
    assert [each.id for each in ms.get_open_txns_info().transactions] == [newer - 2, newer]
    ms.clock_offset_seconds = 1
    ms.mark_cleaned(info)
    assert [each.id for each in ms.get_open_txns_info().transactions] == [newer]
    assert ms.get_aborted_components(TABLE) == [AbortedComponent(newer, write_id, is_compaction=False)]
    assert ms.get_valid_write_ids([TABLE])[0].aborted == (write_id,)
    assert ms.find_potential_compactions(aborted_threshold=10) == []


def test_aborted_transactions_whose_files_are_still_there_are_remembered(ms: EmbeddedMetastoreClient) -> None:
    (first, _), (second, _) = write(ms, ends="abort"), write(ms, ends="abort")
    ms.clock_offset_seconds = 1
    (info,) = ms.find_ready_to_clean_aborts(aborted_threshold=1)
    assert (info.id, info.table, info.type) == (0, TableName("db", "t"), CompactionType.ABORT_TXN_CLEANUP)
    ms.mark_cleaned(info)
    assert [each.txn_id for each in ms.get_aborted_components(TABLE)] == [first, second]
    ms.mark_cleaned(info, removed_txn_ids=[first])
    assert [each.txn_id for each in ms.get_aborted_components(TABLE)] == [second]
    assert [each.id for each in ms.get_open_txns_info().transactions] == [second]
    assert ms.show_compactions() == []


def test_aborts_are_found_by_their_number_or_age_and_tried_again_later(ms: EmbeddedMetastoreClient) -> None:
    (writer, _) = write(ms, ends="open")
    write(ms, ends="abort")
    assert ms.find_ready_to_clean_aborts(aborted_threshold=1) == []
    assert ms.find_ready_to_clean_aborts(aborted_threshold=1, aborted_time_threshold_seconds=60) == []
    ms.clock_offset_seconds = 61
    (info,) = ms.find_ready_to_clean_aborts(aborted_threshold=1, aborted_time_threshold_seconds=60)
    assert info.min_open_write_txn_id == writer
    (candidate,) = ms.find_potential_compactions(aborted_threshold=1, aborted_time_threshold_seconds=60)
    assert (candidate.has_old_abort, candidate.too_many_aborts) == (True, False)

    for _ in range(2):
        ms.set_cleaner_retry_retention(replace(info, error_message="permission denied"), 60)
    (retry,) = ms.show_compactions()
    assert (retry.type, retry.error_message) == (CompactionType.ABORT_TXN_CLEANUP, "permission denied")
    assert ms.find_ready_to_clean_aborts(aborted_threshold=0) == []
    assert ms.compact(TABLE, compaction_type=MINOR).accepted, "it is in no compaction's way"
    ms.clock_offset_seconds = 122
    (info,) = ms.find_ready_to_clean_aborts(aborted_threshold=0)
    assert (info.id, info.retry_retention_ms) == (retry.id, 60_000)
    ms.mark_cleaned(info)
    assert states(ms) == [INITIATED]


def test_an_aborted_compaction_is_remembered_until_its_files_are_gone(ms: EmbeddedMetastoreClient) -> None:
    _, write_id = write(ms)
    info, txn_id = start(ms, highest=write_id)
    ms.abort_txn(txn_id)
    ms.mark_failed(info)
    housekeeping(ms)
    assert ms.get_valid_txns().aborted == (txn_id,)
    assert ms.get_aborted_components(TABLE) == [AbortedComponent(txn_id, write_id, is_compaction=True)]
    assert ms.get_aborted_components(TABLE, up_to=WriteId(write_id - 1)) == []
    (cleanup,) = ms.find_ready_to_clean_aborts(aborted_threshold=0)
    ms.clock_offset_seconds = 1
    ms.mark_cleaned(cleanup, removed_txn_ids=[txn_id])
    assert ms.get_valid_txns().aborted == ()


def test_a_dynamic_partition_write_that_named_no_partition_is_forgotten(ms: EmbeddedMetastoreClient) -> None:
    """It published nothing, so no cleaner ever comes for it."""
    ms.create_database("db")
    ms.create_table(TABLE, columns={"id": "int"}, partition_keys={"p": "int"})
    ms.create_table("db.plain", columns={"id": "int"})
    for table in (TABLE, "db.plain"):
        write(ms, table)
        write(ms, table, ends="abort")
    assert len(ms.find_potential_compactions(aborted_threshold=0)) == 2
    ms.clock_offset_seconds = 301
    housekeeping(ms)
    (candidate,) = ms.find_potential_compactions(aborted_threshold=0)
    assert (str(candidate.table), candidate.too_many_aborts) == ("db.plain", True)
    assert len(ms.get_valid_txns().aborted) == 1


# -- DDL ---------------------------------------------------------------------------------------------


def partitioned(ms: EmbeddedMetastoreClient) -> None:
    ms.create_database("db")
    ms.create_table(TABLE, columns={"id": "int"}, partition_keys={"p": "int"})
    ms.add_partitions(TABLE, [("1",), ("2",)])
    for ends in (True, False):
        for partition in ("p=1", "p=2"):
            ms.compact(TABLE, compaction_type=MINOR, partition_name=partition)
        while ends and (info := ms.find_next_compact("worker-1")) is not None:
            ms.mark_failed(info)


def test_a_dropped_partition_leaves_neither_requests_nor_history(ms: EmbeddedMetastoreClient) -> None:
    partitioned(ms)
    ms.drop_partition(TABLE, ("1",))
    assert {info.partition_name for info in ms.show_compactions()} == {"p=2"}


def test_a_dropped_table_leaves_neither_requests_nor_history(ms: EmbeddedMetastoreClient) -> None:
    partitioned(ms)
    ms.drop_table(TABLE)
    assert ms.show_compactions() == []


def test_compactions_follow_a_table_that_is_renamed(ms: EmbeddedMetastoreClient) -> None:
    partitioned(ms)
    ms.alter_table(TABLE, replace(ms.get_table(TABLE), name=TableName("db", "new")))
    assert {info.table for info in ms.show_compactions()} == {TableName("db", "new")}
    assert len(ms.show_compactions()) == 4
