"""A filter as text: comparisons joined by `and`, such as `month = 3 and origin = 'JFK'`, as an Arrow expression."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import ConfigurationError

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LITERAL = r"'(?P<text>(?:[^']|'')*)'|(?P<bare>[+-]?[\w.][\w.+-]*)"
_COMPARISON = re.compile(
    rf"\s*(?P<column>[^\W\d]\w*)\s*(?:(?P<operator><=|>=|!=|<>|=|<|>)\s*(?:{_LITERAL})"
    r"|\s+is\s+(?P<not>not\s+)?null\b)\s*",
    re.IGNORECASE,
)
_AND = re.compile(r"and\b", re.IGNORECASE)


def parse_where(text: str, schema: pa.Schema, option: str = "where") -> pc.Expression:
    """Columns are matched without regard to case; a literal is read as a value of its column's type.

    Grammar: `column OP literal` or `column is [not] null`, joined by `and`. OP is one of = != <> < <= > >=;
    texts stand in single quotes, doubled inside. Raises ConfigurationError, which calls the text by `option`.
    """
    try:
        return _expression(text, schema)
    except _NotUnderstood as error:
        raise ConfigurationError(f"{option} {error}") from error


class _NotUnderstood(Exception):
    """Why; becomes a ConfigurationError."""


def _expression(text: str, schema: pa.Schema) -> pc.Expression:
    found: list[pc.Expression] = []
    at = 0
    while True:
        match = _COMPARISON.match(text, at)
        if match is None:
            raise _refusal(text, at)
        found.append(_comparison(match, schema))
        at = match.end()
        if at == len(text):
            return functools.reduce(operator.and_, found)
        joined = _AND.match(text, at)
        if joined is None:
            raise _refusal(text, at)
        at = joined.end()


def _comparison(match: re.Match[str], schema: pa.Schema) -> pc.Expression:
    field = _field(match["column"], schema)
    column = pc.field(field.name)
    if match["operator"] is None:
        return column.is_valid() if match["not"] else column.is_null()
    literal = match["bare"] if match["text"] is None else match["text"].replace("''", "'")
    try:
        value = pa.scalar(literal).cast(field.type)
    except (pa.ArrowException, NotImplementedError) as error:
        raise _NotUnderstood(
            f"compares {field.name}, which is {field.type}, with {literal!r}: give a value of that type"
        ) from error
    return _OPERATORS[match["operator"]](column, value)


def _field(name: str, schema: pa.Schema) -> pa.Field:
    for field in schema:
        if field.name == name.lower():
            return field
    raise _NotUnderstood(f"names {name!r}, which is no column: there are {', '.join(schema.names)}")


def _refusal(text: str, at: int) -> _NotUnderstood:
    return _NotUnderstood(
        f"cannot be read at {text[at : at + 30]!r}: write comparisons joined by 'and', such as "
        '"month = 3 and origin = \'JFK\'" or "dest is not null"'
    )
