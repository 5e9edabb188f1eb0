"""Joins the stripes of small files in memory into one stripe, without decoding their values.

Opening a file takes as long as decoding some thousand rows: the ORC library creates a decompressor for each stream of
each file. Streams of ORC are sequences of compressed chunks, and of runs of values inside them; both are
self-contained. So the streams of one column in several stripes, one after the other, are the stream of that column in
a stripe that has all their rows. Two kinds need more:

- **Bits** (present values, booleans) are padded to a whole byte, so these streams are decoded and written again. That
  requires the number of bits, which is not known below lists and maps: files with such streams there are not joined.
- **Dictionaries** are numbered in each stripe: files with one are not joined.

A stream with one value too many would move all values after it to other rows, without an error. So only files are
joined whose checksums have been verified: their bytes are what our writer wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import pyarrow as pa

from hive_ingest.orc.format.bit_streams import Bits, read_bits, write_bits
from hive_ingest.orc.format.codec import Codec, can_unpack, store, unpack, unpack_all
from hive_ingest.orc.format.columns import OrcKind, column_types
from hive_ingest.orc.format.protobuf import WireError
from hive_ingest.orc.format.stripe_footer import DICTIONARIES, column_encoding
from hive_ingest.orc.format.stripe_streams import (
    DATA,
    PRESENT,
    StreamKey,
    StripeFooter,
    StripeStreams,
    encode_stripe_footer,
    packed_stripe_footer,
    stripe_streams,
)
from hive_ingest.orc.format.tail import MAGIC, OrcTail, Stripe, encode_footer, with_lengths


@dataclass(frozen=True, slots=True)
class JoinableFile:
    """A verified file in memory whose stripes can be joined to those of files with an equal `key`."""

    data: memoryview
    tail: OrcTail
    stripes: tuple[StripeStreams, ...]
    key: tuple[object, ...]


def joinable_files(files: Sequence[tuple[pa.Buffer | None, OrcTail]]) -> list[JoinableFile | None]:
    """The files that can be joined, in order.

    Args:
        files: The bytes of each file and its tail; None for a file that is not in memory, or not verified.

    Returns:
        None for such a file, and where the stripes of a file cannot be joined.
    """
    found: list[JoinableFile | None] = [None] * len(files)
    alike: dict[tuple[Codec, int], list[tuple[int, memoryview, OrcTail]]] = {}
    for number, (data, tail) in enumerate(files):
        if data is not None and can_unpack(tail.postscript.codec):
            packing = tail.postscript.codec, tail.postscript.block_size
            alike.setdefault(packing, []).append((number, memoryview(data), tail))
    for packing, parts in alike.items():
        footers = _stripe_footers([part[1:] for part in parts], *packing)
        for (number, view, tail), messages in zip(parts, footers, strict=True):
            found[number] = _joinable(view, tail, messages)
    return found


def _stripe_footers(
    files: Sequence[tuple[memoryview, OrcTail]], codec: Codec, block_size: int
) -> list[tuple[bytes, ...]]:
    """The footers of each file's stripes, decompressed; nothing if one of them cannot be."""
    packed = [packed_stripe_footer(data, stripe) for data, tail in files for stripe in tail.footer.stripes]
    try:
        messages = iter(unpack_all(packed, codec, block_size))
    except WireError:
        return [()] * len(files)
    return [tuple(islice(messages, len(tail.footer.stripes))) for _, tail in files]


def _joinable(data: memoryview, tail: OrcTail, messages: Sequence[bytes]) -> JoinableFile | None:
    footer = tail.footer
    if footer.has_encryption or any(stripe.extra for stripe in footer.stripes) or not messages:
        return None
    try:
        found = [stripe_streams(message, part) for message, part in zip(messages, footer.stripes, strict=True)]
    except WireError:
        return None
    stripes = tuple(stripe for stripe in found if stripe.rows)
    shapes = {_shape(stripe) for stripe in stripes}
    layout = _layout(footer.types)
    if len(shapes) != 1 or not all(_can_join(layout, stripe) for stripe in stripes):
        return None
    return JoinableFile(data, tail, stripes, (*_traits(tail), *shapes))


def _traits(tail: OrcTail) -> tuple[object, ...]:
    """What the values of a stripe depend on."""
    postscript, footer = tail.postscript, tail.footer
    versions = (postscript.version, postscript.writer_version, footer.writer)
    return footer.types, postscript.codec, postscript.block_size, *versions, footer.calendar


def _shape(stripe: StripeStreams) -> tuple[object, ...]:
    """What must be equal in all stripes. Streams of present values do not count: one without nulls has none."""
    streams = frozenset(key for key in stripe.streams if key[1] != PRESENT)
    return streams, stripe.encodings, stripe.time_zone


# -- columns ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """For each column its parent (-1 for the root) and whether a list, map or union is above it; all booleans."""

    parents: tuple[int, ...]
    is_repeated: tuple[bool, ...]
    booleans: frozenset[int]


