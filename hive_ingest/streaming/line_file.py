"""A file with one record per line, read from any offset in bounded memory, and its fingerprint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Self

import numpy as np

from hive_ingest.errors import SinkConflict, StreamingIOFailure
from hive_ingest.plurals import counted
from hive_ingest.storage import Location
from hive_ingest.streaming.texts import STDIN, text_of

_NEWLINE = 0x0A
_BLOCK_BYTES = 1 << 20
#: Longest line that is read into memory.
MAX_LINE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class FilePosition:
    """How far a file has been committed: the position of its source.

    `offset` is the byte after the last whole record, in the uncompressed text, `records` the number of records before
    it (including skipped ones), `fingerprint` a digest of some of the bytes before it.
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
    """A file of lines at a path or location, plain or compressed, identified by its name without the folder.

    `size_bytes` is the present size, as it is stored. Raises StreamingIOFailure if the file cannot be opened.

    Args:
        max_line_bytes: Longest line that is read into memory.
    """

    def __init__(self, location: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.location = location
        self._max_line_bytes = max_line_bytes
        file = Location.of(location)
        self.name = "stdin" if location == STDIN else file.name
        self._text = text_of(file, location)

    @property
    def size_bytes(self) -> int:
        return self._text.size_bytes

    def stored_bytes(self, offset: int) -> int:
        """About how much of the stored file comes before an offset."""
        return self._text.stored_bytes(offset)

    def close(self) -> None:
        """Close what is open of a compressed file or a pipe."""
        self._text.close()

    def ends_at(self, offset: int) -> bool:
        """Whether no line follows the byte `offset`."""
        return self._text.ends_at(offset)

    def lines(self, offset: int, most: int) -> Iterator[Lines]:
        """At most `most` lines from byte `offset` on, where a line starts, in blocks of about 1 MiB.

        Raises StreamingIOFailure for a line longer than `max_line_bytes`.
        """
        for lines in self._whole_lines(offset):
            if lines.count >= most:
                yield _first(lines, most)
                return
            yield lines
            most -= lines.count

    def _whole_lines(self, offset: int) -> Iterator[Lines]:
        pieces: list[bytes] = []  # start of the line that has not ended yet
        line_start = offset
        for block in self._text.blocks(offset, _BLOCK_BYTES):
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
        found = self._text.fingerprint(offset) if offset else ("", b"")
        if found is None:
            raise StreamingIOFailure(f"{self.location!r} became shorter while it was read: do not change it")
        return FilePosition(offset, records, found[0])

    def check(self, position: FilePosition) -> None:
        """Raises SinkConflict unless this is the file of `position`, unchanged or with lines appended."""
        if not position.offset:
            return
        found = self._text.fingerprint(position.offset)
        if found is None:
            self._conflict(position, "now it has fewer: it was truncated or replaced")
        if found[0] != position.fingerprint:
            self._conflict(position, "they are different now: it was replaced or edited")
        if found[1] != b"\n" and not self.ends_at(position.offset):
            self._conflict(position, "its last line, which had no newline then, has been continued")

    def _conflict(self, position: FilePosition, why: str) -> NoReturn:
        raise SinkConflict(
            f"{self.location!r}: the first {counted(position.offset, 'byte')} ({counted(position.records, 'record')}) "
            f"of a file named {self.name!r} are committed already, but {why}. Give another file another "
            "name; to load it again under this one, use another sink name"
        )


def _first(lines: Lines, count: int) -> Lines:
    if count == lines.count:
        return lines
    end = int(np.flatnonzero(_codes(lines.text) == _NEWLINE)[count - 1]) + 1
    return Lines(lines.text[:end], count)


def _codes(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(text, np.uint8)
