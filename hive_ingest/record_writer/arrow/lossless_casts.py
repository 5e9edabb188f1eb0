"""Further Arrow types of columns, where each value stays the same (`ArrowWriter(coerce="lossless")`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.record_writer.bad_records import Doubt
from hive_ingest.record_writer.values import strict_arrays
from hive_ingest.record_writer.values.coercion import text_converter
from hive_ingest.record_writer.values.timestamp_formats import STRICT_TIMESTAMPS
from hive_ingest.schema import HiveType

_ArrayCast = Callable[[pa.Array], pa.Array]
_CHARACTERS: Final = ("string", "char", "varchar")
_SECONDS_A_DAY: Final = 86_400
_UNITS_A_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def lossless_cast(source: pa.DataType, type_: HiveType) -> _ArrayCast | None:
    """The cast from a type that the strict rules do not accept, or None.

    The cast raises Doubt, BadValue or ArrowException if a value does not stay the same.
    """
    kind = type_.kind
    if pat.is_string(source) or pat.is_large_string(source) or pat.is_string_view(source):
        return None if kind in (*_CHARACTERS, "binary") else _from_text(type_)
    if kind in _CHARACTERS:
        return _to_text(type_) if _has_text(source) else None
    if kind in strict_arrays.INTEGERS and (pat.is_floating(source) or pat.is_decimal(source)):
        return lambda array: array.cast(type_.arrow)  # Arrow refuses a fraction
    if kind == "boolean" and pat.is_integer(source):
        return _to_boolean
    if kind == "date" and pat.is_timestamp(source) and source.tz is None:
        return _to_date
    if kind == "timestamp" and pat.is_date(source):
        return _to_timestamp
    return None


def _has_text(source: pa.DataType) -> bool:
    is_zoned = pat.is_timestamp(source) and source.tz is not None
    kinds = (pat.is_integer, pat.is_floating, pat.is_decimal, pat.is_boolean, pat.is_date, pat.is_timestamp)
    return not is_zoned and any(is_kind(source) for is_kind in kinds)


def _from_text(type_: HiveType) -> _ArrayCast:
    convert = text_converter(type_, STRICT_TIMESTAMPS, "lossless")

    def cast(array: pa.Array) -> pa.Array:
        texts = strict_arrays.valid(array).to_pylist()
        return pa.array([None if text is None else convert(text) for text in texts], type_.arrow)

    return cast


def _to_text(type_: HiveType) -> _ArrayCast:
    def cast(array: pa.Array) -> pa.Array:
        if pat.is_date64(array.type):
            strict_arrays.valid(array)  # a time of day would be left out
        texts = array.cast(pa.string())
        if pat.is_temporal(array.type):
            _check_years(texts)
        elif pat.is_floating(array.type):
            texts = _non_finite_as_hive(texts)
        return texts if type_.kind == "string" else strict_arrays.characters(texts, type_)

    return cast


def _check_years(texts: pa.Array) -> None:
    """Raises Doubt for a year that Arrow does not print: its text then says that the value is out of range."""
    if pc.any(pc.starts_with(texts, "<")).as_py():
        raise Doubt("a date or timestamp in a year that has no text")


def _non_finite_as_hive(texts: pa.Array) -> pa.Array:
    """Arrow prints nan and inf."""
    return pc.replace_substring(pc.replace_substring_regex(texts, "^-?nan$", "NaN"), "inf", "Infinity")


def _to_boolean(array: pa.Array) -> pa.Array:
    if pc.all(pc.is_in(array, pa.array([0, 1, None], array.type))).as_py() is False:
        raise Doubt("a number other than 0 and 1")
    return array.cast(pa.bool_())


def _to_timestamp(array: pa.Array) -> pa.Array:
    if pat.is_date64(array.type):
        strict_arrays.valid(array)  # whole days only
    return strict_arrays.readable_by_hive(array.cast(pa.timestamp("ns")))


def _to_date(array: pa.Array) -> pa.Array:
    units = _UNITS_A_SECOND[array.type.unit] * _SECONDS_A_DAY
    days = array.cast(pa.date32())
    numbers = array.view(pa.int64())
    whole = pc.multiply(days.view(pa.int32()).cast(pa.int64()), units)
    if pc.all(pc.equal(whole, numbers)).as_py() is False:
        raise Doubt("a timestamp that is not midnight")
    return strict_arrays.readable_by_hive(days)
