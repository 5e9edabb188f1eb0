"""Hive's own cases of a worker's loop, failures and refusals (`TestWorker`), and cases beyond Hive's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.compaction import (
    Compactor,
    CompactorSettings,
    JobSettings,
    MergeResult,
    MergeSettings,
    Worker,
    merge,
)
from hive_ingest.errors import MetastoreError, MetastoreUnavailable
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    CompactionState,
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
from tests.support.compactions import FAST, MAJOR, MINOR, Compacted
from tests.support.fronts import Front, failing
from tests.support.metastores import connect_in, housekeeping
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="real metastores have their own tests in tests/thrift"),
    pytest.mark.one_embedded,
]

CASES = (
    "test_find_next_compact_throws_t_exception",
    "test_dropped_table",
    "test_dropped_partition",
    "test_one_delta_with_aborted_txn",
    "test_insert_only_disabled",
    "test_normal_run",
    "test_timeout_with_interrupt",
    "test_timeout_without_interrupt",
    "test_exception_when_txn_commit_and_mark_failed",
    "test_exception_when_txn_commit",
    "test_exception_when_mark_compacted",
    "test_exception_during_compact",
    "test_does_not_gather_stats_if_compaction_fails",
    "test_worker_if_is_dyn_part_abort",
    "test_worker_not_enough_to_compact",
    "test_worker_not_enough_to_compact_needs_cleaning",
)
READY, REFUSED, FAILED = CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED, CompactionState.FAILED
INITIATED = CompactionState.INITIATED


def test_find_next_compact_throws_t_exception(table: Compacted) -> None:
    called = threading.Semaphore(0)

    def fail(*_: Any, **__: Any) -> None:
        called.release()
        raise MetastoreError("not now")

    front = Front(table.client, find_next_compact=fail, clone=lambda: _Unclosed(front))
    compactor = Compactor(front, roles=["worker"], settings=CompactorSettings(worker_seconds=0.01))
    thread = threading.Thread(target=compactor.run)
    thread.start()
    assert all(called.acquire(timeout=60) for _ in range(3)), "the loop goes on"
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


def test_timeout_without_interrupt(metastore_uri: str, tmp_path: Path) -> None:
    """The merge hangs, as in a call of a file system that does not return: its compaction goes to another worker."""
    hangs, released = threading.Event(), threading.Event()

    def hang(*arguments: Any, **options: Any) -> MergeResult:
        hangs.set()
        assert released.wait(60)
        return merge(*arguments, **options | {"progress": None})

    with connect_in(tmp_path, metastore_uri, txn_timeout_seconds=2) as client, ThreadPoolExecutor(1) as thread:
        table = Compacted(client)
        table.inserts(1, 2)
        before = table.rows()
        table.request()
        late = thread.submit(table.work, replace(FAST, merger=hang, timeout_seconds=-1))
        try:
            assert hangs.wait(60)
            wait_until(lambda: is_back_in_the_queue(table), "the transaction was kept alive")
            assert table.work().state is READY
        finally:
            released.set()
        assert late.result().state is FAILED, "its transaction has timed out"
        assert table.states() == [READY]
        assert table.short_folders() == ["delta_1_1", "delta_1_2_v", "delta_2_2"]
        assert table.rows() == before
        table.inserts(3, 4)
        assert table.compact().state is READY, "the worker goes on"


def is_back_in_the_queue(table: Compacted) -> bool:
    housekeeping(table.client)
    return table.states() == [INITIATED]


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


def test_does_not_gather_stats_if_compaction_fails(parts: Compacted) -> None:
    """Nor otherwise: statistics in the catalog are those of Hive's own statements."""
    parts.inserts(1, 2, part="today")
    (file, _) = sorted(parts.place("today").glob("delta_*/bucket_00000"))
    content = file.read_bytes()
    before = parts.client.get_table(parts.name), parts.client.list_partitions(parts.name)
    for damaged, state in ((content[:-100], FAILED), (content, READY)):
        file.write_bytes(damaged)
        parts.request(MAJOR, part="today")
        assert parts.work().state is state
        assert (parts.client.get_table(parts.name), parts.client.list_partitions(parts.name)) == before


def test_worker_if_is_dyn_part_abort(parts: Compacted) -> None:
    """A writer that ended before it named its partitions has a request without a partition made for it."""
    parts.insert(1, part="today")
    aborted, _ = parts.begin()
    parts.client.abort_txn(aborted)
    before, folders = parts.rows(), parts.folders("today")
    result = parts.compact(MINOR)
    assert (result.state, result.made.folders, parts.states()) == (READY, (), [READY])
    assert [clean.state for clean in parts.clean()] == [CompactionState.SUCCEEDED]
    assert parts.states() == [CompactionState.SUCCEEDED]
    assert [*parts.client.get_aborted_components(parts.name)] == []
    assert (parts.rows(), parts.folders("today")) == (before, folders)


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
