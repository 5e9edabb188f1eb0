"""Bad records that a record writer skips are counted, limited, and passed to a handler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from hive_ingest.connection.bad_record_table import BadRecordRows, BadRecordTable
from hive_ingest.delta import WriteCounts
from hive_ingest.errors import ConfigurationError, TooManyBadRecords
from hive_ingest.record_writer import BadRecord, Parsed, RecordWriter


@runtime_checkable
class BadRecordHandler(Protocol):
    """Takes the bad records that the record writer of a connection skips. The connection's own thread calls it.

    A bad record is passed to the handler before its transaction commits. If the transaction is aborted instead, its
    records are usually written again, and the bad ones are passed again: at least once, not exactly once.
    """

    def handle(self, records: Sequence[BadRecord]) -> None:
        """Take bad records, in the order in which they were written. An error fails the transaction."""
        ...

    def flush(self) -> None:
        """Make the records durable. Called before the commit of a transaction that has bad records.

        An error fails the transaction.
        """
        ...


#: What `bad_records=` takes: a handler, a table, or a function that is called for each bad record.
BadRecordTarget: TypeAlias = BadRecordHandler | BadRecordTable | Callable[[BadRecord], object]


class _Calls:
    """Calls a function for each bad record."""

    def __init__(self, function: Callable[[BadRecord], object]) -> None:
        self._function = function

    def handle(self, records: Sequence[BadRecord]) -> None:
        for record in records:
            self._function(record)

    def flush(self) -> None:
        pass


def bad_record_handler(target: object) -> BadRecordHandler:
    """The handler that `bad_records=` stands for. Raises ConfigurationError."""
    if isinstance(target, BadRecordHandler):
        return target
    if callable(target):
        return _Calls(target)
    raise ConfigurationError(
        f"bad_records={target!r}: pass a function that takes a BadRecord, a BadRecordFile, a BadRecordTable, or an "
        "object with the methods of BadRecordHandler"
    )


class SkippedRecords:
    """The records that a connection skips.

    Args:
        record_writer: The writer that skips them.
        target: Takes the bad records; may be None.
        max_records: The most that may be skipped in the committed transactions and the open one.
        max_share: The largest share of a transaction's records that may be skipped.

    Raises:
        ConfigurationError: An argument is not valid, or has no effect with this record writer.
    """

    def __init__(
        self,
        record_writer: RecordWriter,
        target: BadRecordTarget | None,
        max_records: int | None,
        max_share: float | None,
    ) -> None:
        _check_effect(record_writer, bad_records=target, max_bad_records=max_records, max_bad_record_share=max_share)
        if max_records is not None and (not isinstance(max_records, int) or max_records < 0):
            raise ConfigurationError(f"max_bad_records={max_records!r} is not valid: use 0 or more")
        if max_share is not None and not 0 <= max_share <= 1:
            raise ConfigurationError(f"max_bad_record_share={max_share!r} is not valid: use a number from 0 to 1")
        is_handler = target is not None and not isinstance(target, BadRecordTable)
        self._handler = bad_record_handler(target) if is_handler else None
        self._max_records = max_records
        self._max_share = max_share
        self._committed = 0

    def keep_in(self, rows: BadRecordRows | None) -> None:
        """Pass the bad records to the rows of a table, if there is one."""
        self._handler = self._handler or rows

    def take(self, parsed: Parsed, counts: WriteCounts) -> None:
        """Hand on the bad records of a block, which `counts` of the transaction includes.

        Raises:
            TooManyBadRecords: There are more than `max_records`.
            Exception: An error of the handler.
        """
        if self._handler is not None and parsed.bad_records:
            self._handler.handle(parsed.bad_records)
        if self._exceeds(counts):
            self._flush()
            self._refuse(counts, parsed.bad_records)

    def before_commit(self, counts: WriteCounts) -> None:
        """Have the handler make the bad records of a transaction durable, and check the limits.

        Raises:
            TooManyBadRecords: There are more than `max_records`, or a larger share than `max_share`.
            Exception: An error of the handler.
        """
        if not counts.skipped:
            return
        self._flush()
        if self._exceeds(counts):
            self._refuse(counts, ())
        share = counts.skipped / counts.records
        if self._max_share is not None and share > self._max_share:
            raise TooManyBadRecords(
                f"{counts.skipped} of the {counts.records} records of the transaction are bad, more than "
                f"max_bad_record_share={self._max_share} allows. Correct the records and write the transaction again, "
                "or raise the limit"
            )

    def committed(self, counts: WriteCounts) -> None:
        """Add a transaction to those that count."""
        self._committed += counts.skipped

    def _flush(self) -> None:
        if self._handler is not None:
            self._handler.flush()

    def _exceeds(self, counts: WriteCounts) -> bool:
        return self._max_records is not None and self._committed + counts.skipped > self._max_records

    def _refuse(self, counts: WriteCounts, bad: Sequence[BadRecord]) -> None:
        last = bad[-1] if bad else None
        place = "" if last is None else f"record {last.record}: {last.reason}. "
        if last is not None and last.byte_offset is not None:
            place = f"record {last.record} (at byte {last.byte_offset}): {last.reason}. "
        raise TooManyBadRecords(
            f"{place}bad records skipped since the connection was opened: {self._committed + counts.skipped}, more "
            f"than max_bad_records={self._max_records} allows. Correct the records and write the transaction again, or "
            "raise the limit",
            record=last.record if last else None,
            byte_offset=last.byte_offset if last else None,
        )


def _check_effect(record_writer: RecordWriter, **options: object) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given and getattr(record_writer, "on_error", None) == "fail":
        raise ConfigurationError(
            f"{given[0]} has no effect, because the record writer fails at a bad record: give it on_error='skip'"
        )
