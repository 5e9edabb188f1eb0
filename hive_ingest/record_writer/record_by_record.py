"""Blocks parsed one record at a time: slower, and the definition of what is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from hive_ingest.record_writer.bad_records import BadRecords, BadValue
from hive_ingest.record_writer.text_blocks import TextBlock


def parse_records(
    block: TextBlock, row: Callable[[bytes], tuple[Any, ...]], schema: pa.Schema, bad_records: BadRecords
) -> pa.RecordBatch:
    """The rows of a block, less the records that were skipped. Raises SerializationError for the first bad one."""
    rows: list[tuple[Any, ...]] = []
    for number, record in enumerate(block.split()):
        try:
            rows.append(row(record))
        except BadValue as bad:
            bad_records.handle(bad, block.first_record + number, block.offset_of(number))
    return to_batch(rows, schema)


def to_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of converted values as a batch."""
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
