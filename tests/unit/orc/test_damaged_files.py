"""A damaged file is an error that names the file: never other rows, a dead process or all of the memory.

ORC has no checksums. One changed byte gave other rows without an error, ended the process inside the ORC library
(SIGSEGV), or made it take memory until it was killed.
"""

from __future__ import annotations

import datetime as dt
import io
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.errors import CorruptFile
from hive_ingest.model import WriteId
from hive_ingest.orc.format.checksums import CONTENT_CHECKSUMS
from hive_ingest.orc.format.codec import Codec
from hive_ingest.orc.format.columns import OrcKind
from hive_ingest.orc.format.protobuf import bytes_field, int_field
from hive_ingest.orc.format.stripe_footer import check_stripe_footer
from hive_ingest.orc.format.tail import OrcTail, Stripe, read_tail, with_lengths
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.orc.writer.stripe_copy import join
from hive_ingest.storage import LocalStore, Location

BUCKET = 1 << 29
CHANGES = 200
MOST_MEMORY_MB = 500


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.record_batch(
        {
            "i": pa.array(numbers, pa.int32()),
            "s": [None if i % 7 == 0 else f"row {i * i}" for i in numbers],
            "d": pa.array([Decimal(i) for i in numbers], pa.decimal128(10, 2)),
            "t": pa.array([dt.datetime(2020, 1, 1) + dt.timedelta(seconds=i) for i in numbers], pa.timestamp("ns")),
            "b": [i % 3 == 0 for i in numbers],
            "l": [list(range(i % 4)) for i in numbers],
            "x": [{"a": i, "b": str(i)} for i in numbers],
            "m": pa.array([[("k", i)] for i in numbers], pa.map_(pa.string(), pa.int32())),
        }
    )


def written(path: Path, *batches: pa.RecordBatch, first: int = 0, **options: object) -> Path:
    writer = AcidOrcWriter(
        LocalStore(),
        str(path),
        schema=batches[0].schema,
        write_id=WriteId(1),
        bucket_property=BUCKET,
        first_row_id=first,
        sync=False,
        **options,  # type: ignore[arg-type]
    )
    with writer:
        for batch in batches:
            writer.write(batch)
        writer.close()
    return path


def joined(folder: Path, compression: str) -> Path:
    parts = [written(folder / str(i), rows(i, 150), first=i, compression=compression) for i in (0, 150)]
    target = folder / "joined"
    options = {"write_id": WriteId(1), "bucket_property": BUCKET, "sync": False}
    join(LocalStore(), [str(part) for part in parts], Location.of(str(target)), **options)  # type: ignore[arg-type]
    return target


def changes(path: Path, seed: int) -> list[tuple[int, int]]:
    """Bytes of the whole file, and each of its last ones, where its structure lies."""
    content, pick = path.read_bytes(), random.Random(seed)
    end = range(len(content) - 120, len(content))
    return [(at, content[at] ^ pick.randrange(1, 256)) for at in [*pick.sample(range(len(content)), CHANGES), *end]]


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("is_joined", [False, True], ids=["written", "joined"])
def test_any_changed_byte_gives_the_same_rows_or_an_error(compression: str, is_joined: bool, tmp_path: Path) -> None:
    path = (
        joined(tmp_path, compression) if is_joined else written(tmp_path / "a", rows(0, 300), compression=compression)
    )
    todo = changes(path, seed=len(compression))
    reader = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("damaged_reader.py")), str(path)],
        input="".join(f"{at} {value}\n" for at, value in todo),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = [line.split() for line in reader.stdout.splitlines()]
    assert reader.returncode == 0, f"died of {todo[len(found)]} with {reader.returncode}: {reader.stderr}"
    assert len(found) == len(todo)
    counts = Counter(outcome for outcome, _ in found)
    assert set(counts) <= {"same", "CorruptFile"}
    assert counts["CorruptFile"] > CHANGES * 0.9
    assert max(int(memory) for _, memory in found) < MOST_MEMORY_MB


def noise(count: int) -> pa.RecordBatch:
    """Rows that do not compress: a file of several segments."""
    numbers = pa.array(np.random.default_rng(1).integers(0, 2**60, count))
    return pa.record_batch({"a": numbers, "b": numbers})


