"""The part of an Arrow expression that is a filter in our own syntax too, so that stripes can be left out by it.

pyarrow does not show what an expression consists of, except in its pickled form: an Arrow file with the literals and
options as columns, and the calls in the order of the text as metadata of its schema. What is not exactly the same in
SQL, and anything that is not known here, is left to Arrow: then more stripes are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.filter_syntax import (
    And,
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
)
from hive_ingest.reader.stripe_filter import StripeFilter
from hive_ingest.schema import HiveType

_ENTRY = re.compile(r"(call|end|field_ref|nested_field_ref|literal|options): '(.*)'")
_METADATA = "-- schema metadata --\n"
_SIGNS = {"equal": "=", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: `SetLookupOptions::NullMatchingBehavior`: for both, null is not in a list without nulls.
_MATCH_OR_SKIP = (0, 1)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: Calls of conditions that can be taken together in any number.
_JOINING = ("and_kleene", "or_kleene")
#: Deeper conditions, and longer lists of values, are left to Arrow: to read them would take as long as the rows do.
_MAX_DEPTH = 100
_MOST_VALUES = 1000

TypeOf: TypeAlias = Callable[[ColumnName], HiveType]
_Options: TypeAlias = Mapping[str, pa.Scalar]
_Operand: TypeAlias = "ColumnName | pa.Scalar | Condition"


class _Unknown(Exception):
    """Arrow must decide."""


def stripe_filter_of(expression: pc.Expression, type_of: TypeOf) -> StripeFilter | None:
    """Which stripes may have a row for which the expression is true; None if it does not tell.

    Args:
        expression: A filter that fits the table.
        type_of: The type of each column of the table. Raises FilterSyntaxError for another one.
    """
    if not isinstance(expression, pc.Expression):
        return None  # what it is instead is named when it is bound to the table
    try:
        conditions = _Reader(expression, type_of).conjuncts()
        return StripeFilter(And(tuple(conditions)), type_of) if conditions else None
    except (_Unknown, pa.ArrowException, KeyError, IndexError):
        return None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call whose operands are being read; one that is not understood is None."""

    name: str
    depth: int = 0
    operands: list[_Operand | None] = field(default_factory=list)
    options: dict[str, pa.Scalar] = field(default_factory=dict)

    def inner(self, name: str) -> _Call:
        """A call among the operands. One that joins the same conditions has its operands in this call's list.

        A program that joins many conditions one by one makes as many calls, each inside of the next one.
        """
        if name == self.name and name in _JOINING:
            return _Call(name, self.depth, self.operands)
        return _Call(name, self.depth + 1)


