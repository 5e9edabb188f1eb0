"""Partition values that are empty: they name the default partition, or their record is bad."""

from __future__ import annotations

from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.model import DEFAULT_PARTITION_NAME
from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.writer import RecordSchema
from hive_ingest.schema import parse_type

#: What becomes of a record whose partition value is an empty text; null is the default partition.
EmptyPartitionValues = Literal["null", "fail"]
_EMPTY: Final = ("", DEFAULT_PARTITION_NAME)


class PartitionTexts:
    """The dynamic partition columns of a schema whose values are text.

    Args:
        schema: The columns of the rows.
        empty: "null" (nothing is checked) or "fail".
    """

    def __init__(self, schema: RecordSchema, empty: EmptyPartitionValues) -> None:
        first = len(schema.columns)
        self._places = [
            (place, column.name.lower())
            for place, column in enumerate(schema.partition_columns, first)
            if empty == "fail" and parse_type(column.type).kind in ("string", "char", "varchar")
        ]

    def checked_row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The row. Raises BadValue for one with an empty value."""
        for place, name in self._places:
            if row[place] in _EMPTY:
                raise _empty(row[place], name)
        return row

    def are_named(self, batch: pa.RecordBatch) -> bool:
        """Whether no value of a batch is empty."""
        try:
            self.check(batch)
        except BadValue:
            return False
        return True

    def check(self, batch: pa.RecordBatch) -> None:
        """Raises BadValue for a batch with an empty value."""
        for place, name in self._places:
            column = batch.column(place)
            if pc.any(pc.is_in(column, pa.array(_EMPTY, column.type))).as_py():
                raise _empty("", name)


def _empty(value: str, name: str) -> BadValue:
    return BadValue(
        f"{shown(value)} would be the default partition: correct it, or set empty_partition_values='null'", name
    )