def read_column(path: Path, column: str, **options: bool) -> list[int]:
    found: list[int] = []
    with AcidFileReader(LocalStore(), FileToRead(str(path), None, False, path.stat().st_size), **options) as reader:
        for stripe in range(reader.num_stripes):
            found += reader.read(stripe, [], [column]).columns()[column].to_pylist()
    return found


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_large_file_is_verified_where_it_is_read(tmp_path: Path) -> None:
    batch = noise(400_000)
    path = written(tmp_path / "a", batch, compression="ZSTD")
    assert read_column(path, "a") == batch["a"].to_pylist()
    (stripe,) = tail_of(path.read_bytes()).footer.stripes
    damage(path, stripe.offset + stripe.length - stripe.footer_length - 600_000)  # among the values of b, the last
    assert read_column(path, "a") == batch["a"].to_pylist()
    with pytest.raises(CorruptFile, match=r"checksum .* Restore the file from a copy"):
        read_column(path, "b")


def test_checksums_are_not_verified_unless_requested(tmp_path: Path) -> None:
    batch = rows(0, 1000)
    path = written(tmp_path / "a", batch, compression="NONE")
    damage(path, 4)  # in the row index, which a full read does not need
    with pytest.raises(CorruptFile, match="checksum"):
        read_column(path, "i")
    assert read_column(path, "i", verify_checksums=False) == batch["i"].to_pylist()


def test_a_damaged_spill_is_not_joined(tmp_path: Path) -> None:
    path = written(tmp_path / "a", rows(0, 1000))
    damage(path, 1000)
    with pytest.raises(CorruptFile, match="checksum"):
        join(
            LocalStore(),
            [str(path)],
            Location.of(str(tmp_path / "b")),
            write_id=WriteId(1),
            bucket_property=BUCKET,
            sync=False,
        )
    assert not (tmp_path / "b").exists()


def test_the_checksums_of_another_file_are_not_used(tmp_path: Path) -> None:
    """A tool that copies user metadata from file to file, as some that merge files do, does not make them its own."""
    path = written(tmp_path / "a", rows(0, 10))
    tail = tail_of(path.read_bytes())
    assert tail.checksums is not None
    foreign = io.BytesIO()
    orc.write_table(orc.read_table(path), foreign)
    postscript = tail_of(foreign.getvalue()).postscript
    items = b"".join(
        bytes_field(5, bytes_field(1, name.encode()) + bytes_field(2, value))
        for name, value in [*tail.footer.user_metadata.items(), ("a", b"b")]
    )
    ending = with_lengths(postscript, postscript.footer_length + len(items), postscript.metadata_length)
    copied = tail_of(foreign.getvalue()[: -postscript.size - 1] + items + ending)
    assert CONTENT_CHECKSUMS in copied.footer.user_metadata
    assert copied.checksums is None


def tail_of(data: bytes) -> OrcTail:
    return read_tail(pa.BufferReader(data), "a.orc")


@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_a_stripe_that_contradicts_itself_is_not_decoded(compression: str, tmp_path: Path) -> None:
    """Without checksums, as in Hive's files, whatever can be checked is checked before the ORC library uses it."""
    path = written(tmp_path / "a", rows(0, 300), compression=compression)
    (stripe,) = tail_of(path.read_bytes()).footer.stripes
    original = path.read_bytes()
    start = stripe.offset + stripe.index_length + stripe.data_length
    outcomes = Counter[str]()
    for position in range(start, start + stripe.footer_length):
        path.write_bytes(original)
        damage(path, position)
        try:
            read_column(path, "i", verify_checksums=False)
            outcomes["read"] += 1
        except CorruptFile:
            outcomes["refused"] += 1
    assert outcomes["refused"] > stripe.footer_length * 0.6


def test_a_dictionary_larger_than_its_column_is_refused() -> None:
    encodings = [int_field(1, 0), int_field(1, 3) + int_field(2, 2**31)]
    types = [int_field(1, OrcKind.STRUCT) + int_field(2, 1) + bytes_field(3, b"s"), int_field(1, OrcKind.STRING)]
    footer = b"".join(bytes_field(2, encoding) for encoding in encodings)
    tail = tail_of(plain_file())
    stripe = Stripe(offset=0, index_length=0, data_length=0, footer_length=len(footer), rows=10)
    tail = replace(
        tail,
        postscript=replace(tail.postscript, codec=Codec.NONE),
        footer=replace(tail.footer, stripes=(stripe,), types=tuple(types)),
    )
    with pytest.raises(CorruptFile, match="dictionary has more entries"):
        check_stripe_footer(pa.BufferReader(footer), tail, 0, "a.orc")


def plain_file() -> bytes:
    """Read the file with pyarrow alone."""
    sink = io.BytesIO()
    orc.write_table(pa.table({"s": ["a"]}), sink)
    return sink.getvalue()
