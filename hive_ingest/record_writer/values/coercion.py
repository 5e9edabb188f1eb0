"""The option `coerce`: which texts a type accepts besides those of the strict rules.

A value that the strict rules accept is read by them, whatever the option is; the others are offered to the rules of
`lossless_values` or `hive_values`. So a block that Arrow's reader parses by the strict rules has the correct values for
every choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

from hive_ingest.record_writer.bad_records import BadValue
from hive_ingest.record_writer.values import hive_values, lossless_values, strict_values
from hive_ingest.record_writer.values.timestamp_formats import TimestampFormats
from hive_ingest.schema import HiveType

#: "strict": the usual form of a value only; "lossless": also its other forms; "hive": what Hive 4.0 makes of a value.
Coerce = Literal["strict", "lossless", "hive"]
COERCIONS: Final = ("strict", "lossless", "hive")

_Value = TypeVar("_Value")


def text_converter(type_: HiveType, timestamps: TimestampFormats, coerce: Coerce) -> strict_values.Converter:
    """The converter of a field of text to a primitive type. With "hive" it may return None.

    Args:
        type_: The type.
        timestamps: The forms of timestamps.
        coerce: Which further texts are accepted.
    """
    strict = strict_values.from_text(type_, timestamps.nanos)
    if coerce == "strict":
        return strict
    if coerce == "lossless":
        return first_of(strict, lossless_values.from_text(type_, timestamps))
    return first_of(strict, hive_values.from_text(type_, timestamps))


def first_of(strict: Callable[[_Value], Any], further: Callable[[_Value], Any]) -> Callable[[_Value], Any]:
    """The strict converter, then the other one. A value that neither accepts has the error of the strict one."""

    def convert(value: _Value) -> Any:
        try:
            return strict(value)
        except BadValue as bad:
            try:
                return further(value)
            except BadValue:
                raise bad from None

    return convert
