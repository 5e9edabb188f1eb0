"""Maps the records of a transaction to files and lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import named_records
from hive_ingest.streaming.files.line_file import Records


@dataclass(frozen=True, slots=True)
class _Span:
    """Consecutive records of one file in a transaction.

    Attributes:
        file: The file.
        record: The number of the first one in the transaction.
        byte: Its byte there.
        line: Its line in the file, counted from 1.
        offset: Its byte in the file.
        inner_newlines: The newlines inside the records up to each one, or None if there are none.
    """

    file: str
    record: int
    byte: int
    line: int
    offset: int
    inner_newlines: Any

    def line_of(self, record: int) -> int:
        """The line at which a record starts."""
        number = record - self.record
        inner = int(self.inner_newlines[number - 1]) if number and self.inner_newlines is not None else 0
        return self.line + number + inner


class Spans:
    """The records of the current transaction, in the order in which they are written."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """A transaction begins."""
        self._spans: list[_Span] = []
        self._records = self._bytes = 0

    def write(self, file: str, records: Records, inner_newlines: Any, line: int, offset: int) -> None:
        """Note records of `file` that are written next, from line `line` (counted from 1) at byte `offset`."""
        self._spans.append(_Span(file, self._records, self._bytes, line, offset, inner_newlines))
        self._records += records.count
        # Record writers count a newline after each record, also where there is none.
        self._bytes += len(records.text) + (not records.text.endswith(b"\n"))

    @property
    def start(self) -> str:
        """The line of the first record."""
        return f"line {self._spans[0].line} of {self._spans[0].file!r}"

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name records by their file and line, in a SerializationError and in logs."""
        try:
            with named_records(self._name):
                yield
        except SerializationError as error:
            if error.record is not None:
                raise self._located(error, error.record) from error
            if not self._spans:
                raise
            raise type(error)(f"{self._spans[-1].file!r}: {error}") from error  # its header

    def _located(self, error: SerializationError, record: int) -> SerializationError:
        file, line, offset = self.place(record, error.byte_offset)
        why = str(error)
        if offset is None:
            return type(error)(f"{file!r}, line {line}: {why}", record=record)
        why = why.removeprefix(f"record {record} (at byte {error.byte_offset}): ")
        return type(error)(f"{file!r}, line {line} (at byte {offset}): {why}", record=record, byte_offset=offset)

    def _name(self, record: int) -> str:
        file, line, _ = self.place(record, None)
        return f"line {line} of {file!r}"

    def place(self, record: int, byte_offset: int | None) -> tuple[str, int, int | None]:
        """The file, line and byte of a record, by its number and byte in the transaction."""
        span = next(span for span in reversed(self._spans) if span.record <= record)
        offset = None if byte_offset is None else span.offset + byte_offset - span.byte
        return span.file, span.line_of(record), offset