class _Reader:
    """Reads the entries one after the other."""

    def __init__(self, expression: pc.Expression, type_of: TypeOf) -> None:
        self._type_of = type_of
        content = pa.ipc.open_file(expression.__reduce__()[1][0])
        self._values = content.get_batch(0) if content.num_record_batches else None
        self._entries = iter(_entries(content.schema))

    def conjuncts(self) -> list[Condition]:
        """Those of the conditions that must all be true that are known here."""
        calls = [_Call("and_kleene")]
        for kind, value in self._entries:
            if kind == "call":
                calls.append(calls[-1].inner(value))
            elif kind == "options":
                calls[-1].options.update(self._value(value).items())
            elif kind != "end":
                calls[-1].operands.append(self._leaf(kind, value))
            else:
                call = calls.pop()
                if call.operands is not calls[-1].operands:
                    calls[-1].operands.append(self._result(call))
        return [each for each in calls[0].operands if self._is_condition(each)]

    def _is_condition(self, operand: _Operand | None) -> TypeGuard[Condition]:
        """Whether it is one whose values are those of its columns' types."""
        try:
            StripeFilter(_as_condition(operand), self._type_of)
        except (_Unknown, FilterSyntaxError):
            return False
        return True

    def _leaf(self, kind: str, value: str) -> _Operand:
        if kind == "field_ref":
            return ColumnName((value,), 0)
        if kind == "nested_field_ref":
            return ColumnName(tuple(name for _, name in islice(self._entries, int(value))), 0)
        return self._value(value)

    def _value(self, column: str) -> pa.Scalar:
        if self._values is None:
            raise _Unknown
        return self._values.column(int(column))[0]

    def _result(self, call: _Call) -> Condition | None:
        if call.depth > _MAX_DEPTH:
            return None
        try:
            return self._call(call.name, call.operands, call.options)
        except (_Unknown, pa.ArrowException, FilterSyntaxError, KeyError):
            return None

    def _call(self, name: str, operands: Sequence[_Operand | None], options: _Options) -> Condition:
        if name in ("and_kleene", "or_kleene", "invert"):
            conditions = tuple(map(_as_condition, operands))
            return Not(*conditions) if name == "invert" else And(conditions) if name == "and_kleene" else Or(conditions)
        match operands:
            case [ColumnName() as column]:
                return self._test(name, column, options)
            case [ColumnName() as column, pa.Scalar() as value] if name in _SIGNS:
                return Comparison(column, _SIGNS[name], self._literal(value, column))
            case [pa.Scalar() as value, ColumnName() as column] if name in _SIGNS:
                sign = _SIGNS[name]
                return Comparison(column, _MIRRORED.get(sign, sign), self._literal(value, column))
        raise _Unknown

    def _test(self, name: str, column: ColumnName, options: _Options) -> Condition:
        if name == "is_null" and not _option(options, "nan_is_null"):
            return IsNull(column)
        if name == "is_valid":
            return Not(IsNull(column))
        if name == "starts_with":
            return self._starts_with(column, options)
        if name == "is_in":
            return self._is_in(column, options)
        raise _Unknown

    def _starts_with(self, column: ColumnName, options: _Options) -> Condition:
        if _option(options, "ignore_case") or self._type_of(column).kind not in ("string", "varchar"):
            raise _Unknown
        pattern = re.sub(r"([%_\\])", r"\\\1", _option(options, "pattern"))
        return Like(column, Literal("text", f"{pattern}%", 0))

    def _is_in(self, column: ColumnName, options: _Options) -> Condition:
        """False for null in Arrow, unknown in SQL."""
        type_ = self._type_of(column)
        if _option(options, "null_matching_behavior") not in _MATCH_OR_SKIP or type_.kind in ("float", "double"):
            raise _Unknown  # floating-point numbers are compared by their bits
        values = options["value_set"].values
        if not 1 <= len(values) <= _MOST_VALUES:
            raise _Unknown
        return And((Not(IsNull(column)), In(column, tuple(self._literal(value, column) for value in values))))

    def _literal(self, value: pa.Scalar, column: ColumnName) -> Literal:
        """The same value as text, if Arrow compares it with the column in the order of the column's type."""
        type_ = self._type_of(column)
        if not value.is_valid:
            raise _Unknown
        is_comparable = {
            **dict.fromkeys(_INTEGERS, pat.is_integer),
            "decimal": lambda found: pat.is_integer(found) or pat.is_decimal(found),
            "float": pat.is_floating,
            "double": pat.is_floating,
            "string": pat.is_string,
            "char": pat.is_string,
            "varchar": pat.is_string,
            "date": pat.is_date32,
            "timestamp": lambda found: pat.is_timestamp(found) and found.tz is None,
        }.get(type_.kind)
        if is_comparable is None or not is_comparable(value.type):
            raise _Unknown
        if pat.is_temporal(value.type):
            return Literal(type_.kind, value.cast(type_.arrow).cast(pa.string()).as_py(), 0)
        found = value.as_py()
        if isinstance(found, float) and not _is_exact(found, type_):
            raise _Unknown
        if type_.kind == "char" and (len(found) != type_.parameters[0] or len(column.path) > 1):
            raise _Unknown  # Arrow compares with the blanks at the end of the column's values, which fields lack
        return Literal("text" if isinstance(found, str) else "number", _text(found), 0)


def _as_condition(operand: _Operand | None) -> Condition:
    """Raises _Unknown for a column or a value by itself."""
    if operand is None or isinstance(operand, ColumnName | pa.Scalar):
        raise _Unknown
    condition: Condition = operand
    return condition


def _option(options: _Options, name: str) -> Any:
    if name not in options:
        raise _Unknown
    return options[name].as_py()


def _entries(schema: pa.Schema) -> list[tuple[str, str]]:
    """The metadata, some keys of which occur several times. Raises _Unknown."""
    _, _, text = schema.to_string(truncate_metadata=False).rpartition(_METADATA)
    found = [_ENTRY.fullmatch(line) for line in text.split("\n")]
    if not all(found):
        raise _Unknown
    return [(entry[1], entry[2]) for entry in found if entry]


def _is_exact(number: float, type_: HiveType) -> bool:
    return math.isfinite(number) and pa.scalar(number).cast(type_.arrow).as_py() == number


def _text(value: Any) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
