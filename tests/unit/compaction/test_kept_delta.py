"""A minor compaction does not write the large result of an earlier one again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hive_ingest.compaction import KeptDelta, MergePlan
from tests.unit.compaction.folders import Folder

BUCKET = 1 << 29
KEPT = KeptDelta(least_bytes=10_000)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "t").mkdir()
    return Folder(tmp_path / "t")


def insert(folder: Folder, write_id: int, rows: int = 10) -> None:
    texts = random.Random(write_id)  # that compression does not shorten
    folder.insert(write_id, [(i, texts.randbytes(20).hex()) for i in range(rows)])


def compact(folder: Folder, txn_id: int, kept: KeptDelta | None = KEPT) -> MergePlan:
    plan = folder.plan("minor", txn_id, kept=kept)
    assert plan is not None
    before = folder.rows(txn_id=txn_id)
    folder.publish(folder.merge(plan))
    assert folder.rows(txn_id=txn_id) == before
    return plan


def with_large_delta(folder: Folder) -> None:
    for write_id in (1, 2):
        insert(folder, write_id, rows=1000)
    compact(folder, 900)


def test_a_large_result_is_left_as_it_is(folder: Folder) -> None:
    with_large_delta(folder)
    for write_id in (3, 4, 5):
        insert(folder, write_id)
    plan = compact(folder, 901)
    assert plan.folders == ("delta_0000003_0000005_v0000901",)
    assert plan.input_folders == tuple(f"delta_{i:07d}_{i:07d}_0000" for i in (3, 4, 5))
    assert {file.path.split("/")[-2] for file in plan.input_files} == set(plan.input_folders)


def test_it_is_merged_if_the_policy_does_not_say_so(folder: Folder) -> None:
    with_large_delta(folder)
    for write_id in (3, 4):
        insert(folder, write_id)
    assert compact(folder, 901, None).folders == ("delta_0000001_0000004_v0000901",)


@pytest.mark.parametrize(
    "kept", [KeptDelta(least_bytes=1 << 30), KeptDelta(least_bytes=0, least_ratio=1000)], ids=["bytes", "ratio"]
)
def test_one_that_is_not_large_is_merged(folder: Folder, kept: KeptDelta) -> None:
    with_large_delta(folder)
    for write_id in (3, 4):
        insert(folder, write_id, rows=200)
    assert compact(folder, 901, kept).folders == ("delta_0000001_0000004_v0000901",)


def test_it_is_merged_once_the_deltas_after_it_have_grown(folder: Folder) -> None:
    with_large_delta(folder)
    for write_id in range(3, 10):
        insert(folder, write_id, rows=400)
    assert compact(folder, 901).folders == ("delta_0000001_0000009_v0000901",)


def test_metadata_of_small_files_after_it_does_not_count(folder: Folder) -> None:
    with_large_delta(folder)
    for write_id in range(3, 13):
        insert(folder, write_id, rows=1)
    small = sum(path.stat().st_size for path in folder.path.glob("delta_*_0000/bucket_00000"))
    (large,) = folder.path.glob("delta_*_v*/bucket_00000")
    assert large.stat().st_size < KEPT.least_ratio * small
    assert compact(folder, 901).folders == ("delta_0000003_0000012_v0000901",)


def test_it_is_merged_with_a_single_delta_after_it(folder: Folder) -> None:
    """So that each compaction leaves fewer deltas than it found."""
    with_large_delta(folder)
    insert(folder, 3)
    assert compact(folder, 901).folders == ("delta_0000001_0000003_v0000901",)


def test_a_large_delta_of_a_writer_is_merged(folder: Folder) -> None:
    """It may hold rows of aborted transactions."""
    insert(folder, 1, rows=1000)
    for write_id in (2, 3):
        insert(folder, write_id)
    assert compact(folder, 901).folders == ("delta_0000001_0000003_v0000901",)


def test_a_large_result_is_merged_if_a_delta_of_a_writer_precedes_it(folder: Folder) -> None:
    folder.insert(2, [(2, "rows of an aborted transaction"), (3, "gone")], folder="delta_0000002_0000003_0000")
    folder.aborted = {3}
    for write_id in (4, 5):
        insert(folder, write_id, rows=1000)
    plan = folder.plan("minor", 900)
    assert plan is not None
    assert plan.folders == ("delta_0000002_0000005_v0000900",)
    path = folder.path / "delta_0000004_0000005_v0000899"
    folder.insert(4, [(i, f"{i}") for i in range(5000)], folder=path.name)
    for write_id in (6, 7):
        insert(folder, write_id)
    assert compact(folder, 901).folders == ("delta_0000002_0000007_v0000901",)


def test_its_delete_delta_is_left_with_it_and_new_delete_events_hit_its_rows(folder: Folder) -> None:
    insert(folder, 1, rows=2000)
    folder.delete(2, [(1, BUCKET, 3)])
    folder.delete(3, [(1, BUCKET, 4)])
    compact(folder, 900)
    assert (folder.path / "delete_delta_0000001_0000003_v0000900").is_dir()
    folder.delete(4, [(1, BUCKET, 5)])
    folder.delete(5, [(1, BUCKET, 6)])
    plan = compact(folder, 901)
    assert plan.folders == ("delta_0000004_0000005_v0000901", "delete_delta_0000004_0000005_v0000901")
    assert len(folder.rows(txn_id=901)) == 2000 - 4
    folder.compact("major", 902)
    assert len(folder.rows(txn_id=902)) == 2000 - 4


def test_a_row_is_written_again_only_a_few_times_while_rows_are_streamed_in(folder: Folder) -> None:
    """Without that, fifty compactions would write the first row fifty times."""
    written = inserted = 0
    for number in range(50):
        for write_id in (2 * number + 1, 2 * number + 2):
            insert(folder, write_id, rows=20)
            inserted += 20
        plan = folder.plan("minor", 900 + number, kept=KeptDelta(least_bytes=0))
        assert plan is not None
        result = folder.publish(folder.merge(plan))
        written += sum(file.rows for file in result.files)
    assert written < 12 * inserted
    left = folder.plan("minor", 990, kept=None)
    assert left is None or len(left.input_folders) == 2
    assert len(folder.rows(txn_id=990)) == inserted
