"""The rules of `strict_values` for whole Arrow arrays. A value that may break a rule raises Doubt, naming no record."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.orc import UNWRITABLE, unwritable_values
from hive_ingest.record_writer.bad_records import BadValue, Doubt
from hive_ingest.record_writer.values import strict_values
from hive_ingest.record_writer.values.decimal_texts import check_texts
from hive_ingest.record_writer.values.timestamp_formats import TimestampFormats
from hive_ingest.schema import HiveType

INTEGERS: Final = tuple(strict_values.INTEGER_BITS)
#: The bytes of numbers; what Arrow casts from them is what the rules accept, except for a plus in front.
_NUMBER_BYTES: Final = np.isin(np.arange(256), np.frombuffer(b"0123456789.-eE", np.uint8))


def _all(mask: pa.Array, what: str) -> None:
    """Raises Doubt unless every value that is not null is true."""
    if pc.all(mask).as_py() is False:
        raise Doubt(what)


def finite(array: pa.Array, type_: HiveType) -> pa.Array:
    """Doubles rounded to the column's type. NaN and infinities raise Doubt: Arrow accepts too many names for them."""
    array = array.cast(type_.arrow, safe=False)
    _all(pc.is_finite(array), "a number that is not finite")
    return array


def in_precision(array: pa.Array, type_: HiveType) -> pa.Array:
    """Decimals with no more digits than the type has: Arrow's readers count those of the input, not of the value."""
    bounds = pc.min_max(array)
    precision, scale = type_.parameters
    limit = 10 ** (precision - scale)
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        if bound is not None and not -limit < bound < limit:
            raise Doubt("a decimal of too many digits")
    return array


def from_text(array: pa.Array, type_: HiveType, timestamps: TimestampFormats) -> pa.Array:
    """Strings as a char, varchar, binary, date or timestamp."""
    if type_.kind in ("char", "varchar"):
        return characters(array, type_)
    if type_.kind == "binary":
        return _base64(array)
    if type_.kind == "timestamp" and not timestamps.is_strict:
        return readable_by_hive(timestamps.array(array))
    _match(array, strict_values.DATE if type_.kind == "date" else strict_values.TIMESTAMP)
    return readable_by_hive(_cast(array, type_.arrow))


def numbers(array: pa.Array, type_: HiveType) -> pa.Array:
    """Numbers from Arrow's readers, which read floats as doubles."""
    if type_.kind in ("float", "double"):
        return finite(array, type_)
    return in_precision(array, type_) if type_.kind == "decimal" else array


def numbers_from_text(array: pa.Array, type_: HiveType) -> pa.Array:
    """Strings as numbers, without blanks around them and without 0x."""
    if type_.kind == "decimal" or not _has_only(_NUMBER_BYTES, array):
        _match(array, strict_values.INTEGER if type_.kind in INTEGERS else strict_values.FLOAT)
        array = pc.replace_substring_regex(array, r"^\+", "")
    return numbers(_cast(array, pa.float64() if type_.kind == "float" else type_.arrow), type_)


def _has_only(is_allowed: Any, array: pa.StringArray) -> bool:
    """Whether the strings consist of some bytes."""
    return bool(len(array)) and bool(is_allowed[text_bytes(array)].all())


def _match(array: pa.Array, pattern: str) -> None:
    _all(pc.match_substring_regex(array, f"^(?:{pattern})$"), "a text that does not have the required form")


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pat.is_decimal(type_):
        check_texts(array)
    try:
        return array.cast(type_)
    except pa.ArrowException as error:
        raise Doubt(str(error)) from error


def characters(array: pa.Array, type_: HiveType) -> pa.Array:
    """Strings as a char or varchar; a char's trailing blanks are not kept."""
    if type_.kind == "char":
        array = pc.utf8_rtrim(array, characters=" ")
    _all(pc.less_equal(pc.utf8_length(array), type_.parameters[0]), "a text that is too long")
    return array


def no_new_infinity(array: pa.Array, source: pa.Array) -> None:
    """Raises Doubt for a finite number that became infinite when it was rounded to fewer bits."""
    if pat.is_floating(source.type):
        _all(pc.or_(pc.is_finite(array), pc.invert(pc.is_finite(source))), "a number out of range for float")


def valid(array: pa.Array) -> pa.Array:
    """Check that the type can hold its values, which Arrow does not check in an array made from buffers."""
    if array.type == pa.string() and _is_ascii(array):
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Doubt(str(error)) from error
    return array


def text_bytes(array: pa.StringArray) -> Any:
    """The bytes of all strings of an array whose offsets are in order, as numbers. It must not be empty."""
    _, offsets, data = array.buffers()
    if data is None:
        return np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _is_ascii(array: pa.StringArray) -> bool:
    """Whether all bytes of the strings are ASCII; some ten times faster than validating strings one by one."""
    _, offsets, data = array.buffers()
    if offsets is None or data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    if not len(ends) or (ends[1:] < ends[:-1]).any():
        return False
    text = np.frombuffer(data, np.int8)[ends[0] : ends[-1]]
    return not len(text) or int(text.min()) >= 0


def unique_keys(maps: pa.Array, keys: pa.Array) -> None:
    """Raises Doubt if a map has a key twice, of which Hive would keep the last.

    Args:
        maps: The maps.
        keys: Their keys, from the first map's first one on, in the type of the column.
    """
    offsets = maps.offsets.to_numpy()
    codes = keys.dictionary_encode().indices.cast(pa.int64()).fill_null(len(keys)).to_numpy()
    owners = np.repeat(np.arange(len(maps)), np.diff(offsets))
    if maps.null_count:  # keys under a null do not count
        is_valid = maps.is_valid().to_numpy(zero_copy_only=False)[owners]
        owners, codes = owners[is_valid], codes[is_valid]
    places = owners * (len(keys) + 1) + codes
    if len(np.unique(places)) < len(places):
        raise Doubt("a map with a key that occurs twice")


def readable_by_hive(array: pa.Array) -> pa.Array:
    """Check dates or timestamps: Hive must read them unchanged from an ORC file."""
    if unwritable_values(array) is not None:
        raise Doubt(UNWRITABLE)
    return array


def _base64(array: pa.Array) -> pa.Array:
    try:
        found = [None if text is None else strict_values.base64_bytes(text) for text in array.to_pylist()]
    except BadValue as error:
        raise Doubt(str(error)) from error
    return pa.array(found, pa.binary())
