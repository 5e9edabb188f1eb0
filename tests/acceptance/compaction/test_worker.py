"""Hive's own cases of the worker (`TestWorker`), each with the name of Hive's in snake case."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.compaction import Compactor, CompactorSettings, JobSettings, MergeSettings, Worker
from hive_ingest.errors import MetastoreError, MetastoreUnavailable
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    CompactionState,
    CompactionType,
    DataOperationType,
    LockComponent,
    LockId,
    LockLevel,
    LockRequest,
    LockResponse,
    LockType,
    TxnState,
)
from hive_ingest.storage import Location
from hive_ingest.testing import CrashPoint, faults
from tests.support.acid_files import write_acid_file
from tests.support.compactions import FAST, MAJOR, MINOR, Compacted
from tests.support.fronts import Front, failing
from tests.support.metastores import housekeeping

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="real metastores have their own tests in tests/thrift"),
    pytest.mark.one_embedded,
]

CASES = (
    "test_nothing",
    "test_sorted_table",
    "test_sorted_partition",
    "test_minor_table_with_base",
    "test_minor_with_open_in_middle",
    "test_minor_with_aborted",
    "test_minor_partition_with_base",
    "test_minor_table_no_base",
    "test_major_table_with_base",
    "test_minor_no_base_lots_of_deltas",
    "test_major_no_base_lots_of_deltas",
    "test_major_partition_with_base",
    "test_major_table_no_base",
    "test_major_table_legacy",
    "test_minor_table_legacy",
    "test_major_partition_with_base_missing_buckets",
    "test_major_with_open_in_middle",
    "test_major_with_aborted",
    "test_worker_and_initiator_version",
    "test_find_next_compact_throws_t_exception",
    "test_dropped_table",
    "test_dropped_partition",
    "test_one_delta_with_aborted_txn",
    "test_insert_only_disabled",
    "test_normal_run",
    "test_timeout_with_interrupt",
    "test_exception_when_txn_commit_and_mark_failed",
    "test_exception_when_txn_commit",
    "test_exception_when_mark_compacted",
    "test_exception_during_compact",
    "test_worker_not_enough_to_compact",
    "test_worker_not_enough_to_compact_needs_cleaning",
)
#: Cases that are left out, and why.
LEFT_OUT = {
    "test_stringable_map": "of MapReduce; the queue's tests have the format",
    "test_stringable_list": "of MapReduce",
    "test_input_split": "of MapReduce",
    "test_input_split_null_base": "of MapReduce",
    "test_does_not_gather_stats_if_compaction_fails": "no statistics of tables are gathered",
    "test_timeout_without_interrupt": "a merge looks at its timeout before each stripe; no thread is ever abandoned",
    "test_worker_if_is_dyn_part_abort": "aborts are cleaned by partition, so no such request is ever made",
}
READY, REFUSED, FAILED = CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED, CompactionState.FAILED
INITIATED = CompactionState.INITIATED


@pytest.fixture
def based(table: Compacted) -> Compacted:
    """A base of write id 1, two deltas and a delete delta."""
    table.insert(1, 2, 3, overwrite=True)
    table.inserts(4, 5)
    table.delete(table.row_id(2))
    return table


@pytest.fixture
def based_part(parts: Compacted) -> Compacted:
    """The same in the partition `today`."""
    parts.insert(1, 2, 3, part="today", overwrite=True)
    for number in (4, 5):
        parts.insert(number, part="today")
    parts.delete(parts.row_id(2), part="today")
    return parts


def commit_write_ids(table: Compacted, count: int) -> None:
    """Transactions that commit; what they wrote, if anything, is in a batch's delta."""
    for _ in range(count):
        table.client.commit_txn(table.begin()[0])


def abort_write_ids(table: Compacted, count: int) -> None:
    for _ in range(count):
        table.client.abort_txn(table.begin()[0])


def write_batch(table: Compacted, low: int, high: int) -> None:
    """The delta of a batch of transactions, a row each, whose id is the write id."""
    ids = range(low, high + 1)
    rows = pa.array(
        [{"id": i, "text": f"row {i}"} for i in ids], pa.struct([("id", pa.int32()), ("text", pa.string())])
    )
    path = table.folder / f"delta_{low:07d}_{high:07d}" / "bucket_00000"
    write_acid_file(path, [(write_id, encode_bucket(0, 0), 0) for write_id in ids], rows=rows)


