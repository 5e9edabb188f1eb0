"""The tail of an ORC file: postscript, footer and stripe statistics (orc_proto.proto of Apache ORC).

    … stripes | stripe statistics | footer | postscript | one byte: the length of the postscript

`hive.acid.*` and our checksums are user metadata in the footer. pyarrow's writer cannot set it, and no file is
changed once it is written, so `completed_tail` adds it while the tail is being written: concatenated protobuf messages
merge, so further chunks after the footer add items to it, and the postscript counts them in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.format.checksums import (
    CHECKSUM_BYTES,
    CONTENT_CHECKSUMS,
    EMPTY_CHECKSUM_ITEM,
    ContentChecksums,
    has_valid_checksum,
    sealed_tail,
)
from hive_ingest.orc.format.codec import MAX_BLOCK_SIZE, Codec, store, unpack
from hive_ingest.orc.format.protobuf import (
    WireError,
    as_bytes,
    bytes_field,
    int_field,
    packed_varints,
    read_fields,
    scan_fields,
)
from hive_ingest.storage import io_errors

MAGIC = b"ORC"
#: ORC's `CalendarKind`.
PROLEPTIC_GREGORIAN = 2
_DEFAULT_BLOCK_SIZE = 256 * 1024
_MAX_POSTSCRIPT_BYTES = 255
_FIRST_READ_BYTES = 16 * 1024
#: A short item of user metadata as writers write it, each part after its length.
_USUAL_ITEM = re.compile(rb"\n([\x00-\x7f])([^\x12]*)\x12([\x00-\x7f])(.*)", re.DOTALL)
#: Fields of `Footer` by their kind. Others are ignored.
_FOOTER_MESSAGES, _FOOTER_NUMBERS = frozenset({3, 4, 5, 7, 10, 12}), frozenset({1, 2, 6, 8, 9, 11})


@dataclass(frozen=True, slots=True)
class PostScript:
    """The postscript. Lengths are compressed sizes in bytes. `rest` is the message without those two lengths."""

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
    """The position of one stripe. Lengths and offset are bytes; `extra` are other fields, encoded (encryption)."""

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
    """A file's tail. `encoded` are its bytes from the footer to the end, `checksums` those of the content."""

    postscript: PostScript
    footer: Footer
    encoded: bytes
    checksums: ContentChecksums | None


def parse_postscript(ending: bytes, file_size: int, path: str) -> PostScript:
    """Parse from the last bytes of a file (at least 256, or all of it). Raises CorruptFile."""
    try:
        return _postscript(ending, file_size)
    except WireError as error:
        raise _corrupt(path, error) from error


def parse_footer(ending: bytes, postscript: PostScript, file_size: int, path: str) -> Footer:
    """Parse from the last bytes of a file, at least `tail_length` of them. Raises CorruptFile."""
    try:
        footer = _footer(_footer_message(ending, postscript))
        _check_stripes(footer, file_size - postscript.tail_length - postscript.metadata_length)
    except WireError as error:
        raise _corrupt(path, error) from error
    return footer


def parse_stripe_rows(ending: bytes, postscript: PostScript, path: str) -> tuple[int, ...]:
    """Parse only the rows of each stripe, from a footer whose fields are in the order of their numbers."""
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
    """Read the tail of an open file, verified if the file has checksums. `path` is for messages.

    Raises CorruptFile, StreamingIOFailure.
    """
    with io_errors("read", path):
        size = source.size()
        ending = _last_bytes(source, size, _FIRST_READ_BYTES)
        postscript = parse_postscript(ending, size, path)
        if postscript.tail_length > len(ending):
            ending = _last_bytes(source, size, postscript.tail_length)
    encoded = ending[-postscript.tail_length :]
    is_valid = has_valid_checksum(encoded, postscript.size + 1)
    if is_valid is False:
        raise CorruptFile(f"{path!r} is damaged: the checksum of its tail is wrong. Restore the file from a copy")
    footer = parse_footer(encoded, postscript, size, path)
    checksums = _content_checksums(footer, size - len(encoded), path) if is_valid else None
    return OrcTail(postscript, footer, encoded, checksums)


def _content_checksums(footer: Footer, content_bytes: int, path: str) -> ContentChecksums | None:
    value = footer.user_metadata.get(CONTENT_CHECKSUMS)
    try:
        return None if value is None else ContentChecksums.decode(value, content_bytes)
    except WireError as error:
        raise _corrupt(path, error) from error


def read_stripe_statistics(source: pa.NativeFile, tail: OrcTail, path: str) -> bytes:
    """The `Metadata` message: statistics of each column for each stripe; b"" if the file has none."""
    postscript = tail.postscript
    with io_errors("read", path):
        source.seek(source.size() - postscript.tail_length - postscript.metadata_length)
        section = source.read(postscript.metadata_length)
    try:
        return unpack(section, postscript.codec, postscript.block_size)
    except WireError as error:
        raise _corrupt(path, error) from error


