"""A base class for custom record writers."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hive_ingest.errors import SerializationError, StreamingError
from hive_ingest.orc import unreadable_row
from hive_ingest.record_writer.bad_records import BadRecord, BadRecords, BadValue, OnError
from hive_ingest.record_writer.options import check_positive
from hive_ingest.record_writer.record_by_record import to_batch
from hive_ingest.record_writer.typed_columns import not_bound
from hive_ingest.record_writer.writer import Parsed, RecordSchema

#: Values of exactly these types cannot change, so they are kept as they are.
_IMMUTABLE: Final = frozenset(
    [str, bytes, int, float, complex, bool, type(None), decimal.Decimal, uuid.UUID, dt.date, dt.time, dt.timedelta]
)


@dataclass(frozen=True, slots=True)
class ListBlock:
    """Records as they were written; `first_record` counts from 0 since the transaction began."""

    records: list[Any]
    first_record: int

    @property
    def nbytes(self) -> int:
        """An estimate that does not follow references."""
        return sum(record.__sizeof__() for record in self.records)


class RecordListWriter(ABC):
    """A record writer in one method: `to_batch` converts a list of records, of any kind, to rows.

        class CoordinatesWriter(RecordListWriter):
            def to_batch(self, records):          # called from worker threads: keep no state in it
                points = [record.split(b";") for record in records]
                arrays = [pa.array([float(p[i]) for p in points]) for i in (0, 1)]
                return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    `write()` takes one record (text, a buffer, a mapping, or anything that cannot be iterated), or an iterable of
    records. If `to_batch` fails for several records, it is called with fewer, until the bad ones are found.

    Args:
        on_error: "fail" (a bad record fails the transaction) or "skip" (it is skipped and counted).
        block_records: Records that are converted in one call.
        copy_records: Whether `write()` copies records that can change (`copy.deepcopy`; a memoryview becomes bytes).
            With False, the caller must not change a record until the transaction has ended.
    """

    def __init__(self, *, on_error: OnError = "fail", block_records: int = 10_000, copy_records: bool = True) -> None:
        check_positive("block_records", block_records)
        self._block_records = block_records
        self._copies_records = copy_records
        self._bad_records = BadRecords(on_error)
        self._schema: RecordSchema | None = None
        self.discard()

    @abstractmethod
    def to_batch(self, records: list[Any]) -> pa.RecordBatch:
        """Convert records to rows.

        Called from several threads at once.

        Args:
            records: What was written, copied unless `copy_records` is false.

        Returns:
            One row for each record, in order, with the schema `self.schema.arrow`.

        Raises:
            Exception: Any exception means that at least one record is bad.
        """

    @property
    def schema(self) -> RecordSchema:
        """The columns that the rows must have. Raises InvalidTransactionState before `bind`."""
        if self._schema is None:
            raise not_bound(self)
        return self._schema

    @property
    def on_error(self) -> OnError:
        """What happens to a bad record."""
        return self._bad_records.on_error

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema.

        An override calls this first, and may reject the schema with StreamingConnectionError.
        """
        self._schema = schema

    def discard(self) -> None:
        """Drop all kept records; record numbers start at 0 again."""
        self._kept: list[Any] = []
        self._next_record = 0

    def write(self, records: object) -> Iterator[ListBlock]:
        """Keep one record, or each record of an iterable; yield the blocks that are ready to be parsed."""
        if isinstance(records, str | bytes | bytearray | memoryview | Mapping) or not isinstance(records, Iterable):
            records = (records,)
        for record in records:
            if self._copies_records and type(record) not in _IMMUTABLE:
                record = self._copy(record)
            self._kept.append(record)
            if len(self._kept) >= self._block_records:
                yield from self.drain()

    def _copy(self, record: Any) -> Any:
        if isinstance(record, memoryview):
            return bytes(record)
        try:
            return copy.deepcopy(record)
        except Exception as error:
            number = self._next_record + len(self._kept)
            raise SerializationError(
                f"record {number} (a {type(record).__name__}) cannot be copied: {error}. Write a plain value instead, "
                "or set copy_records=False if no record changes until the transaction has ended",
                record=number,
            ) from error

    def drain(self) -> Iterator[ListBlock]:
        """Yield all kept records as a block."""
        kept, self._kept = self._kept, []
        if kept:
            block = ListBlock(kept, self._next_record)
            self._next_record += len(kept)
            yield block

    def parse(self, block: Any) -> Parsed:
        """Convert a block of this writer.

        Raises:
            SerializationError: For the first bad record, unless bad records are skipped; or for a batch that does not
                fit the records.
        """
        skipped: list[BadRecord] = []
        batches = self._convert(block.records, block.first_record, skipped)
        if len(batches) == 1:
            batch = batches[0]
        else:
            batch = pa.concat_batches(batches) if batches else to_batch([], self.schema.arrow)
        return Parsed(batch, len(block.records), len(skipped), is_checked=True, bad_records=tuple(skipped))

    def _convert(self, records: list[Any], first_record: int, skipped: list[BadRecord]) -> list[pa.RecordBatch]:
        """The rows of the records that are not bad. Bad ones are found by halving, and appended to `skipped`."""
        try:
            return [self._rows(records)]
        except StreamingError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it means that a record is bad
            if len(records) == 1:
                bad = error if isinstance(error, BadValue) else BadValue(f"{type(error).__name__}: {error}")
                skipped.append(self._bad_records.skip(bad, first_record, None, records[0]))
                return []
            half = len(records) // 2
            first = self._convert(records[:half], first_record, skipped)
            return [*first, *self._convert(records[half:], first_record + half, skipped)]

    def _rows(self, records: list[Any]) -> pa.RecordBatch:
        batch = self.to_batch(records)
        if not batch.schema.equals(self.schema.arrow) or batch.num_rows != len(records):
            raise SerializationError(
                f"{type(self).__name__}.to_batch returned {batch.num_rows} rows for {len(records)} records, with "
                f"the schema {batch.schema}: one row for each record is required, with the schema {self.schema.arrow}"
            )
        if (found := unreadable_row(batch)) is not None:
            raise BadValue(f"to_batch returned a value that cannot be read: {found[1]}")
        return batch
