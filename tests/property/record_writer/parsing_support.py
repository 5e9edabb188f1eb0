"""Runs a writer over arguments of `write()`, and puts what it parsed beside what the oracle says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hive_ingest.errors import SerializationError
from hive_ingest.model import Column
from hive_ingest.record_writer import RecordSchema, record_by_record
from tests.property.record_writer import oracle


def schema_of(**types: str) -> RecordSchema:
    return RecordSchema(tuple(Column(name, type_) for name, type_ in types.items()))


@dataclass
class Outcome:
    """Rows up to the first bad record, and which one that was (None: there is none)."""

    rows: list[tuple[Any, ...]]
    bad: int | None
    skipped: int = 0


def run(writer, schema: RecordSchema, arguments) -> Outcome:
    """Write each argument, then parse every block in order, as a connection does."""
    writer.bind(schema)
    writer.discard()
    blocks = [block for argument in arguments for block in writer.write(argument)]
    blocks.extend(writer.drain())
    rows: list[tuple[Any, ...]] = []
    skipped = 0
    for block in blocks:
        try:
            parsed = writer.parse(block)
        except SerializationError as error:
            return Outcome(rows, error.record)
        assert parsed.batch.schema.equals(schema.arrow)
        parsed.batch.validate(full=True)
        assert parsed.batch.num_rows == parsed.records - parsed.skipped
        rows.extend(plain_rows(parsed.batch))
        skipped += parsed.skipped
    return Outcome(rows, None, skipped)


def each_way(module) -> Iterator[str]:
    """The fast path on blocks of any size; the same, with halving down to single records; no fast path."""
    usual = module.MIN_RECORDS, record_by_record.MIN_HALVED_RECORDS
    try:
        for way, least, halved in (("at once", 1, 1 << 60), ("halved", 1, 2), ("record by record", 1 << 60, 1 << 60)):
            module.MIN_RECORDS, record_by_record.MIN_HALVED_RECORDS = least, halved
            yield way
    finally:
        module.MIN_RECORDS, record_by_record.MIN_HALVED_RECORDS = usual


def expected(records, row_of) -> Outcome:
    """All good rows, and the number of the first bad record."""
    rows: list[tuple[Any, ...]] = []
    bad: list[int] = []
    for number, record in enumerate(records):
        try:
            rows.append(row_of(record))
        except oracle.Bad:
            bad.append(number)
    return Outcome(rows, bad[0] if bad else None, len(bad))


def plain_rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [[plain(value) for value in column] for column in batch.columns]
    return list(zip(*columns, strict=True))


def plain(value: pa.Scalar):
    """An Arrow scalar as the oracle writes it; NaN as a string, so that it equals itself."""
    if not value.is_valid:
        return None
    if isinstance(value, pa.TimestampScalar | pa.Date32Scalar):
        return value.value
    if isinstance(value, pa.StructScalar):
        return tuple(plain(value[i]) for i in range(len(value.type)))
    if isinstance(value, pa.MapScalar):
        return [(plain(pair["key"]), plain(pair["value"])) for pair in value.values]
    if isinstance(value, pa.ListScalar):
        return [plain(item) for item in value.values]
    return comparable(value.as_py())


def comparable(value):
    """NaN does not equal itself, and 0.0 equals -0.0, so both are compared as text."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        return tuple(map(comparable, value))
    if isinstance(value, list):
        return list(map(comparable, value))
    return value


def check(outcome: Outcome, wanted: Outcome, *, skips: bool) -> None:
    """Rows, their order and values, and which record is bad must agree exactly."""
    rows = comparable(wanted.rows)
    if skips:
        assert outcome.rows == rows
        assert outcome.bad is None
        assert outcome.skipped == wanted.skipped
        return
    assert outcome.bad == wanted.bad
    if wanted.bad is None:
        assert outcome.rows == rows
    else:
        # Blocks before the bad record's are whole; its own gives no rows.
        assert outcome.rows == rows[: len(outcome.rows)]
        assert len(outcome.rows) <= wanted.bad
