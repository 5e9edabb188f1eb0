"""What happens to a record that its table cannot hold: it is named, and fails the transaction or is left out."""

from __future__ import annotations

import logging
from typing import Literal

from hive_ingest.errors import ConfigurationError, SerializationError

OnError = Literal["fail", "skip"]

logger = logging.getLogger("hive_ingest.record_writer")

#: Skipped records that a writer logs before it goes on silently, counting only.
MAX_LOGGED_RECORDS = 10
#: Characters of a bad value that a message shows.
MAX_SHOWN_CHARACTERS = 80


class BadValue(Exception):
    """A value that its column cannot hold. Never leaves this room: it becomes a SerializationError."""

    def __init__(self, why: str, *path: str) -> None:
        super().__init__(why)
        self.why = why
        self.path = path

    def inside(self, name: str) -> BadValue:
        """The same, seen from the column or struct that holds the field."""
        return BadValue(self.why, name, *self.path)

    def __str__(self) -> str:
        return f"column {'.'.join(self.path)!r}: {self.why}" if self.path else self.why


class Doubt(Exception):
    """A block that cannot be parsed in one call with certainty, and so goes record by record."""


def shown(value: object) -> str:
    """A value as messages show it: on one line, in ASCII, shortened."""
    text = ascii(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 3]}..."


class BadRecords:
    """The policy of one writer. May be used from several threads at once."""

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("fail", "skip"):
            raise ConfigurationError(f"on_error={on_error!r} is unknown: use 'fail' or 'skip'")
        self._skips = on_error == "skip"
        self._logged = 0

    def handle(self, bad: BadValue, record: int, byte_offset: int | None) -> None:
        """Return if the record is to be left out; else raise SerializationError."""
        if not self._skips:
            raise SerializationError(
                f"{_place(record, byte_offset)}: {bad}. Correct the record and write the transaction again, "
                "or leave bad records out by on_error='skip'",
                record=record,
                byte_offset=byte_offset,
            ) from bad
        self._logged += 1  # may lose a count between threads: then one line more is logged
        if self._logged <= MAX_LOGGED_RECORDS:
            last = "; further ones are only counted" if self._logged == MAX_LOGGED_RECORDS else ""
            logger.warning("skipped %s: %s%s", _place(record, byte_offset), bad, last)


def _place(record: int, byte_offset: int | None) -> str:
    return f"record {record}" if byte_offset is None else f"record {record} (at byte {byte_offset})"
