"""The stripes of a large file are read by several threads; rows, their order and errors are the same as by one."""

from __future__ import annotations

import gc
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.acid import ValidTxnList
from hive_ingest.errors import CorruptFile
from hive_ingest.model import TxnId
from hive_ingest.orc.reader.stripe_threads import THREAD_NAME
from hive_ingest.reader.partitions import PartitionToRead
from hive_ingest.reader.predicate import Predicate
from hive_ingest.reader.rows import Projection, Snapshot, full_schema, list_files, read_files, read_partition
from tests.support.waiting import wait_until
from tests.unit.compaction.folders import Folder, tail_of

ROWS = 60_000


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """One file of some stripes, of more than a small file's bytes."""
    (tmp_path / "t").mkdir()
    folder = Folder(tmp_path / "t")
    texts = random.Random(1)
    folder.insert(1, [(i, texts.randbytes(20).hex()) for i in range(ROWS)], stripe_size_bytes=256 << 10)
    assert len(tail_of(file_of(folder)).footer.stripes) >= 4
    assert file_of(folder).stat().st_size > 1 << 20
    return folder


def file_of(folder: Folder) -> Path:
    [path] = folder.path.glob("delta_*/bucket_00000")
    return path


def snapshot_of(folder: Folder) -> Snapshot:
    return Snapshot(folder.valid_write_ids, ValidTxnList(TxnId(1000)))


def partition_of(folder: Folder) -> PartitionToRead:
    return PartitionToRead("", str(folder.path), {})


def batches(folder: Folder, where: pc.Expression | None = None) -> Any:
    predicate = None if where is None else Predicate(full_schema(folder.table), filter=where)
    return read_partition(partition_of(folder), Projection(folder.table, ("id",), predicate), snapshot_of(folder))


def ids(found: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in found for value in batch["id"].to_pylist()]


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]


def test_rows_come_in_order_and_no_thread_is_left(folder: Folder) -> None:
    reading = batches(folder)
    first = next(reading)
    assert reading_threads()
    assert first["id"].to_pylist() + ids(reading) == list(range(ROWS))
    wait_until(lambda: not reading_threads(), "threads of a reader were left")


def test_deleted_rows_and_those_that_a_filter_leaves_out_are_missing(folder: Folder) -> None:
    folder.delete(2, [(1, 1 << 29, row) for row in range(0, ROWS, 2)])
    assert ids(batches(folder, pc.field("id") >= ROWS // 2)) == list(range(ROWS // 2 + 1, ROWS, 2))


def test_damage_is_reported_after_the_rows_before_it(folder: Folder) -> None:
    stripes = tail_of(file_of(folder)).footer.stripes
    content = bytearray(file_of(folder).read_bytes())
    content[3 << 18] ^= 1  # not in the last segment of 256 KiB, which is read when the file is opened
    file_of(folder).write_bytes(content)
    reading = batches(folder)
    assert stripes[0].offset + stripes[0].length < 3 << 18
    assert next(reading)["id"].to_pylist() == list(range(stripes[0].rows))
    with pytest.raises(CorruptFile, match=r"bucket_00000.*checksum"):
        ids(reading)


@pytest.mark.parametrize("end", ["close", "forget"])
def test_a_reader_that_stops_early_leaves_no_thread_and_no_open_file(folder: Folder, end: str) -> None:
    path = str(file_of(folder))
    reading = batches(folder)
    next(reading)
    if end == "close":
        reading.close()
    else:
        del reading
        gc.collect()
    wait_until(lambda: not reading_threads(), "threads of a reader were left")
    assert path not in [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]


def test_a_forked_child_reads_on(folder: Folder) -> None:
    reading = batches(folder)
    found = next(reading)["id"].to_pylist()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if found + ids(reading) == list(range(ROWS)) else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert found + ids(reading) == list(range(ROWS))
    assert status == 0


def test_a_share_of_a_scan_starts_no_thread(folder: Folder) -> None:
    snapshot = snapshot_of(folder)
    files = list_files(partition_of(folder), snapshot)
    found: list[int] = []
    for batch in read_files(files, Projection(folder.table, ("id",), None), snapshot):
        assert reading_threads() == []
        found += batch["id"].to_pylist()
    assert found == list(range(ROWS))


def test_with_one_core_no_thread_is_started(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    for _ in batches(folder):
        assert reading_threads() == []
