"""The literals of a filter as values of their columns' types."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import pyarrow as pa

from hive_ingest.filter_syntax import ColumnName, FilterSyntaxError, Literal
from hive_ingest.schema import MAX_DECIMAL_PRECISION, HiveType

_TEXTS = ("string", "char", "varchar", "binary")
#: Kinds of literals that each other type takes; texts are tried for all of them.
_LITERALS = {
    "boolean": ("text", "boolean"),
    "date": ("text", "date"),
    "timestamp": ("text", "timestamp", "date"),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"), ("text", "number")),
    **dict.fromkeys(_TEXTS, ("text",)),
}


def literal_scalar(literal: Literal, column: ColumnName, type_: HiveType) -> pa.Scalar:
    """The literal as a value of the column's type. Raises FilterSyntaxError."""
    if type_.children:
        raise FilterSyntaxError(
            f"{column} is {type_}: it can only be tested by 'is null' or 'is not null'", column.position
        )
    text = literal.value
    if type_.kind in _TEXTS and literal.kind != "text":
        raise FilterSyntaxError(f"{column} is {type_}: put the value in quotes", literal.position)
    try:
        if literal.kind not in _LITERALS[type_.kind]:
            raise ValueError
        if type_.kind == "char":
            text = text.rstrip(" ").ljust(type_.parameters[0])
        elif type_.kind == "decimal":
            return pa.scalar(_decimal(text), type_.arrow)
        elif literal.kind == "number":
            text = text.removeprefix("+")
        return pa.scalar(text).cast(type_.arrow)
    except (ValueError, InvalidOperation, pa.ArrowException) as error:
        raise FilterSyntaxError(
            f"{literal.value!r} is not a value of type {type_}, the type of {column}", literal.position
        ) from error


def _decimal(text: str) -> Decimal:
    """The number. Raises ValueError for one with more digits after the point than any decimal has.

    Arrow accesses memory outside of a table of the powers of ten for those.
    """
    number = Decimal(text)
    if number and int(number.as_tuple().exponent) < -MAX_DECIMAL_PRECISION:
        raise ValueError
    return number or Decimal(0)