def test_nothing(ms: EmbeddedMetastoreClient) -> None:
    assert Worker(ms).run_once() is None


def check_sorted(table: Compacted, part: str | None = None) -> None:
    before = table.folders(part)
    table.request(MAJOR, part=part)
    catalog = Front(table.client, get_table=lambda name: replace(table.client.get_table(name), sort_columns=("id",)))
    result = table.work(client=catalog)
    assert (result.state, "sorted by id" in result.message) == (REFUSED, True)
    assert table.folders(part) == before


def test_sorted_table(based: Compacted) -> None:
    check_sorted(based)


def test_sorted_partition(based_part: Compacted) -> None:
    check_sorted(based_part, "today")


@pytest.mark.on_both
def test_minor_table_with_base(based: Compacted) -> None:
    before = based.rows()
    assert based.compact(MINOR).state is READY
    new = ["delete_delta_2_4_v", "delta_2_4_v"]
    assert based.short_folders() == sorted(["base_1", "delta_2_2", "delta_3_3", "delete_delta_4_4", *new])
    assert based.rows() == before


@pytest.mark.on_both
def test_minor_with_open_in_middle(table: Compacted) -> None:
    """A batch whose first transaction is open: below it there is nothing to merge."""
    table.insert(1, overwrite=True)
    table.insert(2)
    writer, _ = table.begin()
    commit_write_ids(table, 2)
    write_batch(table, 3, 5)
    table.insert(6)
    before, old = table.rows(), table.folders()
    result = table.compact(MINOR)
    assert (result.state, result.info.highest_write_id) == (REFUSED, 2)
    assert table.folders() == old
    assert table.rows() == before
    assert table.ids() == [1, 2, 4, 5, 6]
    table.client.commit_txn(writer)
    assert table.ids() == [1, 2, 3, 4, 5, 6]


def test_minor_with_aborted(table: Compacted) -> None:
    """Two transactions of a batch aborted: their rows are in its file, beside those of the first one."""
    table.insert(1, overwrite=True)
    table.insert(2)
    commit_write_ids(table, 1)
    abort_write_ids(table, 2)
    write_batch(table, 3, 5)
    table.insert(6)
    before = table.rows()
    assert table.ids() == [1, 2, 3, 6]
    result = table.compact(MINOR)
    assert result.state is READY
    assert table.short_folders() == ["base_1", "delta_2_2", "delta_2_6_v", "delta_3_5", "delta_6_6"]
    assert sum(file.rows for file in result.made.files) == 3
    assert table.rows() == before


def test_minor_partition_with_base(based_part: Compacted) -> None:
    before = based_part.rows()
    assert based_part.compact(MINOR, part="today").state is READY
    assert {"base_1", "delta_2_4_v", "delete_delta_2_4_v"} <= {*based_part.short_folders("today")}
    assert based_part.rows() == before


