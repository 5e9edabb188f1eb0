"""Collects CSV on the caller's thread and divides it into blocks of whole records.

Every argument of `write()` is separate: its end ends the last record, even inside quotes, so that a quote which is
never closed spoils no other argument.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.record_writer.csv.blocks import BYTE_ORDER_MARK, CsvBlock
from hive_ingest.record_writer.csv.framing import CsvFraming, CsvText
from hive_ingest.record_writer.options import check_positive
from hive_ingest.record_writer.text.sources import as_bytes, opened, pieces_of

_NOTHING: Final = CsvText(b"", 0, True)


class CsvInput(ABC):
    """The part of `CsvWriter` that collects text.

    Args:
        framing: Divides text into records.
        has_header: Whether the first record of an argument is its header.
        block_bytes: Size of a block.
        max_record_bytes: Size of the longest record.
    """

    def __init__(self, *, framing: CsvFraming, has_header: bool, block_bytes: int, max_record_bytes: int) -> None:
        check_positive("block_bytes", block_bytes)
        check_positive("max_record_bytes", max_record_bytes)
        self.framing = framing
        self.has_header = has_header
        self._block_bytes = block_bytes
        self._max_record_bytes = max_record_bytes
        self.discard()

    @property
    def max_record_bytes(self) -> int:
        """The longest record that is accepted, in bytes without the end of its line."""
        return self._max_record_bytes

    @abstractmethod
    def header_of(self, record: bytes) -> tuple[str, ...]:
        """The names in a header, without the end of its line. Raises SerializationError."""

    @abstractmethod
    def _check_header(self, header: tuple[str, ...]) -> None:
        """Raises SerializationError for a header that does not suit the table."""

    @abstractmethod
    def _header_of_items(self) -> ConfigurationError:
        """The error for single records where a header is required."""

    def discard(self) -> None:
        """Drop all kept records; record numbers and byte offsets start at 0 again."""
        self._drop_kept()
        self._next_record = 0
        self._next_offset = 0

    def _drop_kept(self) -> None:
        #: Arguments that are not divided yet, and text that is; only one of them has something in it.
        self._arguments: list[bytes] = []
        self._texts: list[CsvText] = []
        self._missing_bytes = self._block_bytes

    def write(self, records: object) -> Iterable[CsvBlock]:
        """Keep text (bytes, str, buffers, files, paths), or without a header also items, as records.

        Raises:
            SerializationError: An argument has a wrong type, a header is malformed, or a record is longer than
                `max_record_bytes`.
            StreamingIOFailure: A file or stream cannot be read.
            ConfigurationError: The records need a header, which single ones cannot have.
        """
        if type(records) is bytes and not self.has_header:
            self._missing_bytes -= len(records)
            self._arguments.append(records)
            return self.drain() if self._texts or self._missing_bytes <= 0 else ()
        return self._write_any(records)

    def drain(self) -> Iterator[CsvBlock]:
        """Yield all kept records as blocks of about `block_bytes`."""
        arguments, texts = self._arguments, self._texts
        self._drop_kept()
        yield from self._blocks(_joined(texts))
        if arguments:
            yield from self._blocks(self._divided(arguments))

    def _write_any(self, records: object) -> Iterator[CsvBlock]:
        if isinstance(records, CsvText):
            if records.header is not None:
                self._check_header(records.header)
            yield from self._keep(records)
        elif (text := as_bytes(records)) is not None:
            yield from self._write_pieces([text])
        elif isinstance(records, os.PathLike):
            with opened(records) as file:
                yield from self._write_pieces(pieces_of(file, self._block_bytes))
        elif hasattr(records, "read"):
            yield from self._write_pieces(pieces_of(records, self._block_bytes))
        elif not isinstance(records, Iterable):
            raise self._not_accepted(records)
        elif self.has_header:
            raise self._header_of_items()
        else:
            yield from self._write_items(records)

    def _write_items(self, items: Iterable[object]) -> Iterator[CsvBlock]:
        part: list[bytes] = []
        part_bytes = 0
        for item in items:
            text = as_bytes(item)
            if text is None:
                raise self._not_accepted(item)
            part.append(text)
            part_bytes += len(text)
            if part_bytes >= self._block_bytes:
                yield from self._keep(self._of_items(part))
                part, part_bytes = [], 0
        if part:
            yield from self._keep(self._of_items(part))

    def _of_items(self, items: list[bytes]) -> CsvText:
        """Each item is one record; a newline at its end is not part of it."""
        records = [item if item.endswith(b"\n") else item + b"\n" for item in items]
        ends = np.cumsum([len(record) for record in records])
        text = b"".join(records)
        found = self.framing.whole_records(text, is_last=True)
        is_same = np.array_equal(found.ends, ends)
        return found if is_same else CsvText(text, len(items), is_regular=False, given_ends=ends)

    def _write_pieces(self, pieces: Iterable[object]) -> Iterator[CsvBlock]:
        """Write one text, which comes in pieces."""
        yield from self._keep_arguments()
        header: tuple[str, ...] | None = None
        rest = b""
        is_start, is_empty_text = True, False
        for some in pieces:
            piece = as_bytes(some)
            if piece is None:
                raise self._not_accepted(some)
            rest += piece
            is_empty_text = not rest
            if is_start and len(rest) >= len(BYTE_ORDER_MARK):
                rest, is_start = rest.removeprefix(BYTE_ORDER_MARK), False
            if b"\n" in piece:
                found = self.framing.whole_records(rest)
                rest = rest[len(found.text) :]
                found, header = self._headed(found, header)
                yield from self._keep(found)
            if len(rest) > self._max_record_bytes:
                yield from self.drain()  # numbers all records before it
                self._check_length(len(rest), 0, 0)
        # Text after the last newline is a record, and so is an empty argument.
        if rest or (is_empty_text and not self.has_header):
            last, header = self._headed(self.framing.whole_records(rest or b"\n", is_last=True), header)
            yield from self._keep(last)

    def _headed(self, text: CsvText, header: tuple[str, ...] | None) -> tuple[CsvText, tuple[str, ...] | None]:
        """The text with its header, which is its first record unless it is known."""
        if not self.has_header or not text.count:
            return text, header
        if header is None:
            header = self.header_of(text.part(0, 1).text.removesuffix(b"\n").removesuffix(b"\r"))
            self._check_header(header)
            text = text.part(1, text.count)
        return replace(text, header=header), header

    def _keep(self, text: CsvText) -> Iterator[CsvBlock]:
        if not text.count:
            return
        yield from self._keep_arguments()
        if self._texts and self._texts[-1].header != text.header:
            yield from self.drain()
        self._texts.append(text if text.text.endswith(b"\n") else with_newline(text))
        self._missing_bytes -= len(text.text)
        if self._missing_bytes <= 0:
            yield from self.drain()

    def _keep_arguments(self) -> Iterator[CsvBlock]:
        if self._arguments:
            yield from self.drain()

    def _divided(self, arguments: list[bytes]) -> CsvText:
        """Arguments without a header as one text."""
        texts = [_as_lines(argument) for argument in arguments]
        joined = b"".join(texts)
        # The search for a single byte is several times faster than that for three.
        if BYTE_ORDER_MARK[:1] not in joined or BYTE_ORDER_MARK not in joined:
            found = self.framing.whole_records(joined, is_last=True)
            # A quote that one argument leaves open would change the meaning of the next one.
            if found.given_ends is None or _has_all(found.ends, np.cumsum([len(text) for text in texts])):
                return found
        texts = [text.removeprefix(BYTE_ORDER_MARK) for text in texts]
        return _joined([self.framing.whole_records(text, is_last=True) for text in texts])

    def _blocks(self, text: CsvText) -> Iterator[CsvBlock]:
        if not text.count:
            return
        if len(text.text) > self._max_record_bytes:
            lengths = np.diff(text.ends, prepend=0)
            longest = int(lengths.argmax())
            self._check_length(int(lengths[longest]) - 1, longest, int(text.ends[longest] - lengths[longest]))
        numbers = [0, text.count]
        if (count := round(len(text.text) / self._block_bytes)) > 1:
            cuts = np.searchsorted(text.ends, np.arange(1, count) * (len(text.text) // count)) + 1
            numbers = sorted({*numbers, *(int(cut) for cut in cuts if cut < text.count)})
        for first, end in itertools.pairwise(numbers):
            part = text.part(first, end)
            yield CsvBlock(part, self._next_record, self._next_offset)
            self._next_record += part.count
            self._next_offset += len(part.text)

    def _check_length(self, length: int, number: int, at: int) -> None:
        if length <= self._max_record_bytes:
            return
        record, byte_offset = self._next_record + number, self._next_offset + at
        raise SerializationError(
            f"record {record} (at byte {byte_offset}): it is longer than max_record_bytes={self._max_record_bytes}. "
            "Check that the quotes in it are closed, and doubled inside quotes, or raise max_record_bytes",
            record=record,
            byte_offset=byte_offset,
        )

    def _not_accepted(self, records: object) -> SerializationError:
        return SerializationError(
            f"{type(self).__name__} does not accept a {type(records).__name__}: write bytes, str, a file opened for "
            "reading, a path, or an iterable of records"
        )


def _has_all(ends: Any, wanted: Any) -> bool:
    """Whether the ascending `ends`, the last of which is that of `wanted`, have all of them."""
    return bool((ends[np.searchsorted(ends, wanted)] == wanted).all())


def _as_lines(argument: bytes) -> bytes:
    return argument if argument.endswith(b"\n") else argument + b"\n"


def with_newline(text: CsvText) -> CsvText:
    """The text with a newline at its end, which it lacks."""
    ends = text.given_ends
    if ends is not None:
        ends = ends.copy()
        ends[-1] += 1
    return replace(text, text=text.text + b"\n", given_ends=ends)


def _joined(texts: list[CsvText]) -> CsvText:
    """Texts of the same header as one."""
    if len(texts) <= 1:
        return texts[0] if texts else _NOTHING
    ends = None
    if any(text.given_ends is not None for text in texts):
        starts = np.cumsum([0, *(len(text.text) for text in texts)])
        ends = np.concatenate([text.ends + start for text, start in zip(texts, starts, strict=False)])
    return CsvText(
        b"".join([text.text for text in texts]),
        sum(text.count for text in texts),
        all(text.is_regular for text in texts),
        texts[0].header,
        ends,
    )
