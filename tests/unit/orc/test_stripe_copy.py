"""Spills joined by copying stripes: the same rows in the same order, or a refusal and no file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.errors import CorruptFile, IncompatibleStripes, StreamingIOFailure
from hive_ingest.model import WriteId
from hive_ingest.orc.format.codec import Codec, pack
from hive_ingest.orc.format.protobuf import int_field, read_fields
from hive_ingest.orc.format.tail import (
    OrcTail,
    encode_footer,
    read_stripe_statistics,
    read_tail,
    with_lengths,
)
from hive_ingest.orc.writer.acid_writer import AcidFile, AcidOrcWriter
from hive_ingest.orc.writer.stripe_copy import join
from hive_ingest.storage import LocalStore, Location

STORE = LocalStore()
WRITE_ID, BUCKET = WriteId(5), 1 << 29
SCHEMA = pa.schema(
    [("id", pa.int64()), ("text", pa.string()), ("nested", pa.list_(pa.struct([("x", pa.decimal128(12, 2))])))]
)


def rows(count: int, seed: int = 0) -> pa.RecordBatch:
    random = Random(seed)
    ids = [random.choice([None, random.randint(-(10**9), 10**9)]) for _ in range(count)]
    texts = [random.choice([None, "", f"text {random.random()}"]) for _ in range(count)]
    nested = [random.choice([None, [], [None], [{"x": None}, {"x": i % 100}]]) for i in range(count)]
    return pa.record_batch([ids, texts, pa.array(nested, SCHEMA.field("nested").type)], schema=SCHEMA)


def spill(path: Path, batch: pa.RecordBatch, first_row_id: int, **options: object) -> AcidFile:
    settings: dict[str, object] = {
        "schema": batch.schema,
        "write_id": WRITE_ID,
        "bucket_property": BUCKET,
        "sync": False,
        "first_row_id": first_row_id,
    }
    with AcidOrcWriter(STORE, str(path), **(settings | options)) as writer:  # type: ignore[arg-type]
        writer.write(batch)
        return writer.close()


@dataclass
class Group:
    """Spills of one group, one after the other."""

    folder: Path
    files: list[AcidFile] = field(default_factory=list)
    row_id: int = 0

    def spill(self, batch: pa.RecordBatch, **options: object) -> Group:
        path = self.folder / f"spill_{len(self.files)}"
        self.files.append(spill(path, batch, **({"first_row_id": self.row_id} | options)))  # type: ignore[arg-type]
        self.row_id += batch.num_rows
        return self

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    def join(self, **options: object) -> AcidFile:
        settings: dict[str, object] = {"write_id": WRITE_ID, "bucket_property": BUCKET, "sync": False}
        return join(STORE, self.paths, Location.of(str(self.folder / "joined")), **(settings | options))  # type: ignore[arg-type]

    def refuses(self, match: str, error: type[Exception] = IncompatibleStripes, **options: object) -> None:
        """The target does not exist, and the sources are kept."""
        with pytest.raises(error, match=match):
            self.join(**options)
        assert sorted(path.name for path in self.folder.iterdir()) == sorted(Path(path).name for path in self.paths)


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def tail_of(path: str) -> OrcTail:
    with STORE.open_input(path) as source:
        return read_tail(source, path)


def stripe_statistics(path: str) -> bytes:
    with STORE.open_input(path) as source:
        return read_stripe_statistics(source, read_tail(source, path), path)


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_joined_files_hold_all_rows_in_order(compression: str, group: Group) -> None:
    batches = [rows(count, seed=count) for count in (3000, 1, 20_000, 500)]
    for batch in batches:
        group.spill(batch, compression=compression, stripe_size_bytes=64 * 1024, row_index_stride=1000)
    joined = group.join(sync=True)
    table = orc.read_table(joined.path)
    assert table["rowId"].to_pylist() == list(range(23_501))
    assert table["row"].to_pylist() == list(itertools.chain.from_iterable(batch.to_pylist() for batch in batches))
    assert joined.stripe_rows == tuple(n for file in group.files for n in file.stripe_rows)
    assert compression != "NONE" or len(joined.stripe_rows) > len(batches)
    assert (joined.rows, joined.size_bytes) == (23_501, Path(joined.path).stat().st_size)


def test_every_stripe_has_its_key_and_its_statistics(group: Group) -> None:
    group.spill(rows(100)).spill(rows(50)).spill(rows(7))
    joined = group.join()
    footer = tail_of(joined.path).footer
    assert {name: value for name, value in footer.user_metadata.items() if name.startswith("hive.")} == {
        "hive.acid.key.index": b"5,536870912,99;5,536870912,149;5,536870912,156;",
        "hive.acid.stats": b"157,0,0",
        "hive.acid.version": b"2",
    }
    assert stripe_statistics(joined.path) == b"".join(map(stripe_statistics, group.paths))
    assert footer.calendar == tail_of(group.paths[0]).footer.calendar
    assert (footer.writer, footer.row_index_stride, footer.rows) == (1, 10_000, 157)
    assert len(footer.statistics) == len(footer.types)


def test_a_joined_file_can_be_joined_again(group: Group) -> None:
    joined = group.spill(rows(100)).spill(rows(50)).join()
    more = spill(group.folder / "more", rows(10), 150)
    again = join(
        STORE,
        [joined.path, more.path],
        Location.of(f"{group.folder}/again"),
        write_id=WRITE_ID,
        bucket_property=BUCKET,
        sync=False,
    )
    assert orc.read_table(again.path)["rowId"].to_pylist() == list(range(160))


def test_files_without_rows_add_nothing(group: Group) -> None:
    group.spill(rows(0)).spill(rows(20)).spill(rows(0)).spill(rows(30))
    assert group.join().stripe_rows == (20, 30)
    assert orc.read_table(group.folder / "joined").num_rows == 50


def test_only_files_without_rows_join_to_one(group: Group) -> None:
    assert group.spill(rows(0)).spill(rows(0)).join().rows == 0
    assert orc.read_table(group.folder / "joined").num_rows == 0


def test_nothing_to_join_is_refused(group: Group) -> None:
    group.refuses("nothing to join")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"compression": "ZLIB"}, "another compression"),
        ({"row_index_stride": 5000}, "another row index stride"),
        ({"schema": pa.schema([pa.field("id2", pa.int64()), *list(SCHEMA)[1:]])}, "another column types"),
        ({"schema": pa.schema([pa.field("id", pa.float64()), *list(SCHEMA)[1:]])}, "another column types"),
        ({"write_id": WriteId(6)}, "another group"),
        ({"bucket_property": BUCKET + 1}, "another group"),
        ({"first_row_id": 0}, "starts with row id 0, but 100 follows"),
        ({"first_row_id": 101}, "starts with row id 101, but 100 follows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_differences_are_refused_and_named(options: dict[str, object], what: str, group: Group) -> None:
    group.spill(rows(100)).spill(rows(50), **options)
    group.refuses(what)


def test_the_requested_group_must_be_the_one_in_the_files(group: Group) -> None:
    group.spill(rows(100)).spill(rows(50))
    group.refuses("another group", write_id=WriteId(6))
    group.refuses("another group", bucket_property=BUCKET + (1 << 16))


def rewritten(path: str, change: Callable[[OrcTail], tuple[bytes, bytes]]) -> None:
    """Replace the tail of a file. `change` returns footer and postscript, uncompressed."""
    tail = tail_of(path)
    metadata = pack(stripe_statistics(path), tail.postscript.codec, tail.postscript.block_size)
    footer, postscript = change(tail)
    section = pack(footer, tail.postscript.codec, tail.postscript.block_size)
    message = int_field(1, len(section)) + int_field(5, len(metadata)) + postscript
    content = Path(path).read_bytes()[: tail.footer.stripes[-1].offset + tail.footer.stripes[-1].length]
    Path(path).write_bytes(content + metadata + section + message + bytes([len(message)]))


def with_field(message: bytes, number: int, value: int) -> bytes:
    """The message with another value of one field, in front of the rest."""
    return int_field(number, value) + b"".join(f.raw for f in read_fields(message) if f.number != number)


@pytest.mark.parametrize(
    ("postscript_field", "footer_field", "value", "what"),
    [
        (6, None, 1, "another writer version"),
        (3, None, 1 << 17, "another compression block size"),
        (None, 9, 4, "another writer "),
        (None, 11, 1, "another calendar"),
    ],
)
def test_files_of_other_writers_are_refused(
    postscript_field: int | None, footer_field: int | None, value: int, what: str, group: Group
) -> None:
    group.spill(rows(100)).spill(rows(50))

    def change(tail: OrcTail) -> tuple[bytes, bytes]:
        footer, postscript = encode_footer(tail.footer), tail.postscript.rest
        if footer_field:
            footer = with_field(footer, footer_field, value)
        return footer, with_field(postscript, postscript_field, value) if postscript_field else postscript

    rewritten(group.paths[1], change)
    group.refuses(what)


def test_an_encrypted_file_is_refused(group: Group) -> None:
    group.spill(rows(100))
    rewritten(group.paths[0], lambda tail: (encode_footer(tail.footer) + b"\x52\x00", tail.postscript.rest))
    group.refuses("is encrypted")


def test_row_ids_are_checked_against_the_rows_not_only_the_index(group: Group) -> None:
    group.spill(rows(100)).spill(rows(50), first_row_id=300)

    def change(tail: OrcTail) -> tuple[bytes, bytes]:
        index = encode_footer(tail.footer).replace(b"5,536870912,349;", b"5,536870912,149;")
        return index, tail.postscript.rest

    rewritten(group.paths[1], change)
    group.refuses(r"holds \(300, 349\) in its column rowId, expected \(100, 149\)")


def test_a_file_that_is_not_an_acid_file_is_refused(group: Group) -> None:
    group.spill(rows(100))
    orc.write_table(orc.read_table(group.paths[0]), group.paths[0], compression="zstd")
    group.refuses("was not written as an ACID file")


def test_a_damaged_file_is_corrupt(group: Group) -> None:
    group.spill(rows(100)).spill(rows(50))
    Path(group.paths[1]).write_bytes(Path(group.paths[1]).read_bytes()[:-20])
    group.refuses("not a complete ORC file", CorruptFile)


def test_a_missing_file_is_an_io_failure(group: Group) -> None:
    group.spill(rows(100)).spill(rows(50))
    Path(group.paths[1]).rename(group.folder / "elsewhere")
    with pytest.raises(StreamingIOFailure, match="spill_1"):
        group.join()
    assert not (group.folder / "joined").exists()


def test_an_existing_target_is_not_replaced(group: Group) -> None:
    group.spill(rows(100))
    (group.folder / "joined").write_bytes(b"mine")
    with pytest.raises(StreamingIOFailure, match="exists already"):
        group.join()
    assert (group.folder / "joined").read_bytes() == b"mine"


def test_without_statistics_in_one_file_there_are_none_in_the_merged_file(group: Group) -> None:
    group.spill(rows(100)).spill(rows(50))
    path = group.paths[1]
    tail = tail_of(path)
    content = Path(path).read_bytes()[: tail.footer.stripes[-1].offset + tail.footer.stripes[-1].length]
    bare = b"".join(f.raw for f in read_fields(encode_footer(tail.footer)) if f.number != 7)
    section = pack(bare, Codec.ZSTD, tail.postscript.block_size)
    Path(path).write_bytes(content + section + with_lengths(tail.postscript, len(section), 0))
    joined = group.join()
    assert tail_of(joined.path).footer.statistics == ()
    assert stripe_statistics(joined.path) == b""
    assert orc.read_table(joined.path)["rowId"].to_pylist() == list(range(150))
