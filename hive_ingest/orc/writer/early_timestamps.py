"""Timestamps before 1970 with a fraction of a second, encoded without the ORC library.

In a file, a timestamp is a number of seconds since 2015 and a number of nanoseconds, which is never negative. Before
1970, Java's writer rounds the seconds up if the nanoseconds are a millisecond or more, otherwise down, and all readers
reverse that. pyarrow always rounds up and passes negative nanoseconds to the library, which writes them. pyarrow reads
such a file; in Hive the query fails. So the streams of these columns are encoded here once more: the values come from
pyarrow, which reads what it wrote.

The last second before 1970 cannot be held, except for its first millisecond: rounded up, its seconds are 0, which
are not before 1970. Hive's own files have 1970-01-01 00:00:00.5 for 1969-12-31 23:59:59.5 (see `normalise`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.types as pat

from hive_ingest.arrow_arrays import numbers_of
from hive_ingest.errors import CorruptFile
from hive_ingest.orc.format.codec import Codec, pack, packed_chunks, unpack
from hive_ingest.orc.format.column_statistics import with_timestamp_bounds
from hive_ingest.orc.format.columns import ColumnType, OrcKind, column_types
from hive_ingest.orc.format.integer_runs import write_integers
from hive_ingest.orc.format.protobuf import WireError, bytes_field, packed_varints, read_fields, varint
from hive_ingest.orc.format.stripe_statistics import stripe_statistics
from hive_ingest.orc.format.stripe_streams import (
    DATA,
    INDEXES,
    ROW_INDEX,
    SECONDARY,
    StripeFooter,
    encode_stripe_footer,
    packed_stripe_footer,
    parse_stripe_footer,
)
from hive_ingest.orc.format.tail import MAGIC, OrcTail, Stripe, encode_footer, read_tail, with_lengths
from hive_ingest.orc.writer.small_stripes import Stream

#: Values of one column in each group of rows that has an entry in the row index; nanoseconds since 1970.
Values = list[npt.NDArray[np.int64]]

_SECOND: Final = 10**9
_MILLISECOND: Final = 10**6
_2015: Final = 1_420_070_400
#: Zeros at the end of the nanoseconds that are not written, but counted.
_FEWEST_ZEROS, _MOST_ZEROS = 2, 8
#: Field numbers of `RowIndex` and of `RowIndexEntry`.
_ENTRY, _POSITIONS, _STATISTICS = 1, 1, 2


def with_early_timestamps(content: pa.Buffer, path: str) -> pa.Buffer:
    """A file as pyarrow wrote it, with its timestamps in the form that all readers expect.

    Args:
        content: The file.
        path: For messages.

    Raises:
        CorruptFile: A part of the file is not as expected.
    """
    tail = read_tail(pa.BufferReader(content), path)
    statistics = stripe_statistics(pa.BufferReader(content), tail, path)
    try:
        return _rewritten(content, tail, statistics or [])
    except (WireError, ValueError) as error:
        raise CorruptFile(
            f"the ORC library wrote timestamps of {path!r} in a way that is not understood ({error}): use another "
            "release of pyarrow"
        ) from error


def _rewritten(content: pa.Buffer, tail: OrcTail, statistics: list[bytes]) -> pa.Buffer:
    reader = orc.ORCFile(pa.BufferReader(content))
    parts: list[bytes | memoryview] = [MAGIC]
    stripes: list[Stripe] = []
    messages: list[bytes] = []
    of_file: dict[int, Values] = {}
    at = len(MAGIC)
    for number, (stripe, message) in enumerate(zip(tail.footer.stripes, statistics, strict=True)):
        groups = _row_groups(reader.read_stripe(number), tail.footer.row_index_stride)
        values = _timestamps(groups, column_types(tail.footer.types))
        written, lengths = _StripeEncoding(tail, values).encoded(memoryview(content), stripe)
        parts += written
        stripes.append(Stripe(at, *lengths, stripe.rows))
        at += stripes[-1].length
        messages.append(b"".join(bytes_field(1, column) for column in _columns_with_bounds(_columns(message), values)))
        for column, found in values.items():
            of_file.setdefault(column, []).extend(found)
    postscript = tail.postscript
    footer = replace(
        tail.footer,
        content_length=at,
        stripes=tuple(stripes),
        statistics=tuple(_columns_with_bounds(tail.footer.statistics, of_file)),
    )
    section, packed = (
        pack(message, postscript.codec, postscript.block_size)
        for message in (b"".join(bytes_field(1, message) for message in messages), encode_footer(footer))
    )
    parts += [section, packed, with_lengths(postscript, len(packed), len(section))]
    return pa.py_buffer(b"".join(parts))


# -- values ----------------------------------------------------------------------------------------


def _row_groups(rows: pa.RecordBatch, stride: int) -> list[pa.StructArray]:
    array = rows.to_struct_array()
    return [array.slice(start, stride) for start in range(0, len(array), stride)]


def _timestamps(groups: list[pa.StructArray], types: tuple[ColumnType, ...]) -> dict[int, Values]:
    """The timestamps that are not null, by column."""
    found: dict[int, Values] = {}
    for group in groups:
        for column, array in _leaves(group, 0, types):
            found.setdefault(column, []).append(numbers_of(array.drop_null().cast(pa.timestamp("ns")), np.int64))
    return found


def _leaves(array: pa.Array, number: int, types: tuple[ColumnType, ...]) -> Iterator[tuple[int, pa.Array]]:
    """The columns of timestamps at and below a column, with a value for each one that is in the file."""
    type_ = types[number]
    if type_.kind == OrcKind.TIMESTAMP:
        yield number, array
    for child, values in zip(type_.children, _children(array), strict=True):
        yield from _leaves(values, child, types)


def _children(array: pa.Array) -> list[pa.Array]:
    if pat.is_struct(array.type):
        children: list[pa.Array] = array.flatten()
        return children
    if pat.is_map(array.type):
        entries = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
        return _children(entries.flatten())
    return [array.flatten()] if pat.is_list(array.type) else []


# -- streams ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _StripeEncoding:
    """A stripe whose timestamps are replaced. `values` are these, by column."""

    tail: OrcTail
    values: dict[int, Values]

    def encoded(self, data: memoryview, stripe: Stripe) -> tuple[list[bytes | memoryview], tuple[int, int, int]]:
        """Its bytes, and the lengths of its indexes, data and footer."""
        footer = parse_stripe_footer(self._unpacked(packed_stripe_footer(data, stripe)))
        replaced = {column: self._column(values) for column, values in self.values.items()}
        streams: list[Stream] = []
        at = stripe.offset
        for kind, column, length in footer.streams:
            content: bytes | memoryview = data[at : at + length]
            at += length
            if column in replaced and kind == ROW_INDEX:
                content = self._row_index(bytes(content), column, replaced[column])
            elif column in replaced and kind in (DATA, SECONDARY):
                content = replaced[column][kind].content
            streams.append((kind, column, content))
        listed = tuple((kind, column, len(content)) for kind, column, content in streams)
        packed = self._packed(encode_stripe_footer(StripeFooter(listed, footer.encodings, footer.time_zone)))
        index_length = sum(length for kind, _, length in listed if kind in INDEXES)
        data_length = sum(length for kind, _, length in listed if kind not in INDEXES)
        return [*(content for _, _, content in streams), packed], (index_length, data_length, len(packed))

    def _column(self, values: Values) -> dict[int, _NumberStream]:
        halves = [_halves(group) for group in values]
        return {
            DATA: self._stream([seconds for seconds, _ in halves], signed=True),
            SECONDARY: self._stream([nanoseconds for _, nanoseconds in halves], signed=False),
        }

    def _stream(self, groups: Values, *, signed: bool) -> _NumberStream:
        content, starts = write_integers(groups, signed=signed)
        codec, block_size = self.tail.postscript.codec, self.tail.postscript.block_size
        if codec == Codec.NONE:
            return _NumberStream(content, tuple((start, 0) for start in starts))
        chunks = packed_chunks(content, codec, block_size)
        ends = list(accumulate(map(len, chunks), initial=0))
        positions = tuple((ends[start // block_size], start % block_size, 0) for start in starts)
        return _NumberStream(b"".join(chunks), positions)

    def _row_index(self, content: bytes, column: int, streams: dict[int, _NumberStream]) -> bytes:
        """A `RowIndex` whose entries have the positions and bounds of the streams."""
        entries = [field.as_bytes for field in read_fields(self._unpacked(content)) if field.number == _ENTRY]
        groups = zip(entries, self.values[column], streams[DATA].positions, streams[SECONDARY].positions, strict=True)
        message = b"".join(bytes_field(_ENTRY, _entry(*group)) for group in groups)
        return self._packed(message)

    def _unpacked(self, content: bytes) -> bytes:
        return unpack(content, self.tail.postscript.codec, self.tail.postscript.block_size)

    def _packed(self, message: bytes) -> bytes:
        return pack(message, self.tail.postscript.codec, self.tail.postscript.block_size)


@dataclass(frozen=True, slots=True)
class _NumberStream:
    """A stream as it is in the file, and the position in it of each entry of the row index."""

    content: bytes
    positions: tuple[tuple[int, ...], ...]


def _halves(values: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers of both streams."""
    seconds, nanoseconds = np.divmod(values, _SECOND)
    seconds += (seconds < 0) & (nanoseconds >= _MILLISECOND)
    zeros = np.zeros_like(nanoseconds)
    for power in range(_FEWEST_ZEROS, _MOST_ZEROS + 1):
        zeros[nanoseconds % 10**power == 0] = power
    zeros[nanoseconds == 0] = 0
    return seconds - _2015, nanoseconds // 10**zeros << 3 | np.maximum(zeros - 1, 0)


