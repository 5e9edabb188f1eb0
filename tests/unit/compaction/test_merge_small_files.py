"""Many small files are opened by the threads that encode their rows; the result is the same."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.errors import CorruptFile, UnsupportedFeature
from hive_ingest.model import WriteId
from hive_ingest.orc import AcidOrcWriter
from hive_ingest.orc.merge import inputs, row_files
from hive_ingest.orc.merge.runs import SmallFiles, StripeSizes
from hive_ingest.orc.reader import joined_files
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.writer import key_columns
from tests.unit.compaction.folders import STORE, Folder, tail_of

BUCKET = 1 << 29


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "t").mkdir()
    return Folder(tmp_path / "t")


@pytest.mark.parametrize("is_late", [True, False], ids=["opened_by_tasks", "opened_before"])
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_many_small_files_are_merged_together(
    folder: Folder, kind: str, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[int] = []
    original = joined_files.JoinedFiles.read_all

    def read_all(self: joined_files.JoinedFiles, stripe: int) -> Any:
        joined.append(len(self._files))
        return original(self, stripe)

    monkeypatch.setattr(joined_files.JoinedFiles, "read_all", read_all)
    monkeypatch.setattr(row_files, "_KEPT_FILES", 25)  # others are opened again
    if not is_late:
        monkeypatch.setattr(SmallFiles, "fits", lambda self, unit: False)
    for write_id in range(1, 41):
        folder.insert(write_id, [(i, None if i % write_id == 1 else f"{i}") for i in range(write_id)])
    folder.insert(42, [(1, "lost"), (2, "lost")], folder="delta_0000041_0000042_0000")
    folder.insert(43, [(1, "kept")])
    folder.delete(44, [(write_id, BUCKET, 0) for write_id in range(1, 41, 4)])
    folder.aborted = {7, 42}
    before = folder.rows()
    result = folder.compact(kind)
    assert result is not None
    assert folder.rows() == before
    assert sum(joined) >= 38


@pytest.mark.parametrize("updated", [1, 20, 40])
def test_a_file_with_updates_among_many_small_ones_is_named(folder: Folder, updated: int) -> None:
    """That shows only when the rows of many files are decoded together."""
    for write_id in range(1, 41):
        folder.insert(write_id, [(write_id, "text")])
    path = folder.path / f"delta_{updated:07d}_{updated:07d}_0000" / "bucket_00000"
    path.unlink()
    with AcidOrcWriter(
        STORE,
        str(path),
        schema=pa.schema([("id", pa.int32()), ("text", pa.string())]),
        write_id=WriteId(updated),
        bucket_property=BUCKET,
        sync=False,
    ) as writer:
        writer.write(pa.record_batch({"id": pa.array([1], pa.int32()), "text": ["updated"]}))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(key_columns, "INSERT", 1)
            writer.close()
    with pytest.raises(UnsupportedFeature, match=f"delta_{updated:07d}.*holds updates"):
        folder.compact("minor")
    assert folder.staged == []


def insert_texts(folder: Folder, write_ids: range, rows: int, **options: Any) -> None:
    texts = random.Random(write_ids.start)  # that compression does not shorten
    for write_id in write_ids:
        folder.insert(write_id, [(i, texts.randbytes(20).hex()) for i in range(rows)], **options)


@pytest.mark.parametrize("threads", [1, 2])
def test_small_files_become_stripes_of_about_the_same_size(folder: Folder, threads: int) -> None:
    insert_texts(folder, range(1, 61), 50)
    before = folder.rows()
    folder.compact("minor", stripe_bytes=100_000, threads=threads)
    stripes = [
        stripe.rows for stripe in tail_of(folder.path / "delta_0000001_0000060_v0000900/bucket_00000").footer.stripes
    ]
    assert folder.rows() == before
    assert 3 <= len(stripes) <= 5
    assert max(stripes) - min(stripes) <= 50


@pytest.mark.parametrize(
    ("total_mib", "encoders", "expected"),
    [
        (1, 2, 1),  # too little for two threads
        (10, 2, 2),
        (10, 1, 1),
        (40, 2, 2),
        (40, 8, 2),  # not more: they would not be large
        (130, 2, 4),  # three would be two for one thread and one for the other
        (130, 1, 3),
        (640, 2, 10),
    ],
)
def test_stripes_are_as_many_as_keep_all_threads_at_work(total_mib: int, encoders: int, expected: int) -> None:
    sizes = StripeSizes(stripe_bytes=64 << 20, large_bytes=16 << 20, encoders=encoders)
    assert sizes.number(total_mib << 20) == expected


def test_each_small_file_is_opened_once_except_for_a_sample(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[str] = Counter()

    class Reader(AcidFileReader):
        def __init__(self, store: Any, file: FileToRead, **options: Any) -> None:
            opened[file.path] += 1
            super().__init__(store, file, **options)

    monkeypatch.setattr(inputs, "AcidFileReader", Reader)
    insert_texts(folder, range(1, 41), 10)
    folder.compact("minor", stripe_bytes=10_000)
    assert len(opened) == 40
    assert sorted(opened.values()) == [1] * 37 + [2] * 3


def test_large_files_between_small_ones_are_copied_in_the_order_of_their_keys(folder: Folder) -> None:
    insert_texts(folder, range(1, 31), 10)
    insert_texts(folder, range(31, 33), 3000)
    insert_texts(folder, range(33, 63), 10)
    large = [(folder.path / f"delta_{i:07d}_{i:07d}_0000" / "bucket_00000") for i in (31, 32)]
    contents = [path.read_bytes() for path in large]
    stripes = [
        content[stripe.offset : stripe.offset + stripe.length]
        for path, content in zip(large, contents, strict=True)
        for stripe in tail_of(path).footer.stripes
    ]
    before = folder.rows()
    folder.compact("minor", stripe_bytes=1_000_000)
    merged = folder.path / "delta_0000001_0000062_v0000900" / "bucket_00000"
    content = merged.read_bytes()
    found = [content[s.offset : s.offset + s.length] for s in tail_of(merged).footer.stripes]
    assert folder.rows() == before
    assert found[1:-1] == stripes


def test_statements_of_one_transaction_whose_keys_are_out_of_order_are_sorted(folder: Folder) -> None:
    for write_id in range(1, 21):
        for statement in (1, 0):
            folder.insert(write_id, [(statement, f"{write_id}")], statement=statement)
    before = folder.rows()
    folder.compact("minor")
    rows = orc.read_table(folder.path / "delta_0000001_0000020_v0000900" / "bucket_00000")
    keys = list(zip(*(rows.column(name).to_pylist() for name in ("originalTransaction", "bucket")), strict=True))
    assert keys == sorted(keys)
    assert folder.rows() == before


def test_a_small_file_with_original_write_ids_of_another_folder_ends_the_compaction(folder: Folder) -> None:
    for write_id in range(1, 6):
        path = folder.insert(write_id, [(write_id, "text")])
    rows = orc.read_table(path)
    orc.write_table(rows.set_column(1, "originalTransaction", pa.array([2], pa.int64())), path)
    with pytest.raises(CorruptFile, match=r"delta_0000005.*original write ids 2 to 2.*its folder is for 5 to 5"):
        folder.compact("minor")
    assert folder.staged == []


@pytest.mark.parametrize("damaged", [1, 17, 40])
def test_a_damaged_file_among_many_small_ones_is_named(folder: Folder, damaged: int) -> None:
    insert_texts(folder, range(1, 41), 10)
    path = folder.path / f"delta_{damaged:07d}_{damaged:07d}_0000" / "bucket_00000"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match=f"delta_{damaged:07d}.*is damaged"):
        folder.compact("minor")
    assert folder.staged == []


def test_long_texts_that_a_file_shows_only_compressed_do_not_make_one_stripe(folder: Folder) -> None:
    """From 2 GiB on, one array of them overflows: while they are merged, and when a stripe of them is read."""
    folder.insert(1, [(0, "short")])  # the size of its row is taken for that of all
    for write_id in range(2, 7):
        folder.insert(write_id, [(write_id, "x" * (40 << 20))])
    before = folder.rows()
    result = folder.compact("minor")
    assert result is not None
    assert folder.rows() == before
    (file,) = result.files
    tail = tail_of(folder.path / file.folder_name / file.file_name)
    assert len(tail.footer.stripes) >= 2
    assert sum(map(len, tail.footer.statistics)) < 10_000
