"""A small stripe, which is compressed here instead of in the ORC library, is the one that the library would write."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.model import WriteId
from hive_ingest.orc.format.codec import Codec, unpack
from hive_ingest.orc.format.protobuf import WireError, bytes_field
from hive_ingest.orc.format.stripe_streams import StripeFooter, packed_stripe_footer, parse_stripe_footer
from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.orc.writer import small_stripes
from hive_ingest.orc.writer.insert_encoder import InsertEncoder
from hive_ingest.orc.writer.key_columns import InsertedRows
from hive_ingest.orc.writer.stripe_output import StripeOutput
from hive_ingest.storage import LocalStore

COMPRESSIONS = ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"]
COLUMNS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "flag": (pa.bool_(), [True, None, False]),
    "tiny": (pa.int8(), [1, -1, None]),
    "big": (pa.int64(), [2**62, -(2**62), 0]),
    "empty": (pa.int32(), [None]),
    "ratio": (pa.float64(), [0.5, None]),
    "text": (pa.string(), ["", "word", None, "größer" * 40]),
    "bytes": (pa.binary(), [b"\x00", None]),
    "day": (pa.date32(), [dt.date(1969, 7, 20), None]),
    "moment": (pa.timestamp("ns"), [dt.datetime(2024, 2, 29, 1, 2, 3, 4000), None]),
    "price": (pa.decimal128(20, 4), [decimal.Decimal("-12.3456"), None]),
    "list": (pa.list_(pa.int64()), [[1, None], [], None]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None]),
    "struct": (pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]), [{"x": 1, "y": ["a"]}, None]),
}
SCHEMA = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])


def batch(rows: int) -> pa.RecordBatch:
    columns = [pa.array([values[i % len(values)] for i in range(rows)], type_) for type_, values in COLUMNS.values()]
    return pa.record_batch(columns, schema=SCHEMA)


def encoded(rows: int, compression: str, path: Path) -> pa.Buffer:
    encoder = InsertEncoder(SCHEMA, compression=compression)
    ids = InsertedRows(WriteId(7), 1 << 29, 0, rows)
    with StripeOutput(LocalStore(), str(path), like=encoder.like, sync=False) as output:
        encoder.encode([batch(rows)], ids, str(path)).append_to(output)
        output.close()
    return pa.py_buffer(path.read_bytes())


def parts(data: pa.Buffer) -> tuple[OrcTail, StripeFooter, list[tuple[int, int, bytes]]]:
    """The tail, the footer of the only stripe, and its streams without compression."""
    tail = read_tail(pa.BufferReader(data), "a file")
    codec, block_size = tail.postscript.codec, tail.postscript.block_size
    (stripe,) = tail.footer.stripes
    footer = parse_stripe_footer(unpack(packed_stripe_footer(memoryview(data), stripe), codec, block_size))
    streams, at = [], stripe.offset
    for kind, column, length in footer.streams:
        streams.append((kind, column, unpack(bytes(memoryview(data)[at : at + length]), codec, block_size)))
        at += length
    return tail, footer, streams


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("rows", [1, 12, 700])
def test_streams_indexes_and_statistics_are_those_of_the_library(
    rows: int, compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, footer, streams = parts(encoded(rows, compression, tmp_path / "a"))
    monkeypatch.setattr("hive_ingest.orc.writer.insert_encoder.SMALL_STRIPE_BYTES", -1)
    librarys, librarys_footer, librarys_streams = parts(encoded(rows, compression, tmp_path / "b"))

    assert streams == librarys_streams
    assert (footer.encodings, footer.time_zone) == (librarys_footer.encodings, librarys_footer.time_zone)
    assert ours.footer.statistics == librarys.footer.statistics
    assert ours.postscript.rest == librarys.postscript.rest


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_library_reads_what_was_compressed_here(compression: str, tmp_path: Path) -> None:
    data = encoded(5_000, compression, tmp_path / "a")
    assert data.size > small_stripes.SMALL_STRIPE_BYTES / 100
    found = orc.read_table(pa.BufferReader(data))["row"].combine_chunks()
    assert pa.RecordBatch.from_struct_array(found).to_pylist() == batch(5_000).to_pylist()


def test_a_row_index_with_several_entries_is_refused() -> None:
    entry = bytes_field(1, bytes_field(1, b"\0\0"))
    with pytest.raises(WireError, match="more than one entry"):
        small_stripes.compressed_streams([(6, 1, entry + entry), (1, 1, b"x")], Codec.ZSTD, 65_536)


def test_a_row_index_with_other_positions_is_refused() -> None:
    entry = bytes_field(1, bytes_field(1, b"\0\1"))
    with pytest.raises(WireError, match="does not begin"):
        small_stripes.compressed_streams([(6, 1, entry), (1, 1, b"x")], Codec.ZSTD, 65_536)


@pytest.mark.parametrize("length", [2, 3, 4, 6, 9])
def test_a_row_index_that_is_cut_off_is_refused(length: int) -> None:
    whole = bytes_field(1, bytes_field(1, b"\0\0") + bytes_field(2, b"\x08\1\x50\0"))
    with pytest.raises(WireError):
        small_stripes.compressed_streams([(6, 1, whole[:length]), (1, 1, b"x")], Codec.ZSTD, 65_536)


@pytest.mark.parametrize("statistics", [b"\x08\1\x50\0", b"\x08\1" * 100])
def test_a_row_index_gets_positions_in_compressed_streams(statistics: bytes) -> None:
    index = bytes_field(1, bytes_field(1, b"\0\0") + bytes_field(2, statistics))
    packed = small_stripes.compressed_streams([(6, 1, index), (1, 1, b"x")], Codec.ZSTD, 65_536)[0][2]
    assert unpack(bytes(packed), Codec.ZSTD, 65_536) == bytes_field(
        1, bytes_field(1, b"\0\0\0") + bytes_field(2, statistics)
    )


def test_other_positions_are_refused_in_a_row_index_with_statistics() -> None:
    index = bytes_field(1, bytes_field(1, b"\0\1") + bytes_field(2, b"\x08\1\x50\0"))
    with pytest.raises(WireError, match="does not begin"):
        small_stripes.compressed_streams([(6, 1, index), (1, 1, b"x")], Codec.ZSTD, 65_536)
