"""ACID ORC files: rows wrapped as Hive expects, complete or not there at all."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, StreamingIOFailure, UnsupportedFeature
from hive_ingest.model import WriteId
from hive_ingest.orc.format.tail import read_tail
from hive_ingest.orc.writer.acid_writer import AcidFile, AcidOrcWriter, write_acid_version
from hive_ingest.storage import BytesLike
from hive_ingest.storage.local_store import LocalOutputFile, LocalStore

BUCKET_1 = (1 << 29) | (1 << 16)
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
COMPRESSIONS = ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"]


def rows(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch([list(range(start, start + count)), [f"row {i}" for i in range(count)]], schema=SCHEMA)


def noise(count: int) -> pa.RecordBatch:
    """Rows that do not compress."""
    numbers = np.random.default_rng(1).integers(0, 2**60, count)
    return pa.record_batch([pa.array(numbers), pa.array(numbers).cast(pa.string())], schema=SCHEMA)


def writer(path: str, *, store: LocalStore | None = None, **options: object) -> AcidOrcWriter:
    settings: dict[str, object] = {"schema": SCHEMA, "write_id": WriteId(7), "bucket_property": BUCKET_1, "sync": False}
    return AcidOrcWriter(store or LocalStore(), path, **(settings | options))  # type: ignore[arg-type]


def written(path: str, *batches: pa.RecordBatch, **options: Any) -> AcidFile:
    with writer(path, **options) as out:
        for batch in batches:
            out.write(batch)
        return out.close()


def metadata(path: str) -> dict[str, bytes]:
    return {k.decode(): v for k, v in orc.ORCFile(path).metadata.items() if k.startswith(b"hive.")}


@pytest.mark.parametrize("compression", [*COMPRESSIONS, "zstd"])
def test_rows_are_wrapped_as_inserts_of_their_write_id_and_bucket(compression: str, tmp_path: Path) -> None:
    path = f"{tmp_path}/bucket_00001"
    file = written(path, rows(100, 30), rows(0, 0), rows(500, 20), first_row_id=4, compression=compression, sync=True)
    table = orc.read_table(path)
    assert table.column_names == ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"]
    assert table["rowId"].to_pylist() == list(range(4, 54))
    constants = table.select(["operation", "originalTransaction", "bucket", "currentTransaction"]).group_by([])
    assert constants.aggregate([([], "count_all")]).to_pylist() == [{"count_all": 50}]
    assert set(zip(*(table[i].to_pylist() for i in (0, 1, 2, 4)), strict=True)) == {(0, 7, BUCKET_1, 7)}
    assert [r["id"] for r in table["row"].to_pylist()] == [*range(100, 130), *range(500, 520)]
    assert file == AcidFile(path, 50, Path(path).stat().st_size, (50,))


@pytest.mark.parametrize("count", [1, 1023, 5_000, 60_000])
def test_the_rows_of_each_stripe_are_those_of_the_footer(count: int, tmp_path: Path) -> None:
    file = written(f"{tmp_path}/a", noise(count), stripe_size_bytes=64 * 1024, row_index_stride=1000)
    with LocalStore().open_input(file.path) as source:
        assert file.stripe_rows == tuple(stripe.rows for stripe in read_tail(source, file.path).footer.stripes)


def test_the_key_index_names_the_last_row_of_each_stripe(tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    file = written(path, noise(60_000), first_row_id=10, stripe_size_bytes=64 * 1024, row_index_stride=1000)
    assert len(file.stripe_rows) > 2
    ends = [10 + sum(file.stripe_rows[: i + 1]) - 1 for i in range(len(file.stripe_rows))]
    assert metadata(path) == {
        "hive.acid.key.index": "".join(f"7,{BUCKET_1},{end};" for end in ends).encode(),
        "hive.acid.stats": b"60000,0,0",
        "hive.acid.version": b"2",
    }
    with LocalStore().open_input(path) as source:
        assert read_tail(source, path).footer.row_index_stride == 1000


def test_a_file_without_rows_is_a_complete_file(tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    assert written(path).stripe_rows == ()
    assert orc.read_table(path).num_rows == 0
    assert metadata(path)["hive.acid.stats"] == b"0,0,0"


def test_columns_are_cast_to_the_types_of_the_table(tmp_path: Path) -> None:
    batch = pa.record_batch([pa.array([1, 2], pa.int16()), pa.array(["a", "b"]).dictionary_encode()], ["x", "y"])
    written(f"{tmp_path}/a", batch)
    assert orc.read_table(f"{tmp_path}/a")["row"].to_pylist() == [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch([pa.array([2**63], pa.uint64()), pa.array(["a"])], ["id", "text"]),
        pa.record_batch([pa.array([1])], ["id"]),
    ],
    ids=["overflow", "a column missing"],
)
def test_a_batch_that_does_not_fit_removes_the_file(batch: pa.RecordBatch, tmp_path: Path) -> None:
    out = writer(f"{tmp_path}/a")
    out.write(rows(0, 10))
    with pytest.raises(SerializationError):
        out.write(batch)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StreamingIOFailure, match="closed"):
        out.write(rows(0, 10))


@pytest.mark.parametrize("name", ["LZO", "brotli"])
def test_a_compression_that_cannot_be_written_is_unsupported(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="ZSTD"):
        writer(f"{tmp_path}/a", compression=name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_compression_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="gzip"):
        writer(f"{tmp_path}/a", compression="gzip")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("type_", [pa.uint8(), pa.timestamp("ns", "UTC"), pa.time32("s"), pa.decimal256(50, 2)])
def test_a_type_that_orc_does_not_have_is_unsupported(type_: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.list_(pa.struct([("b", pa.map_(pa.string(), type_))])))])
    with pytest.raises(UnsupportedFeature, match=r"a\.item\.b\.value"):
        writer(f"{tmp_path}/a", schema=schema)
    assert not list(tmp_path.iterdir())


def test_a_discarded_writer_leaves_nothing(tmp_path: Path) -> None:
    out = writer(f"{tmp_path}/a")
    out.write(rows(0, 1000))
    out.discard()
    out.discard()
    with pytest.raises(StreamingIOFailure, match="closed"):
        out.close()
    del out
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_leaving_the_with_block_without_close_discards(tmp_path: Path) -> None:
    with writer(f"{tmp_path}/a") as out:
        out.write(rows(0, 1000))
    assert not list(tmp_path.iterdir())


def abandon(path: str) -> None:
    writer(path, stripe_size_bytes=64 * 1024).write(rows(0, 100_000))


def test_an_abandoned_writer_leaves_nothing(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="abandoned"):
        abandon(f"{tmp_path}/a")
    assert not list(tmp_path.iterdir())


class FullDisk(LocalStore):
    """Has room for `room` bytes."""

    def __init__(self, room: int) -> None:
        self.room = room

    def create(self, path: str, *, sync: bool) -> LocalOutputFile:
        return FileOnFullDisk(path, self)


class FileOnFullDisk(LocalOutputFile):
    def __init__(self, path: str, disk: FullDisk) -> None:
        super().__init__(path, sync=False)
        self._disk = disk

    def write_all(self, parts: Sequence[BytesLike]) -> None:
        self._disk.room -= sum(map(len, parts))
        if self._disk.room < 0:
            raise StreamingIOFailure("the disk is full") from OSError(errno.ENOSPC, "No space left on device")
        super().write_all(parts)


@pytest.mark.parametrize("room", [0, 100, 2_000_000])
def test_a_full_disk_stops_the_writer_and_leaves_nothing(room: int, tmp_path: Path) -> None:
    out = writer(f"{tmp_path}/a", store=FullDisk(room), compression="NONE", stripe_size_bytes=256 * 1024)
    with pytest.raises(StreamingIOFailure, match="the disk is full"):  # noqa: PT012 (small files fail at close)
        for start in range(0, 400_000, 100_000):
            out.write(rows(start, 100_000))
        out.close()
    del out
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_finished_stripes_do_not_stay_in_memory(tmp_path: Path) -> None:
    with writer(f"{tmp_path}/a", stripe_size_bytes=256 * 1024) as out:
        for _ in range(3):
            out.write(noise(100_000))
        assert out.rows == 300_000
        assert Path(out.path).stat().st_size > 3_000_000


def test_writers_in_several_threads_do_not_interfere(tmp_path: Path) -> None:
    def write(number: int) -> AcidFile:
        return written(f"{tmp_path}/{number}", rows(number, 3000), rows(number, 10), first_row_id=number)

    with ThreadPoolExecutor(4) as pool:
        files = list(pool.map(write, range(40)))
    for number, file in enumerate(files):
        assert orc.read_table(file.path)["rowId"].to_pylist() == list(range(number, number + 3010))


@pytest.mark.parametrize("has_links", [True, False])
def test_delta_folders_are_marked_as_acid_version_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:

        def refuse(source: str, target: str) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    folders = [str(tmp_path / name) for name in ("a", "b", "c")]
    for folder in folders:
        LocalStore().make_folder(folder)
    write_acid_version(LocalStore(), folders, sync=True).result()
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {f"{name}/_orc_acid_version": b"2" for name in ("a", "b", "c")}
