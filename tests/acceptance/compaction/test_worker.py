"""Hive's own cases of the worker (`TestWorker`), each with the name of Hive's in snake case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.compaction import Worker, WorkResult
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    CompactionState,
    CompactionType,
)
from tests.acceptance.compaction.test_worker_failures import CASES as FAILURES
from tests.support.acid_files import write_acid_file
from tests.support.compactions import MAJOR, MINOR, Compacted
from tests.support.fronts import Front
from tests.support.hive_cases import check_ported

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
)
#: Cases that are left out, and why.
LEFT_OUT = {
    "test_stringable_map": "of MapReduce; the queue's tests have the format",
    "test_stringable_list": "of MapReduce",
    "test_input_split": "of MapReduce",
    "test_input_split_null_base": "of MapReduce",
}
#: Those of the worker's loop, failures and refusals are in another module.
MODULES = ("test_worker.py", "test_worker_failures.py")
READY, REFUSED, FAILED = CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED, CompactionState.FAILED
INITIATED = CompactionState.INITIATED


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


def compacted(table: Compacted, kind: CompactionType, part: str | None = None) -> WorkResult:
    """Compact, and check what each of Hive's cases does: one compaction, ready for cleaning, and its files."""
    old = table.folders(part)
    result = table.compact(kind, part=part)
    assert (result.state, table.states()) == (READY, [READY])
    new = [name for name in table.folders(part) if name not in old]
    assert new == sorted(result.made.folders)
    assert {*old} <= {*table.folders(part)}, "the old ones are the cleaner's"
    files = {(file.folder_name, file.file_name): file.size_bytes for file in result.made.files}
    paths = [path for name in new for path in (table.place(part) / name).glob("bucket_*")]
    assert {(path.parent.name, path.name): path.stat().st_size for path in paths} == files
    return result


def test_nothing(ms: EmbeddedMetastoreClient) -> None:
    assert Worker(ms).run_once() is None


def check_sorted(table: Compacted, part: str | None = None) -> None:
    before = table.folders(part)
    table.request(MINOR, part=part)
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
    compacted(based, MINOR)
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
    result = compacted(table, MINOR)
    assert table.short_folders() == ["base_1", "delta_2_2", "delta_2_6_v", "delta_3_5", "delta_6_6"]
    assert sum(file.rows for file in result.made.files) == 3
    assert table.rows() == before


def test_minor_partition_with_base(based_part: Compacted) -> None:
    before = based_part.rows()
    compacted(based_part, MINOR, part="today")
    assert {"base_1", "delta_2_4_v", "delete_delta_2_4_v"} <= {*based_part.short_folders("today")}
    assert based_part.rows() == before


def test_minor_table_no_base(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    compacted(table, MINOR)
    assert table.short_folders() == ["delta_1_1", "delta_1_2_v", "delta_2_2"]
    assert table.rows() == before


def test_major_table_with_base(based: Compacted) -> None:
    before = based.rows()
    result = compacted(based, MAJOR)
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
    result = compacted(table, kind)
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
    compacted(based_part, MAJOR, part="today")
    assert "base_4_v" in based_part.short_folders("today")
    assert based_part.rows() == before


def test_major_table_no_base(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    compacted(table, MAJOR)
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
    result = compacted(legacy, MAJOR)
    assert [file.rows for file in result.made.files] == [4]
    assert legacy.short_folders() == ["base_2_v", "delta_1_1", "delta_2_2"]
    assert legacy.rows() == before
    legacy.clean()
    assert legacy.short_folders() == ["base_2_v"]
    assert not (legacy.folder / "000000_0").exists()
    assert legacy.rows() == before


def test_minor_table_legacy(legacy: Compacted) -> None:
    before = legacy.rows()
    result = compacted(legacy, MINOR)
    assert [file.rows for file in result.made.files] == [2]
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
    result = compacted(table, MAJOR, part="today")
    assert len(result.made.files) == 4
    assert table.rows() == before


def test_major_with_open_in_middle(based: Compacted) -> None:
    based.begin()
    based.inserts(6, 7)
    old = based.folders()
    before = based.rows()
    result = compacted(based, MAJOR)
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
    result = compacted(table, MAJOR)
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


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported_or_left_out_with_a_reason() -> None:
    cases = (*CASES, *FAILURES)
    assert len(cases) == 35
    check_ported("TestWorker", cases, LEFT_OUT, [Path(__file__).with_name(name) for name in MODULES])
