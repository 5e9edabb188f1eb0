"""Many small files, opened ahead and read together, give what they give one by one: rows, order and errors."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as pyarrow_orc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.acid import ValidTxnList
from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.errors import CorruptFile, StreamingIOFailure, UnsupportedFeature
from hive_ingest.model import TxnId
from hive_ingest.orc import FileToRead, open_ahead
from hive_ingest.orc.reader import joined_files
from hive_ingest.orc.reader.open_ahead import THREAD_NAME
from hive_ingest.reader.partitions import PartitionToRead
from hive_ingest.reader.predicate import Predicate
from hive_ingest.reader.rows import Projection, Snapshot, full_schema, read_partition
from tests.support.waiting import wait_until
from tests.unit.compaction.folders import Folder

FILES = 60
BUCKET_0 = encode_bucket(0)


def batches(folder: Folder, *columns: str, filter: pc.Expression | None = None, **options: Any) -> Any:
    """What a snapshot gives, in its order."""
    predicate = None if filter is None else Predicate(full_schema(folder.table), filter=filter)
    names = columns or (*folder.columns, "row__id")
    snapshot = Snapshot(folder.valid_write_ids, ValidTxnList(TxnId(10**6)))
    partition = PartitionToRead("", str(folder.path), {})
    return read_partition(partition, Projection(folder.table, names, predicate, **options), snapshot)


def rows(folder: Folder, *columns: str, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in batches(folder, *columns, **options) for row in batch.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Many deltas of two rows each."""
    found = Folder(tmp_path / "t")
    for i in range(FILES):
        found.insert(i + 1, [(2 * i, f"{i}"), (2 * i + 1, None)])
    return found


def file_of(folder: Folder, number: int) -> Path:
    return folder.path / f"delta_{number + 1:07d}_{number + 1:07d}_0000" / "bucket_00000"


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were joined, each time."""
    found: list[int] = []
    original = joined_files.JoinedFiles.read

    def read(self: joined_files.JoinedFiles, *arguments: Any) -> Any:
        found.append(len(self._files))
        return original(self, *arguments)

    monkeypatch.setattr(joined_files.JoinedFiles, "read", read)
    return found


# -- rows ------------------------------------------------------------------------------------------


def test_rows_of_many_small_files_come_in_order(folder: Folder, joined: list[int]) -> None:
    folder.delete(FILES + 1, [(i, BUCKET_0, 0) for i in range(1, FILES + 1, 3)])
    expected = [2 * i + k for i in range(FILES) for k in range(2) if not (k == 0 and i % 3 == 0)]
    found = rows(folder)
    assert [row["id"] for row in found] == expected
    assert [row["row__id"]["writeid"] for row in found] == [number // 2 + 1 for number in expected]
    assert sum(joined) == FILES - 1


def test_a_filter_and_aborted_writers_count_in_files_that_are_read_together(folder: Folder, joined: list[int]) -> None:
    for name in ("delta_0000070_0000075_0000", "delta_0000076_0000079_0000"):
        first = int(name[6:13])
        folder.insert(first, [(1000 + first, "a")], folder=name)
    folder.insert(81, [(5000, "b")])
    folder.aborted = {5, 9, 70, 77}
    folder.high_water_mark = 81
    found = rows(folder, "id", filter=pc.field("text").is_valid() & (pc.field("id") > 10))
    assert [row["id"] for row in found] == [2 * i for i in range(6, FILES) if i != 8] + [1076, 5000]
    assert joined


_TEXT = st.one_of(st.none(), st.sampled_from(["", "a", "é" * 3]))
_NUMBER = st.one_of(st.none(), st.integers(-5, 5))
_COLUMNS = {"id": "int", "text": "string", "s": "struct<x:int,b:boolean>", "at": "date", "items": "array<int>"}
_STRUCT = st.one_of(st.none(), st.fixed_dictionaries({"x": _NUMBER, "b": st.one_of(st.none(), st.booleans())}))
_DATE = st.one_of(st.none(), st.dates())
_ITEMS = st.one_of(st.none(), st.lists(_NUMBER, max_size=2))
_ROW = st.tuples(_NUMBER, _TEXT, _STRUCT, _DATE, _ITEMS)
_INSERT = st.tuples(
    st.lists(_ROW, min_size=1, max_size=4), st.sampled_from([1, 5]), st.integers(2, 5), st.sampled_from([0, 0, 1])
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    inserts=st.lists(_INSERT, min_size=2, max_size=14),
    aborted=st.sets(st.integers(1, 14), max_size=2),
    deleted=st.sets(st.tuples(st.integers(1, 14), st.integers(0, 3)), max_size=6),
    least=st.one_of(st.none(), st.integers(-5, 5)),
    codec=st.sampled_from(["ZSTD", "ZLIB", "SNAPPY", "NONE"]),
)
def test_files_read_together_give_what_they_give_one_by_one(
    inserts: list[Any], aborted: set[int], deleted: set[tuple[int, int]], least: int | None, codec: str
) -> None:
    with tempfile.TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch:
        folder = Folder(Path(path), aborted=aborted)
        columns = 2
        for i, (found, repeats, more, bucket) in enumerate(inserts, 1):
            columns = max(columns, more)
            folder.columns = dict(list(_COLUMNS.items())[:columns])
            folder.insert(i, [row[:columns] for row in found] * repeats, bucket=bucket, compression=codec)
        folder.columns = dict(_COLUMNS)
        folder.delete(len(inserts) + 1, [(write_id, BUCKET_0, row_id) for write_id, row_id in deleted] or [(1, 1, 1)])
        filter = None if least is None else pc.field("id") >= least
        together = rows(folder, filter=filter), rows(folder, "at", "id", filter=filter)
        patch.setattr(joined_files, "_joinable", lambda readers: [None] * len(readers))
        assert (rows(folder, filter=filter), rows(folder, "at", "id", filter=filter)) == together


# -- errors ----------------------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)


def _as_update(path: Path) -> None:
    table = pyarrow_orc.read_table(path)
    pyarrow_orc.write_table(table.set_column(0, "operation", pa.array([1] * len(table), pa.int32())), path)


def _without_acid_columns(path: Path) -> None:
    pyarrow_orc.write_table(pa.table({"a": [1]}), path)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (_truncate, CorruptFile),
        (_flip, CorruptFile),
        (_as_update, UnsupportedFeature),
        (_without_acid_columns, CorruptFile),
        (lambda path: path.write_bytes(b""), CorruptFile),
        (lambda path: path.write_bytes(file_of_other(path)), CorruptFile),
    ],
)
@pytest.mark.parametrize("number", [0, 4, 40])
def test_an_error_names_its_file_and_comes_after_the_rows_before_it(
    folder: Folder, damage: Any, error: type[Exception], number: int
) -> None:
    damage(file_of(folder, number))
    found: list[int] = []
    reading = batches(folder, "id")
    with pytest.raises(error, match=f"delta_{number + 1:07d}_"):
        found.extend(value for batch in reading for value in batch["id"].to_pylist())
    assert found == list(range(2 * number))


def file_of_other(path: Path) -> bytes:
    """A whole file, but of another write id."""
    return (path.parent.parent / "delta_0000060_0000060_0000" / "bucket_00000").read_bytes()


def test_a_file_that_is_removed_before_it_is_read_ahead_is_an_error(folder: Folder) -> None:
    reading = batches(folder, "id")
    next(reading)
    file_of(folder, FILES - 1).unlink()
    with pytest.raises(StreamingIOFailure, match=f"delta_{FILES:07d}"):
        list(reading)


def test_an_error_in_the_rows_together_is_looked_for_file_by_file(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong there, what can be read one by one is read."""

    def fail(self: Any, *arguments: Any) -> Any:
        raise CorruptFile("joined badly")

    monkeypatch.setattr(joined_files.JoinedFiles, "read", fail)
    assert [row["id"] for row in rows(folder, "id")] == list(range(2 * FILES))


