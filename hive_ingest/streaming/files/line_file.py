"""A file of records, lines or CSV, read from any offset in bounded memory, and its fingerprint."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np

from hive_ingest.errors import SerializationError, SinkConflict, StreamingIOFailure
from hive_ingest.plurals import counted
from hive_ingest.record_writer import CsvFraming, CsvText, CsvWriter
from hive_ingest.storage import Location
from hive_ingest.streaming.files.texts import STDIN, replaced, text_of

_NEWLINE = 0x0A
#: A little more than a block of the record writers, so that what is left of one is parsed as it is, without a copy.
_BLOCK_BYTES = 9 << 18
#: Longest line that is read into memory.
MAX_LINE_BYTES = 256 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_POSITION_KEYS = {"offset", "records", "fingerprint"}


@dataclass(frozen=True, slots=True)
class FilePosition:
    """How far a file has been committed: the position of its source.

    `offset` is the byte after the last whole record, in the uncompressed text, `records` the number of records before
    it (including skipped ones), `fingerprint` a digest of some of the bytes before it. `inner_newlines` is the number
    of newlines inside these records: those of CSV may have some.
    """

    offset: int = 0
    records: int = 0
    fingerprint: str = ""
    inner_newlines: int = 0

    def to_json(self) -> dict[str, Any]:
        """The form in which the progress table stores it."""
        found = asdict(self)
        return found if self.inner_newlines else {name: found[name] for name in _POSITION_KEYS}

    @classmethod
    def from_json(cls, source: str, value: object) -> Self:
        """The reverse of `to_json`. Raises SinkConflict for the position of another pipeline."""
        if isinstance(value, Mapping) and value.keys() - {"inner_newlines"} == _POSITION_KEYS:
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

    def first(self, count: int) -> Lines:
        """The first lines."""
        if count >= self.count:
            return self
        end = int(np.flatnonzero(_codes(self.text) == _NEWLINE)[count - 1]) + 1
        return Lines(self.text[:end], count)

    def inner_newlines(self) -> Any:
        """None: a newline ends a record."""
        return None


Records = Lines | CsvText


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where the records of a file begin: their offset, the lines before them, and the header of CSV.

    `is_empty` says that nothing follows yet. The lines before the records may then be incomplete, so their end is no
    position to continue from.
    """

    offset: int
    lines: int
    header: tuple[str, ...] | None = None
    is_empty: bool = False


