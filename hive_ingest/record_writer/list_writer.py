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

from hive_ingest.errors import ConfigurationError, SerializationError, StreamingError
from hive_ingest.orc.normalise import unreadable_row
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
        """A guess: only the writer's user knows what the records hold."""
        return sum(record.__sizeof__() for record in self.records)


class RecordListWriter(ABC):
    """A record writer in one method: `to_batch` converts a list of records, of any kind, to rows.

        class CoordinatesWriter(RecordListWriter):
            def to_batch(self, records):          # called from worker threads: keep no state in it
                points = [record.split(b";") for record in records]
                arrays = [pa.array([float(p[i]) for p in points]) for i in (0, 1)]
                return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    `write()` takes one record (text, a buffer, a mapping, or anything that cannot be iterated), or an iterable of
    records. If `to_batch` fails, the records are converted one by one, and the error names the first that fails.

    Args:
        block_records: Records that are converted in one call.
        copy_records: Whether `write()` copies records that can change (`copy.deepcopy`; a memoryview becomes bytes).
            With False, the caller must not change a record until the transaction has ended.
    """

    def __init__(self, *, block_records: int = 10_000, copy_records: bool = True) -> None:
        if block_records < 1:
            raise ConfigurationError(f"block_records={block_records} is not positive")
        self._block_records = block_records
        self._copies_records = copy_records
        self._schema: RecordSchema | None = None
        self.discard()

    @abstractmethod
    def to_batch(self, records: list[Any]) -> pa.RecordBatch:
        """One row for each record, in order, of `self.schema.arrow`. Any exception means that one is bad."""

    @property
    def schema(self) -> RecordSchema:
        """What the records must become. Raises InvalidTransactionState before `bind`."""
        if self._schema is None:
            raise not_bound(self)
        return self._schema

    def bind(self, schema: RecordSchema) -> None:
        """Override to refuse a schema (StreamingConnectionError); call this first."""
        self._schema = schema

    def discard(self) -> None:
        """Forget all that is kept; record numbers start at 0 again."""
        self._kept: list[Any] = []
        self._next_record = 0

    def write(self, records: object) -> Iterator[ListBlock]:
        """Keep one record, or each of an iterable."""
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
        """Give up all that is kept."""
        kept, self._kept = self._kept, []
        if kept:
            block = ListBlock(kept, self._next_record)
            self._next_record += len(kept)
            yield block

    def parse(self, block: Any) -> Parsed:
        """Parse a block of this writer. Raises SerializationError, which names its first bad record."""
        try:
            batch = self.to_batch(block.records)
        except StreamingError:
            raise
        except Exception as error:
            raise self._first_failure(block, error) from error
        if not batch.schema.equals(self.schema.arrow) or batch.num_rows != len(block.records):
            raise SerializationError(
                f"{type(self).__name__}.to_batch made {batch.num_rows} rows of {len(block.records)} records, of the "
                f"schema {batch.schema}: one row a record is needed, of the schema {self.schema.arrow}",
                record=block.first_record,
            )
        if (found := unreadable_row(batch)) is not None:
            record = block.first_record + found[0]
            raise SerializationError(
                f"record {record}: {type(self).__name__}.to_batch made a value that cannot be read: {found[1]}",
                record=record,
            )
        return Parsed(batch, batch.num_rows, is_checked=True)

    def _first_failure(self, block: ListBlock, error: Exception) -> SerializationError:
        for number, record in enumerate(block.records):
            try:
                self.to_batch([record])
            except Exception as its_own:  # noqa: BLE001 - whatever it is, it says which record is bad
                return _named(block.first_record + number, its_own)
        return _named(block.first_record, error)


def _named(record: int, error: Exception) -> SerializationError:
    return SerializationError(
        f"record {record}: {type(error).__name__}: {error}. Correct the record and write the transaction again",
        record=record,
    )
