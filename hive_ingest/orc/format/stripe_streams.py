"""The footer of a stripe, and the positions of its streams in the file (orc_proto.proto of Apache ORC)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hive_ingest.orc.format.protobuf import (
    WireError,
    as_bytes,
    bytes_field,
    int_field,
    int_fields,
    read_varint,
    scan_fields,
)
from hive_ingest.orc.format.tail import Stripe

#: ORC's `Stream.Kind`.
PRESENT, DATA, SECONDARY, ROW_INDEX = 0, 1, 5, 6
INDEXES = frozenset({6, 7, 8})
#: Field numbers of `StripeFooter` and of `Stream`.
_STREAM, _ENCODING, _TIME_ZONE = 1, 2, 3
_KIND, _COLUMN, _LENGTH = 1, 2, 3
#: Fields 1 to 3 of a `Stream` as writers write it, kind and column in a byte each.
_USUAL_STREAM = rb"\n(.)\x08([\x00-\x7f])\x10([\x00-\x7f])\x18([\x80-\xff]{0,8}[\x00-\x7f])"
_USUAL_STREAMS = re.compile(_USUAL_STREAM, re.DOTALL)
_SEVERAL_USUAL_STREAMS = re.compile(rb"(?:%b)*" % _USUAL_STREAM, re.DOTALL)

#: The column of a stream, and its kind.
StreamKey = tuple[int, int]
#: Kind, column and length in bytes of a stream.
StreamInfo = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """A `StripeFooter` message.

    `streams` are in the order of their bytes. `encodings` are encoded `ColumnEncoding` messages, one for each column,
    `time_zone` is that of the writer.
    """

    streams: tuple[StreamInfo, ...]
    encodings: tuple[bytes, ...]
    time_zone: bytes


@dataclass(frozen=True, slots=True)
class StripeStreams:
    """The streams of data of one stripe: their first byte in the file, and the byte after the last one.

    `encodings` are encoded `ColumnEncoding` messages, one for each column, `time_zone` is that of the writer.
    """

    rows: int
    streams: dict[StreamKey, tuple[int, int]]
    encodings: tuple[bytes, ...]
    time_zone: bytes


def packed_stripe_footer(data: memoryview, stripe: Stripe) -> bytes:
    """The footer of a stripe of a file in memory, still compressed."""
    end = stripe.offset + stripe.length
    return bytes(data[end - stripe.footer_length : end])


def parse_stripe_footer(message: bytes) -> StripeFooter:
    """Parse the footer of a stripe, after decompression. Raises WireError."""
    streams, rest = _usual_streams(message)
    encodings: list[bytes] = []
    time_zone = b""
    for number, value, _, _ in _fields(rest):
        if number == _STREAM:
            streams.append(_stream(as_bytes(number, value)))
        elif number == _ENCODING:
            encodings.append(as_bytes(number, value))
        elif number == _TIME_ZONE:
            time_zone = as_bytes(number, value)
        else:
            raise WireError(f"a stripe has a field {number} that is not known here")
    return StripeFooter(tuple(streams), tuple(encodings), time_zone)


def stripe_streams(message: bytes, stripe: Stripe) -> StripeStreams:
    """The streams of data that the footer of a stripe, after decompression, describes. Raises WireError."""
    footer = parse_stripe_footer(message)
    streams: dict[StreamKey, tuple[int, int]] = {}
    at = stripe.offset
    for kind, column, length in footer.streams:
        if kind not in INDEXES:
            streams[column, kind] = at, at + length
        at += length
    if at != stripe.offset + stripe.index_length + stripe.data_length:
        raise WireError("its streams are not as long as the stripe")
    if len(streams) != sum(kind not in INDEXES for kind, _, _ in footer.streams):
        raise WireError("a column has two streams of one kind")
    return StripeStreams(stripe.rows, streams, footer.encodings, footer.time_zone)


def _usual_streams(message: bytes) -> tuple[list[StreamInfo], bytes]:
    """The first streams, if they are written as usual, and what comes after them.

    A stripe has tens of streams: parsing each as a message of its own takes three times as long.
    """
    found: list[StreamInfo] = []
    several = _SEVERAL_USUAL_STREAMS.match(message)
    end = several.end() if several else 0
    for size, kind, column, length in _USUAL_STREAMS.findall(message, 0, end):
        if size[0] != 5 + len(length):
            return [], message
        found.append((kind[0], column[0], length[0] if len(length) == 1 else read_varint(length, 0)[0]))
    return found, message[end:]


@lru_cache(maxsize=1024)  # what follows the streams is the same in most stripes of a table
def _fields(message: bytes) -> list[tuple[int, int | bytes, int, int]]:
    return scan_fields(message)


def encode_stripe_footer(footer: StripeFooter) -> bytes:
    """Encode the message, uncompressed."""
    parts = [_encoded_stream(*stream) for stream in footer.streams]
    return b"".join([*parts, _after_streams(footer.encodings, footer.time_zone)])


@lru_cache(maxsize=16384)  # of small stripes, many columns have streams of one length
def _encoded_stream(kind: int, column: int, length: int) -> bytes:
    return bytes_field(_STREAM, int_field(_KIND, kind) + int_field(_COLUMN, column) + int_field(_LENGTH, length))


@lru_cache(maxsize=1024)  # the same in most stripes of a table
def _after_streams(encodings: tuple[bytes, ...], time_zone: bytes) -> bytes:
    found = b"".join(bytes_field(_ENCODING, encoding) for encoding in encodings)
    return found + (bytes_field(_TIME_ZONE, time_zone) if time_zone else b"")


def _stream(message: bytes) -> StreamInfo:
    """Kind, column and length."""
    fields = int_fields(message)
    if fields.keys() - {_KIND, _COLUMN, _LENGTH}:
        raise WireError("a stream has a field that is not known here")
    return fields.get(_KIND, 0), fields.get(_COLUMN, 0), fields.get(_LENGTH, 0)