def test_minor_table_no_base(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    table.compact(MINOR)
    assert table.short_folders() == ["delta_1_1", "delta_1_2_v", "delta_2_2"]
    assert table.rows() == before


def test_major_table_with_base(based: Compacted) -> None:
    before = based.rows()
    result = based.compact(MAJOR)
    assert [file.rows for file in result.made.files] == [4]
    assert based.short_folders() == ["base_1", "base_4_v", "delete_delta_4_4", "delta_2_2", "delta_3_3"]
    assert based.rows() == before


def check_lots_of_deltas(table: Compacted, kind: CompactionType, output: str) -> None:
    """Gaps between deltas, a batch, and a delta that was compacted already and not cleaned."""
    for last in (1, 3):
        table.insert(last)
        commit_write_ids(table, 1)
    commit_write_ids(table, 5)
    write_batch(table, 5, 9)
    commit_write_ids(table, 4)
    write_batch(table, 11, 12)
    write_batch(table, 11, 13)
    commit_write_ids(table, 1)
    table.insert(15)
    before, old = table.rows(), table.folders()
    assert table.ids() == [1, 3, 5, 6, 7, 8, 9, 11, 12, 13, 15]
    result = table.compact(kind)
    assert result.state is READY
    assert sum(file.rows for file in result.made.files) == 11
    assert [name for name in table.folders() if name not in old] == [*result.made.folders]
    assert table.rows() == before
    table.clean()
    assert table.short_folders() == [output]
    assert table.rows() == before


def test_minor_no_base_lots_of_deltas(table: Compacted) -> None:
    check_lots_of_deltas(table, MINOR, "delta_1_15_v")


def test_major_no_base_lots_of_deltas(table: Compacted) -> None:
    check_lots_of_deltas(table, MAJOR, "base_15_v")


def test_major_partition_with_base(based_part: Compacted) -> None:
    before = based_part.rows()
    based_part.compact(MAJOR, part="today")
    assert "base_4_v" in based_part.short_folders("today")
    assert based_part.rows() == before


def test_major_table_no_base(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    table.compact(MAJOR)
    assert table.short_folders() == ["base_2_v", "delta_1_1", "delta_2_2"]
    assert table.rows() == before


@pytest.fixture
def legacy(table: Compacted) -> Compacted:
    """A file from before the table was transactional, and two deltas."""
    table.put_original("000000_0", 100, 101)
    table.inserts(1, 2)
    return table


def test_major_table_legacy(legacy: Compacted) -> None:
    before = legacy.rows()
    assert [row_id for row_id, *_ in before[:2]] == [(0, 1 << 29, 0), (0, 1 << 29, 1)]
    result = legacy.compact(MAJOR)
    assert (result.state, [file.rows for file in result.made.files]) == (READY, [4])
    assert legacy.short_folders() == ["base_2_v", "delta_1_1", "delta_2_2"]
    assert legacy.rows() == before
    legacy.clean()
    assert legacy.short_folders() == ["base_2_v"]
    assert not (legacy.folder / "000000_0").exists()
    assert legacy.rows() == before


def test_minor_table_legacy(legacy: Compacted) -> None:
    before = legacy.rows()
    result = legacy.compact(MINOR)
    assert (result.state, [file.rows for file in result.made.files]) == (READY, [2])
    legacy.clean()
    assert legacy.short_folders() == ["delta_1_2_v"]
    assert (legacy.folder / "000000_0").exists()
    assert legacy.rows() == before


def test_major_partition_with_base_missing_buckets(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, partition_keys={"part": "string"}, bucket_columns=["id"], num_buckets=4)
    table.insert(*range(20), part="today", overwrite=True)
    for number in (1, 2):
        table.insert(number, part="today")
    before = table.rows()
    result = table.compact(MAJOR, part="today")
    assert len(result.made.files) == 4
    assert table.rows() == before


def test_major_with_open_in_middle(based: Compacted) -> None:
    based.begin()
    based.inserts(6, 7)
    old = based.folders()
    before = based.rows()
    result = based.compact(MAJOR)
    assert result.info.highest_write_id == 4
    assert [name for name in based.folders() if name not in old] == [result.made.folders[0]]
    assert "base_4_v" in based.short_folders()
    assert based.rows() == before


@pytest.mark.on_both
def test_major_with_aborted(table: Compacted) -> None:
    table.insert(1, overwrite=True)
    table.insert(2)
    table.aborted_insert(8)
    table.insert(3)
    old, before = table.folders(), table.rows()
    result = table.compact(MAJOR)
    assert [name for name in table.folders() if name not in old] == [result.made.folders[0]]
    assert "base_5_v" in table.short_folders()
    assert {*old} <= {*table.folders()}
    assert table.rows() == before


def test_worker_and_initiator_version(table: Compacted) -> None:
    table.inserts(1, 2)
    table.client.compact(table.name, compaction_type=MINOR, initiator_version="0.0.9")
    table.work()
    (info,) = table.history()
    assert (info.initiator_version, info.worker_version, info.state) == ("0.0.9", "0.1", READY)


def test_find_next_compact_throws_t_exception(table: Compacted) -> None:
    called = threading.Semaphore(0)

    def fail(*_: Any, **__: Any) -> None:
        called.release()
        raise MetastoreError("not now")

    front = Front(table.client, find_next_compact=fail, clone=lambda: _Unclosed(front))
    compactor = Compactor(front, roles=["worker"], settings=CompactorSettings(worker_seconds=0.01))
    thread = threading.Thread(target=compactor.run)
    thread.start()
    assert all(called.acquire(timeout=30) for _ in range(3)), "the loop goes on"
    compactor.stop()
    thread.join()
    assert front.calls["mark_failed"] == 0


class _Unclosed:
    """A clone that is the client itself."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None:
        pass


def test_dropped_table(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request()
    table.client.drop_table(table.name)
    assert Worker(table.client).run_once() is None
    assert table.history() == []


def test_dropped_partition(parts: Compacted) -> None:
    parts.inserts(1, 2, part="today")
    parts.request(part="today")
    parts.client.drop_partition(parts.name, ["today"])
    assert Worker(parts.client).run_once() is None
    assert parts.history() == []


def test_one_delta_with_aborted_txn(table: Compacted) -> None:
    aborted, _ = table.begin()
    table.client.abort_txn(aborted)
    table.insert(1)
    (name,) = table.folders()
    (table.folder / name).rename(table.folder / "delta_0000001_0000002")
    assert table.compact(MAJOR).state is REFUSED
    assert table.folders() == ["delta_0000001_0000002"]
    table.clean()
    states = {info.id: info.state for info in table.client.get_open_txns_info().transactions}
    assert states[aborted] is TxnState.ABORTED


def test_insert_only_disabled(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"transactional": "true", "transactional_properties": "insert_only"})
    result = table.compact(MINOR)
    assert (result.state, "full ACID" in result.message) == (FAILED, True)
    assert table.history()[0].state is FAILED


def test_normal_run(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request()
    done = Compactor(table.client, roles=["worker"]).run_once().worked
    assert [work.state for work in done] == [READY]


def test_timeout_with_interrupt(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    table.request()
    result = table.work(JobSettings(merge=MergeSettings(fsync=False), timeout_seconds=-1))
    assert (result.state, "took longer" in result.message) == (FAILED, True)
    assert table.short_folders() == ["delta_1_1", "delta_2_2"]
    assert table.rows() == before
    assert table.compact().state is READY, "the worker goes on"


def is_taken_up_again(table: Compacted) -> bool:
    table.client.clock_offset_seconds = 10 * table.client.txn_timeout_seconds
    housekeeping(table.client)
    return table.history()[0].state is INITIATED


@pytest.mark.on_both
def test_exception_when_txn_commit_and_mark_failed(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    table.request()
    gone = failing(MetastoreUnavailable("gone"))
    front = Front(table.client, commit_txn=gone, mark_failed=gone, abort_txn=gone)
    result = table.work(replace(FAST, commit_retry_seconds=0.01), client=front)
    assert result.state is CompactionState.WORKING
    assert table.rows() == before
    assert is_taken_up_again(table)
    assert table.work().state is READY
    assert table.rows() == before


def test_exception_when_txn_commit(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    table.request()
    result = table.work(client=Front(table.client, commit_txn=failing(MetastoreError("refused"))))
    assert (result.state, result.message) == (FAILED, "refused")
    assert (table.history()[0].state, table.history()[0].error_message) == (FAILED, "refused")
    assert table.rows() == before


def test_exception_when_mark_compacted(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    table.request()
    result = table.work(client=Front(table.client, mark_compacted=failing(MetastoreError("refused"))))
    assert result.state is table.history()[0].state is FAILED
    assert table.short_folders() == ["delta_1_1", "delta_2_2"]
    assert table.rows() == before


def test_exception_during_compact(table: Compacted) -> None:
    table.inserts(1, 2)
    file = table.folder / table.folders()[1] / "bucket_00000"
    file.write_bytes(file.read_bytes()[:-100])
    result = table.compact(MAJOR)
    assert result.state is table.history()[0].state is FAILED
    assert Location.of(str(file)).path in (table.history()[0].error_message or "")
    assert table.short_folders() == ["delta_1_1", "delta_2_2"]
    (info,) = [info for info in table.client.get_open_txns_info().transactions if info.id == table.history()[0].txn_id]
    assert info.state is TxnState.ABORTED


def test_worker_not_enough_to_compact(table: Compacted) -> None:
    table.insert(1)
    result = table.compact(MAJOR)
    assert result.state is table.history()[0].state is REFUSED
    assert result.message == "there is nothing to merge", "Hive: None of the compaction thresholds met"


@pytest.mark.on_both
def test_worker_not_enough_to_compact_needs_cleaning(table: Compacted) -> None:
    table.inserts(1, 2)
    table.insert(3, overwrite=True)
    result = table.compact(MAJOR)
    assert result.state is table.history()[0].state is READY
    assert result.made.files == ()
    table.clean()
    assert table.short_folders() == ["base_3"]


# -- beyond Hive's cases -----------------------------------------------------------------------------


@pytest.mark.on_both
def test_files_from_before_the_table_was_transactional_are_compacted_alone(table: Compacted) -> None:
    table.put_original("000000_0", 1, 2)
    table.put_original("000000_0_copy_1", 3)
    table.put_original("HIVE_UNION_SUBDIR_1/000001_0", 4)
    before = table.rows()
    assert [row[1] for row in before] == [1, 2, 3, 4]
    assert table.compact(MAJOR).made.folders[0].startswith("base_-9223372036854775808_v")
    assert table.rows() == before
    table.clean()
    assert [path.name for path in table.folder.iterdir() if not path.name.startswith(".")] == table.folders()
    table.delete(table.row_id(3))
    table.insert(5)
    before = table.rows()
    assert [row[1] for row in before] == [1, 2, 4, 5]
    table.compact(MAJOR)
    table.clean()
    assert table.short_folders() == ["base_2_v"]
    assert table.rows() == before


def test_a_folder_with_other_files_than_hives_is_not_removed(table: Compacted) -> None:
    table.put_original("sub/000000_0", 1)
    table.compact(MAJOR)
    (table.folder / "sub" / "notes.txt").write_text("keep")
    table.clean()
    assert (table.folder / "sub" / "notes.txt").read_text() == "keep"
    assert table.ids() == [1]


@pytest.mark.on_both
@pytest.mark.parametrize(
    "point",
    ["after_compaction_txn", "after_update_compactor_state", "after_merge", "after_publish", "after_mark_compacted"],
)
def test_a_failed_compaction_leaves_nothing(based: Compacted, point: str) -> None:
    before, folders = based.rows(), based.folders()
    based.request(MAJOR)
    with faults(CrashPoint(point)):
        assert based.work().state is FAILED
    assert based.folders() == folders
    assert based.rows() == before
    assert list((based.folder / ".hive_ingest").glob("*")) == []
    assert based.compact(MAJOR).state is READY
    assert based.rows() == before


def test_a_lost_answer_to_the_commit_is_asked_for_again(based: Compacted) -> None:
    before = based.rows()
    based.request(MAJOR)

    def lost(*args: Any, **options: Any) -> None:
        based.client.commit_txn(*args, **options)
        raise MetastoreUnavailable("the answer was lost")

    result = based.work(replace(FAST, commit_retry_seconds=0.01), client=Front(based.client, commit_txn=lost))
    assert result.state is based.history()[0].state is READY
    based.clean()
    assert based.short_folders() == ["base_4_v"]
    assert based.rows() == before


@pytest.mark.on_both
def test_a_stopped_worker_puts_its_compaction_back(based: Compacted) -> None:
    before, folders = based.rows(), based.folders()
    based.request(MAJOR)
    result = Worker(based.client, FAST, is_stopped=lambda: True).run_once()
    assert result is not None
    assert result.state is based.history()[0].state is INITIATED
    assert based.folders() == folders
    assert based.work().state is READY
    assert based.rows() == before


def test_a_worker_that_waits_for_its_lock_can_be_stopped(based: Compacted) -> None:
    (txn_id,) = based.client.open_txns()
    component = LockComponent(
        LockType.EXCLUSIVE,
        LockLevel.TABLE,
        based.name.database,
        based.name.table,
        operation_type=DataOperationType.NO_TXN,
    )
    based.client.lock(LockRequest((component,), txn_id))
    based.request(MAJOR)
    waits = threading.Event()

    def check_lock(lock_id: LockId) -> LockResponse:
        waits.set()
        answer: LockResponse = based.client.check_lock(lock_id)
        return answer

    settings = replace(FAST, lock_wait_seconds=3600)
    front: Any = Front(based.client, check_lock=check_lock)
    result = Worker(front, settings, is_stopped=waits.is_set).run_once()
    assert result is not None
    assert result.state is based.history()[0].state is INITIATED


def test_numbers_and_bytes_of_files_are_in_the_history(based: Compacted) -> None:
    based.compact(MAJOR)
    meta_info = based.history()[0].meta_info or ""
    assert '"files_before": 4' in meta_info
    assert '"files_after": 1' in meta_info


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported_or_left_out_with_a_reason() -> None:
    ported = [name for name in CASES if name in globals()]
    print(f"TestWorker: {len(ported)} of {len(CASES) + len(LEFT_OUT)} ported")
    assert [*CASES] == ported
    assert not set(CASES) & set(LEFT_OUT)
