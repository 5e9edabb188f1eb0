"""A filter as text, such as `month = 3 and origin like 'JF%'`, as an Arrow expression.

The syntax is that of `filter_syntax`. Conditions are those of SQL: a comparison with a null value is neither true nor
false, and a row is kept where the filter is true. Literals are read as values of the column's type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
from hive_ingest.model import Column
from hive_ingest.reader.arrow_filter import stripe_filter_of
from hive_ingest.reader.literals import literal_scalar
from hive_ingest.reader.stripe_filter import FieldPath, StripeFilter
from hive_ingest.schema import HiveType, parse_type

_EXAMPLE = """"month = 3 and (origin like 'JF%' or dest is not null)\""""


@dataclass(frozen=True, slots=True)
class Where:
    """A filter that fits a table.

    Attributes:
        expression: True for each row to keep.
        paths: The columns, and fields of structs, that it reads.
        stripes: Which stripes of a file may have such a row.
    """

    expression: pc.Expression
    paths: frozenset[FieldPath]
    stripes: StripeFilter


def parse_where(text: str, columns: Iterable[Column]) -> Where:
    """A filter over these columns.

    A char is compared as Hive does, without regard to blanks at its end.

    Raises:
        ConfigurationError: The filter cannot be read, names a column that is not there, or compares a column with a
            value that is not of its type.
    """
    try:
        compiler, condition = _Compiler(columns), parse_condition(text)
        expression = compiler.expression(condition)
        return Where(expression, frozenset(compiler.paths), StripeFilter(condition, compiler.type_of))
    except FilterSyntaxError as error:
        raise ConfigurationError(error.describe(text, _EXAMPLE)) from error


def stripes_of(expression: pc.Expression, columns: Iterable[Column]) -> StripeFilter | None:
    """Which stripes may have a row for which an Arrow expression is true; None if it does not tell."""
    return stripe_filter_of(expression, _Compiler(columns).type_of)


class _Compiler:
    def __init__(self, columns: Iterable[Column]) -> None:
        self._types = {column.name: parse_type(column.type) for column in columns}
        self.paths: set[FieldPath] = set()

    def expression(self, condition: Condition) -> pc.Expression:
        match condition:
            case Or(conditions):
                return _joined(or_, [self.expression(part) for part in conditions])
            case And(conditions):
                return _joined(and_, [self.expression(part) for part in conditions])
            case Not(inner):
                return ~self.expression(inner)
            case Comparison(column, sign, value):
                return COMPARISONS[sign](self._compared(column), literal_scalar(value, column, self.type_of(column)))
            case Between():
                return self._between(condition)
            case In(column, values):
                return self._in(column, values)
            case Like():
                return self._like(condition)
            case IsNull(column):
                self.type_of(column)
                return _field(column).is_null()

    def type_of(self, column: ColumnName) -> HiveType:
        """Raises FilterSyntaxError for a column, or a field of a struct, that is not there."""
        type_ = self._types.get(column.path[0])
        if type_ is None:
            known = ", ".join(self._types)
            raise FilterSyntaxError(f"there is no column {column.path[0]!r} (the columns are {known})", column.position)
        for name in column.path[1:]:
            fields = dict(type_.children) if type_.kind == "struct" else {}
            if name not in fields:
                raise FilterSyntaxError(f"{str(column)!r} does not name a field of {type_}", column.position)
            type_ = fields[name]
        self.paths.add(column.path)
        return type_

    def _compared(self, column: ColumnName) -> pc.Expression:
        """The values of a column as literals have them."""
        type_ = self.type_of(column)
        if type_.kind == "char" and len(column.path) > 1:
            return pc.utf8_rpad(_field(column), *type_.parameters)  # only a whole column is read with its blanks
        return _field(column)

    def _between(self, condition: Between) -> pc.Expression:
        column, type_ = condition.column, self.type_of(condition.column)
        field = self._compared(column)
        low, high = literal_scalar(condition.low, column, type_), literal_scalar(condition.high, column, type_)
        found = (field >= low) & (field <= high)
        return ~found if condition.negated else found

    def _in(self, column: ColumnName, values: Sequence[Literal]) -> pc.Expression:
        type_ = self.type_of(column)
        scalars = [literal_scalar(value, column, type_) for value in values]
        if type_.kind in ("float", "double"):
            # Arrow's isin compares bits: 0.0 would not be in a list with -0.0, and NaN would be in one with NaN.
            return _joined(or_, [_field(column) == scalar for scalar in scalars])
        found = self._compared(column).isin(pa.array(scalars, type_.arrow))
        # Arrow says that null is not in the list, SQL that it is not known, which matters below a "not".
        return pc.if_else(_field(column).is_valid(), found, pa.scalar(None, pa.bool_()))

    def _like(self, condition: Like) -> pc.Expression:
        type_, field = self.type_of(condition.column), _field(condition.column)
        if type_.kind not in ("string", "char", "varchar"):
            raise FilterSyntaxError(
                f"{condition.column} is {type_}: only string columns can be compared by 'like'",
                condition.column.position,
            )
        if type_.kind == "char":
            field = pc.utf8_rtrim(field, characters=" ")
        pattern = condition.pattern.value
        if condition.escape not in pattern and "\\" not in pattern:
            return pc.match_like(field, pattern)
        # Arrow takes an escape for a character of the text where the pattern begins or ends with %.
        return pc.match_substring_regex(field, _regular_expression(condition))


def _field(column: ColumnName) -> pc.Expression:
    return pc.field(*column.path)


def _joined(operator: Callable[[Any, Any], Any], parts: Sequence[pc.Expression]) -> pc.Expression:
    """As a balanced tree: Arrow descends into it by recursion."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return operator(_joined(operator, parts[:middle]), _joined(operator, parts[middle:]))


def _regular_expression(condition: Like) -> str:
    """In the syntax of RE2. Raises FilterSyntaxError."""
    pattern, escape = condition.pattern.value, condition.escape
    found, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise FilterSyntaxError(
                    f"in the pattern {pattern!r} the escape {escape!r} must stand before %, _ or itself",
                    condition.pattern.position,
                )
            found.append(f"\\x{{{ord(escaped):x}}}")
        else:
            found.append({"%": ".*", "_": "."}.get(character, f"\\x{{{ord(character):x}}}"))
    return rf"(?s)\A{''.join(found)}\z"
