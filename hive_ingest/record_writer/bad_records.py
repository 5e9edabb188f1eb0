"""Bad records, which the table cannot hold: they fail the transaction, or are skipped and returned with the rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer.options import check_choice

OnError = Literal["fail", "skip"]

logger = logging.getLogger("hive_ingest.record_writer")

#: Skipped records that a writer logs; further ones are only counted.
MAX_LOGGED_RECORDS = 10
#: Characters of a bad value that a message shows.
MAX_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that was skipped because its table cannot hold it.

    Attributes:
        record: Its number, counted from 0 from the beginning of the transaction.
        reason: What is wrong with it.
        data: The record as it was written: bytes for the writers of text (without the delimiter), a RecordBatch of one
            row for `ArrowWriter`, a message for Kafka, else the object that was written.
        byte_offset: Where it starts, where that is known: in its file, or else counted from 0 from the beginning of the
            transaction.
        file: The file that it is from, if `ingest_files` read it.
        line: Its line there, counted from 1.
    """

    record: int
    reason: str
    data: Any
    byte_offset: int | None = None
    file: str | None = None
    line: int | None = None


class BadValue(Exception):
    """A value that its column cannot hold. Callers get a SerializationError instead."""

    def __init__(self, why: str, *path: str) -> None:
        # Half a surrogate pair, as in what a user's function raises, can neither be stored nor printed.
        self.why = why.encode("utf-8", "backslashreplace").decode()
        super().__init__(self.why)
        self.path = path

    def inside(self, name: str) -> BadValue:
        """The same error for the column or struct `name` that contains the field."""
        return BadValue(self.why, name, *self.path)

    def __str__(self) -> str:
        return f"column {'.'.join(self.path)!r}: {self.why}" if self.path else self.why


class Doubt(Exception):
    """A block may not be parsed correctly in one call, so it is parsed record by record."""


def shown(value: object) -> str:
    """A value for a message: on one line, in ASCII, shortened."""
    text = ascii(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 3]}..."


_name_of: ContextVar[Callable[[int], str] | None] = ContextVar("name_of", default=None)


@contextmanager
def named_records(name_of: Callable[[int], str]) -> Iterator[None]:
    """Log skipped records under other names than their numbers, for what is parsed inside.

    Args:
        name_of: Returns the name of a record, from its number in the transaction.
    """
    token = _name_of.set(name_of)
    try:
        yield
    finally:
        _name_of.reset(token)


class BadRecords:
    """Handles the bad records of one writer. Several threads may use it at once."""

    def __init__(self, on_error: OnError) -> None:
        check_choice("on_error", on_error, ("fail", "skip"))
        self.on_error: OnError = on_error
        self._logged = 0

    def skip(self, bad: BadValue, record: int, byte_offset: int | None, data: Any) -> BadRecord:
        """Skip a bad record.

        Args:
            bad: What is wrong with it.
            record: Its number in the transaction.
            byte_offset: Where it starts, if that is known.
            data: The record as it was written.

        Returns:
            The record, for `Parsed.bad_records`.

        Raises:
            SerializationError: The writer does not skip bad records.
        """
        if self.on_error == "fail":
            raise SerializationError(
                f"{_place(record, byte_offset)}: {bad}. Correct the record and write the transaction again, "
                "or set on_error='skip' to skip bad records",
                record=record,
                byte_offset=byte_offset,
            ) from bad
        self._logged += 1  # not atomic: concurrent threads may log some more
        if self._logged <= MAX_LOGGED_RECORDS:
            last = "; further ones are only counted" if self._logged == MAX_LOGGED_RECORDS else ""
            name_of = _name_of.get()
            name = _place(record, byte_offset) if name_of is None else name_of(record)
            logger.warning("skipped %s: %s%s", name, bad, last)
        return BadRecord(record, str(bad), data, byte_offset)


def _place(record: int, byte_offset: int | None) -> str:
    return f"record {record}" if byte_offset is None else f"record {record} (at byte {byte_offset})"
