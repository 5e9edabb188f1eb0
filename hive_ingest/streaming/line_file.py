"""A file with one record per line, read from any offset in bounded memory, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from hive_ingest.errors import SinkConflict, StreamingIOFailure
from hive_ingest.plurals import counted
from hive_ingest.storage import Location, io_errors

_NEWLINE = 0x0A
#: Bytes at the start of a file, and before an offset, that make up its fingerprint.
_FINGERPRINT_BYTES = 4096
_BLOCK_BYTES = 1 << 20
#: Longest line that is read into memory.
MAX_LINE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class FilePosition:
    """How far a file has been committed: the position of its source.

    `offset` is the byte after the last whole record, `records` the number of records before it (including skipped
    ones), `fingerprint` a digest of some of the bytes before it.
    """

    offset: int = 0
    records: int = 0
    fingerprint: str = ""

    def to_json(self) -> dict[str, Any]:
        """The form in which the progress table stores it."""
        return asdict(self)

    @classmethod
    def from_json(cls, source: str, value: object) -> Self:
        """The reverse of `to_json`. Raises SinkConflict for the position of another pipeline."""
        if isinstance(value, Mapping) and value.keys() == {"offset", "records", "fingerprint"}:
            return cls(**value)
        raise SinkConflict(
            f"the progress of source {source!r} is not a position in a file but {value!r}: another pipeline uses the "
            "same sink; use another sink name"
        )


@dataclass(frozen=True, slots=True)
class Lines:
    """Consecutive whole lines. Only the last line of a file may lack its newline."""

    text: bytes
    count: int


class LineFile:
    """A file of lines at a path or location, identified by its name without the folder.

    `size_bytes` is the present size. Raises StreamingIOFailure if the file cannot be opened.

    Args:
        max_line_bytes: Longest line that is read into memory.
    """

    def __init__(self, location: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.location = location
        self._max_line_bytes = max_line_bytes
        self._file = Location.of(location)
        self.name = self._file.name
        with self._open() as file:
            self.size_bytes: int = file.size()

    def lines(self, offset: int, most: int) -> Iterator[Lines]:
        """At most `most` lines from byte `offset` on, where a line starts, in blocks of about 1 MiB.

        Raises StreamingIOFailure for a line longer than `max_line_bytes`.
        """
        with self._open() as file:
            file.seek(offset)
            for lines in self._whole_lines(file, offset):
                if lines.count >= most:
                    yield _first(lines, most)
                    return
                yield lines
                most -= lines.count

    def _whole_lines(self, file: pa.NativeFile, offset: int) -> Iterator[Lines]:
        pieces: list[bytes] = []  # start of the line that has not ended yet
        line_start = offset
        while block := file.read(_BLOCK_BYTES):
            end = block.rfind(b"\n") + 1
            if end:
                text = b"".join([*pieces, block[:end]])
                yield Lines(text, int(np.count_nonzero(_codes(text) == _NEWLINE)))
                pieces.clear()
                line_start += len(text)
            pieces.append(block[end:])
            if sum(map(len, pieces)) > self._max_line_bytes:
                raise StreamingIOFailure(
                    f"{self.location!r}: the line at byte {line_start} has more than {self._max_line_bytes} bytes. "
                    "Check that this is a file of lines, or raise max_record_bytes of the record writer"
                )
        rest = b"".join(pieces)
        if rest:
            yield Lines(rest, 1)

    def offset_of_line(self, number: int) -> int:
        """The byte at which line `number` (from 0) starts; the size of the file when it has no such line."""
        return sum(len(lines.text) for lines in self.lines(0, number)) if number else 0

    # -- fingerprints --------------------------------------------------------------------------------

    def position(self, offset: int, records: int) -> FilePosition:
        """A position with the fingerprint of the present file."""
        with self._open() as file:
            return FilePosition(offset, records, _fingerprint(file, offset))

    def check(self, position: FilePosition) -> None:
        """Raises SinkConflict unless this is the file of `position`, unchanged or with lines appended."""
        with self._open() as file:
            size = file.size()
            if size < position.offset:
                self._conflict(position, f"now it has only {size} bytes: it was truncated or replaced")
            if _fingerprint(file, position.offset) != position.fingerprint:
                self._conflict(position, "they are different now: it was replaced or edited")
            if size > position.offset > 0 and file.read_at(1, position.offset - 1) != b"\n":
                self._conflict(position, "its last line, which had no newline then, has been continued")

    def _conflict(self, position: FilePosition, why: str) -> None:
        raise SinkConflict(
            f"{self.location!r}: the first {counted(position.offset, 'byte')} ({counted(position.records, 'record')}) "
            f"of a file named {self.name!r} are committed already, but {why}. Give another file another "
            "name; to load it again under this one, use another sink name"
        )

    @contextmanager
    def _open(self) -> Iterator[pa.NativeFile]:
        with io_errors("read", self.location), self._file.open_input() as file:
            yield file


def _fingerprint(file: pa.NativeFile, offset: int) -> str:
    if not offset:
        return ""
    length = min(offset, _FINGERPRINT_BYTES)
    digest = hashlib.sha256(file.read_at(length, 0))
    digest.update(file.read_at(length, offset - length))
    return digest.hexdigest()[:32]


def _first(lines: Lines, count: int) -> Lines:
    if count == lines.count:
        return lines
    end = int(np.flatnonzero(_codes(lines.text) == _NEWLINE)[count - 1]) + 1
    return Lines(lines.text[:end], count)


def _codes(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(text, np.uint8)
