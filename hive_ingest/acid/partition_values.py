"""The text form of partition values in folder names and in the catalog, as Hive defines it.

Each value has exactly one text, or one partition would have two folders: `int` 1 is `1`, never `01`. Hive normalises
the partition values of a statement in the same way (`BaseSemanticAnalyzer.validatePartColumnType`).

| Type                   | Text                                                                |
|------------------------|---------------------------------------------------------------------|
| tinyint … bigint       | digits without leading zeros or `+`                                 |
| decimal(p,s)           | without trailing zeros or exponent (`HiveDecimal.toString`)         |
| float, double          | as Java prints it: `1.0`, `1.0E10`                                  |
| boolean                | `true`, `false`                                                     |
| date, timestamp        | `2024-02-29`, `2024-02-29 23:59:59.5` without trailing zeros        |
| char(n)                | with blanks up to its length (`HiveChar.getPaddedValue`)            |
| string, varchar(n)     | the text itself                                                     |
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.model import DEFAULT_PARTITION_NAME
from hive_ingest.schema import HiveType

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?").fullmatch
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_TIMESTAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?").fullmatch
#: A decimal has at most 38 digits, so exponents beyond this are out of range or lose digits.
_EXACT: Final = decimal.Context(prec=100, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])
_NANOSECONDS: Final = range(-(2**63), 2**63)


def padded(text: str, type_: HiveType) -> str:
    """Pad a char with blanks to its length, without which Hive does not find the partition. Others are unchanged."""
    if type_.kind != "char" or text == DEFAULT_PARTITION_NAME:
        return text
    return text.rstrip(" ").ljust(type_.parameters[0])


def text_of_value(value: Any, type_: HiveType) -> str:
    """The text of a value as `pyarrow` gives it to Python. The type must be one of `EXACT_KINDS`."""
    return padded(_TEXT[type_.kind](value), type_)


def normalised_text(text: str, type_: HiveType) -> str:
    """Normalise the text of a value. The default partition's name and an empty text are unchanged.

    Raises:
        ConfigurationError: `text` is not a value of the type.
        UnsupportedFeature: The type cannot be a partition key.
    """
    if text in ("", DEFAULT_PARTITION_NAME):
        return text
    read = _READ.get(type_.kind)
    if read is None:
        raise UnsupportedFeature(f"a partition key of type {type_} is not supported")
    try:
        return padded(read(text, type_), type_)
    except (ValueError, ArithmeticError) as error:
        why = f": {error}" if isinstance(error, _Refused) else ""
        raise ConfigurationError(f"{text!r} is not a value of type {type_}{why}") from error


class _Refused(ValueError):
    """A ValueError whose message is shown to the user."""


def _decimal_text(value: decimal.Decimal) -> str:
    """The form of HiveDecimal: no trailing zeros, no exponent."""
    return format(value.normalize(_EXACT), "f") if value else "0"


_TEXT: Final[dict[str, Callable[[Any], str]]] = {
    "boolean": lambda value: "true" if value else "false",
    "decimal": _decimal_text,
    "date": dt.date.isoformat,
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "string", "char", "varchar"), str),
}
#: Kinds of types whose values all have one exact text, so that rows can be routed by them.
EXACT_KINDS: Final = frozenset(_TEXT)


# -- text to normalised text -----------------------------------------------------------------------


def _integer(text: str, type_: HiveType) -> str:
    if not _INTEGER(text):
        raise ValueError
    limit = 1 << _BITS[type_.kind] - 1
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 19 or not -limit <= (value := int(digits) * (-1 if text[0] == "-" else 1)) < limit:
        raise _Refused(f"out of range ({-limit} to {limit - 1})")
    return str(value)


def _decimal(text: str, type_: HiveType) -> str:
    if not _NUMBER(text):
        raise ValueError
    precision, scale = type_.parameters
    value = decimal.Decimal(text)
    if value.adjusted() >= precision - scale and value:
        raise _Refused("too many digits before the point")
    try:
        return _decimal_text(value.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT))
    except decimal.Inexact as error:
        raise _Refused(f"more than {scale} digits after the point") from error


def _floating(text: str, type_: HiveType) -> str:
    if text.lstrip("+-") not in ("NaN", "Infinity") and not _NUMBER(text):
        raise ValueError
    with np.errstate(over="ignore"):
        value = np.float32(text) if type_.kind == "float" else np.float64(text)
    if math.isinf(value) and "Infinity" not in text:
        raise _Refused("out of range")
    return _java_text(value)


def _java_text(value: np.floating[Any]) -> str:
    """The form of `Double.toString` and `Float.toString` in Java 19 and later: the shortest digits that round-trip."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"


def _boolean(text: str, type_: HiveType) -> str:
    if text.lower() not in ("true", "false"):
        raise _Refused("write true or false")
    return text.lower()


def _date(text: str, type_: HiveType) -> str:
    if not _DATE(text):
        raise _Refused("write yyyy-mm-dd")
    try:
        return dt.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise _Refused(str(error)) from error


def _timestamp(text: str, type_: HiveType) -> str:
    found = _TIMESTAMP(text)
    if not found:
        raise _Refused("write yyyy-mm-dd hh:mm:ss[.fffffffff]")
    try:
        since_1970 = dt.datetime.fromisoformat(f"{found[1]} {found[2]}") - dt.datetime(1970, 1, 1)
    except ValueError as error:
        raise _Refused(str(error)) from error
    fraction = found[3] or ""
    if since_1970 // dt.timedelta(seconds=1) * 10**9 + int(fraction.ljust(9, "0")) not in _NANOSECONDS:
        raise _Refused("out of range (years 1677 to 2262)")
    # java.sql.Timestamp prints whole seconds with ".0", Hive's own does not.
    return f"{found[1]} {found[2]}" + (f".{shown}" if (shown := fraction.rstrip("0")) else "")


def _characters(text: str, type_: HiveType) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _Refused("it has half a surrogate pair, which UTF-8 cannot hold") from error
    content = text.rstrip(" ") if type_.kind == "char" else text
    if type_.parameters and len(content) > type_.parameters[0]:
        raise _Refused(f"it has {len(content)} characters")
    return text


_READ: Final[dict[str, Callable[[str, HiveType], str]]] = {
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(("float", "double"), _floating),
    **dict.fromkeys(("string", "char", "varchar"), _characters),
    "decimal": _decimal,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
}