def _entry(
    entry: bytes, values: npt.NDArray[np.int64], seconds: tuple[int, ...], nanoseconds: tuple[int, ...]
) -> bytes:
    """A `RowIndexEntry`: the positions of both streams are the last ones, after that of the null flags."""
    positions: list[int] = []
    statistics = b""
    for field in read_fields(entry):
        if field.number == _POSITIONS:
            positions += packed_varints(field.value)
        elif field.number == _STATISTICS:
            statistics = field.as_bytes
    kept = len(positions) - len(seconds) - len(nanoseconds)
    if kept < 0:
        raise WireError("a row index lacks positions")
    packed = b"".join(map(varint, [*positions[:kept], *seconds, *nanoseconds]))
    return bytes_field(_POSITIONS, packed) + bytes_field(_STATISTICS, _with_bounds(statistics, [values]))


# -- statistics ------------------------------------------------------------------------------------


def _columns(message: bytes) -> list[bytes]:
    """The columns of a `StripeStatistics` message."""
    return [field.as_bytes for field in read_fields(message)]


def _columns_with_bounds(columns: Sequence[bytes], values: dict[int, Values]) -> list[bytes]:
    return [
        _with_bounds(column, values[number]) if number in values else column for number, column in enumerate(columns)
    ]


def _with_bounds(statistics: bytes, groups: Values) -> bytes:
    filled = [group for group in groups if len(group)]
    if not filled:
        return statistics
    return with_timestamp_bounds(
        statistics, min(int(group.min()) for group in filled), max(int(group.max()) for group in filled)
    )