class LineFile:
    """A file of records at a path or location, plain or compressed, identified by its name without the folder.

    `size_bytes` is the present size, as it is stored. Raises StreamingIOFailure if the file cannot be opened.

    Args:
        max_line_bytes: Longest record that is read into memory.
        csv: The writer of the records, if they are CSV. Otherwise a record is a line.
        waits_for_newline: Whether a last record without its newline does not count yet.
    """

    def __init__(
        self,
        location: str,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        csv: CsvWriter | None = None,
        waits_for_newline: bool = False,
    ) -> None:
        self.location = location
        self._max_line_bytes = max_line_bytes
        self._csv = csv
        self._waits_for_newline = waits_for_newline
        #: Where a last record without its newline begins that is left for a later run.
        self._unfinished_at: int | None = None
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
        """Whether no record follows the byte `offset`."""
        if self._text.ends_at(offset) or offset == self._unfinished_at:
            return True
        if not self._waits_for_newline:
            return False
        is_unfinished = next(self.records(offset, 1), None) is None
        if not offset:
            self._text.rewind()  # as before: many files may wait for their turn
        if is_unfinished:
            self._unfinished_at = offset
        return is_unfinished

    def beginning_digest(self, length: int) -> str | None:
        """A digest of the first bytes; None if there are fewer. Raises StreamingIOFailure."""
        found = self._text.fingerprint(length)
        self._text.rewind()
        return None if found is None else found[0]

    def readable_bytes(self) -> int:
        """The size of the text; of a compressed file that is not whole, of what can be read of it. Reads all of it."""
        return self._text.readable_bytes()

    def begins_like(self, other: LineFile) -> bool:
        """Whether the text begins with all of another one, as far as fingerprints tell. Raises StreamingIOFailure."""
        length = other.readable_bytes()
        found = self._text.fingerprint(length) == other._text.fingerprint(length)
        self._text.rewind()
        return found

    def beginning(self, header_lines: int) -> Beginning:
        """Where the records begin, after lines that are no records, a byte order mark and the header.

        Raises:
            StreamingIOFailure: The file cannot be read.
            SerializationError: The header is malformed.
        """
        found = self._beginning(header_lines)
        # With a header that is not written yet, a record that is appended now would be taken for one without a header.
        has_no_header = self._csv is not None and self._csv.has_header and found.header is None
        is_empty = has_no_header or (found.offset > 0 and self.ends_at(found.offset))
        self._text.rewind()  # many files may wait for their turn
        return replace(found, is_empty=is_empty)

    def _beginning(self, header_lines: int) -> Beginning:
        offset = self._offset_of_line(header_lines)
        if not offset and self._text.starts_with(_BYTE_ORDER_MARK):
            offset = len(_BYTE_ORDER_MARK)
        if self._csv is None or not self._csv.has_header:
            return Beginning(offset, header_lines)
        text = next((found.text for found in self.records(offset, 1)), b"")
        if not text:
            return Beginning(offset, header_lines)
        try:
            header = self._csv.header_of(text.removesuffix(b"\n").removesuffix(b"\r"))
        except SerializationError as error:
            raise SerializationError(f"{self.location!r}: {error}") from error
        return Beginning(offset + len(text), header_lines + text.count(b"\n"), header)

    def records(self, offset: int, most: int, header: tuple[str, ...] | None = None) -> Iterator[Records]:
        """At most `most` records from byte `offset` on, where one starts, in blocks of about 2 MiB.

        A record of CSV whose quotes are not closed is left out, unless it is the first one.

        Args:
            offset: The byte.
            most: The number of records.
            header: That of the file, if it is CSV with a header.

        Raises:
            StreamingIOFailure: A record is longer than `max_line_bytes`, or the quotes of the first one are not closed
                at the end of the file.
        """
        blocks: Generator[Records, None, None] = self._lines(offset)
        if self._csv is not None:
            blocks = self._csv_records(offset, self._csv.framing, header)
        with closing(blocks), self._kept(offset):
            for block in blocks:
                part = block.first(most)
                yield part
                most -= part.count
                if not most:
                    return
                offset += len(part.text)
                self._text.keep_from(offset)

    @contextmanager
    def _kept(self, offset: int) -> Iterator[None]:
        """A record that turns out to be unfinished is read again, and a position may be taken before it."""
        self._text.keep_from(offset)
        try:
            yield
        finally:
            self._text.keep_from(None)

    def _lines(self, offset: int) -> Generator[Lines, None, None]:
        for text in self._text_of_lines(offset):
            yield Lines(text, int(np.count_nonzero(_codes(text) == _NEWLINE)) + (not text.endswith(b"\n")))

    def _csv_records(
        self, offset: int, framing: CsvFraming, header: tuple[str, ...] | None
    ) -> Generator[CsvText, None, None]:
        at, rest = offset, b""
        for text in self._text_of_lines(offset):
            rest += text
            found = framing.whole_records(rest)
            if found.count:
                yield replace(found, header=header)
                at += len(found.text)
                rest = rest[len(found.text) :]
            if len(rest) > self._max_line_bytes:
                raise self._too_long(at)
        if rest and self._waits_for_newline:
            return
        if rest and not framing.ends_in_quotes(rest):
            yield replace(framing.whole_records(rest, is_last=True), header=header)
        elif rest and at == offset:
            raise StreamingIOFailure(
                f"{self.location!r}: the record at byte {at} has a quote that is not closed at the end of the file. "
                "What was committed before it stays. If the file is still being written, run again later; otherwise "
                "correct it, or set quote to the character that encloses fields (None if there is none)"
            )

    def _text_of_lines(self, offset: int) -> Iterator[bytes]:
        """The text from `offset` on in blocks of whole lines. Only the last one may lack its newline."""
        pieces: list[bytes] = []  # start of the line that has not ended yet
        line_start = offset
        for block in self._text.blocks(offset, _BLOCK_BYTES):
            end = block.rfind(b"\n") + 1
            if end:
                text = b"".join([*pieces, block[:end]])
                yield text
                pieces.clear()
                line_start += len(text)
            pieces.append(block[end:])
            if sum(map(len, pieces)) > self._max_line_bytes:
                raise self._too_long(line_start)
        rest = b"".join(pieces)
        if rest and (self._csv is not None or not self._waits_for_newline):
            yield rest

    def _too_long(self, start: int) -> StreamingIOFailure:
        kind, check = ("line", "this is a file of lines") if self._csv is None else ("record", "its quotes are closed")
        return StreamingIOFailure(
            f"{self.location!r}: the {kind} at byte {start} has more than {self._max_line_bytes} bytes. Check that "
            f"{check}, or raise max_record_bytes of the record writer"
        )

    def _offset_of_line(self, number: int) -> int:
        """The byte at which line `number` (from 0) starts; the size of the file when it has no such line."""
        offset = 0
        for block in self._lines(0) if number else ():
            lines = block.first(number)
            offset += len(lines.text)
            number -= lines.count
            if not number:
                break
        return offset

    # -- fingerprints --------------------------------------------------------------------------------

    def position(self, offset: int, records: int, inner_newlines: int = 0, *, last: bytes = b"") -> FilePosition:
        """A position with the fingerprint of the present file.

        Args:
            offset: The byte.
            records: The number of records before it.
            inner_newlines: The number of newlines inside them.
            last: The text that was read last, up to the offset.

        Raises:
            StreamingIOFailure: The file is not the one that was read.
        """
        found = self._text.fingerprint(offset) if offset else ("", b"")
        if found is None or not found[1].endswith(last[-len(found[1]) :]):
            raise replaced(self.location)
        return FilePosition(offset, records, found[0], inner_newlines)

    def check(self, position: FilePosition) -> None:
        """Raises SinkConflict unless this is the file of `position`, unchanged or with lines appended."""
        if not position.offset:
            return
        found = self._text.fingerprint(position.offset)
        if found is None:
            self._conflict(position, "now it has fewer: it was truncated or replaced")
        if found[0] != position.fingerprint:
            self._conflict(position, "they are different now: it was replaced or edited")
        if not found[1].endswith(b"\n") and not self.ends_at(position.offset):
            self._conflict(position, "its last line, which had no newline then, has been continued")

    def _conflict(self, position: FilePosition, why: str) -> NoReturn:
        raise SinkConflict(
            f"{self.location!r}: the first {counted(position.offset, 'byte')} ({counted(position.records, 'record')}) "
            f"of a file named {self.name!r} are committed already, but {why}. Give another file another "
            "name. To load it again under this one, use another sink name; if it was edited, set the position by "
            "`hive-ingest sinks seek-file`, or by seek_file in Python"
        )


def _codes(text: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(text, np.uint8)
