"""Checksums of our ORC files, which the format itself lacks.

A damaged file can make the ORC library return wrong rows, crash the process, or allocate all memory. So each file
that is written here carries the CRC-32 of its content, in segments of 256 KiB, and of its tail, in the footer's user
metadata, which other readers ignore. Bytes are verified before they reach the ORC library, but only those that
it requests: reading one column of many does not read the others.

The item with the tail's checksum is the last one of the footer, so its position is known. That also
shows whether the checksums belong to the file: a tool that copies user metadata into another file does not put it
there, and a file without it counts as one without checksums.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import pyarrow as pa

from hive_ingest.errors import CorruptFile
from hive_ingest.orc.format.protobuf import WireError, bytes_field
from hive_ingest.storage import BytesLike, OutputFile, io_errors

CONTENT_CHECKSUMS = "hive_ingest.crc32.content"
TAIL_CHECKSUM = "hive_ingest.crc32.tail"
CHECKSUM_ITEMS = frozenset({CONTENT_CHECKSUMS, TAIL_CHECKSUM})

SEGMENT_BYTES = 256 * 1024
CHECKSUM_BYTES = 4
_CRC = struct.Struct("<I")
#: Files up to this size are read and verified as a whole.
_SMALL_FILE_BYTES = 1024 * 1024
_CACHED_SEGMENTS = 8
#: Bytes that are held until a file is written: each call takes as long as to write some 10 KiB.
_HELD_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ContentChecksums:
    """CRC-32 of each segment of a file's content, that is, of all bytes before its footer."""

    segment_bytes: int
    crcs: tuple[int, ...]

    def encode(self) -> bytes:
        return struct.pack(f"<{1 + len(self.crcs)}I", self.segment_bytes, *self.crcs)

    @classmethod
    def decode(cls, value: bytes, content_bytes: int) -> ContentChecksums:
        """Raises WireError for a value that does not fit the file."""
        count, rest = divmod(len(value), CHECKSUM_BYTES)
        if rest or not count:
            raise WireError("its checksums are cut off")
        segment_bytes, *crcs = struct.unpack(f"<{count}I", value)
        if not segment_bytes or len(crcs) != -(-content_bytes // segment_bytes):
            raise WireError("its checksums are of another size than its content")
        return cls(segment_bytes, tuple(crcs))

    def matches(self, segment: int, data: BytesLike) -> bool:
        return zlib.crc32(data) == self.crcs[segment]


class ChecksumBuilder:
    """Computes the checksums of a file's content while it is written."""

    def __init__(self) -> None:
        self._finished: list[int] = []
        self._crc = 0
        self._free = SEGMENT_BYTES

    def update(self, data: BytesLike) -> None:
        rest = memoryview(data)
        while len(rest) >= self._free:
            self._finished.append(zlib.crc32(rest[: self._free], self._crc))
            rest, self._crc, self._free = rest[self._free :], 0, SEGMENT_BYTES
        self._crc = zlib.crc32(rest, self._crc)
        self._free -= len(rest)

    def finish(self) -> ContentChecksums:
        unfinished = [self._crc] if self._free < SEGMENT_BYTES else []
        return ContentChecksums(SEGMENT_BYTES, (*self._finished, *unfinished))


class ChecksummedOutput:
    """Writes to a file and computes the checksums of its content. A small file is written at once, by `end`."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._builder = ChecksumBuilder()
        self._held: list[BytesLike] = []
        self._held_bytes = 0

    def write(self, data: BytesLike) -> None:
        """Append content, which must not be changed afterwards. Raises StreamingIOFailure."""
        self._builder.update(data)
        self._held.append(data)
        self._held_bytes += memoryview(data).nbytes
        if self._held_bytes >= _HELD_BYTES:
            self._pass_on()

    def end(self, tail: bytes) -> None:
        """Append what has no checksum, and write all that is held. Raises StreamingIOFailure."""
        self._held.append(tail)
        self._pass_on()

    def _pass_on(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        self._output.write_all(held)

    def tell(self) -> int:
        """Bytes of content so far."""
        return self._output.tell() + self._held_bytes

    def checksums(self) -> ContentChecksums:
        return self._builder.finish()


# -- the tail --------------------------------------------------------------------------------------


#: The last item of a footer, as an encoded field of it: its last four bytes are the checksum, here 0.
EMPTY_CHECKSUM_ITEM = bytes_field(5, bytes_field(1, TAIL_CHECKSUM.encode()) + bytes_field(2, _CRC.pack(0)))
_ITEM_START = EMPTY_CHECKSUM_ITEM[:-CHECKSUM_BYTES]


def sealed_tail(footer: bytes, ending: bytes) -> bytes:
    """A file's tail with its checksum.

    Args:
        footer: The footer in the file, up to the checksum; `EMPTY_CHECKSUM_ITEM` is its end.
        ending: The postscript and its length.
    """
    return footer + _CRC.pack(zlib.crc32(ending, zlib.crc32(footer))) + ending


def has_valid_checksum(tail: bytes, ending_bytes: int) -> bool | None:
    """Whether the checksum of a tail is right; None for a tail without a checksum.

    Args:
        tail: From the start of the footer to the end of the file.
        ending_bytes: The length of the postscript and its length byte, at the end of `tail`.
    """
    end = len(tail) - ending_bytes
    start = end - CHECKSUM_BYTES
    if start < 0 or not tail[:start].endswith(_ITEM_START):
        return None
    (crc,) = _CRC.unpack(tail[start:end])
    return bool(crc == zlib.crc32(tail[end:], zlib.crc32(tail[:start])))


# -- reading ---------------------------------------------------------------------------------------


class VerifiedFile:
    """A file for pyarrow, by `pa.PythonFile`, that returns verified bytes only.

    An error reaches the caller through ORC's C++ code only as a text, so it is also kept in `failure`.
    """

    closed = False

    def __init__(self, source: pa.NativeFile, checksums: ContentChecksums, tail: bytes, path: str) -> None:
        """
        Args:
            source: The file. It stays open.
            checksums: The checksums of all bytes before `tail`.
            tail: The end of the file, verified already.
            path: For messages.
        """
        self.failure: Exception | None = None
        self._source = source
        self._checksums = checksums
        self._tail = memoryview(tail)
        self._path = path
        self._content_bytes = source.size() - len(tail)
        self._position = 0
        self._cache: dict[int, memoryview] = {}

    def read(self, count: int = -1) -> bytes | memoryview:
        end = self._content_bytes + len(self._tail)
        if count >= 0:
            end = min(end, self._position + count)
        parts = []
        try:
            while self._position < end:
                parts.append(self._part(end - self._position))
                self._position += len(parts[-1])
        except Exception as error:
            self.failure = error
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, count: int) -> memoryview:
        """Read from a position, at most to the end of its segment."""
        if self._position >= self._content_bytes:
            start = self._position - self._content_bytes
            return self._tail[start : start + count]
        segment, start = divmod(self._position, self._checksums.segment_bytes)
        data = self._cache.get(segment)
        if data is None:
            data = self._verified(segment)
        return data[start : start + count]

    def _verified(self, segment: int) -> memoryview:
        data = read_segment(self._source, self._checksums, segment, self._content_bytes, self._path)
        if len(self._cache) == _CACHED_SEGMENTS:
            self._cache.pop(next(iter(self._cache)))
        self._cache[segment] = found = memoryview(data).cast("B")
        return found

    # The methods that pyarrow calls on a Python file.

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self._position, self._content_bytes + len(self._tail))[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        """Does nothing: nothing is written."""

    def close(self) -> None:
        """Does nothing: the caller owns the source."""


def read_segment(
    source: pa.NativeFile, checksums: ContentChecksums, segment: int, content_bytes: int, path: str
) -> pa.Buffer:
    """One segment of a file's content. Raises CorruptFile, StreamingIOFailure."""
    start = segment * checksums.segment_bytes
    count = min(checksums.segment_bytes, content_bytes - start)
    with io_errors("read", path):
        source.seek(start)
        data = source.read_buffer(count)
    if data.size != count or not checksums.matches(segment, data):
        raise _damaged(path, start, count)
    return data


def verify_content(data: pa.Buffer, checksums: ContentChecksums, content_bytes: int, path: str) -> None:
    """Verify a file in memory, of which the first `content_bytes` are content. Raises CorruptFile."""
    content = memoryview(data)[:content_bytes]
    for segment in range(len(checksums.crcs)):
        start = segment * checksums.segment_bytes
        if not checksums.matches(segment, part := content[start : start + checksums.segment_bytes]):
            raise _damaged(path, start, len(part))


def _damaged(path: str, start: int, count: int) -> CorruptFile:
    return CorruptFile(
        f"{path!r} is damaged: the checksum of its bytes {start} to {start + count} is wrong. Restore the file "
        "from a copy"
    )


def read_content(source: pa.NativeFile, checksums: ContentChecksums, content_bytes: int, path: str) -> pa.Buffer:
    """All of a file's content. Raises CorruptFile, StreamingIOFailure."""
    parts = [read_segment(source, checksums, i, content_bytes, path) for i in range(len(checksums.crcs))]
    return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))


def verified_input(
    source: pa.NativeFile, checksums: ContentChecksums, tail: bytes, path: str
) -> tuple[pa.NativeFile, VerifiedFile | None]:
    """Open a file that returns only verified bytes, with the object that keeps its errors.

    Raises CorruptFile (a small file is read as a whole at once), StreamingIOFailure.
    """
    content_bytes = source.size() - len(tail)
    if content_bytes <= _SMALL_FILE_BYTES:
        content = read_content(source, checksums, content_bytes, path)
        return pa.BufferReader(b"".join([content, tail])), None
    file = VerifiedFile(source, checksums, tail, path)
    return pa.PythonFile(file, "r"), file
