"""What Hive 4.0's SerDe for text (`LazySimpleSerDe`) makes of values, with its nulls (`coerce="hive"`).

tests/data/hive/serde_values.json has the values that the SerDes of Hive 3.1.3 and 4.0.1 return.
"""

from __future__ import annotations

import base64
import decimal
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.values import strict_values
from hive_ingest.record_writer.values.timestamp_formats import TimestampFormats
from hive_ingest.schema import HiveType

#: What Java's `String.trim` removes.
_TRIMMED: Final = "".join(map(chr, range(33)))
#: `LazyInteger` cuts off a fraction; its digits must be digits.
_integer = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?").fullmatch
_float = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?").fullmatch
_hexadecimal = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?").fullmatch
_non_finite = re.compile(r"[+-]?(?:NaN|Infinity)").fullmatch
_base64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?").fullmatch
#: Whatever follows a date is ignored.
_date = re.compile(r"(-?[0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})(?![0-9])").match
_clock = re.compile(
    r"([0-9]{1,10})-([0-9]{1,2})-([0-9]{1,2}) ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(\.[0-9]{1,9})?"
).fullmatch
_iso = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{0,9})?)?").fullmatch
#: `LazyDate` does not try to parse fewer bytes.
_MIN_DATE_BYTES: Final = 8
_MAX_DECIMAL_PRECISION: Final = 38
_ROUNDING: Final = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP, traps=[decimal.InvalidOperation])


def from_text(type_: HiveType, timestamps: TimestampFormats) -> strict_values.Converter:
    """The converter of texts that the strict rules do not accept. It returns None where Hive has null."""
    kind = type_.kind
    if kind in strict_values.INTEGER_BITS:
        return null_if_bad(_cut_integer(kind))
    if kind in ("float", "double"):
        return null_if_bad(lambda text: narrowed(java_double(text), kind))
    if kind == "decimal":
        return rounded_decimal(*type_.parameters)
    if kind in ("char", "varchar"):
        return truncated(kind, *type_.parameters)
    if kind == "binary":
        return _binary
    if kind == "date":
        return _text_date
    if kind == "timestamp":
        return timestamp(timestamps)
    return null_if_bad(strict_values.from_text(type_, timestamps.nanos))


def null_if_bad(convert: strict_values.Converter) -> strict_values.Converter:
    """None for what the converter does not accept."""

    def or_null(text: str) -> object:
        try:
            return convert(text)
        except BadValue:
            return None

    return or_null


def _cut_integer(kind: str) -> strict_values.Converter:
    strict = strict_values.integer(kind)

    def convert(text: str) -> object:
        found = _integer(text)
        if found is None or not (found[2] or found[3]):
            raise BadValue(f"{shown(text)} is not a number")
        return strict(f"{found[1]}{found[2] or '0'}")

    return convert


def java_double(text: str) -> float:
    """`Double.parseDouble`. Raises BadValue."""
    text = text.strip(_TRIMMED)
    if found := _float(text):
        return float(found[1])
    if found := _hexadecimal(text):
        return float.fromhex(found[1])
    if _non_finite(text):
        return float(text)
    raise BadValue(f"{shown(text)} is not a number")


def narrowed(number: float, kind: str) -> float:
    """Rounded to a float if that is the type; too large a number becomes infinite."""
    if kind == "double":
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def rounded_decimal(precision: int, scale: int) -> strict_values.Converter:
    """`HiveDecimal`: digits after the scale are rounded half up; a number that is too large becomes None."""
    quantum = decimal.Decimal(1).scaleb(-scale)
    limit = decimal.Decimal(10) ** (precision - scale)

    def convert(text: str) -> object:
        text = text.strip(_TRIMMED)
        if not re.fullmatch(strict_values.DECIMAL, text):
            return None
        try:
            number = decimal.Decimal(text)
            if number.adjusted() >= _MAX_DECIMAL_PRECISION:
                return None
            number = number.quantize(quantum, context=_ROUNDING)
        except decimal.DecimalException:
            return None
        return number if abs(number) < limit else None

    return convert


def truncated(kind: str, length: int) -> strict_values.Converter:
    """As many characters as the type holds."""

    def convert(text: str) -> str:
        text = text[:length]
        return text.rstrip(" ") if kind == "char" else text

    return convert


def _binary(text: str) -> bytes:
    """Base64, which needs no padding, or else the text itself."""
    if not _base64(text):
        return text.encode()
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _text_date(text: str) -> object:
    return date_or(lambda: None)(text) if len(text.encode()) >= _MIN_DATE_BYTES else None


def date_or(otherwise: Callable[[], object]) -> strict_values.Converter:
    """The date that a text begins with.

    Args:
        otherwise: Returns the value of a text that does not begin with a date, or raises BadValue.
    """

    def convert(text: str) -> object:
        found = _date(text.strip(_TRIMMED))
        if found is None or not _is_day(int(found[1]), int(found[2]), int(found[3])):
            return otherwise()
        return strict_values.date(_full_day(found))

    return convert


def timestamp(timestamps: TimestampFormats) -> strict_values.Converter:
    """A timestamp, by `timestamp_formats` if there are any; None if the text is none, or has no such day."""
    if not timestamps.is_strict:
        return null_if_bad(lambda text: timestamps.nanos(text.strip(_TRIMMED)))

    def convert(text: str) -> object:
        text = text.strip(_TRIMMED)
        found = _clock(text) or _iso(text)
        if found is None:
            return None
        hour, minute, second = (int(found[place] or 0) for place in (4, 5, 6))
        is_clock = hour < 24 and minute < 60 and second < 60
        if not (is_clock and _is_day(int(found[1]), int(found[2]), int(found[3]))):
            return None
        fraction = found[7] if found[7] and found[7] != "." else ""
        # Hive has years beyond these, which the ORC files cannot hold: such a value is bad, not null.
        return timestamps.nanos(f"{_full_day(found)} {hour:02}:{minute:02}:{second:02}{fraction}")

    return convert


def _full_day(found: re.Match[str]) -> str:
    return f"{int(found[1]):04}-{int(found[2]):02}-{int(found[3]):02}"


def _is_day(year: int, month: int, day: int) -> bool:
    """Whether the calendar has the day, in any year."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return False
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day <= (31, 29 if is_leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
