"""The protocol between what a user passes to `write()` and typed Arrow batches.

A record writer keeps raw records cheaply on the caller's thread and cuts them into blocks; parsing a block
is a pure function that worker threads run. It knows nothing of transactions, partitions or files.

A writer of your own is easiest on `RecordListWriter`, which leaves one method to write:

    class CoordinatesWriter(RecordListWriter):
        def to_batch(self, records):
            points = [record.split(b";") for record in records]
            arrays = [pa.array([float(point[i]) for point in points]) for i in (0, 1)]
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

Anything with the five methods of `RecordWriter` will do as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from hive_ingest.model import Column
from hive_ingest.schema import arrow_schema


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """What a record must become: the data columns, then the dynamic partition columns, in table order."""

    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()

    @property
    def all_columns(self) -> tuple[Column, ...]:
        return (*self.columns, *self.partition_columns)

    @property
    def arrow(self) -> pa.Schema:
        """Of the batches that `parse` must return: every field nullable, Arrow types as `schema.arrow_type`."""
        return arrow_schema(self.all_columns)


class Block(Protocol):
    """A run of raw records that is parsed in one call. Opaque to all but the writer that cut it."""

    @property
    def nbytes(self) -> int:
        """Memory that it holds, in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Parsed:
    """One row for each record of a block, less the skipped ones."""

    batch: pa.RecordBatch
    records: int
    skipped: int = 0
    #: Lower-case keys seen that match no column (JSON), and columns that at least one key matched.
    unknown_fields: frozenset[str] = field(default_factory=frozenset)
    matched_columns: frozenset[str] | None = None
    #: Whether the writer has checked that every value can be read (`why_unreadable`); if not, the transaction does.
    is_checked: bool = False


@runtime_checkable
class RecordWriter(Protocol):
    """Turns records into Arrow batches (Java: `RecordWriter`, its parsing half). Write your own by these calls."""

    def bind(self, schema: RecordSchema) -> None:
        """Called before the first record, and again when the table's schema has changed.

        Raises StreamingConnectionError for a combination that cannot be meant.
        """
        ...

    def write(self, records: object) -> Iterable[Block]:
        """Keep the records; give the blocks that have become worth parsing (usually none).

        The answer may be lazy, so that a file or a generator of any size passes in bounded memory: iterate
        it to its end before the next call. Called on the owner's thread, once for every `conn.write()`:
        must be cheap. Raises SerializationError for an argument of a type that it cannot take.
        """
        ...

    def drain(self) -> Iterable[Block]:
        """Give up all that is kept, as blocks (lazy or not, as for `write`)."""
        ...

    def discard(self) -> None:
        """Forget all that is kept; record numbers and byte offsets start at 0 again (a transaction begins)."""
        ...

    def parse(self, block: Block) -> Parsed:
        """Parse one block. Pure, and called from several threads at once. Raises SerializationError."""
        ...
