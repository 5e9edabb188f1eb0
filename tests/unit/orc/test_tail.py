"""Tails of ORC files: read for any writer, completed with Hive's metadata, and never a crash on damaged bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.format.checksums import CHECKSUM_ITEMS, ChecksumBuilder
from hive_ingest.orc.format.codec import MAX_BLOCK_SIZE, Codec, pack, store, unpack, unpack_all
from hive_ingest.orc.format.protobuf import WireError, bytes_field, int_field, read_fields, signed_field
from hive_ingest.orc.format.tail import (
    PROLEPTIC_GREGORIAN,
    OrcTail,
    completed_tail,
    parse_postscript,
    parse_stripe_rows,
    read_stripe_statistics,
    read_tail,
)

PYARROW_NAMES = {
    Codec.NONE: "uncompressed",
    Codec.ZLIB: "zlib",
    Codec.SNAPPY: "snappy",
    Codec.LZ4: "lz4",
    Codec.ZSTD: "zstd",
}
CODECS = list(PYARROW_NAMES)


def orc_bytes(codec: Codec, rows: int = 5000, **options: object) -> bytes:
    random = Random(1)
    table = pa.table({"n": list(range(rows)), "text": [f"text {random.random()}" for _ in range(rows)]})
    sink = io.BytesIO()
    orc.write_table(table, sink, compression=PYARROW_NAMES[codec], **options)
    return sink.getvalue()


FILES = {codec: orc_bytes(codec) for codec in CODECS}


def tail_of(data: bytes) -> OrcTail:
    return read_tail(pa.BufferReader(data), "a.orc")


def completed(data: bytes, items: dict[str, bytes]) -> bytes:
    postscript = parse_postscript(data[-256:], len(data), "a.orc")
    content, tail = data[: -postscript.tail_length], data[-postscript.tail_length :]
    checksums = ChecksumBuilder()
    checksums.update(content)
    return content + completed_tail(
        tail[: postscript.footer_length],
        postscript,
        metadata_length=postscript.metadata_length,
        checksums=checksums.finish(),
        items=items,
    )


def items_of(data: bytes) -> dict[str, bytes]:
    """User metadata except the checksums."""
    return {k: v for k, v in tail_of(data).footer.user_metadata.items() if k not in CHECKSUM_ITEMS}


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_tail_describes_what_the_writer_wrote(codec: Codec) -> None:
    data = orc_bytes(codec, 30_000, stripe_size=64 * 1024, row_index_stride=2000)
    tail, reader = tail_of(data), orc.ORCFile(io.BytesIO(data))
    assert tail.postscript.codec == codec
    assert tail.footer.rows == 30_000
    assert [s.rows for s in tail.footer.stripes] == [reader.read_stripe(i).num_rows for i in range(reader.nstripes)]
    assert len(tail.footer.stripes) > 1
    assert len(tail.footer.types) == len(tail.footer.statistics) == 3
    assert tail.footer.row_index_stride == 2000
    assert parse_stripe_rows(data, tail.postscript, "a.orc") == tuple(s.rows for s in tail.footer.stripes)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_user_metadata_is_added_without_changing_the_rest(codec: Codec) -> None:
    items = {"hive.acid.version": b"2", "long": bytes(range(256)) * 600}
    data = completed(FILES[codec], items)
    reader = orc.ORCFile(io.BytesIO(data))
    assert {k.decode(): v for k, v in reader.metadata.items() if b"." not in k or b"hive.acid" in k} == items
    assert reader.read() == orc.ORCFile(io.BytesIO(FILES[codec])).read()
    assert items_of(data) == items
    assert tail_of(data).footer.stripes == tail_of(FILES[codec]).footer.stripes
    assert tail_of(data).footer.calendar == PROLEPTIC_GREGORIAN


def test_a_tail_longer_than_the_first_read_is_read_completely() -> None:
    items = {"long": b"x" * 100_000}
    assert items_of(completed(FILES[Codec.ZSTD], items)) == items


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_stripe_statistics_have_one_entry_for_each_stripe(codec: Codec) -> None:
    data = orc_bytes(codec, 30_000, stripe_size=64 * 1024)
    tail = tail_of(data)
    message = read_stripe_statistics(pa.BufferReader(data), tail, "a.orc")
    assert sum(field.number == 1 for field in read_fields(message)) == len(tail.footer.stripes)


@pytest.mark.parametrize("data", [b"", b"\0", b"ORC", b"\3ORC\3", b"x" * 1000, b"PAR1" * 100])
def test_a_file_that_is_not_orc_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"'a\.orc' is not a complete ORC file"):
        tail_of(data)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_file_cut_off_anywhere_in_its_tail_is_corrupt(codec: Codec) -> None:
    data = FILES[codec]
    for missing in range(1, tail_of(data).postscript.tail_length):
        with pytest.raises(CorruptFile):
            tail_of(data[:-missing])


def damaged(data: bytes) -> Iterator[bytes]:
    """Yields whatever can still be read; raises CorruptFile or nothing at all."""
    source = pa.BufferReader(data)
    tail = read_tail(source, "a.orc")
    yield read_stripe_statistics(source, tail, "a.orc")


@given(st.sampled_from(CODECS), st.lists(st.tuples(st.integers(1, 900), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_tail_is_corrupt_or_readable_but_never_crashes(codec: Codec, changes: list[tuple[int, int]]) -> None:
    data = bytearray(FILES[codec])
    for position, value in changes:
        data[-position % len(data)] = value
    try:
        found = list(damaged(bytes(data)))
    except CorruptFile:
        return
    assert len(found) == 1


@given(st.binary(max_size=400), st.sampled_from(CODECS))
def test_random_bytes_before_a_sound_postscript_never_crash(noise: bytes, codec: Codec) -> None:
    ending = FILES[codec][-40:]
    try:
        found = list(damaged(b"ORC" + noise + ending))
    except CorruptFile:
        return
    assert len(found) == 1


@given(st.binary(max_size=5000), st.sampled_from(CODECS), st.sampled_from([64, 1000, 1 << 18]), st.booleans())
def test_a_section_opens_to_what_was_packed(content: bytes, codec: Codec, block_size: int, repeat: bool) -> None:
    content = content * 20 if repeat else content
    assert unpack(pack(content, codec, block_size), codec, block_size) == content
    assert unpack(store(content, codec, block_size), codec, block_size) == content


@given(st.binary(max_size=300), st.sampled_from(list(Codec)))
def test_a_section_of_random_bytes_never_crashes(section: bytes, codec: Codec) -> None:
    try:
        content = unpack(section, codec, 1 << 16)
    except WireError:
        return
    assert len(content) <= MAX_BLOCK_SIZE


@pytest.mark.parametrize("codec", [c for c in CODECS if c != Codec.NONE], ids=lambda codec: codec.name)
def test_a_chunk_longer_than_its_block_is_refused(codec: Codec) -> None:
    section = pack(b"a" * 100_000, codec, 1 << 18)
    with pytest.raises(WireError, match="longer than its block"):
        unpack(section, codec, 1000)


@given(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300))
def test_fields_read_back_as_written(number: int, signed: int, payload: bytes) -> None:
    message = int_field(1, number) + signed_field(2, signed) + bytes_field(8000, payload)
    first, second, third = read_fields(message)
    assert (first.as_int, second.as_signed, third.as_bytes) == (number, signed, payload)
    assert first.raw + second.raw + third.raw == message


@given(st.binary(max_size=100))
def test_random_bytes_are_fields_or_a_wire_error(data: bytes) -> None:
    try:
        fields = list(read_fields(data))
    except WireError:
        return
    assert b"".join(field.raw for field in fields) == data


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(contents=st.lists(st.binary(max_size=700).map(lambda part: part * 3), max_size=6))
def test_many_sections_are_unpacked_as_one_by_one(codec: Codec, contents: list[bytes]) -> None:
    sections = [pack(content, codec, 1000) for content in contents]
    assert unpack_all(sections, codec, 1000) == contents


@given(contents=st.lists(st.binary(min_size=40, max_size=400), min_size=2, max_size=5), data=st.data())
def test_a_damaged_section_among_many_is_an_error_or_changes_no_other(
    contents: list[bytes], data: st.DataObject
) -> None:
    sections = [pack(content * 3, Codec.ZSTD, 2000) for content in contents]
    number = data.draw(st.integers(0, len(sections) - 1))
    damaged = bytearray(sections[number])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    sections[number] = bytes(damaged)
    with suppress(WireError):
        found = unpack_all(sections, Codec.ZSTD, 2000)
        assert found == [unpack(section, Codec.ZSTD, 2000) for section in sections]


def test_a_zstd_frame_says_its_size_or_is_read_as_a_stream() -> None:
    for size in (0, 1, 255, 256, 257, 65_791, 65_792, 70_000):
        content = bytes(size)
        frame = pa.compress(content, codec="zstd", asbytes=True)
        section = (len(frame) << 1).to_bytes(3, "little") + frame
        assert unpack(section, Codec.ZSTD, 70_000) == content
        if size > 1:
            with pytest.raises(WireError, match="longer than its block"):
                unpack(section, Codec.ZSTD, size - 1)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:  # writes the size into no frame
        stream.write(bytes(1000))
    frame = sink.getvalue().to_pybytes()
    sections = [(len(frame) << 1).to_bytes(3, "little") + frame] * 2
    assert unpack_all(sections, Codec.ZSTD, 1000) == [bytes(1000)] * 2
