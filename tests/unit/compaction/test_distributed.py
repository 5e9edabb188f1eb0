"""A merge by tasks: a large bucket is cut into ranges of row ids, and the result is that of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.compaction import DistributedMerge, MergeProgress, MergeResult, MergeTasks
from hive_ingest.errors import ConfigurationError, CorruptFile, StreamingIOFailure
from tests.support.merge_attempts import Attempts, Broken
from tests.unit.compaction.folders import Folder, tail_of

BUCKET = 1 << 29
ROWS = 6000


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "t").mkdir()
    return Folder(tmp_path / "t")


def fill(folder: Folder, write_ids: int = 4) -> None:
    """A delta for each write id, each with several stripes of text that does not compress well."""
    for write_id in range(1, write_ids + 1):
        rows = [(i, f"{hash((write_id, i)):x}") for i in range(ROWS)]
        folder.insert(write_id, rows, stripe_size_bytes=4096)


def compact(folder: Folder, kind: str, attempts: Attempts, split_bucket_bytes: int, **settings: int) -> MergeResult:
    plan = folder.plan(kind)
    assert plan is not None
    merger = DistributedMerge(attempts, split_bucket_bytes=split_bucket_bytes)
    return folder.publish(folder.merge(plan, merger=merger, **settings))


def output(folder: Folder, result: MergeResult) -> Path:
    (file,) = result.files
    return folder.path / file.folder_name / file.file_name


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_large_bucket_is_cut_into_ranges_and_is_one_file_with_the_same_rows(folder: Folder, kind: str) -> None:
    fill(folder)
    before = folder.rows()
    attempts = Attempts()

    result = compact(folder, kind, attempts, 100_000, stripe_bytes=1_000_000)

    assert attempts.stages[0] == ["SplitOutput"]
    assert set(attempts.stages[1]) == {"WritePart"}
    assert len(attempts.stages[1]) >= 2
    assert attempts.stages[2] == ["JoinParts"]
    assert folder.rows() == before
    footer = tail_of(output(folder, result)).footer
    assert footer.rows == 4 * ROWS
    assert footer.user_metadata["hive.acid.stats"] == f"{4 * ROWS},0,0".encode()
    keys = footer.user_metadata["hive.acid.key.index"].decode().rstrip(";").split(";")
    assert len(keys) == len(footer.stripes) > 1
    assert keys[-1] == f"4,{BUCKET},{ROWS - 1}"
    assert folder.staged == []


def test_the_file_is_the_one_that_a_single_process_writes(tmp_path: Path) -> None:
    """But for where its stripes end: the same rows, statistics and properties."""
    found = []
    for name in ("split", "whole"):
        folder = Folder(tmp_path / name)
        folder.path.mkdir()
        for write_id in range(1, 4):
            folder.insert(write_id, [(i, f"row {i}") for i in range(ROWS)], stripe_size_bytes=4096)
        split_bucket_bytes = 20_000 if name == "split" else 10**9
        result = compact(folder, "major", Attempts(), split_bucket_bytes, stripe_bytes=50_000)
        tail = tail_of(output(folder, result))
        found.append((tail.footer.statistics, tail.footer.types, tail.footer.rows, tail.postscript.codec.name))
    assert found[0] == found[1]


def test_deleted_rows_are_left_out_in_every_range_also_if_nothing_is_left_of_one(folder: Folder) -> None:
    fill(folder)
    folder.delete(5, [(2, BUCKET, i) for i in range(ROWS)])
    folder.delete(6, [(1, BUCKET, 0), (3, BUCKET, ROWS - 1), (4, BUCKET, 17)])
    before = folder.rows()
    result = compact(folder, "major", Attempts(), 50_000, stripe_bytes=1_000_000)
    assert folder.rows() == before
    assert result.files[0].rows == 3 * ROWS - 3


def test_a_bucket_without_any_row_left_has_no_file(folder: Folder) -> None:
    fill(folder, 2)
    folder.delete(3, [(write_id, BUCKET, i) for write_id in (1, 2) for i in range(ROWS)])
    result = compact(folder, "major", Attempts(), 50_000, stripe_bytes=1_000_000)
    assert result.files == ()
    assert folder.rows() == []


def test_large_stripes_are_copied_once_by_the_last_step(folder: Folder) -> None:
    """Those of the base need no task of their own."""
    fill(folder)
    compact(folder, "major", Attempts(), 10**9, stripe_bytes=50_000)
    base = tail_of(folder.path / "base_0000004_v0000900" / "bucket_00000").footer.stripes
    for write_id in range(5, 65):
        folder.insert(write_id, [(i, f"{hash((write_id, i)):x}") for i in range(100)])
    before = folder.rows()
    attempts = Attempts()
    plan = folder.plan("major", 901)
    assert plan is not None

    result = folder.merge(plan, merger=DistributedMerge(attempts, split_bucket_bytes=40_000), stripe_bytes=50_000)

    folder.publish(result)
    assert folder.rows() == before
    assert attempts.stages == [["SplitOutput"], ["WritePart"] * 3, ["JoinParts"]]
    joined = tail_of(folder.path / "base_0000064_v0000901" / "bucket_00000").footer.stripes
    assert [(s.offset, s.length, s.rows) for s in joined[: len(base)]] == [(s.offset, s.length, s.rows) for s in base]


def test_a_bucket_whose_stripes_can_all_be_copied_is_the_work_of_one_task(folder: Folder) -> None:
    fill(folder, 2)
    attempts = Attempts()
    before = folder.rows()
    compact(folder, "minor", attempts, 1000, stripe_bytes=64)
    assert attempts.stages == [["SplitOutput"], ["WriteOutput"]]
    assert folder.rows() == before


def test_buckets_below_the_limit_and_delete_events_are_not_split_and_the_largest_comes_first(folder: Folder) -> None:
    for write_id in (1, 2):
        for bucket, rows in enumerate([10, ROWS, 100]):
            folder.insert(write_id, [(i, f"{hash(i):x}") for i in range(rows)], bucket=bucket)
    folder.delete(3, [(1, BUCKET, 0)])
    attempts = Attempts()
    before = folder.rows()
    plan = folder.plan("minor")
    assert plan is not None
    order: list[int] = []

    def run(tasks, check):
        order.extend(task.size_bytes for task in tasks.tasks)
        return attempts(tasks, check)

    result = folder.publish(folder.merge(plan, merger=DistributedMerge(run)))
    assert attempts.stages == [["WriteOutput"] * 4]
    assert order == sorted(order, reverse=True)
    assert [(file.folder_name[:6], file.file_name, file.rows) for file in result.files] == [
        ("delta_", "bucket_00000", 20),
        ("delta_", "bucket_00001", 2 * ROWS),
        ("delta_", "bucket_00002", 200),
        ("delete", "bucket_00000", 1),
    ]
    assert folder.rows() == before


def test_attempts_that_fail_after_their_work_leave_nothing(folder: Folder) -> None:
    fill(folder)
    before = folder.rows()
    compact(folder, "major", Attempts(failures=3), 100_000, stripe_bytes=1_000_000)
    assert folder.rows() == before
    assert folder.staged == []


def test_after_an_error_no_file_is_left(folder: Folder) -> None:
    fill(folder)
    plan = folder.plan("major")
    assert plan is not None
    with pytest.raises(StreamingIOFailure, match="has gone"):
        folder.merge(plan, merger=DistributedMerge(Broken()))
    assert folder.staged == []


def test_what_the_progress_raises_ends_the_merge(folder: Folder) -> None:
    fill(folder)
    plan = folder.plan("major")
    assert plan is not None

    def stop(progress: MergeProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.merge(plan, merger=DistributedMerge(Attempts()), progress=stop)
    assert folder.staged == []


def test_a_damaged_file_ends_the_merge_by_its_name(folder: Folder) -> None:
    fill(folder, 3)
    path = folder.path / "delta_0000002_0000002_0000" / "bucket_00000"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    plan = folder.plan("major")
    assert plan is not None
    with pytest.raises(CorruptFile, match="delta_0000002_0000002_0000/bucket_00000"):
        folder.merge(plan, merger=DistributedMerge(Attempts(), split_bucket_bytes=50_000), stripe_bytes=50_000)
    assert folder.staged == []


def test_a_limit_below_one_byte_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="split_bucket_bytes=0"):
        DistributedMerge(Attempts(), split_bucket_bytes=0)


def test_the_memory_of_a_task_does_not_grow_with_the_bucket(tmp_path: Path) -> None:
    numbers, texts = pa.array(range(40_000), pa.int32()), pa.array([f"{i:040}" for i in range(40_000)])
    peaks = []
    for deltas in (3, 15):
        folder = Folder(tmp_path / str(deltas))
        folder.path.mkdir()
        for write_id in range(1, deltas + 1):
            rows = pa.record_batch({"id": numbers, "text": texts})
            folder.insert_batch(write_id, rows, compression="NONE", stripe_size_bytes=4096)
        peak = _Peak()
        plan = folder.plan("major")
        assert plan is not None
        merger = DistributedMerge(peak, split_bucket_bytes=4_000_000)
        folder.publish(folder.merge(plan, merger=merger, stripe_bytes=1_000_000, threads=1))
        assert len(peak.stages) == 3
        peaks.append(peak.bytes)
    assert peaks[1] < 1.3 * peaks[0]


#: Kept for ever: what has come from a pool goes back to it.
_POOLS: list[pa.MemoryPool] = []


class _Peak(Attempts):
    """The most that Arrow had allocated during a task."""

    bytes = 0

    def _attempt(self, tasks: MergeTasks, number: int) -> Any:
        default = pa.default_memory_pool()
        _POOLS.append(pa.proxy_memory_pool(default))
        pa.set_memory_pool(_POOLS[-1])
        try:
            return super()._attempt(tasks, number)
        finally:
            pa.set_memory_pool(default)
            self.bytes = max(self.bytes, _POOLS[-1].max_memory())
