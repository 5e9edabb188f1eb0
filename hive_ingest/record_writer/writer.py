"""The protocol of record writers, which convert what a user passes to `write()` to typed Arrow batches.

A record writer keeps raw records cheaply on the caller's thread and cuts them into blocks; parsing a block
is a pure function that worker threads run. It knows nothing of transactions, partitions or files.

The easiest custom writer is a subclass of `RecordListWriter`, with one method:

    class CoordinatesWriter(RecordListWriter):
        def to_batch(self, records):
            points = [record.split(b";") for record in records]
            arrays = [pa.array([float(point[i]) for point in points]) for i in (0, 1)]
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

Any object with the five methods of `RecordWriter` can be used as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from hive_ingest.model import Column, Table
from hive_ingest.record_writer.bad_records import BadRecord
from hive_ingest.schema import arrow_schema

#: Hive's property of tables and SerDes: the formats of timestamps in text.
TIMESTAMP_FORMATS_PROPERTY: Final = "timestamp.formats"


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The columns of a row: the data columns, then the dynamic partition columns, in table order.

    `static_values` are the static partition keys and the text of each one's value. They are no columns of a row, but a
    record whose field of that name has another value is bad. `timestamp_formats` are those of the table's property
    `timestamp.formats`.
    """

    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    static_values: tuple[tuple[Column, str], ...] = ()
    timestamp_formats: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, static_values: Sequence[str] = ()) -> RecordSchema:
        """The schema of a table's records, for values of its leading partition keys."""
        count = len(static_values)
        static = zip(table.partition_keys[:count], static_values, strict=True)
        # As in Hive, a property of the table takes precedence over one of its SerDe.
        formats = {**table.serde_properties, **table.properties}.get(TIMESTAMP_FORMATS_PROPERTY, "")
        return cls(table.columns, table.partition_keys[count:], tuple(static), _split_property(formats))

    @property
    def all_columns(self) -> tuple[Column, ...]:
        return (*self.columns, *self.partition_columns)

    @property
    def arrow(self) -> pa.Schema:
        """The schema of the batches that `parse` must return: nullable fields with the types of `schema.arrow_type`."""
        return arrow_schema(self.all_columns)


def _split_property(text: str) -> tuple[str, ...]:
    """A list of words with commas in between; one that is part of a word has a backslash before it."""
    words = re.split(r"(?<!\\),", text) if text else ()
    return tuple(re.sub(r"\\(.)", r"\1", word) for word in words)


class Block(Protocol):
    """Consecutive raw records that are parsed in one call. Only the writer that created it knows its contents."""

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Parsed:
    """The rows of a block: one for each record that was not skipped."""

    batch: pa.RecordBatch
    records: int
    skipped: int = 0
    #: Lower-case keys that match no column, and the columns that at least one key matched.
    unknown_fields: frozenset[str] = field(default_factory=frozenset)
    matched_columns: frozenset[str] | None = None
    #: Whether the writer has checked that every value can be read (`why_unreadable`); if not, the transaction does.
    is_checked: bool = False
    #: The records that were skipped, in order. Those that a writer does not return are only counted.
    bad_records: tuple[BadRecord, ...] = ()


@runtime_checkable
class RecordWriter(Protocol):
    """Converts records to Arrow batches (Java: `RecordWriter`, its parsing half)."""

    def bind(self, schema: RecordSchema) -> None:
        """Called before the first record, and again when the table's schema has changed.

        Raises:
            StreamingConnectionError: The writer cannot write to this schema.
        """
        ...

    def write(self, records: object) -> Iterable[Block]:
        """Keep the records; return the blocks that are ready to be parsed (usually none).

        Called on the owner's thread, once for every `conn.write()`, so it must be cheap. The result may be lazy, so
        that a file or a generator of any size is read in bounded memory; it is iterated to its end before the next
        call. What is kept must not change when the caller changes its objects: copy what can change.

        Raises:
            SerializationError: The argument is of a type that the writer does not accept.
        """
        ...

    def drain(self) -> Iterable[Block]:
        """Return all kept records as blocks (lazily or not, as for `write`)."""
        ...

    def discard(self) -> None:
        """Drop all kept records; record numbers and byte offsets start at 0 again (a transaction begins)."""
        ...

    def parse(self, block: Block) -> Parsed:
        """Parse one block. Pure, and called from several threads at once.

        Raises:
            SerializationError: For the first bad record.
        """
        ...
