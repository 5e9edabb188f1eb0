"""Strict conversion of single values: text that its Hive type cannot hold is a BadValue, never a null or a guess.

Dates, timestamps, decimals and base64 have the same form in JSON and in delimited text, and so have the keys of JSON
maps and the fields of delimited text. Results are what `pyarrow.array` accepts for the Arrow type: days since 1970
for a date, nanoseconds since 1970 for a timestamp.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.schema import HiveType

Converter = Callable[[str], object]

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

#: The same patterns serve Python's `re` (fullmatch) and Arrow's RE2, so they use neither \d nor lookaheads.
INTEGER: Final = r"[+-]?[0-9]+"
FLOAT: Final = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
DECIMAL: Final = FLOAT
YEAR: Final = r"([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
DATE: Final = YEAR + r"-[0-9]{2}-[0-9]{2}"
TIMESTAMP: Final = DATE + r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
BASE64: Final = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"

_integer = re.compile(r"([+-]?)0*([0-9]+)").fullmatch
_float = re.compile(FLOAT).fullmatch
_date = re.compile(DATE).fullmatch
_base64 = re.compile(BASE64).fullmatch
#: Java's names, as Hive writes them to text; no other spelling is accepted.
_NON_FINITE: Final = {
    sign + name: float(sign + number)
    for name, number in (("NaN", "nan"), ("Infinity", "inf"))
    for sign in ("", "+", "-")
}
_EPOCH: Final = dt.datetime(1970, 1, 1)
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_MIN_NANOS: Final = -(2**63)
_MAX_NANOS: Final = 2**63 - 1
_EXACT: Final = decimal.Context(
    prec=100, Emax=10**6, Emin=-(10**6), traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
)


def integer(kind: str) -> Converter:
    """Digits with an optional sign, in the type's range."""
    low, high = -(1 << INTEGER_BITS[kind] - 1), (1 << INTEGER_BITS[kind] - 1) - 1

    def convert(text: str) -> int:
        digits = _integer(text)
        if not digits:
            raise BadValue(f"{shown(text)} is not a whole number, as {kind} requires")
        # No bigint has 20 digits, and int() is slow for long texts.
        value = int(digits[1] + digits[2]) if len(digits[2]) < 20 else high + 1
        if not low <= value <= high:
            raise BadValue(f"{shown(text)} is out of range for {kind} ({low} to {high})")
        return value

    return convert


def floating(kind: str) -> Converter:
    """A decimal number, rounded to the nearest double (and from there to float); out of range is bad."""
    narrow = kind == "float"

    def convert(text: str) -> float:
        value = float(text)
        if narrow:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        if math.isinf(value):
            raise BadValue(f"{shown(text)} is out of range for {kind}")
        return value

    return convert


def floating_text(kind: str) -> Converter:
    """Like `floating`, for unchecked text, including Java's NaN, Infinity and -Infinity."""
    finite = floating(kind)

    def convert(text: str) -> object:
        if _float(text):
            return finite(text)
        if text in _NON_FINITE:
            return _NON_FINITE[text]
        raise BadValue(f"{shown(text)} is not a number, as {kind} requires")

    return convert


def decimal_number(precision: int, scale: int) -> Converter:
    """A decimal number that fits exactly: no digit is rounded away."""
    kind = f"decimal({precision},{scale})"
    quantum = decimal.Decimal(1).scaleb(-scale)
    limit = decimal.Decimal(10) ** (precision - scale)

    def convert(text: str) -> decimal.Decimal:
        if not _float(text):
            raise BadValue(f"{shown(text)} is not a decimal number, as {kind} requires")
        try:
            value = decimal.Decimal(text).quantize(quantum, context=_EXACT)
        except decimal.DecimalException as error:
            raise BadValue(f"{shown(text)} does not fit {kind} without rounding") from error
        if not -limit < value < limit:
            raise BadValue(f"{shown(text)} has too many digits for {kind}")
        return value

    return convert


def boolean(text: str) -> bool:
    """`true` or `false` in any case (Hive: LazyBoolean)."""
    word = text.lower() if len(text) <= 5 and text.isascii() else ""
    if word not in ("true", "false"):
        raise BadValue(f"{shown(text)} is neither true nor false, as boolean requires")
    return word == "true"


def date(text: str) -> int:
    """`yyyy-mm-dd`, years 0001 to 9999, as days since 1970-01-01 in the proleptic Gregorian calendar."""
    if not _date(text):
        raise BadValue(f"{shown(text)} is not a date of the form yyyy-mm-dd")
    try:
        return dt.date(int(text[:4]), int(text[5:7]), int(text[8:])).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise BadValue(f"{shown(text)} is not a date: {error}") from error


def clock_nanos(text: str) -> int:
    """A text of the form of `TIMESTAMP` as nanoseconds since 1970, of any year. Raises BadValue for no such date."""
    try:
        seconds = dt.datetime.fromisoformat(text[:19]) - _EPOCH
    except ValueError as error:
        raise BadValue(f"{shown(text)} is not a timestamp: {error}") from error
    return (seconds.days * 86_400 + seconds.seconds) * 10**9 + int(text[20:].ljust(9, "0"))


def held_nanos(nanos: int, text: str) -> int:
    """`nanos`, read from `text`, if a timestamp can hold them.

    No fraction before 1970: Hive could not read it from ORC files (see `orc.normalise`).
    """
    if not _MIN_NANOS <= nanos <= _MAX_NANOS:
        raise BadValue(
            f"{shown(text)} is out of range for a timestamp (1677-09-21 00:12:44 to 2262-04-11 23:47:16.854775807)"
        )
    if nanos < 0 and nanos % 10**9:
        raise BadValue(f"{shown(text)} is before 1970, where Hive reads only whole seconds: round it")
    return nanos


def base64_bytes(text: str) -> bytes:
    """Base64 with padding, the standard alphabet, no line breaks."""
    if not _base64(text):
        raise BadValue(f"{shown(text)} is not base64, as binary requires")
    return base64.b64decode(text)


def characters(kind: str, length: int) -> Converter:
    """At most `length` code points. A char's trailing blanks do not count and are not kept (Hive: HiveChar)."""
    strips = kind == "char"

    def convert(text: str) -> str:
        if strips:
            text = text.rstrip(" ")
        if len(text) > length:
            raise BadValue(f"{shown(text)} has {len(text)} characters, {kind}({length}) holds {length}")
        return text

    return convert


def from_text(type_: HiveType, timestamp: Converter) -> Converter:
    """The converter of a field of delimited text, or of a key of a JSON map, to a primitive type.

    Args:
        type_: The type.
        timestamp: The converter of timestamps (see `TimestampFormats`).
    """
    kind = type_.kind
    if kind in INTEGER_BITS:
        return integer(kind)
    if kind in ("float", "double"):
        return floating_text(kind)
    if kind in ("char", "varchar"):
        return characters(kind, *type_.parameters)
    if kind == "decimal":
        return decimal_number(*type_.parameters)
    simple: dict[str, Converter] = {
        "string": str,
        "boolean": boolean,
        "binary": base64_bytes,
        "date": date,
        "timestamp": timestamp,
    }
    return simple[kind]
