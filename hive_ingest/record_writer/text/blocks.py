"""Collects text cheaply on the caller's thread and splits it into blocks of whole records.

Every argument of `write()` is separate: its end ends the last record, and a delimiter at its end adds none. In a
block the records are lines, each with one newline at its end, in whatever form they were written.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.record_writer.options import check_positive
from hive_ingest.record_writer.text.line_patterns import LOOKAHEAD_BYTES, LinePattern
from hive_ingest.record_writer.text.sources import as_bytes, opened, pieces_of

#: Small enough that a transaction of some ten thousand records keeps several threads busy.
DEFAULT_BLOCK_BYTES: Final = 2 << 20
#: Parsing a record on its own takes some twenty times its size in memory.
DEFAULT_MAX_RECORD_BYTES: Final = 16 << 20
NEWLINE: Final = 0x0A
CARRIAGE_RETURN: Final = 0x0D
#: An empty argument is one empty record.
_EMPTY_RECORD: Final = b"\n"
#: Bytes that are scanned at once: temporary arrays that stay in the processor's cache take a third of the time.
SCAN_BYTES: Final = 1 << 17
#: Items of an iterable that are stored together.
_ITEMS_AT_ONCE: Final = 512


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Consecutive records. `lines` holds them; if one of them contains a newline, `items` does."""

    lines: bytes
    records: int
    first_record: int
    first_offset: int
    items: tuple[bytes, ...] | None = None

    @property
    def nbytes(self) -> int:
        return len(self.lines) + sum(map(len, self.items or ()))

    @property
    def can_be_halved(self) -> bool:
        """Whether the records are lines."""
        return self.items is None

    def split(self) -> list[bytes]:
        """The records, without delimiters."""
        return list(self.items) if self.items is not None else split_text(self.lines)

    def halves(self) -> tuple[TextBlock, TextBlock]:
        """The block in two parts of about the same size. It must have at least two lines."""
        middle = self.lines.rfind(b"\n", 0, len(self.lines) // 2) + 1
        middle = middle or self.lines.index(b"\n") + 1
        first = count_lines(self.lines[:middle])
        return (
            TextBlock(self.lines[:middle], first, self.first_record, self.first_offset),
            TextBlock(self.lines[middle:], self.records - first, self.first_record + first, self.first_offset + middle),
        )

    def offsets(self) -> list[int]:
        """The byte at which each record starts, counting one delimiter after each record before it."""
        lines = self.items if self.items is not None else self.lines.split(b"\n")
        return list(itertools.accumulate((len(line) + 1 for line in lines), initial=self.first_offset))[: self.records]


def split_text(text: bytes) -> list[bytes]:
    """The records of one argument: split at newlines, one carriage return before a newline removed."""
    records = text.split(b"\n")
    last = records.pop()
    if b"\r" in text:
        records = [record.removesuffix(b"\r") for record in records]
    return [*records, last] if last else records


def count_lines(lines: bytes) -> int:
    """The number of newlines in a text."""
    return count_byte(lines, NEWLINE)


def count_byte(text: Any, byte: int) -> int:
    """How often a byte is in a text, which supports the buffer protocol (several times faster than `bytes.count`)."""
    codes = np.frombuffer(text, np.uint8)
    return sum(int(np.count_nonzero(codes[at : at + SCAN_BYTES] == byte)) for at in range(0, len(codes), SCAN_BYTES))


class TextRecordWriter:
    """The part of a record writer that collects text and splits it into blocks (Java: AbstractRecordWriter).

    A subclass sets `newline_replacement`: what a newline inside an item may be replaced by without changing the
    record's meaning, or None if there is no such byte.
    """

    newline_replacement: bytes | None = None

    def __init__(
        self, *, line_delimiter: str, line_delimiter_pattern: str | None, block_bytes: int, max_record_bytes: int
    ) -> None:
        if line_delimiter_pattern is not None and line_delimiter != "\n":
            raise ConfigurationError(
                f"line_delimiter={line_delimiter!r} and line_delimiter_pattern={line_delimiter_pattern!r}: give one"
            )
        if len(line_delimiter) != 1 or not line_delimiter.isascii():
            raise ConfigurationError(
                f"line_delimiter={line_delimiter!r} is not one ASCII character "
                "(for '\\r\\n' leave the default: a carriage return before a newline is removed; for others, give "
                "line_delimiter_pattern)"
            )
        check_positive("block_bytes", block_bytes)
        check_positive("max_record_bytes", max_record_bytes)
        self._delimiter = line_delimiter.encode()
        self._line_pattern = None if line_delimiter_pattern is None else LinePattern(line_delimiter_pattern)
        self._is_plain = line_delimiter == "\n" and self._line_pattern is None
        self._block_bytes = block_bytes
        self._max_record_bytes = max_record_bytes
        self.discard()

    @property
    def splits_at_newlines(self) -> bool:
        """Whether the records of a text are lines."""
        return self._is_plain

    @property
    def max_record_bytes(self) -> int:
        """The longest record that is accepted, in bytes without its delimiter."""
        return self._max_record_bytes

    def discard(self) -> None:
        """Drop all kept records; record numbers and byte offsets start at 0 again."""
        self._drop_chunks()
        self._next_record = 0
        self._next_offset = 0

    def _drop_chunks(self) -> None:
        self._chunks: list[bytes] = []
        #: Bytes missing until a block is ready to be parsed.
        self._missing_bytes = self._block_bytes
        #: Positions in `_chunks` of chunks that are one record each, including newlines.
        self._whole: set[int] = set()

    def write(self, records: object) -> Iterable[TextBlock]:
        """Keep text (bytes, str, buffers, files, paths) or items (any other iterable) as records.

        Raises:
            SerializationError: An argument or item has a wrong type, or a record is longer than `max_record_bytes`.
            StreamingIOFailure: A file or stream cannot be read.
        """
        # The common case comes first and calls nothing: it runs up to a million times a second.
        if type(records) is bytes and self._is_plain:
            if not records:
                records = _EMPTY_RECORD
            self._chunks.append(records)
            self._missing_bytes -= len(records)
            return self.drain() if self._missing_bytes <= 0 else ()
        return self._write_any(records)

    def drain(self) -> Iterator[TextBlock]:
        """Yield all kept records as blocks of about `block_bytes`."""
        chunks, whole = self._chunks, self._whole
        self._drop_chunks()
        if not chunks:
            return iter(())
        if not whole:
            text = _lines_of(chunks)
            if self.newline_replacement is not None or b"\r" not in text or not _has_open_return(chunks):
                return self._slices(text)
        return self._items_block(chunks, whole)

    def _write_any(self, records: object) -> Iterator[TextBlock]:
        if (text := as_bytes(records)) is not None:
            if text:
                self._keep_text(text)
            else:
                self._keep_item(text)
            return self._drain_if_ready()
        if isinstance(records, os.PathLike):
            return self._write_path(records)
        if hasattr(records, "read"):
            return self._write_file(records)
        if (item := self._item_bytes(records)) is not None:
            self._keep_item(item)
            return self._drain_if_ready()
        if isinstance(records, Iterable):
            return self._write_items(records)
        raise self._not_accepted(records)

    def _drain_if_ready(self) -> Iterator[TextBlock]:
        return self.drain() if self._missing_bytes <= 0 else iter(())

    def _write_items(self, items: Iterable[object]) -> Iterator[TextBlock]:
        part: list[bytes] = []
        part_bytes = 0
        for item in items:
            # Each item is converted to bytes before the next is requested: a generator may reuse the yielded object.
            text = item if type(item) is bytes else self._bytes_of_item(item)
            part.append(text)
            part_bytes += len(text)
            if len(part) == _ITEMS_AT_ONCE or part_bytes >= self._block_bytes:
                self._keep_items(part)
                part, part_bytes = [], 0
                yield from self._drain_if_ready()
        self._keep_items(part)
        yield from self._drain_if_ready()

    def _keep_items(self, items: list[bytes]) -> None:
        if not items:
            return
        lines = b"\n".join([*items, b""])
        has_returns = self.newline_replacement is None and b"\r" in lines
        if count_lines(lines) == len(items) and not has_returns:
            self._keep(lines)
            return
        for item in items:
            self._keep_item(item)

    def _bytes_of_item(self, item: object) -> bytes:
        text = as_bytes(item)
        if text is None:
            text = self._item_bytes(item)
        if text is None:
            raise self._not_accepted(item)
        return text

    def _item_bytes(self, item: object) -> bytes | None:
        """The text of an item that is neither text nor a buffer, or None. For subclasses that accept more types."""
        return None

    def _write_path(self, path: os.PathLike[Any]) -> Iterator[TextBlock]:
        with opened(path) as file:
            yield from self._write_file(file)

    def _write_file(self, file: Any) -> Iterator[TextBlock]:
        if self._line_pattern is not None:
            yield from self._write_file_by_pattern(file, self._line_pattern)
            return
        pieces: list[bytes] = []  # of the incomplete record
        pieces_bytes = 0
        for piece in pieces_of(file, self._block_bytes):
            text = self._bytes_of_item(piece)
            end = text.rfind(self._delimiter) + 1
            if end:
                self._keep_text(b"".join([*pieces, text[:end]]))
                pieces, pieces_bytes, text = [], 0, text[end:]
                yield from self._drain_if_ready()
            pieces.append(text)
            pieces_bytes += len(text)
            if pieces_bytes > self._max_record_bytes:
                yield from self.drain()  # numbers all records before it
                raise self._too_long(self._next_record, self._next_offset)
        if pieces_bytes:
            self._keep_text(b"".join(pieces))
            yield from self._drain_if_ready()

    def _write_file_by_pattern(self, file: Any, pattern: LinePattern) -> Iterator[TextBlock]:
        rest = b""
        for piece in pieces_of(file, self._block_bytes):
            records, rest = pattern.split(rest + self._bytes_of_item(piece), is_last=False)
            self._keep_items(records)
            yield from self._drain_if_ready()
            if len(rest) > self._max_record_bytes + LOOKAHEAD_BYTES:
                yield from self.drain()  # numbers all records before it
                raise self._too_long(self._next_record, self._next_offset)
        self._keep_items(pattern.split(rest, is_last=True)[0])
        yield from self._drain_if_ready()

    def _keep_text(self, text: bytes) -> None:
        if self._line_pattern is not None:
            self._keep_items(self._line_pattern.split(text, is_last=True)[0])
        elif not self._is_plain:
            self._keep_delimited_text(text)
        else:
            self._keep(text)

    def _keep_delimited_text(self, text: bytes) -> None:
        """Keep text with another delimiter than newline: as lines where that is possible."""
        if self.newline_replacement is not None:
            text = text.replace(b"\n", self.newline_replacement)
        if b"\n" not in text and b"\r" not in text:
            if text:
                self._keep(text.replace(self._delimiter, b"\n"))
            return
        records = text.split(self._delimiter)
        if not records[-1]:
            records.pop()
        for record in records:
            self._keep_item(record)

    def _keep_item(self, item: bytes) -> None:
        if b"\n" in item and self.newline_replacement is not None:
            item = item.replace(b"\n", self.newline_replacement)
        if not item:
            item = _EMPTY_RECORD
        elif b"\n" in item or (item[-1] == CARRIAGE_RETURN and self.newline_replacement is None):
            self._whole.add(len(self._chunks))
        self._keep(item)

    def _keep(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._missing_bytes -= len(chunk)

    def _slices(self, text: bytes) -> Iterator[TextBlock]:
        too_long = _first_longer(text, self._max_record_bytes)
        if too_long is not None:
            raise self._too_long(self._next_record + count_lines(text[:too_long]), self._next_offset + too_long)
        at = 0
        while at < len(text):
            end = self._slice_end(text, at)
            lines = text if end - at == len(text) else text[at:end]
            yield self._number(lines, count_lines(lines), len(lines))
            at = end

    def _slice_end(self, text: bytes, at: int) -> int:
        if len(text) - at < self._block_bytes * 3 // 2:
            return len(text)
        end = text.rfind(b"\n", at, at + self._block_bytes) + 1
        return end or text.find(b"\n", at + self._block_bytes) + 1

    def _items_block(self, chunks: list[bytes], whole: set[int]) -> Iterator[TextBlock]:
        items: list[bytes] = []
        for place, chunk in enumerate(chunks):
            items.extend([chunk] if place in whole else split_text(chunk))
        for number, item in enumerate(items):
            if len(item) > self._max_record_bytes:
                offset = sum(map(len, items[:number])) + number
                raise self._too_long(self._next_record + number, self._next_offset + offset)
        yield self._number(b"", len(items), sum(map(len, items)) + len(items), tuple(items))

    def _number(self, lines: bytes, records: int, nbytes: int, items: tuple[bytes, ...] | None = None) -> TextBlock:
        block = TextBlock(lines, records, self._next_record, self._next_offset, items)
        self._next_record += records
        self._next_offset += nbytes
        return block

    def _too_long(self, record: int, byte_offset: int) -> SerializationError:
        return SerializationError(
            f"record {record} (at byte {byte_offset}): it is longer than max_record_bytes={self._max_record_bytes}. "
            "Check that the records are separated by line_delimiter, or raise max_record_bytes",
            record=record,
            byte_offset=byte_offset,
        )

    def _not_accepted(self, records: object) -> SerializationError:
        return SerializationError(
            f"{type(self).__name__} does not accept a {type(records).__name__}: write bytes, str, a file opened for "
            "reading, a path, or an iterable of records",
        )


def _lines_of(chunks: list[bytes]) -> bytes:
    """Arguments as lines: a newline is added to each that does not end in one."""
    if len(chunks) == 1:
        return chunks[0] if chunks[0][-1] == NEWLINE else chunks[0] + b"\n"
    # Those of a caller usually all end in a newline, or none does.
    if chunks[0][-1] != NEWLINE:
        lines = b"\n".join([*chunks, b""])
        if not has_empty_line(lines):
            return lines
    return b"".join([chunk if chunk[-1] == NEWLINE else chunk + b"\n" for chunk in chunks])


def _first_longer(lines: bytes, most_bytes: int) -> int | None:
    """The start of the first line longer than `most_bytes`. Searches one newline in each stretch of that length."""
    at = 0
    while len(lines) - at > most_bytes + 1:
        end = lines.rfind(b"\n", at, at + most_bytes + 1)
        if end < 0:
            return at
        at = end + 1
    return None


def has_empty_line(lines: bytes) -> bool:
    """Whether a newline is first, or follows another."""
    codes = np.frombuffer(lines, np.uint8)
    return bool(codes[0] == NEWLINE) or any(
        _has_newline_pair(codes[at : at + SCAN_BYTES + 1]) for at in range(0, len(codes), SCAN_BYTES)
    )


def _has_newline_pair(codes: Any) -> bool:
    is_newline = codes == NEWLINE
    return bool((is_newline[1:] & is_newline[:-1]).any())


def _has_open_return(chunks: list[bytes]) -> bool:
    """Whether an argument ends in a carriage return: no newline follows, so it belongs to the record."""
    return any(chunk[-1] == CARRIAGE_RETURN for chunk in chunks)
