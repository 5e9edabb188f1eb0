"""The columns of ids that are encoded without the ORC library are what the library would have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.model import WriteId
from hive_ingest.orc.acid_schema import ACID_COLUMNS, INSERT, acid_schema
from hive_ingest.orc.format.codec import unpack
from hive_ingest.orc.format.stripe_streams import StreamKey, StripeFooter, packed_stripe_footer, parse_stripe_footer
from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.orc.writer.file_writer import BATCH_ROWS, arrow_compression
from hive_ingest.orc.writer.insert_encoder import InsertEncoder
from hive_ingest.orc.writer.key_columns import InsertedRows
from hive_ingest.orc.writer.stripe_encoder import EncodedStripes
from hive_ingest.orc.writer.stripe_output import StripeOutput
from hive_ingest.storage.local_store import LocalStore

SCHEMA = pa.schema([("text", pa.string()), ("flag", pa.bool_())])
COMPRESSIONS = ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"]


def batch(rows: int) -> pa.RecordBatch:
    texts = [None if i % 7 == 0 else f"row {i}" for i in range(rows)]
    return pa.record_batch([pa.array(texts, pa.string()), pa.array([i % 3 == 0 for i in range(rows)])], schema=SCHEMA)


def of_the_library(rows: int, ids: InsertedRows, compression: str, stride: int) -> pa.Buffer:
    """The same rows with their ids, encoded as a whole."""
    kind, strategy = arrow_compression(compression)
    columns = [
        pa.array(np.full(rows, INSERT, np.int32)),
        pa.array(np.full(rows, ids.write_id, np.int64)),
        pa.array(np.full(rows, ids.bucket_property, np.int32)),
        pa.array(np.arange(ids.first_row_id, ids.first_row_id + rows, dtype=np.int64)),
        pa.array(np.full(rows, ids.write_id, np.int64)),
        batch(rows).to_struct_array(),
    ]
    sink = pa.BufferOutputStream()
    with orc.ORCWriter(
        sink, compression=kind, compression_strategy=strategy, row_index_stride=stride, batch_size=BATCH_ROWS
    ) as writer:
        writer.write(pa.Table.from_arrays(columns, schema=acid_schema(SCHEMA)))
    return sink.getvalue()


def ours(rows: int, ids: InsertedRows, compression: str, stride: int, path: str) -> pa.Buffer:
    encoder = InsertEncoder(SCHEMA, compression=compression, row_index_stride=stride)
    encoded: EncodedStripes = encoder.encode([batch(rows)], ids, path)
    with StripeOutput(LocalStore(), path, like=encoder.like, sync=False) as output:
        encoded.append_to(output)
        output.close()
    with LocalStore().open_input(path) as source:
        return source.read_buffer()


def parts(data: pa.Buffer) -> tuple[OrcTail, StripeFooter, Mapping[StreamKey, bytes]]:
    """The tail, the footer of the only stripe, and its streams without compression."""
    tail = read_tail(pa.BufferReader(data), "a file")
    codec, block_size = tail.postscript.codec, tail.postscript.block_size
    (stripe,) = tail.footer.stripes
    footer = parse_stripe_footer(unpack(packed_stripe_footer(memoryview(data), stripe), codec, block_size))
    streams, at = {}, stripe.offset
    for kind, column, length in footer.streams:
        streams[column, kind] = unpack(bytes(memoryview(data)[at : at + length]), codec, block_size)
        at += length
    assert at == stripe.offset + stripe.index_length + stripe.data_length
    return tail, footer, streams


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("rows", [11, 512, 513 + 10, 25_000])
def test_the_stripe_is_that_of_the_library(rows: int, compression: str, tmp_path: Any) -> None:
    ids = InsertedRows(WriteId(70_000), (1 << 29) | (3 << 16), 4_711, rows)

    tail, footer, streams = parts(ours(rows, ids, compression, 1_000, f"{tmp_path}/a"))
    like, footer_like, streams_like = parts(of_the_library(rows, ids, compression, 1_000))

    assert streams == streams_like
    assert [stream[:2] for stream in footer.streams] == [stream[:2] for stream in footer_like.streams]
    assert (footer.encodings, footer.time_zone) == (footer_like.encodings, footer_like.time_zone)
    assert tail.footer.types == like.footer.types
    assert tail.footer.statistics == like.footer.statistics
    assert (tail.postscript.codec, tail.postscript.block_size) == (like.postscript.codec, like.postscript.block_size)


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 511, 514, 1_023])
def test_short_runs_have_other_bytes_and_the_same_values(rows: int, tmp_path: Any) -> None:
    ids = InsertedRows(WriteId(2**40), (1 << 29) | 5, 2**33, rows)
    path = f"{tmp_path}/a"
    ours(rows, ids, "ZSTD", 10_000, path)
    assert orc.read_table(path) == orc.read_table(pa.BufferReader(of_the_library(rows, ids, "ZSTD", 10_000)))


def test_a_stream_of_several_blocks_has_the_positions_of_the_library(tmp_path: Any) -> None:
    rows = 5_000_000  # row ids take two blocks of 64 KiB
    ids = InsertedRows(WriteId(1), 1 << 29, 2**40, rows)
    encoder = InsertEncoder(pa.schema([("flag", pa.bool_())]), compression="SNAPPY")
    path = f"{tmp_path}/a"
    flags = pa.record_batch([pa.array(np.zeros(rows, np.bool_))], ["flag"])
    with StripeOutput(LocalStore(), path, like=encoder.like, sync=False) as output:
        encoder.encode([flags], ids, path).append_to(output)
        assert output.close().stripe_rows == (rows,)
    with LocalStore().open_input(path) as source:
        _, _, streams = parts(source.read_buffer())
    assert len(streams[ACID_COLUMNS.index("rowId") + 1, 1]) > 64 * 1024
    row_ids = orc.ORCFile(path).read(columns=["rowId"])["rowId"]
    assert row_ids.combine_chunks().to_numpy().tolist() == list(range(2**40, 2**40 + rows))


@given(
    write_id=st.integers(1, 2**62), first=st.integers(0, 2**62), rows=st.integers(1, 3_000), bucket=st.integers(0, 4095)
)
def test_any_ids_are_read_back(
    write_id: int, first: int, rows: int, bucket: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids = InsertedRows(WriteId(write_id), (1 << 29) | (bucket << 16), first, rows)
    path = f"{tmp_path_factory.mktemp('ids')}/a"
    ours(rows, ids, "ZSTD", 1_000, path)
    found = orc.read_table(path)
    assert found["rowId"].to_pylist() == list(range(first, first + rows))
    for name, value in zip(ACID_COLUMNS, (INSERT, write_id, ids.bucket_property, None, write_id), strict=False):
        assert value is None or set(found[name].to_pylist()) == {value}
