"""Further forms of values that stand for exactly one value of their type (`coerce="lossless"`)."""

from __future__ import annotations

import base64
import decimal
import re
from typing import Final

from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.values import strict_values
from hive_ingest.record_writer.values.timestamp_formats import TimestampFormats
from hive_ingest.schema import HiveType

_BLANKS: Final = " \t"
#: The literals of booleans that Hive knows with `hive.lazysimple.extended_boolean_literal`.
_BOOLEANS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_number: Final = re.compile(strict_values.FLOAT).fullmatch
_day = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[ T](.+))?").fullmatch
_midnight = re.compile(r"0?0:00(?::00(?:\.0{1,9})?)?").fullmatch
_clock = re.compile(r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(\.[0-9]{1,9})?)?").fullmatch


def from_text(type_: HiveType, timestamps: TimestampFormats) -> strict_values.Converter:
    """The converter of texts that the strict rules do not accept."""
    kind = type_.kind
    if kind in strict_values.INTEGER_BITS:
        return _whole_number(kind)
    if kind == "boolean":
        return boolean
    if kind == "date":
        return _date
    if kind == "timestamp" and timestamps.is_strict:
        return lambda text: timestamps.nanos(_full_timestamp(text.strip(_BLANKS)))
    if kind in ("float", "double", "decimal", "timestamp"):
        strict = strict_values.from_text(type_, timestamps.nanos)
        return lambda text: strict(text.strip(_BLANKS))
    return _unpadded if kind == "binary" else _nothing_further


def _unpadded(text: str) -> object:
    """Base64 without the `=` at its end, as in the text that Hive 4 exports.

    The bits of its last letter that stand for nothing must be 0, as encoders write them: it may be cut off otherwise.
    """
    padding = "=" * (-len(text) % 4)
    found = strict_values.base64_bytes(text + padding)
    if base64.b64encode(found).decode("ascii") != text + padding:
        raise BadValue(f"{shown(text)} is not base64")
    return found


def _nothing_further(text: str) -> object:
    raise BadValue(f"{shown(text)} has no further form")


def boolean(text: str) -> bool:
    """`true`, `t`, `1`, `false`, `f` or `0`, in any case. Raises BadValue."""
    found = _BOOLEANS.get(text.strip(_BLANKS).lower())
    if found is None:
        raise BadValue(f"{shown(text)} is neither true nor false, as boolean requires")
    return found


def _whole_number(kind: str) -> strict_values.Converter:
    """Numbers such as 7.0 and 1e2, whose fraction is zero."""
    strict = strict_values.integer(kind)

    def convert(text: str) -> object:
        text = text.strip(_BLANKS)
        try:
            number = decimal.Decimal(text) if _number(text) else None
        except decimal.DecimalException:  # an exponent of too many digits
            number = None
        # The size is checked first: 1e999999 would have a million digits.
        if number is None or number.adjusted() > 20 or number != number.to_integral_value():
            raise BadValue(f"{shown(text)} is not a whole number, as {kind} requires")
        return strict(str(int(number)))

    return convert


def _date(text: str) -> object:
    """A day with digits left out, or with a clock at midnight."""
    found = _day(text.strip(_BLANKS))
    if found is None or (found[4] is not None and not _midnight(found[4])):
        raise BadValue(f"{shown(text)} is not a date")
    return strict_values.date(_full_day(found))


def _full_timestamp(text: str) -> str:
    """A timestamp whose digits, seconds or clock are left out, in full. Raises BadValue."""
    found = _day(text)
    if found is None:
        raise BadValue(f"{shown(text)} is not a timestamp")
    if found[4] is None:
        return f"{_full_day(found)} 00:00:00"
    clock = _clock(found[4])
    if clock is None:
        raise BadValue(f"{shown(text)} is not a timestamp")
    hour, minute, second = (int(clock[place] or 0) for place in (1, 2, 3))
    return f"{_full_day(found)} {hour:02}:{minute:02}:{second:02}{clock[4] or ''}"


def _full_day(found: re.Match[str]) -> str:
    return f"{found[1]}-{int(found[2]):02}-{int(found[3]):02}"
