"""Whether a stripe may hold a row for which a filter is true, by the statistics of its columns.

A condition is true, false or unknown for a row. For a stripe, the set of what it can be is computed from the bounds of
the columns; the set may be too large, but never too small. So `not` is safe too: it exchanges true and false.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import pyarrow as pa

from hive_ingest.filter_syntax import (
    And,
    Between,
    ColumnName,
    Comparison,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)
from hive_ingest.orc import Bound, OrcKind, ValueRange
from hive_ingest.reader.literals import literal_scalar
from hive_ingest.schema import HiveType

FieldPath = tuple[str, ...]

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_NUMBER_KINDS = frozenset(
    {
        OrcKind.BYTE,
        OrcKind.SHORT,
        OrcKind.INT,
        OrcKind.LONG,
        OrcKind.FLOAT,
        OrcKind.DOUBLE,
        OrcKind.DECIMAL,
    }
)
_TEXT_KINDS = frozenset({OrcKind.STRING, OrcKind.VARCHAR})
#: For each type of the table, the types of a file whose bounds are bounds of the table's values too.
_COMPARABLE: Mapping[str, frozenset[OrcKind]] = {
    **dict.fromkeys(_NUMBERS, _NUMBER_KINDS),
    "date": frozenset({OrcKind.DATE}),
    "timestamp": frozenset({OrcKind.TIMESTAMP}),
    "string": _TEXT_KINDS,
    "varchar": _TEXT_KINDS,
    "char": _TEXT_KINDS | {OrcKind.CHAR},
}


class _Outcome(enum.IntEnum):
    """In this order, `and` is the minimum and `or` the maximum."""

    FALSE = 0
    UNKNOWN = 1
    TRUE = 2


_Outcomes = frozenset[_Outcome]
_EITHER: _Outcomes = frozenset({_Outcome.FALSE, _Outcome.TRUE})
_NULL: _Outcomes = frozenset({_Outcome.UNKNOWN})
_NOTHING_KNOWN = ValueRange(OrcKind.STRUCT)


#: What is known of a column, or of a field of a struct; None for nothing.
RangeOf = Callable[[FieldPath], ValueRange | None]


class StripeFilter:
    """A filter, to be asked for one stripe after the other. Can be pickled."""

    def __init__(self, condition: Condition, type_of: Callable[[ColumnName], HiveType]) -> None:
        """
        Args:
            condition: The filter, all columns and values of which have been found to be right.
            type_of: The type of each column that it names.
        """
        self._node = _compile(condition, type_of)

    def may_match(self, range_of: RangeOf) -> bool:
        """Whether the filter may be true for a row."""
        return _Outcome.TRUE in self._node.outcomes(range_of)


class _Node(Protocol):
    def outcomes(self, range_of: RangeOf, /) -> _Outcomes: ...


@dataclass(frozen=True, slots=True)
class _Column:
    path: FieldPath
    type: HiveType

    def range(self, range_of: RangeOf) -> ValueRange:
        """In the table's type."""
        found = range_of(self.path)
        return _NOTHING_KNOWN if found is None else _as_type(found, self.type)


@dataclass(frozen=True, slots=True)
class _Test(ABC):
    """A condition that is unknown for null, true for some values and false for others."""

    column: _Column

    def outcomes(self, range_of: RangeOf) -> _Outcomes:
        found = self.column.range(range_of)
        outcomes = self._of_values(found) if found.may_have_values else frozenset[_Outcome]()
        return outcomes | _NULL if found.may_have_nulls else outcomes

    @abstractmethod
    def _of_values(self, found: ValueRange) -> _Outcomes:
        """What it may be for the values that are not null."""


@dataclass(frozen=True, slots=True)
class _Compared(_Test):
    sign: str
    value: Bound | None

    def _of_values(self, found: ValueRange) -> _Outcomes:
        if self.value is None:
            return _EITHER
        low, high = _places(found, self.value)
        may_be_below, may_be_equal, may_be_above = low < 0, low <= 0 <= high, high > 0
        possible = {"<": may_be_below, "=": may_be_equal, ">": may_be_above}
        signs = {"<>": "<>", "!=": "<>"}.get(self.sign, self.sign)
        return frozenset(_Outcome.TRUE if each in signs else _Outcome.FALSE for each in possible if possible[each])


@dataclass(frozen=True, slots=True)
class _Listed(_Test):
    values: tuple[Bound | None, ...]

    def _of_values(self, found: ValueRange) -> _Outcomes:
        for value in self.values:
            low, high = (0, 0) if value is None else _places(found, value)
            if low <= 0 <= high:
                return _EITHER
        return frozenset({_Outcome.FALSE})


