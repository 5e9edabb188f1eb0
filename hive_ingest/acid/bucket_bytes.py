"""The bytes of values that Hive hashes to find their bucket (`ObjectInspectorUtils.hashCodeMurmur`).

A float or double is hashed in a way that only compatibility explains: Java's `putFloat(floatToIntBits(x))` stores the
bits, which are a whole number, converted to a float. A decimal is the digits without its scale, so 0.1 and 1 are equal
here. binary is not supported: Hive also hashes the bytes after the end of the value in its buffer.
"""

from __future__ import annotations

import decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS: Final = {"int": pa.int32(), "bigint": pa.int64(), "date": pa.int32()}
_FLAG: Final = 0x80000000
_NANOS: Final = 10**9


def numbers_of(array: Any, kind: str) -> npt.NDArray[Any] | None:
    """The numbers whose big-endian bytes are hashed, of four or eight bytes; None for the kinds of `bytes_of`."""
    if kind in _INTEGERS:
        integers: npt.NDArray[Any] = array.cast(_INTEGERS[kind]).fill_null(0).to_numpy(zero_copy_only=False)
        return integers
    if kind == "float":
        return _java_bits(array.cast(pa.float32()), np.float32, np.int32)
    if kind == "double":
        return _java_bits(array.cast(pa.float64()), np.float64, np.int64)
    return None


def _java_bits(array: Any, floating: Any, bits: Any) -> npt.NDArray[Any]:
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(floating)
    values = np.where(np.isnan(values), floating("nan"), values)  # Java has one NaN
    found: npt.NDArray[Any] = values.view(bits).astype(floating)
    return found


def bytes_of(array: Any, kind: str) -> Any:
    """The bytes that are hashed, as an array of strings or of binary values; those of a null do not count."""
    if kind == "char":
        return pc.utf8_rtrim(array.cast(pa.string()), characters=" ")
    if kind in ("string", "varchar"):
        return array
    if kind == "smallint":
        words = array.cast(pa.int16()).fill_null(0).to_numpy(zero_copy_only=False).byteswap()
        return pa.Array.from_buffers(pa.binary(2), len(words), [None, pa.py_buffer(words.tobytes())])
    if kind == "decimal":
        return _encoded(array, _decimal_bytes)
    return _encoded(array.cast(pa.timestamp("ns")).view(pa.int64()), timestamp_bytes)


def _encoded(array: Any, encode: Any) -> Any:
    """Each distinct value encoded once."""
    encoded = array.dictionary_encode()
    values = pa.array([encode(value) for value in encoded.dictionary.to_pylist()], pa.binary())
    return values.take(encoded.indices)


def _decimal_bytes(value: decimal.Decimal) -> bytes:
    """`BigInteger.toByteArray` of the digits, without zeros at the end of the fraction (`HiveDecimalWritable`)."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)))
    while exponent < 0 and number % 10 == 0:
        number, exponent = (number // 10, exponent + 1) if number else (0, 0)
    number = -number if sign else number
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def timestamp_bytes(nanos: int) -> bytes:
    """`TimestampWritableV2.getBytes` of nanoseconds since 1970.

    The lowest 31 bits of the seconds; then, if their highest bit is set, the fraction with its digits reversed; then,
    if that is negative, the other bits of the seconds.
    """
    seconds, fraction = divmod(nanos, _NANOS)
    is_long = not 0 <= seconds < _FLAG
    first = seconds & (_FLAG - 1)
    if not fraction and not is_long:
        return first.to_bytes(4, "big")
    reversed_digits = int(f"{fraction:09}"[::-1])
    found = (first | _FLAG).to_bytes(4, "big") + _variable_long(-reversed_digits - 1 if is_long else reversed_digits)
    return found + _variable_long(seconds >> 31) if is_long else found


def _variable_long(number: int) -> bytes:
    """Hadoop's `WritableUtils.writeVLong`."""
    if -112 <= number <= 127:
        return number.to_bytes(1, "big", signed=True)
    base = -112
    if number < 0:
        number, base = ~number, -120
    length = (number.bit_length() + 7) // 8
    return (base - length).to_bytes(1, "big", signed=True) + number.to_bytes(length, "big")