def test_files_whose_checksums_are_not_to_be_verified_are_read_one_by_one(folder: Folder, joined: list[int]) -> None:
    found = rows(folder, "id", verify_checksums=False)
    assert [row["id"] for row in found] == list(range(2 * FILES))
    assert joined == []


# -- reading ahead ---------------------------------------------------------------------------------


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]


def no_thread_is_left() -> None:
    wait_until(lambda: not reading_threads(), "threads of a reader were left")


def test_nothing_is_opened_ahead_of_the_first_rows(folder: Folder) -> None:
    for number in range(1, FILES):
        file_of(folder, number).write_bytes(b"not to be read")
    reading = batches(folder, "id")
    assert next(reading)["id"].to_pylist() == [0, 1]
    assert reading_threads() == []
    reading.close()


def test_a_reader_of_a_few_files_starts_no_thread(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t")
    for i in range(9):
        folder.insert(i + 1, [(i, "")])
    for _ in batches(folder):
        assert reading_threads() == []


@pytest.mark.parametrize("end", ["close", "forget"])
def test_a_reader_that_stops_early_leaves_no_thread(folder: Folder, end: str) -> None:
    reading = batches(folder, "id")
    for _ in range(2):
        next(reading)
    assert reading_threads()
    if end == "close":
        reading.close()
    else:
        del reading
        gc.collect()
    no_thread_is_left()


def test_a_reader_that_was_read_to_its_end_leaves_no_thread(folder: Folder) -> None:
    assert len(rows(folder)) == 2 * FILES
    no_thread_is_left()


def test_a_forked_child_reads_on_without_its_parents_threads(folder: Folder) -> None:
    reading = batches(folder, "id")
    found = [value for _ in range(2) for value in next(reading)["id"].to_pylist()]
    child = os.fork()
    if child == 0:
        try:
            found += [value for batch in reading for value in batch["id"].to_pylist()]
            os._exit(0 if found == list(range(2 * FILES)) else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    reading.close()
    assert status == 0


def test_a_limited_number_of_files_is_read_ahead(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_files, "JOINED_FILES", 2)
    taken = 0

    def files() -> Iterator[Any]:
        nonlocal taken
        for number in range(FILES):
            taken += 1
            yield FileToRead(str(file_of(folder, number)), None, False, file_of(folder, number).stat().st_size)

    read = 0
    for group in open_ahead(folder.location.store, files()):
        read += len(group.readers)
        assert taken <= read + 2 * 8
    assert read == FILES
