"""What the statistics of a stripe say about its values, for readers that skip stripes.

Statistics are used only where they are certain, because a stripe that is skipped by mistake is a loss of rows without
an error:

- Hive 3.1.3's minor compaction writes statistics without values for all columns. So those of a stripe count only if
  its `operation` column (in files without it, the root) has a value in each row.
- Rows with another operation than an insert, as Hive 2 wrote them, are refused by the reader, which must see them.
- A column without a flag for nulls must have a value in each row.
- Minimum and maximum of floating-point numbers ignore a NaN, or are NaN. But then the sum is NaN too.
- Timestamps have milliseconds, in early versions of Hive's writer in a time zone that is not known.
- Dates before 1582-10-15 may be those of another calendar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from hive_ingest.orc.acid_schema import INSERT, OPERATION, ROW, orc_column_id
from hive_ingest.orc.format.column_bounds import column_bounds
from hive_ingest.orc.format.column_statistics import int_range
from hive_ingest.orc.format.columns import GREGORIAN_START, ColumnType, OrcColumn, OrcKind, column_types
from hive_ingest.orc.format.protobuf import WireError, read_fields
from hive_ingest.orc.format.tail import OrcTail

_ROOT = 0
#: `writer` in the footer of files of ORC's C++ library, which counts timestamps in UTC.
_CPP_WRITER = 1
_MILLISECOND, _DAY = 1_000_000, 86_400_000_000_000
_DOUBLES, _MINIMUM, _MAXIMUM, _SUM = 3, 1, 2, 3

Bound = int | float | str | Decimal


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The values of one column in one stripe.

    Attributes:
        kind: The column's type in the file (`OrcKind`).
        may_have_nulls: Whether there may be nulls.
        may_have_values: Whether there may be other values.
        low: No value is below it; None: not known. Dates in days, timestamps in nanoseconds since 1970.
        high: No value is above it.
    """

    kind: int
    may_have_nulls: bool = True
    may_have_values: bool = True
    low: Bound | None = None
    high: Bound | None = None


class StripeBounds:
    """The statistics of one stripe that can be trusted."""

    def __init__(self, tail: OrcTail, statistics: Sequence[bytes], rows: int, *, is_acid: bool) -> None:
        """
        Args:
            tail: The file's.
            statistics: A `ColumnStatistics` message for each column of the file, for this stripe.
            rows: How many the stripe has.
            is_acid: Whether the file has the ACID columns.
        """
        self._types = column_types(tail.footer.types)
        self._writer = tail.footer.writer
        self._statistics = statistics
        self._rows = rows
        self._parent = self._types[orc_column_id(ROW) if is_acid else _ROOT]
        self._is_trusted = len(statistics) == len(self._types) and self._are_complete(is_acid)

    def of(self, position: int, fields: Sequence[str]) -> ValueRange | None:
        """The range of a column of the table, or of a field of a struct in it.

        Args:
            position: Of the column in the table, from 0.
            fields: Names of fields, from the outermost struct inwards.

        Returns:
            None where nothing is known. A column that the file lacks has only nulls.
        """
        if position >= len(self._parent.children):
            return ValueRange(OrcKind.STRUCT, may_have_values=False)
        if not self._is_trusted:
            return None
        number: int | None = self._parent.children[position]
        for name in fields:
            number = None if number is None else _field(self._types[number], name)
        if number is None:
            return None
        try:
            return self._range(number, is_nested=bool(fields))
        except WireError:
            return None

    def _are_complete(self, is_acid: bool) -> bool:
        try:
            first = self._statistics[orc_column_id(OPERATION) if is_acid else _ROOT]
            if is_acid and int_range(first) != (INSERT, INSERT):
                return False
            return column_bounds(OrcColumn("", OrcKind.INT, first)).values == self._rows
        except WireError:
            return False

    def _range(self, number: int, *, is_nested: bool) -> ValueRange | None:
        kind = self._types[number].kind
        column = OrcColumn("", kind, self._statistics[number])
        found = column_bounds(column)
        if found.values is None:
            return None
        low, high = _pair(column, self._writer) or (found.low, found.high)
        if kind == OrcKind.DATE and isinstance(low, int) and low < GREGORIAN_START:
            low = high = None
        if is_nested:  # null also where its struct is
            return ValueRange(kind, low=low, high=high)
        if not found.may_have_nulls and found.values != self._rows:
            return None
        return ValueRange(kind, found.values < self._rows, found.values > 0, low, high)


def _field(struct: ColumnType, name: str) -> int | None:
    return struct.children[struct.names.index(name)] if name in struct.names else None


def _pair(column: OrcColumn, writer: int | None) -> tuple[Bound, Bound] | None:
    if column.kind in (OrcKind.FLOAT, OrcKind.DOUBLE):
        return _doubles(column.statistics)
    if column.kind == OrcKind.TIMESTAMP:
        return _timestamps(column, writer)
    return None


def _doubles(statistics: bytes) -> tuple[float, float] | None:
    """None if one of the values may be NaN."""
    typed = next((field for field in read_fields(statistics) if field.number == _DOUBLES), None)
    parts = {} if typed is None else {field.number: field.as_double for field in read_fields(typed.as_bytes)}
    if not {_MINIMUM, _MAXIMUM, _SUM} <= parts.keys() or not all(map(math.isfinite, parts.values())):
        return None
    return parts[_MINIMUM], parts[_MAXIMUM]


def _timestamps(column: OrcColumn, writer: int | None) -> tuple[int, int] | None:
    extremes = column.extremes(OrcKind.TIMESTAMP)
    if extremes is None:
        return None
    # Before 1970, fractions of a millisecond are rounded up by some writers, down by others.
    slack = _MILLISECOND if writer == _CPP_WRITER else _DAY
    return extremes[0] - slack, extremes[1] + slack
