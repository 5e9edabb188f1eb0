"""The five columns before the `row` of inserted rows, encoded without the ORC library.

The rows of one transaction and bucket have the same operation, write ids and bucket, and consecutive row ids. Each
column is therefore a sequence of runs with a fixed difference (RLE version 2, `DELTA`) of up to 512 values, as the
library writes them; but it takes a quarter of its time, and half of it for small files, to find that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from hive_ingest.model import WriteId
from hive_ingest.orc.acid_schema import INSERT, Key
from hive_ingest.orc.format.codec import Codec, packed_chunks
from hive_ingest.orc.format.protobuf import bytes_field, int_field, signed_field, varint

#: The number of these columns.
KEY_COLUMNS = 5
#: Their encoded `ColumnEncoding`, `DIRECT_V2`, as the library writes it.
KEY_ENCODING = int_field(1, 2) + int_field(2, 0)
_RUN_VALUES = 512
_CACHED_ROWS = 10_000
_DELTA = 0b11 << 6
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a stripe: its streams, as they are in the file, and its encoded `ColumnStatistics`."""

    row_index: bytes
    data: bytes
    statistics: bytes


@dataclass(frozen=True, slots=True)
class InsertedRows:
    """The ids of consecutive rows that one transaction inserts into one bucket.

    `bucket_property` is the encoded bucket (see `acid.bucket_codec`).
    """

    write_id: WriteId
    bucket_property: int
    first_row_id: int
    rows: int

    @property
    def last_key(self) -> Key:
        return self.write_id, self.bucket_property, self.first_row_id + self.rows - 1

    def slice(self, start: int, rows: int) -> InsertedRows:
        return InsertedRows(self.write_id, self.bucket_property, self.first_row_id + start, rows)


def key_columns(inserted: InsertedRows, *, row_index_stride: int, codec: Codec, block_size: int) -> list[KeyColumn]:
    """The columns of a stripe, in their order.

    Args:
        inserted: The ids of its rows, at least one.
        row_index_stride: Rows for each entry of the row index.
        codec: The compression of the file.
        block_size: Its largest compression block, in bytes.
    """
    packing = row_index_stride, codec, block_size
    column = _small_column if inserted.rows <= _CACHED_ROWS else _column
    operation, write_id, bucket = (
        column(value, 0, inserted.rows, *packing) for value in (INSERT, inserted.write_id, inserted.bucket_property)
    )
    return [operation, write_id, bucket, column(inserted.first_row_id, 1, inserted.rows, *packing), write_id]


@lru_cache(maxsize=1024)  # small transactions and partitions have few numbers of rows, and begin with row id 0
def _small_column(first: int, step: int, rows: int, stride: int, codec: Codec, block_size: int) -> KeyColumn:
    return _column(first, step, rows, stride, codec, block_size)


def _column(first: int, step: int, rows: int, stride: int, codec: Codec, block_size: int) -> KeyColumn:
    """The column `first`, `first + step`, `first + 2 * step`, …"""
    runs = _runs(first, step, rows)
    chunks = packed_chunks(b"".join(runs), codec, block_size)
    run_starts = list(accumulate(map(len, runs), initial=0))
    chunk_starts = list(accumulate(map(len, chunks), initial=0))
    entries = []
    for start in range(0, rows, stride):
        run, skipped = divmod(start, _RUN_VALUES)
        at = run_starts[run]
        where = (at,) if codec == Codec.NONE else (chunk_starts[at // block_size], at % block_size)
        statistics = _statistics(first + step * start, step, min(stride, rows - start))
        entries.append(_row_index_entry((*where, skipped), statistics))
    row_index = b"".join(packed_chunks(b"".join(entries), codec, block_size))
    return KeyColumn(row_index, b"".join(chunks), _statistics(first, step, rows))


def _runs(first: int, step: int, rows: int) -> list[bytes]:
    whole, rest = divmod(rows, _RUN_VALUES)
    end = first + step * whole * _RUN_VALUES
    if step:
        head, tail = _run_header(_RUN_VALUES), _signed(step)
        found = [head + _signed(value) + tail for value in range(first, end, step * _RUN_VALUES)]
    else:
        found = [_run(first, step, _RUN_VALUES)] * whole
    return [*found, _run(end, step, rest)] if rest else found


def _run(first: int, step: int, values: int) -> bytes:
    return _run_header(values) + _signed(first) + _signed(step)


def _run_header(values: int) -> bytes:
    length = values - 1
    return bytes((_DELTA | length >> 8, length & 0xFF))


def _signed(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _row_index_entry(positions: Sequence[int], statistics: bytes) -> bytes:
    packed = b"".join(map(varint, positions))
    return bytes_field(1, bytes_field(1, packed) + bytes_field(2, statistics))


def _statistics(first: int, step: int, rows: int) -> bytes:
    """A `ColumnStatistics` message: number of values, bounds, the sum unless it overflows, and that none is null."""
    last = first + step * (rows - 1)
    total = (first + last) * rows // 2
    typed = signed_field(1, first) + signed_field(2, last) + (signed_field(3, total) if total in _INT64 else b"")
    return int_field(1, rows) + bytes_field(2, typed) + int_field(10, 0)
