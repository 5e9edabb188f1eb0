"""What Hive 4.0's `JsonSerDe` makes of JSON values: those of Jackson's nodes, without errors (`coerce="hive"`).

Jackson's nodes for numbers are of 32 or 64 bits, a BigInteger, or a double if the number has a point or an exponent.
Strings become numbers as far as they are some, else 0.
"""

from __future__ import annotations

import decimal
import math
import re
from typing import Any, Final

from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.json.leaves import JsonConverter, JsonForms, NumberText, described, json_text, utf8
from hive_ingest.record_writer.values import hive_values, strict_values
from hive_ingest.schema import HiveType

_TRIMMED: Final = "".join(map(chr, range(33)))
_whole = re.compile(r"-?[0-9]+").fullmatch
_signed = re.compile(r"(?:\+[+-]?|-)?[0-9]+").fullmatch
#: More digits than any number of 64 bits has; `int` is slow for long texts.
_MAX_DIGITS: Final = 4000


def hive_leaf(type_: HiveType, forms: JsonForms) -> JsonConverter:
    """The converter of values that the strict rules do not accept. It returns None where Hive has null."""
    kind = type_.kind
    if kind in strict_values.INTEGER_BITS:
        return lambda value: _wrapped(
            _integer(_leaf(value), 64 if kind == "bigint" else 32), strict_values.INTEGER_BITS[kind]
        )
    if kind == "boolean":
        return lambda value: _boolean(_leaf(value))
    if kind in ("float", "double"):
        return lambda value: hive_values.narrowed(_double(_leaf(value)), kind)
    if kind == "string":
        return lambda value: utf8(_text(value) if not isinstance(value, tuple | list) else _json(value))
    if kind in ("char", "varchar"):
        cut = hive_values.truncated(kind, *type_.parameters)
        return lambda value: cut(utf8(_text(_leaf(value))))
    if kind == "binary":
        return _not_binary
    if kind == "decimal":
        rounded = hive_values.rounded_decimal(*type_.parameters)
        return lambda value: rounded(_text(_leaf(value)))
    if kind == "date" and (dates := forms.dates) is not None:
        return lambda value: dates.days(_text(_leaf(value)).strip(_TRIMMED))
    if kind == "date":
        return lambda value: hive_values.date_or(lambda: _no_date(value))(_text(_leaf(value)))
    timestamp = hive_values.timestamp(forms.timestamps)
    return lambda value: timestamp(_text(_leaf(value)))


def _leaf(value: Any) -> Any:
    """Hive's reader fails for an object or an array where a primitive value is required."""
    if isinstance(value, tuple | list):
        raise BadValue(f"{described(value)}, not a primitive value")
    return value


def _is_whole(number: NumberText) -> bool:
    return bool(_whole(number))


def _integer(value: Any, bits: int) -> int:
    """`asInt` and `asLong`."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, NumberText):
        if len(value) > _MAX_DIGITS:
            raise BadValue(f"{shown(value)} has too many digits")
        return int(value) if _is_whole(value) else _saturated(float(value), bits)
    return _integer_of_string(value.strip(_TRIMMED), bits)


def _integer_of_string(text: str, bits: int) -> int:
    """0 for what is not a number, and for whole numbers out of range."""
    if _signed(text):
        text = text.removeprefix("+")
        number = int(text) if len(text.lstrip("+-0")) <= _MAX_DIGITS else 1 << bits
        return number if -(1 << bits - 1) <= number < 1 << bits - 1 else 0
    try:
        return _saturated(hive_values.java_double(text), bits)
    except BadValue:
        return 0


def _saturated(number: float, bits: int) -> int:
    """Java's cast of a double: the nearest number of the type, without its fraction."""
    if math.isnan(number):
        return 0
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return low if number <= low else high if number >= high else int(number)


def _wrapped(number: int, bits: int) -> int:
    """The lowest bits, as a signed number."""
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _boolean(value: Any) -> bool:
    """`asBoolean`: a whole number other than 0, or the string true."""
    if isinstance(value, NumberText):
        return _is_whole(value) and bool(value.strip("-0"))
    return bool(value.strip(_TRIMMED) == "true")


def _double(value: Any) -> float:
    """`asDouble`: 0.0 for a string that is not a number."""
    if isinstance(value, bool):
        return float(value)
    try:
        return hive_values.java_double(value)
    except BadValue:
        return 0.0


def _text(value: Any) -> str:
    """`asText`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number_text(value) if isinstance(value, NumberText) else str(value)


def _number_text(number: str) -> str:
    return ("0" if number == "-0" else str(number)) if _whole(number) else _java_text(float(number))


def _java_text(number: float) -> str:
    """`Double.toString`."""
    sign = "-" if math.copysign(1, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    shortest = decimal.Decimal(repr(abs(number))).normalize()
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = f"{shortest:f}"
        return f"{sign}{text if '.' in text else f'{text}.0'}"
    digits = "".join(map(str, shortest.as_tuple().digits))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{shortest.adjusted()}"


def _json(value: Any) -> str:
    return json_text(value, _json_number)


def _json_number(number: str) -> str:
    text = _number_text(number)
    return f'"{text}"' if text.endswith("y") else text


def _not_binary(value: Any) -> None:
    """Null for a number or a boolean; other strings than base64 are an error in Hive, too."""
    if isinstance(value, str) and not isinstance(value, NumberText):
        raise BadValue(f"{shown(value)} is not base64, as binary requires")
    _leaf(value)


def _no_date(value: Any) -> object:
    raise BadValue(f"{shown(value)} is not a date")