@dataclass(frozen=True, slots=True)
class _StartsWith(_Test):
    prefix: str

    def _of_values(self, found: ValueRange) -> _Outcomes:
        length = len(self.prefix)
        is_below = isinstance(found.high, str) and found.high[:length] < self.prefix
        is_above = isinstance(found.low, str) and found.low[:length] > self.prefix
        return frozenset({_Outcome.FALSE}) if is_below or is_above else _EITHER


@dataclass(frozen=True, slots=True)
class _IsNull:
    column: _Column

    def outcomes(self, range_of: RangeOf) -> _Outcomes:
        found = self.column.range(range_of)
        nulls = {_Outcome.TRUE} if found.may_have_nulls else set()
        return frozenset(nulls | ({_Outcome.FALSE} if found.may_have_values else set()))


@dataclass(frozen=True, slots=True)
class _Negated:
    node: _Node

    def outcomes(self, range_of: RangeOf) -> _Outcomes:
        return frozenset(_Outcome(_Outcome.TRUE - each) for each in self.node.outcomes(range_of))


@dataclass(frozen=True, slots=True)
class _Joined:
    nodes: tuple[_Node, ...]
    is_and: bool

    def outcomes(self, range_of: RangeOf) -> _Outcomes:
        choose = min if self.is_and else max
        found = self.nodes[0].outcomes(range_of)
        for node in self.nodes[1:]:
            found = frozenset(choose(pair) for pair in product(found, node.outcomes(range_of)))
        return found


# -- from the filter -------------------------------------------------------------------------------


def _compile(condition: Condition, type_of: Callable[[ColumnName], HiveType]) -> _Node:
    def column(name: ColumnName) -> _Column:
        return _Column(name.path, type_of(name))

    def value(literal: Literal, name: ColumnName) -> Bound | None:
        return _comparable(literal_scalar(literal, name, type_of(name)), type_of(name))

    match condition:
        case And(conditions) | Or(conditions):
            nodes = tuple(_compile(part, type_of) for part in conditions)
            return _Joined(nodes, is_and=isinstance(condition, And))
        case Not(inner):
            return _Negated(_compile(inner, type_of))
        case Comparison(name, sign, literal):
            return _Compared(column(name), sign, value(literal, name))
        case Between(name, low, high, negated):
            ends = _Compared(column(name), ">=", value(low, name)), _Compared(column(name), "<=", value(high, name))
            both = _Joined(ends, is_and=True)
            return _Negated(both) if negated else both
        case In(name, literals):
            return _Listed(column(name), tuple(value(literal, name) for literal in literals))
        case Like(name):
            return _StartsWith(column(name), _prefix(condition))
        case IsNull(name):
            return _IsNull(column(name))


def _prefix(condition: Like) -> str:
    """What every text that matches begins with."""
    pattern = condition.pattern.value
    return pattern[: next((i for i, c in enumerate(pattern) if c in ("%", "_", condition.escape)), len(pattern))]


# -- values ----------------------------------------------------------------------------------------


def _comparable(scalar: pa.Scalar, type_: HiveType) -> Bound | None:
    """The value as bounds have it; None if it is in no order with them."""
    if type_.kind in ("date", "timestamp"):
        number: int = scalar.value
        return number
    value = scalar.as_py()
    if type_.kind not in _COMPARABLE or (isinstance(value, float) and math.isnan(value)):
        return None
    found: Bound = value
    return found


def _places(found: ValueRange, value: Bound) -> tuple[int, int]:
    """Where the lowest and the highest value may be: below the value (-1), equal to it (0), or above (1)."""
    low = -1 if found.low is None else _order(found.low, value)
    high = 1 if found.high is None else _order(found.high, value)
    return low, high


def _order(left: Bound, right: Bound) -> int:
    return (left > right) - (left < right)  # type: ignore[operator]  # of one type, or numbers


def _as_type(found: ValueRange, type_: HiveType) -> ValueRange:
    """The range of a file's column as one of the table's; without bounds where the types have other orders."""
    low, high = found.low, found.high
    if found.kind not in _COMPARABLE.get(type_.kind, ()):
        low = high = None
    elif type_.kind == "char":
        low, high = _padded(low, high, *type_.parameters)
    elif type_.kind == "varchar":
        (length,) = type_.parameters
        low, high = (bound[:length] if isinstance(bound, str) else None for bound in (low, high))
    return ValueRange(found.kind, found.may_have_nulls, found.may_have_values, low, high)


def _padded(low: Bound | None, high: Bound | None, length: int) -> tuple[str | None, str | None]:
    """Bounds of values that are padded with blanks, from bounds of the same values, padded or not.

    Without padding a text sorts before those that it is the beginning of; with it, after those that continue with a
    character below the blank.
    """
    least = low[:length].rstrip(" ") if isinstance(low, str) else None
    most = high[:length].ljust(length) if isinstance(high, str) and all(c >= " " for c in high) else None
    return least, most