def completed_tail(
    footer: bytes,
    postscript: PostScript,
    *,
    metadata_length: int,
    checksums: ContentChecksums,
    items: Mapping[str, bytes],
    calendar: int | None = PROLEPTIC_GREGORIAN,
) -> bytes:
    """A tail with more user metadata, with checksums, and with a calendar.

    pyarrow's writer omits the calendar, although its dates and timestamps use the proleptic Gregorian one.
    Without it Hive 4 takes them for Julian before 1582-10-15 and shows another day (ORC-27).

    Args:
        footer: The encoded footer.
        postscript: The postscript of the footer. Its lengths are replaced.
        metadata_length: The length of the stripe statistics before the footer.
        checksums: The checksums of all bytes before the footer.
        items: The user metadata to add.
        calendar: ORC's `CalendarKind`.
    """
    added = _encode_items({**items, CONTENT_CHECKSUMS: checksums.encode()})
    added += b"" if calendar is None else int_field(11, calendar)
    # The last item is a separate chunk: no chunk header may split it.
    for part in (added, EMPTY_CHECKSUM_ITEM):
        footer += store(part, postscript.codec, postscript.block_size)
    ending = with_lengths(postscript, len(footer), metadata_length)
    return sealed_tail(footer[:-CHECKSUM_BYTES], ending)


def encode_footer(footer: Footer) -> bytes:
    """Encode the message, uncompressed, without encryption."""
    optional = {9: footer.writer, 11: footer.calendar}
    return b"".join(
        [
            int_field(1, len(MAGIC)),
            int_field(2, footer.content_length),
            *(bytes_field(3, _encode_stripe(stripe)) for stripe in footer.stripes),
            _encode_types(footer.types),
            _encode_items(footer.user_metadata),
            int_field(6, footer.rows),
            *(bytes_field(7, statistics) for statistics in footer.statistics),
            int_field(8, footer.row_index_stride),
            *(int_field(number, value) for number, value in optional.items() if value is not None),
            b"" if footer.software_version is None else bytes_field(12, footer.software_version),
        ]
    )


def with_lengths(postscript: PostScript, footer_length: int, metadata_length: int) -> bytes:
    """The postscript with new lengths, and the last byte of the file."""
    # The lengths come first: Hive looks for the magic bytes at the very end.
    message = int_field(1, footer_length) + int_field(5, metadata_length) + postscript.rest
    return message + bytes([len(message)])


@lru_cache(maxsize=128)  # the same in all files of a table
def _encode_types(types: tuple[bytes, ...]) -> bytes:
    return b"".join(bytes_field(4, type_) for type_ in types)


def _encode_items(items: Mapping[str, bytes]) -> bytes:
    return b"".join(bytes_field(5, bytes_field(1, name.encode()) + bytes_field(2, v)) for name, v in items.items())


def _encode_stripe(stripe: Stripe) -> bytes:
    numbers = (stripe.offset, stripe.index_length, stripe.data_length, stripe.footer_length, stripe.rows)
    return b"".join(int_field(i, number) for i, number in enumerate(numbers, 1)) + stripe.extra


def _corrupt(path: str, error: WireError) -> CorruptFile:
    return CorruptFile(
        f"{path!r} is not a complete ORC file: {error}. If a writer was killed there, abort its transaction; "
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
    for number, value, start, end in scan_fields(raw):
        if number == 4:
            version = tuple(packed_varints(value))
        elif number == 8000:
            magic = as_bytes(number, value)
        elif isinstance(value, int):
            numbers[number] = value
        else:
            raise WireError(f"field {number} is not a number")
        if number not in (1, 5):
            rest += raw[start:end]
    if magic != MAGIC:
        raise WireError("it does not end with a postscript")
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
    for number, value, _, _ in scan_fields(message):
        if isinstance(value, int):
            if number in _FOOTER_MESSAGES:
                raise WireError(f"field {number} is not a message or text")
            numbers[number] = value
        elif number == 7:
            statistics.append(value)
        elif number == 4:
            types.append(value)
        elif number == 5:
            name, content = _user_metadata_item(value)
            items[name] = content
        elif number == 3:
            stripes.append(_stripe(value))
        elif number == 10:
            encrypted = True
        elif number == 12:
            software_version = value
        elif number in _FOOTER_NUMBERS:
            raise WireError(f"field {number} is not a number")
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
    for number, value, start, end in scan_fields(message):
        if number not in range(1, len(numbers) + 1):
            extra += message[start:end]
        elif isinstance(value, int):
            numbers[number - 1] = value
        else:
            raise WireError(f"field {number} is not a number")
    offset, index_length, data_length, footer_length, rows = numbers
    return Stripe(offset, index_length, data_length, footer_length, rows, extra)


def _user_metadata_item(message: bytes) -> tuple[str, bytes]:
    usual = _USUAL_ITEM.fullmatch(message)
    if usual and (usual[1][0], usual[3][0]) == (len(usual[2]), len(usual[4])):
        return usual[2].decode("utf-8", "replace"), usual[4]
    name, content = "", b""
    for number, value, _, _ in scan_fields(message):
        if number == 1:
            name = as_bytes(number, value).decode("utf-8", "replace")
        elif number == 2:
            content = as_bytes(number, value)
    return name, content


def _check_stripes(footer: Footer, content_end: int) -> None:
    end = 0
    for stripe in footer.stripes:
        if stripe.offset < end or stripe.offset + stripe.length > content_end:
            raise WireError("a stripe lies outside the file's content")
        end = stripe.offset + stripe.length
    if sum(stripe.rows for stripe in footer.stripes) != footer.rows:
        raise WireError("its stripes do not hold the rows that its footer counts")
    if not footer.types:
        raise WireError("its footer has no columns")
