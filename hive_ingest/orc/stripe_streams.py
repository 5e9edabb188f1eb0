"""Where the streams of a stripe lie in its file, by the stripe's footer (orc_proto.proto of Apache ORC)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hive_ingest.orc.codec import unpack
from hive_ingest.orc.protobuf import WireError, as_bytes, bytes_field, int_field, int_fields, read_varint, scan_fields
from hive_ingest.orc.tail import OrcTail, Stripe

#: ORC's `Stream.Kind`.
PRESENT, DATA = 0, 1
_INDEXES = frozenset({6, 7, 8})
#: Field numbers of `StripeFooter` and of `Stream`.
_STREAM, _ENCODING, _TIME_ZONE = 1, 2, 3
_KIND, _COLUMN, _LENGTH = 1, 2, 3
#: The tags of a `Stream` as writers write it, each before a number that nearly always takes one byte.
_USUAL_TAGS = bytes(number << 3 for number in (_KIND, _COLUMN, _LENGTH))

#: The column of a stream, and its kind.
StreamKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StripeStreams:
    """The streams of data of one stripe: their first byte in the file, and the byte after the last one.

    `encodings` are encoded `ColumnEncoding` messages, one for each column, `time_zone` is that of the writer.
    """

    rows: int
    streams: dict[StreamKey, tuple[int, int]]
    encodings: tuple[bytes, ...]
    time_zone: bytes


def stripe_streams(data: memoryview, tail: OrcTail, stripe: Stripe) -> StripeStreams:
    """Parse the footer of a stripe of a file in memory. Raises WireError."""
    end = stripe.offset + stripe.length
    section = bytes(data[end - stripe.footer_length : end])
    message = unpack(section, tail.postscript.codec, tail.postscript.block_size)
    streams: dict[StreamKey, tuple[int, int]] = {}
    encodings: list[bytes] = []
    time_zone = b""
    at = stripe.offset
    for number, value, _, _ in scan_fields(message):
        if number == _STREAM:
            kind, column, length = _stream(as_bytes(number, value))
            if (column, kind) in streams:
                raise WireError("a column has two streams of one kind")
            if kind not in _INDEXES:
                streams[column, kind] = at, at + length
            at += length
        elif number == _ENCODING:
            encodings.append(as_bytes(number, value))
        elif number == _TIME_ZONE:
            time_zone = as_bytes(number, value)
        else:
            raise WireError(f"a stripe has a field {number} that is not known here")
    if at != stripe.offset + stripe.index_length + stripe.data_length:
        raise WireError("its streams are not as long as the stripe")
    return StripeStreams(stripe.rows, streams, tuple(encodings), time_zone)


def encode_stripe_footer(lengths: Mapping[StreamKey, int], like: StripeStreams) -> bytes:
    """The footer of a stripe with streams of these lengths, in their order."""
    parts = [
        bytes_field(_STREAM, int_field(_KIND, kind) + int_field(_COLUMN, column) + int_field(_LENGTH, length))
        for (column, kind), length in lengths.items()
    ]
    parts += [bytes_field(_ENCODING, encoding) for encoding in like.encodings]
    return b"".join(parts) + (bytes_field(_TIME_ZONE, like.time_zone) if like.time_zone else b"")


def _stream(message: bytes) -> tuple[int, int, int]:
    """Kind, column and length."""
    if message[0:5:2] == _USUAL_TAGS and message[1] < 0x80 and message[3] < 0x80:
        length, end = read_varint(message, 5)
        if end == len(message):
            return message[1], message[3], length
    fields = int_fields(message)
    if fields.keys() - {_KIND, _COLUMN, _LENGTH}:
        raise WireError("a stream has a field that is not known here")
    return fields.get(_KIND, 0), fields.get(_COLUMN, 0), fields.get(_LENGTH, 0)