@lru_cache(maxsize=64)
def _layout(types: tuple[bytes, ...]) -> _Layout:
    columns = column_types(types)
    parents, repeated = [-1] * len(columns), [False] * len(columns)
    for number, column in enumerate(columns):
        for child in column.children:  # parents come before their children
            parents[child] = number
            repeated[child] = repeated[number] or column.kind != OrcKind.STRUCT
    booleans = (number for number, column in enumerate(columns) if column.kind == OrcKind.BOOLEAN)
    return _Layout(tuple(parents), tuple(repeated), frozenset(booleans))


def _can_join(layout: _Layout, stripe: StripeStreams) -> bool:
    columns = len(layout.parents)
    if len(stripe.encodings) != columns or any(column >= columns for column, _ in stripe.streams):
        return False
    if any(column_encoding(encoding)[0] in DICTIONARIES for encoding in set(stripe.encodings)):
        return False
    return not any(
        layout.is_repeated[column] and (kind == PRESENT or column in layout.booleans) for column, kind in stripe.streams
    )


class _StripeBits:
    """The streams of bits of one stripe."""

    def __init__(self, file: JoinableFile, stripe: StripeStreams) -> None:
        self._file = file
        self._stripe = stripe
        self._layout = _layout(file.tail.footer.types)
        self._present: dict[int, Bits] = {}

    def present(self, column: int) -> Bits:
        """Of each row of the struct that has the column, whether it has a value there."""
        if column not in self._present:
            parent = self._layout.parents[column]
            count = self._values(parent) if parent >= 0 else self._stripe.rows
            self._present[column] = self._read((column, PRESENT), count)
        return self._present[column]

    def booleans(self, column: int) -> Bits:
        return self._read((column, DATA), self._values(column))

    def _values(self, column: int) -> int:
        """How many values a column has that are not null."""
        while column >= 0 and (column, PRESENT) not in self._stripe.streams:
            column = self._layout.parents[column]
        return self._stripe.rows if column < 0 else int(self.present(column).sum())

    def _read(self, key: StreamKey, count: int) -> Bits:
        if key not in self._stripe.streams:
            return np.ones(count, np.uint8)
        start, end = self._stripe.streams[key]
        postscript = self._file.tail.postscript
        return read_bits(unpack(bytes(self._file.data[start:end]), postscript.codec, postscript.block_size), count)


# -- joining ---------------------------------------------------------------------------------------


def join_stripes(files: Sequence[JoinableFile]) -> tuple[pa.Buffer, OrcTail]:
    """A file in memory with all rows of the files in one stripe, without statistics; and its tail.

    Args:
        files: Files with equal keys, in the order of their rows.

    Raises:
        WireError: A stream does not hold what it should.
    """
    return _Join(files).file()


class _Join:
    def __init__(self, files: Sequence[JoinableFile]) -> None:
        self._files = files
        self._tail = files[0].tail
        self._stripes = [(file, stripe) for file in files for stripe in file.stripes]

    def file(self) -> tuple[pa.Buffer, OrcTail]:
        postscript, codec, block_size = self._tail.postscript, *self._packing
        streams = {key: list(parts) for key, parts in self._streams()}
        lengths = {key: sum(map(len, parts)) for key, parts in streams.items()}
        like = self._files[0].stripes[0]
        infos = tuple((kind, column, length) for (column, kind), length in lengths.items())
        message = encode_stripe_footer(StripeFooter(infos, like.encodings, like.time_zone))
        stripe_footer = store(message, codec, block_size)
        rows = sum(stripe.rows for _, stripe in self._stripes)
        stripe = Stripe(len(MAGIC), 0, sum(lengths.values()), len(stripe_footer), rows)
        footer = replace(
            self._tail.footer,
            content_length=stripe.offset + stripe.length,
            stripes=(stripe,),
            user_metadata={},
            rows=rows,
            statistics=(),
            row_index_stride=0,
        )
        encoded_footer = store(encode_footer(footer), codec, block_size)
        ending = encoded_footer + with_lengths(postscript, len(encoded_footer), 0)
        content = b"".join([MAGIC, *(part for parts in streams.values() for part in parts), stripe_footer, ending])
        return pa.py_buffer(content), OrcTail(postscript, footer, ending, None)

    @property
    def _packing(self) -> tuple[Codec, int]:
        return self._tail.postscript.codec, self._tail.postscript.block_size

    @cached_property
    def _bits(self) -> list[_StripeBits]:
        return [_StripeBits(file, stripe) for file, stripe in self._stripes]

    def _streams(self) -> Iterator[tuple[StreamKey, Iterable[bytes | memoryview]]]:
        """Each stream of the joined stripe, in parts."""
        with_nulls = sorted(
            {column for _, stripe in self._stripes for column, kind in stripe.streams if kind == PRESENT}
        )
        for column in with_nulls:
            yield (column, PRESENT), [self._written([bits.present(column) for bits in self._bits])]
        booleans = _layout(self._tail.footer.types).booleans
        for key in self._files[0].stripes[0].streams:
            column, kind = key
            if kind == DATA and column in booleans:
                yield key, [self._written([bits.booleans(column) for bits in self._bits])]
            elif kind != PRESENT:
                yield key, [file.data[slice(*stripe.streams[key])] for file, stripe in self._stripes]

    def _written(self, parts: list[Bits]) -> bytes:
        return store(write_bits(np.concatenate(parts)), *self._packing)
