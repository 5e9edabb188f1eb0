"""The tail of an ORC file: postscript, footer and stripe statistics (orc_proto.proto of Apache ORC).

    … stripes | stripe statistics | footer | postscript | one byte: the length of the postscript

`hive.acid.*` is user metadata in the footer. pyarrow's writer cannot set it, and no file is patched once it is
written, so `completed_ending` is used while the tail passes by: protobuf messages that follow each
other merge, so one more chunk behind the footer adds items to it, and the postscript counts it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.codec import MAX_BLOCK_SIZE, Codec, store, unpack
from hive_ingest.orc.protobuf import WireError, bytes_field, int_field, read_fields, read_varint
from hive_ingest.storage import io_errors

MAGIC = b"ORC"
#: ORC's `CalendarKind`.
PROLEPTIC_GREGORIAN = 2
_DEFAULT_BLOCK_SIZE = 256 * 1024
_MAX_POSTSCRIPT_BYTES = 255
_FIRST_READ_BYTES = 16 * 1024

ACID_KEY_INDEX = "hive.acid.key.index"
ACID_STATS = "hive.acid.stats"
ACID_VERSION = "hive.acid.version"


@dataclass(frozen=True, slots=True)
class PostScript:
    """Lengths are bytes in the file, before decompression. `rest` is the message without those two lengths."""

    rest: bytes
    size: int
    footer_length: int
    metadata_length: int
    codec: Codec
    block_size: int
    version: tuple[int, ...]
    writer_version: int

    @property
    def tail_length(self) -> int:
        """Bytes from the start of the footer to the end of the file."""
        return self.footer_length + self.size + 1


@dataclass(frozen=True, slots=True)
class Stripe:
    """Where one stripe lies. Lengths and offset are bytes; `extra` are further fields, as they are (encryption)."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int
    extra: bytes = b""

    @property
    def length(self) -> int:
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer's fields; `types` and `statistics` are encoded messages, one for each column.

    `content_length` is the size of header and stripes, in bytes (C++ writers count without the header).
    """

    content_length: int
    stripes: tuple[Stripe, ...]
    types: tuple[bytes, ...]
    user_metadata: Mapping[str, bytes]
    rows: int
    statistics: tuple[bytes, ...]
    row_index_stride: int
    writer: int | None
    calendar: int | None
    has_encryption: bool
    software_version: bytes | None


@dataclass(frozen=True, slots=True)
class OrcTail:
    postscript: PostScript
    footer: Footer


def parse_postscript(ending: bytes, file_size: int, path: str) -> PostScript:
    """From the last bytes of a file (at least 256, or all of it). Raises CorruptFile."""
    try:
        return _postscript(ending, file_size)
    except WireError as error:
        raise _corrupt(path, error) from error


def parse_footer(ending: bytes, postscript: PostScript, file_size: int, path: str) -> Footer:
    """From the last bytes of a file, at least `tail_length` of them. Raises CorruptFile."""
    try:
        footer = _footer(_footer_message(ending, postscript))
        _check_stripes(footer, file_size - postscript.tail_length - postscript.metadata_length)
    except WireError as error:
        raise _corrupt(path, error) from error
    return footer


def parse_stripe_rows(ending: bytes, postscript: PostScript, path: str) -> tuple[int, ...]:
    """Only the rows of each stripe, of a footer whose fields are in order of their numbers (as writers have them)."""
    found = []
    try:
        for field in read_fields(_footer_message(ending, postscript)):
            if field.number == 3:
                found.append(_stripe(field.as_bytes).rows)
            elif field.number > 3:
                break
    except WireError as error:
        raise _corrupt(path, error) from error
    return tuple(found)


def read_tail(source: pa.NativeFile, path: str) -> OrcTail:
    """The tail of an open file; `path` is for messages. Raises CorruptFile, StreamingIOFailure."""
    with io_errors("read", path):
        size = source.size()
        ending = _last_bytes(source, size, _FIRST_READ_BYTES)
        postscript = parse_postscript(ending, size, path)
        if postscript.tail_length > len(ending):
            ending = _last_bytes(source, size, postscript.tail_length)
    return OrcTail(postscript, parse_footer(ending, postscript, size, path))


def read_stripe_statistics(source: pa.NativeFile, tail: OrcTail, path: str) -> bytes:
    """The `Metadata` message: statistics of each column for each stripe; b"" where the writer left them out."""
    postscript = tail.postscript
    with io_errors("read", path):
        source.seek(source.size() - postscript.tail_length - postscript.metadata_length)
        section = source.read(postscript.metadata_length)
    try:
        return unpack(section, postscript.codec, postscript.block_size)
    except WireError as error:
        raise _corrupt(path, error) from error


def completed_ending(postscript: PostScript, items: Mapping[str, bytes]) -> bytes:
    """What stands in place of a file's postscript and last byte, so that its footer has these items too.

    It also says that dates and timestamps count in the proleptic Gregorian calendar, as Arrow does: without that
    Hive 4 takes them for Julian before 1582-10-15 and shows another day (ORC-27).
    """
    fields = _encode_items(items) + int_field(11, PROLEPTIC_GREGORIAN)
    added = store(fields, postscript.codec, postscript.block_size)
    return added + with_lengths(postscript, postscript.footer_length + len(added), postscript.metadata_length)


def encode_footer(footer: Footer) -> bytes:
    """The message, before compression; everything that `Footer` holds except encryption."""
    optional = {9: footer.writer, 11: footer.calendar}
    return b"".join(
        [
            int_field(1, len(MAGIC)),
            int_field(2, footer.content_length),
            *(bytes_field(3, _encode_stripe(stripe)) for stripe in footer.stripes),
            *(bytes_field(4, type_) for type_ in footer.types),
            _encode_items(footer.user_metadata),
            int_field(6, footer.rows),
            *(bytes_field(7, statistics) for statistics in footer.statistics),
            int_field(8, footer.row_index_stride),
            *(int_field(number, value) for number, value in optional.items() if value is not None),
            b"" if footer.software_version is None else bytes_field(12, footer.software_version),
        ]
    )


def with_lengths(postscript: PostScript, footer_length: int, metadata_length: int) -> bytes:
    """The postscript with other lengths, and the last byte of the file."""
    # Lengths in front: Hive looks for the magic bytes at the very end.
    message = int_field(1, footer_length) + int_field(5, metadata_length) + postscript.rest
    return message + bytes([len(message)])


def _encode_items(items: Mapping[str, bytes]) -> bytes:
    return b"".join(bytes_field(5, bytes_field(1, name.encode()) + bytes_field(2, v)) for name, v in items.items())


def _encode_stripe(stripe: Stripe) -> bytes:
    numbers = (stripe.offset, stripe.index_length, stripe.data_length, stripe.footer_length, stripe.rows)
    return b"".join(int_field(i, number) for i, number in enumerate(numbers, 1)) + stripe.extra


def acid_user_metadata(keys: Iterable[tuple[int, int, int]], *, inserts: int, deletes: int = 0) -> dict[str, bytes]:
    """Hive's `OrcRecordUpdater` metadata; `keys` are (write id, bucket property, row id) of each stripe's last row."""
    index = "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in keys)
    return {
        ACID_KEY_INDEX: index.encode(),
        ACID_STATS: f"{inserts},0,{deletes}".encode(),
        ACID_VERSION: b"2",
    }


def _corrupt(path: str, error: WireError) -> CorruptFile:
    return CorruptFile(
        f"{path!r} is no complete ORC file: {error}. If a writer was killed there, abort its transaction; "
        "otherwise restore the file from a copy"
    )


def _last_bytes(source: pa.NativeFile, size: int, count: int) -> bytes:
    source.seek(max(0, size - count))
    data: bytes = source.read(count)
    return data


def _postscript(ending: bytes, file_size: int) -> PostScript:
    length = ending[-1] if ending else 0
    raw = ending[-1 - length : -1]
    if len(raw) != length or not raw:
        raise WireError("it is too short, or empty")
    numbers: dict[int, int] = {}
    version: tuple[int, ...] = ()
    magic = rest = b""
    for field in read_fields(raw):
        if field.number == 4:
            version = _versions(field.value)
        elif field.number == 8000:
            magic = field.as_bytes
        else:
            numbers[field.number] = field.as_int
        if field.number not in (1, 5):
            rest += field.raw
    if magic != MAGIC:
        raise WireError("it does not end like one")
    found = PostScript(
        rest,
        size=length,
        footer_length=numbers.get(1, 0),
        metadata_length=numbers.get(5, 0),
        codec=_codec(numbers.get(2, 0)),
        block_size=numbers.get(3, _DEFAULT_BLOCK_SIZE),
        version=version,
        writer_version=numbers.get(6, 0),
    )
    if found.tail_length + found.metadata_length + len(MAGIC) > file_size:
        raise WireError("its tail is longer than the file")
    if found.codec != Codec.NONE and not 0 < found.block_size <= MAX_BLOCK_SIZE:
        raise WireError(f"a compression block of {found.block_size} bytes is impossible")
    return found


def _versions(value: int | bytes) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(number)
    return tuple(found)


def _codec(kind: int) -> Codec:
    try:
        return Codec(kind)
    except ValueError as error:
        raise WireError(f"compression kind {kind} is unknown") from error


def _footer_message(ending: bytes, postscript: PostScript) -> bytes:
    start = len(ending) - postscript.tail_length
    return unpack(ending[start : start + postscript.footer_length], postscript.codec, postscript.block_size)


def _footer(message: bytes) -> Footer:
    stripes, types, statistics, items, numbers = [], [], [], {}, {}
    encrypted, software_version = False, None
    for field in read_fields(message):
        match field.number:
            case 3:
                stripes.append(_stripe(field.as_bytes))
            case 4:
                types.append(field.as_bytes)
            case 5:
                name, value = _user_metadata_item(field.as_bytes)
                items[name] = value
            case 7:
                statistics.append(field.as_bytes)
            case 10:
                encrypted = True
            case 12:
                software_version = field.as_bytes
            case 1 | 2 | 6 | 8 | 9 | 11:
                numbers[field.number] = field.as_int
    return Footer(
        content_length=numbers.get(2, 0),
        stripes=tuple(stripes),
        types=tuple(types),
        user_metadata=items,
        rows=numbers.get(6, 0),
        statistics=tuple(statistics),
        row_index_stride=numbers.get(8, 0),
        writer=numbers.get(9),
        calendar=numbers.get(11),
        has_encryption=encrypted,
        software_version=software_version,
    )


def _stripe(message: bytes) -> Stripe:
    numbers, extra = [0, 0, 0, 0, 0], b""
    for field in read_fields(message):
        if field.number <= len(numbers):
            numbers[field.number - 1] = field.as_int
        else:
            extra += field.raw
    offset, index_length, data_length, footer_length, rows = numbers
    return Stripe(offset, index_length, data_length, footer_length, rows, extra)


def _user_metadata_item(message: bytes) -> tuple[str, bytes]:
    name, value = "", b""
    for field in read_fields(message):
        if field.number == 1:
            name = field.as_bytes.decode("utf-8", "replace")
        elif field.number == 2:
            value = field.as_bytes
    return name, value


def _check_stripes(footer: Footer, content_end: int) -> None:
    end = 0
    for stripe in footer.stripes:
        if stripe.offset < end or stripe.offset + stripe.length > content_end:
            raise WireError("a stripe lies outside the file's content")
        end = stripe.offset + stripe.length
    if sum(stripe.rows for stripe in footer.stripes) != footer.rows:
        raise WireError("its stripes do not hold the rows that its footer counts")
    if not footer.types:
        raise WireError("its footer names no column")
