"""Bounds of a column's values by its statistics, for a file or a stripe."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from hive_ingest.orc.format.columns import OrcColumn, OrcKind
from hive_ingest.orc.format.protobuf import Field, WireError, read_fields

_VALUES, _INTEGERS, _STRINGS, _DECIMALS, _DATES, _HAS_NULL = 1, 2, 4, 6, 7, 10
_INTEGER_KINDS = frozenset({OrcKind.BYTE, OrcKind.SHORT, OrcKind.INT, OrcKind.LONG})
_STRING_KINDS = frozenset({OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR})


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What statistics say about the values of a column.

    Attributes:
        values: How many are not null; None: not known.
        may_have_nulls: Whether there may be nulls.
        low: No value is below it; None: not known. Integers, and days of dates, as int; texts as str.
        high: No value is above it.
    """

    values: int | None
    may_have_nulls: bool
    low: int | str | Decimal | None = None
    high: int | str | Decimal | None = None


def column_bounds(column: OrcColumn) -> ColumnBounds:
    """The bounds of integers, dates, texts and decimals; of other kinds only whether there are values.

    Not of float and double: whether there is a NaN among the values, statistics do not tell. Raises WireError.
    """
    fields = {field.number: field for field in read_fields(column.statistics)}
    values = fields[_VALUES].as_int if _VALUES in fields else None
    may_have_nulls = _HAS_NULL not in fields or bool(fields[_HAS_NULL].as_int)  # a missing flag means true
    low, high = _pair(column.kind, fields) or (None, None)
    return ColumnBounds(values, may_have_nulls, low, high)


_Pair = tuple[int, int] | tuple[str, str] | tuple[Decimal, Decimal]


def _pair(kind: int, fields: dict[int, Field]) -> _Pair | None:
    if kind in _INTEGER_KINDS and _INTEGERS in fields:
        return _signed(fields[_INTEGERS])
    if kind == OrcKind.DATE and _DATES in fields:
        return _signed(fields[_DATES])
    if kind in _STRING_KINDS and _STRINGS in fields:
        return _texts(fields[_STRINGS])
    if kind == OrcKind.DECIMAL and _DECIMALS in fields:
        return _decimals(fields[_DECIMALS])
    return None


def _parts(field: Field) -> dict[int, Field]:
    return {part.number: part for part in read_fields(field.as_bytes)}


def _signed(field: Field) -> tuple[int, int] | None:
    parts = _parts(field)
    return (parts[1].as_signed, parts[2].as_signed) if {1, 2} <= parts.keys() else None


def _texts(field: Field) -> tuple[str, str] | None:
    """1 and 2 are the exact bounds; Java cuts long ones and writes 4 and 5 instead (ORC-203)."""
    parts = _parts(field)
    low, high = parts.get(1, parts.get(4)), parts.get(2, parts.get(5))
    if low is None or high is None:
        return None
    try:
        return low.as_bytes.decode(), high.as_bytes.decode()
    except UnicodeDecodeError:
        return None


def _decimals(field: Field) -> tuple[Decimal, Decimal] | None:
    parts = _parts(field)
    if not {1, 2} <= parts.keys():
        return None
    try:
        low, high = (Decimal(parts[number].as_bytes.decode("ascii")) for number in (1, 2))
    except (InvalidOperation, UnicodeDecodeError) as error:
        raise WireError("decimal statistics are not a decimal") from error
    return (low, high) if low.is_finite() and high.is_finite() else None
