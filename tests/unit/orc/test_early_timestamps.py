"""Timestamps before 1970 with a fraction of a second are in the form that Java's readers expect, in every stripe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.model import WriteId
from hive_ingest.orc.format.codec import Codec, unpack
from hive_ingest.orc.format.columns import OrcColumn, OrcKind, column_types
from hive_ingest.orc.format.protobuf import packed_varints, read_fields
from hive_ingest.orc.format.stripe_statistics import stripe_statistics
from hive_ingest.orc.format.stripe_streams import (
    DATA,
    PRESENT,
    ROW_INDEX,
    SECONDARY,
    packed_stripe_footer,
    parse_stripe_footer,
)
from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.orc.normalise import has_early_fractions
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.storage import LocalStore
from tests.unit.orc.integer_streams import read_integers

TIME = pa.timestamp("ns")
SCHEMA = pa.schema(
    [
        ("at", TIME),
        ("list", pa.list_(TIME)),
        ("map", pa.map_(TIME, pa.struct([("n", pa.int32()), ("at", TIME)]))),
        ("whole", TIME),
    ]
)
EDGES = [
    *(-999_000_001, -(10**9) + 1, -(10**9), -(10**9) - 1, -1_001_000_000, -1_000_999_999, -1_500_000_000),
    *(-9223372036 * 10**9, -9223372036 * 10**9 + 1, 0, 1, 100, 10**9 - 1, 2**63 - 1),
]


def time(random: Random) -> int | None:
    kind = random.random()
    if kind < 0.1:
        return None
    if kind < 0.3:
        return random.choice(EDGES)
    longest, unit = 10 ** random.randint(10, 18), 10 ** random.randint(0, 9)
    found: int = random.randint(-longest, -(10**9)) // unit * unit
    return found


def rows(count: int, seed: int) -> pa.RecordBatch:
    random = Random(seed)
    whole = [-random.randint(1, 10**9) * 10**9 for _ in range(count)]
    lists = [None if random.random() < 0.1 else [time(random) for _ in range(random.randint(0, 3))] for _ in whole]
    maps = [
        [(-(10**12) - 7 * key, {"n": key, "at": time(random)}) for key in range(random.randint(0, 2))] for _ in whole
    ]
    columns = [[time(random) for _ in whole], lists, maps, whole]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


def write(path: Path, batch: pa.RecordBatch, compression: str = "ZSTD", stride: int = 1000, **options: int) -> OrcTail:
    with AcidOrcWriter(
        LocalStore(),
        str(path),
        schema=batch.schema,
        write_id=WriteId(1),
        bucket_property=1 << 29,
        compression=compression,
        row_index_stride=stride,
        sync=False,
        **options,
    ) as writer:
        writer.write(batch)
        writer.close()
    return read_tail(pa.memory_map(str(path)), str(path))


def streams_of(data: memoryview, tail: OrcTail) -> Iterator[dict[tuple[int, int], bytes]]:
    """For each stripe the bytes of each stream, by column and kind."""
    for stripe in tail.footer.stripes:
        packed = packed_stripe_footer(data, stripe)
        footer = parse_stripe_footer(unpack(packed, tail.postscript.codec, tail.postscript.block_size))
        found, at = {}, stripe.offset
        for kind, column, length in footer.streams:
            found[column, kind] = bytes(data[at : at + length])
            at += length
        yield found


def as_java_reads(seconds: int, nanoseconds: int) -> int:
    """Nanoseconds since 1970, as `TimestampTreeReader` computes them."""
    zeros, nanos = nanoseconds & 7, nanoseconds >> 3
    nanos *= 10 ** (zeros + 1) if zeros else 1
    assert nanos < 10**9
    millis = (seconds + 1_420_070_400) * 1000 + nanos // 10**6
    if millis < 0 and nanos > 999_999:
        millis -= 1000
    return millis // 1000 * 10**9 + nanos


def java_values(streams: dict[int, bytes]) -> list[int]:
    pairs = zip(read_integers(streams[DATA], signed=True), read_integers(streams[SECONDARY], signed=False), strict=True)
    return [as_java_reads(*pair) for pair in pairs]


def entries(index: bytes) -> Iterator[tuple[list[int], bytes]]:
    """Positions and statistics of each entry of a row index."""
    for entry in read_fields(index):
        fields = {field.number: field for field in read_fields(entry.as_bytes)}
        yield packed_varints(fields[1].value), fields[2].as_bytes


def from_position(stream: bytes, tail: OrcTail, position: list[int]) -> bytes:
    """What follows a position of the row index, which must be the beginning of a run."""
    codec, block_size = tail.postscript.codec, tail.postscript.block_size
    *chunk, at, skipped = position
    assert skipped == 0
    return unpack(stream[chunk[0] if chunk else 0 :], codec, block_size)[at:]


def bounds(statistics: bytes) -> tuple[int, int] | None:
    return OrcColumn("", OrcKind.TIMESTAMP, statistics).extremes(OrcKind.TIMESTAMP)


def outer(values: list[int]) -> tuple[int, int] | None:
    """The bounds that statistics give: the minimum without its part of a millisecond."""
    return (min(values) // 10**6 * 10**6, max(values)) if values else None


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
@pytest.mark.parametrize("count", [7, 2_500])
def test_every_reader_sees_the_values_that_were_written(compression: str, count: int, tmp_path: Path) -> None:
    batch = rows(count, seed=count)
    tail = write(tmp_path / "a", batch, compression)
    table = orc.read_table(tmp_path / "a")["row"].combine_chunks()
    assert [table.field(i).to_pylist() for i in range(4)] == [column.to_pylist() for column in batch.columns]

    codec = tail.postscript.codec, tail.postscript.block_size
    (streams,) = streams_of(memoryview((tmp_path / "a").read_bytes()), tail)
    columns = [
        number for number, type_ in enumerate(column_types(tail.footer.types)) if type_.kind == OrcKind.TIMESTAMP
    ]
    lists, maps = batch.column(1).flatten(), batch.column(2)
    expected = [batch.column(0), lists, maps.keys, maps.items.field(1), batch.column(3)]
    for column, array in zip(columns, expected, strict=True):
        values = array.drop_null().cast(pa.int64()).to_pylist()
        found = java_values({kind: unpack(streams[column, kind], *codec) for kind in (DATA, SECONDARY)})
        assert found == values
        assert bounds(tail.footer.statistics[column]) == outer(values)


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "ZSTD"])
def test_the_row_index_leads_to_the_values_of_each_group_of_rows(compression: str, tmp_path: Path) -> None:
    batch = rows(25_000, seed=1)  # so that the streams have several blocks
    tail = write(tmp_path / "a", batch, compression)
    at_column = next(i for i, type_ in enumerate(column_types(tail.footer.types)) if type_.kind == OrcKind.TIMESTAMP)
    parts = 1 if tail.postscript.codec == Codec.NONE else 2
    data = memoryview((tmp_path / "a").read_bytes())
    start = 0
    for stripe, streams in zip(tail.footer.stripes, streams_of(data, tail), strict=True):
        of_stripe = batch.column(0).slice(start, stripe.rows)
        start += stripe.rows
        index = unpack(streams[at_column, ROW_INDEX], tail.postscript.codec, tail.postscript.block_size)
        for group, (positions, statistics) in enumerate(entries(index)):
            values = of_stripe.slice(group * 1000, 1000).drop_null().cast(pa.int64()).to_pylist()
            seconds, nanoseconds = positions[-2 * parts - 2 : -parts - 1], positions[-parts - 1 :]
            found = java_values(
                {
                    DATA: from_position(streams[at_column, DATA], tail, seconds),
                    SECONDARY: from_position(streams[at_column, SECONDARY], tail, nanoseconds),
                }
            )
            assert found[: len(values)] == values
            assert len(positions) == 2 * (parts + 1) + (parts + 2 if (at_column, PRESENT) in streams else 0)
            assert bounds(statistics) == outer(values)


def test_the_statistics_of_each_stripe_are_those_of_its_rows(tmp_path: Path) -> None:
    batch = rows(20_000, seed=2)
    tail = write(tmp_path / "a", batch, stripe_size_bytes=200_000)
    messages = stripe_statistics(pa.memory_map(str(tmp_path / "a")), tail, "a")
    assert messages is not None
    assert len(messages) > 1
    at_column, start = 7, 0
    for stripe, message in zip(tail.footer.stripes, messages, strict=True):
        values = batch.column(0).slice(start, stripe.rows).drop_null().cast(pa.int64()).to_pylist()
        start += stripe.rows
        columns = [field.as_bytes for field in read_fields(message)]
        assert bounds(columns[at_column]) == outer(values)
    assert orc.read_table(tmp_path / "a")["row"].combine_chunks().field(0).to_pylist() == batch.column(0).to_pylist()


def test_only_fractions_before_1970_are_encoded_once_more() -> None:
    def has(*values: Any) -> bool:
        return has_early_fractions(pa.array([None, list(values)], pa.list_(TIME)))

    assert not has(0, 1, -(10**9), -9223372036 * 10**9, None)
    assert has(0, -1_500_000_000)
    assert not has_early_fractions(pa.array([-1_500_000_000]))
