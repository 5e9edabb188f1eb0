"""Filters that Spark pushes down (`DataSourceReader.pushFilters`, pyspark 4.1 and later) as Arrow expressions.

Only those that Arrow decides exactly as Spark does are taken: Spark does not look at a pushed filter again. So
fractions stay with Spark (its NaN equals itself), and timestamps (it sees microseconds), and fields of structs.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.schema import HiveType, parse_type

_TEXT: Final = ("string", "varchar", "char")
_EXACT: Final = (*_TEXT, "boolean", "tinyint", "smallint", "int", "bigint", "decimal", "date")

# By the names of pyspark's classes, which pyspark 4.0 lacks.
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}
_TEXT_TESTS: Final[dict[str, Callable[..., Any]]] = {
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}


class _NotExact(Exception):
    """Spark must decide this filter itself."""


def to_expression(filter: Any, column_types: Mapping[str, str]) -> pc.Expression | None:
    """True for exactly the rows for which Spark's filter is true; None for a filter that Spark must decide.

    `column_types` are Hive types by column name in lower case.
    """
    try:
        return _expression(filter, column_types)
    except _NotExact:
        return None


def all_of(expressions: Sequence[pc.Expression]) -> pc.Expression | None:
    """Joined by "and"; None for none."""
    return functools.reduce(operator.and_, expressions) if expressions else None


def _expression(filter: Any, column_types: Mapping[str, str]) -> pc.Expression:
    if type(filter).__name__ == "Not":
        known, is_true = _three_valued(filter.child, column_types)
        return known & ~is_true
    known, is_true = _three_valued(filter, column_types)
    return known & is_true


def _three_valued(filter: Any, column_types: Mapping[str, str]) -> tuple[pc.Expression, pc.Expression]:
    """Whether the filter is not null, and whether it is true where it is not null."""
    name, type_ = _column(filter, column_types)
    column, kind = pc.field(name), type(filter).__name__
    always = pc.scalar(True)
    if kind in ("IsNull", "IsNotNull"):
        return always, column.is_null() if kind == "IsNull" else column.is_valid()
    if kind == "EqualNullSafe":
        return always, column.is_null() if filter.value is None else _equal(column, _literal(filter.value, type_))
    if kind in _COMPARISONS:
        return column.is_valid(), _COMPARISONS[kind](column, _literal(filter.value, type_))
    if kind in _TEXT_TESTS and type_.kind in _TEXT and isinstance(filter.value, str):
        return column.is_valid(), _TEXT_TESTS[kind](column, filter.value)
    if kind == "In":
        values = [_literal(value, type_).as_py() for value in filter.value]
        return column.is_valid(), column.isin(pa.array(values, type_.arrow))
    raise _NotExact


def _equal(column: pc.Expression, value: pa.Scalar) -> pc.Expression:
    return column.is_valid() & (column == value)


def _column(filter: Any, column_types: Mapping[str, str]) -> tuple[str, HiveType]:
    path: Sequence[str] = getattr(filter, "attribute", ())
    name = path[0].lower() if len(path) == 1 else ""
    if name not in column_types:
        raise _NotExact
    return name, parse_type(column_types[name])


def _literal(value: Any, type_: HiveType) -> pa.Scalar:
    """Of the column's type, or not at all; also no null."""
    if value is None or type_.kind not in _EXACT:
        raise _NotExact
    try:
        literal = pa.scalar(value, type_.arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _NotExact from error
    if literal.as_py() != value:
        raise _NotExact
    return literal
