"""The metastore's filter language over partition values.

The syntax is that of `filter_syntax`, as far as Hive's metastore has it: without `in`, `is null`, `not like` and
`escape`, and with a backslash before a quote in a text.

Values are compared as the key's type: numbers as numbers, dates as dates, everything else as text. Unlike SQL, a
condition is either true or false: a null partition value meets no comparison, so `not` selects it, and a text key may
be compared with `__HIVE_DEFAULT_PARTITION__` itself. Source: Hive's `PartitionFilter.g4` and `ExpressionTree`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from hive_ingest.errors import ConfigurationError
from hive_ingest.filter_syntax import (
    COMPARISONS,
    And,
    Between,
    ColumnName,
    Comparison,
    Condition,
    FilterSyntaxError,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    parse_condition,
)
from hive_ingest.model import DEFAULT_PARTITION_NAME, Column
from hive_ingest.schema import parse_type

#: Whether a partition with these text values, in key order, is selected.
PartitionTest = Callable[[Sequence[str]], bool]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS = ("decimal", "double", "float")
_EXAMPLE = """'country = "India" and (month > 3 or day like "1%")'"""


def parse_filter(text: str, keys: Sequence[Column]) -> PartitionTest:
    """The test that a filter makes of each partition.

    Raises:
        ConfigurationError: The filter cannot be read, or a key or literal in it does not fit.
    """
    try:
        condition = parse_condition(text, backslash_escapes=True, column="a partition key")
        return _Compiler(keys).test(condition)
    except FilterSyntaxError as error:
        raise ConfigurationError(f"partition {error.describe(text, _EXAMPLE)}") from error


def _converter(type_: str) -> Callable[[str], Any]:
    kind = parse_type(type_).kind
    if kind in _INTEGERS:
        return int
    if kind in _FRACTIONS:
        return Decimal
    return date.fromisoformat if kind == "date" else str


class _Compiler:
    def __init__(self, keys: Sequence[Column]) -> None:
        self._keys = {key.name: (index, key) for index, key in enumerate(keys)}

    def test(self, condition: Condition) -> PartitionTest:
        match condition:
            case Or(conditions):
                alternatives = [self.test(part) for part in conditions]
                return lambda values: any(part(values) for part in alternatives)
            case And(conditions):
                requirements = [self.test(part) for part in conditions]
                return lambda values: all(part(values) for part in requirements)
            case Not(IsNull(column) | In(column) | Like(column)):
                raise self._unsupported("'is not null', 'not in' and 'not like'", column)
            case Not(inner):
                negated = self.test(inner)
                return lambda values: not negated(values)
            case Comparison(column, sign, value):
                return self._compare(column, sign, value)
            case Between():
                return self._between(condition)
            case Like(column, pattern, "\\"):
                return _like(self._key(column)[0], pattern.value)
            case Like(column) | In(column) | IsNull(column):
                raise self._unsupported("'in', 'is null' and 'escape'", column)

    def _unsupported(self, what: str, column: ColumnName) -> FilterSyntaxError:
        return FilterSyntaxError(f"the metastore's filters do not have {what}", column.position)

    def _key(self, column: ColumnName) -> tuple[int, Column]:
        found = self._keys.get(str(column))
        if found is None:
            keys = ", ".join(self._keys) or "none"
            raise FilterSyntaxError(f"{str(column)!r} is not a partition key (the keys are {keys})", column.position)
        return found

    def _compare(self, column: ColumnName, sign: str, value: Literal) -> PartitionTest:
        index, key = self._key(column)
        compare, literal = COMPARISONS[sign], value.value
        if literal == DEFAULT_PARTITION_NAME:
            return lambda values: compare(values[index], literal)
        convert, wanted = _converter(key.type), _converted(key, value)
        return lambda values: _holds(values[index], convert, lambda value: compare(value, wanted))

    def _between(self, condition: Between) -> PartitionTest:
        index, key = self._key(condition.column)
        low, high = _converted(key, condition.low), _converted(key, condition.high)
        convert, wanted = _converter(key.type), not condition.negated
        return lambda values: _holds(values[index], convert, lambda value: (low <= value <= high) == wanted)


def _converted(key: Column, literal: Literal) -> Any:
    try:
        return _converter(key.type)(literal.value)
    except (ValueError, InvalidOperation) as error:
        raise FilterSyntaxError(
            f"{literal.value!r} is not a value of type {key.type}, the type of partition key {key.name!r}",
            literal.position,
        ) from error


def _holds(value: str, convert: Callable[[str], Any], test: Callable[[Any], bool]) -> bool:
    if value == DEFAULT_PARTITION_NAME:
        return False
    try:
        return test(convert(value))
    except (ValueError, InvalidOperation):
        return False  # a value that its type cannot hold, such as month=unknown


def _like(index: int, pattern: str) -> PartitionTest:
    """SQL's LIKE: % any text, _ any character."""
    expression = re.escape(pattern).replace("%", ".*").replace("_", ".")
    wanted = re.compile(expression, re.DOTALL)
    return lambda values: values[index] != DEFAULT_PARTITION_NAME and wanted.fullmatch(values[index]) is not None
