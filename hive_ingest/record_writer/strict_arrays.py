"""The rules of `values`, on whole Arrow arrays: what a rule may not allow raises Doubt, no record is named."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.orc.normalise import unwritable_values
from hive_ingest.record_writer import values
from hive_ingest.record_writer.bad_records import BadValue, Doubt
from hive_ingest.schema import HiveType

INTEGERS: Final = tuple(values.INTEGER_BITS)
_PATTERNS: Final = {"date": values.DATE, "timestamp": values.TIMESTAMP}


def _all(mask: pa.Array, what: str) -> None:
    """Every value that is not null must be true."""
    if pc.all(mask).as_py() is False:
        raise Doubt(what)


def finite(array: pa.Array, type_: HiveType) -> pa.Array:
    """Doubles rounded to the column's type. NaN and infinities are doubtful: Arrow reads too many names of them."""
    array = array.cast(type_.arrow, safe=False)
    _all(pc.is_finite(array), "a number that is not finite")
    return array


def in_precision(array: pa.Array, type_: HiveType) -> pa.Array:
    """Decimals with no more digits than the type has: Arrow's readers check the digits given, not those kept."""
    bounds = pc.min_max(array)
    precision, scale = type_.parameters
    limit = 10 ** (precision - scale)
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        if bound is not None and not -limit < bound < limit:
            raise Doubt("a decimal of too many digits")
    return array


def from_text(array: pa.Array, type_: HiveType) -> pa.Array:
    """Strings as a char, varchar, binary, date or timestamp."""
    if type_.kind in ("char", "varchar"):
        return characters(array, type_)
    if type_.kind == "binary":
        return _base64(array)
    _match(array, _PATTERNS[type_.kind])
    return readable_by_hive(_cast(array, type_.arrow))


def numbers(array: pa.Array, type_: HiveType) -> pa.Array:
    """Numbers as Arrow's readers make them, those of floats as doubles."""
    if type_.kind in ("float", "double"):
        return finite(array, type_)
    return in_precision(array, type_) if type_.kind == "decimal" else array


def numbers_from_text(array: pa.Array, type_: HiveType) -> pa.Array:
    """Strings as a number, where no blank may stand around it and no 0x before it."""
    _match(array, values.INTEGER if type_.kind in INTEGERS else values.FLOAT)
    plain = pc.replace_substring_regex(array, r"^\+", "")
    return numbers(_cast(plain, pa.float64() if type_.kind == "float" else type_.arrow), type_)


def _match(array: pa.Array, pattern: str) -> None:
    _all(pc.match_substring_regex(array, f"^(?:{pattern})$"), "a text that is not of the form")


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
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
    """A number that was finite must still be, where it was rounded to fewer bits."""
    if pat.is_floating(source.type):
        _all(pc.or_(pc.is_finite(array), pc.invert(pc.is_finite(source))), "a number out of range for float")


def valid(array: pa.Array) -> pa.Array:
    """Values that their type can hold: Arrow does not look at them when an array is made from buffers."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Doubt(str(error)) from error
    return array


def readable_by_hive(array: pa.Array) -> pa.Array:
    """Dates or timestamps of which none would come out of an ORC file as another, or not at all."""
    if unwritable_values(array) is not None:
        raise Doubt("a timestamp before 1970 with a fraction of a second, or a date outside the years 1 to 9999")
    return array


def _base64(array: pa.Array) -> pa.Array:
    try:
        found = [None if text is None else values.base64_bytes(text) for text in array.to_pylist()]
    except BadValue as error:
        raise Doubt(str(error)) from error
    return pa.array(found, pa.binary())
