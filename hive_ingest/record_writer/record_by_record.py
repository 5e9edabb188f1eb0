"""Parses blocks that cannot be parsed in one call: halves large ones, then parses one record at a time.

Parsing one record at a time is many times slower, and defines the correct result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self, TypeVar

import pyarrow as pa

from hive_ingest.record_writer.bad_records import BadRecord, BadRecords, BadValue
from hive_ingest.record_writer.writer import Block, Parsed

#: Blocks are halved down to about this many records, so that one bad record does not slow down all others.
MIN_HALVED_RECORDS = 4096


class RecordBlock(Protocol):
    """Consecutive records as bytes."""

    @property
    def records(self) -> int:
        """The number of records."""
        ...

    @property
    def first_record(self) -> int:
        """The number of the first one in the transaction."""
        ...

    @property
    def can_be_halved(self) -> bool:
        """Whether a half of it may be parsed at once."""
        ...

    def halves(self) -> tuple[Self, Self]:
        """The block in two parts. It must have at least two records."""
        ...

    def split(self) -> list[bytes]:
        """The records, without delimiters."""
        ...

    def offsets(self) -> list[int]:
        """The byte at which each record starts."""
        ...


SomeBlock = TypeVar("SomeBlock", bound=RecordBlock)


def parse_halving(
    block: SomeBlock, at_once: Callable[[SomeBlock], Parsed | None], one_by_one: Callable[[SomeBlock], Parsed]
) -> Parsed:
    """Parse a block, as much of it as possible in one call.

    Raises:
        SerializationError: For the first bad record, unless bad records are skipped.
    """
    parsed = at_once(block)
    if parsed is not None:
        return parsed
    if not block.can_be_halved or block.records < MIN_HALVED_RECORDS:
        return one_by_one(block)
    first, second = (parse_halving(half, at_once, one_by_one) for half in block.halves())
    return _joined(first, second)


def divided_blocks(blocks: Iterable[Block], count: int, least_bytes: int) -> list[Block]:
    """The blocks in order; the largest is halved until there are `count`, if its halves have at least `least_bytes`."""
    found = list(blocks)
    while 0 < len(found) < count:
        place = max(range(len(found)), key=lambda number: found[number].nbytes)
        largest: Any = found[place]
        if largest.nbytes < 2 * least_bytes or not getattr(largest, "can_be_halved", False) or largest.records < 2:
            break
        found[place : place + 1] = largest.halves()
    return found


def _joined(first: Parsed, second: Parsed) -> Parsed:
    return Parsed(
        pa.concat_batches([first.batch, second.batch]),
        first.records + second.records,
        first.skipped + second.skipped,
        first.unknown_fields | second.unknown_fields,
        (first.matched_columns or frozenset()) | (second.matched_columns or frozenset()),
        is_checked=first.is_checked and second.is_checked,
        bad_records=(*first.bad_records, *second.bad_records),
    )


def parse_records(
    block: RecordBlock, row: Callable[[bytes], tuple[Any, ...] | None], schema: pa.Schema, bad_records: BadRecords
) -> tuple[pa.RecordBatch, tuple[BadRecord, ...]]:
    """The rows of a block without skipped records, and these. A record whose row is None is left out.

    Raises:
        SerializationError: For the first bad record, unless bad records are skipped.
    """
    rows: list[tuple[Any, ...]] = []
    skipped: list[BadRecord] = []
    offsets: list[int] | None = None
    for number, record in enumerate(block.split()):
        try:
            if (values := row(record)) is not None:
                rows.append(values)
        except BadValue as bad:
            offsets = offsets or block.offsets()
            skipped.append(bad_records.skip(bad, block.first_record + number, offsets[number], record))
    return to_batch(rows, schema), tuple(skipped)


def to_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of rows of converted values."""
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
