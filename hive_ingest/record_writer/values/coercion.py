"""The option `coerce`: which texts a type accepts besides those of the strict rules.

A value that the strict rules accept is read by them, whatever the option is; the others are offered to the rules of
`lossless_values` or `hive_values`. So a block that Arrow's reader parses by the strict rules has the correct values for
every choice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from hive_ingest.record_writer.bad_records import BadValue
from hive_ingest.record_writer.values import hive_values, lossless_values, strict_values
from hive_ingest.record_writer.values.timestamp_formats import TimestampFormats
from hive_ingest.schema import HiveType

#: "strict": the usual form of a value only; "lossless": also its other forms; "hive": what Hive 4.0 makes of a value.
Coerce = Literal["strict", "lossless", "hive"]
COERCIONS: Final = ("strict", "lossless", "hive")

_Value = TypeVar("_Value")
_ADVICE: Final = "to accept it"
_other_date = re.compile(r"(?![0-9]{4}-)[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{1,4}").fullmatch
_decimal_comma = re.compile(r"[+-]?[0-9]+,[0-9]+").fullmatch


def text_converter(type_: HiveType, timestamps: TimestampFormats, coerce: Coerce) -> strict_values.Converter:
    """The converter of a field of text to a primitive type. With "hive" it may return None.

    Args:
        type_: The type.
        timestamps: The forms of timestamps.
        coerce: Which further texts are accepted.
    """
    strict = strict_values.from_text(type_, timestamps.nanos)
    if coerce == "strict":
        return naming_option(strict, lossless_values.from_text(type_, timestamps), _HINTS.get(type_.kind))
    if coerce == "lossless":
        return first_of(strict, lossless_values.from_text(type_, timestamps))
    return first_of(strict, hive_values.from_text(type_, timestamps))


def _of_date(text: str) -> str | None:
    return "add its pattern to date_formats" if _other_date(text) else None


def _of_number(text: str) -> str | None:
    return "set decimal_point=','" if _decimal_comma(text) else None


#: By type: the option that accepts a text, if it is another one than `coerce`.
_HINTS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "date": _of_date,
    **dict.fromkeys(("float", "double", "decimal"), _of_number),
}


def naming_option(
    strict: Callable[[_Value], Any],
    lossless: Callable[[_Value], Any],
    hint: Callable[[_Value], str | None] | None = None,
) -> Callable[[_Value], Any]:
    """The strict converter, whose error names the option that would accept the value, if there is one.

    Args:
        strict: The converter.
        lossless: What `coerce="lossless"` accepts beside.
        hint: Returns what to do about a value that this does not accept either.
    """

    def convert(value: _Value) -> Any:
        try:
            return strict(value)
        except BadValue as bad:
            advice = None if _ADVICE in bad.why else _advice(value)
            if advice is None:
                raise
            raise BadValue(f"{bad.why}; {_ADVICE}, {advice}", *bad.path) from None

    def _advice(value: _Value) -> str | None:
        try:
            lossless(value)
        except BadValue:
            return hint(value) if hint is not None else None
        return "set coerce='lossless'"

    return convert


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
