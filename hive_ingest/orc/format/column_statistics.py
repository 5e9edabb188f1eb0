"""Statistics of one column over several files, merged as if the rows had been written to one file.

What cannot be merged is left out as a whole: a reader takes missing statistics for "anything may be in here",
but a typed message without its minimum would be read as an empty range (ORC's `ColumnStatisticsImpl`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import TypeVar

from hive_ingest.orc.format.protobuf import (
    WireError,
    as_bytes,
    as_double,
    as_int,
    as_signed,
    bytes_field,
    double_field,
    int_field,
    int_fields,
    packed_varints,
    read_fields,
    scan_fields,
    signed_field,
    varint,
    zigzag,
)
from hive_ingest.schema import MAX_DECIMAL_PRECISION

T = TypeVar("T")
#: The fields of a message: a number, or the payload of any other kind.
_Message = dict[int, int | bytes]
_NUMBER_OF_VALUES, _TIMESTAMP, _HAS_NULL, _BYTES_ON_DISK = 1, 9, 10, 11
_INT64 = range(-(2**63), 2**63)
_MAX_NANOS = 999_999
_STRING, _LONGEST_BOUND = 4, 1024
_LAST_CHARACTER, _FIRST_SURROGATE, _AFTER_SURROGATES = chr(0x10FFFF), 0xD800, 0xE000
#: Together, messages up to this size are merged only once: those of columns of numbers. A text may be of any length.
_CACHED_BYTES = 512


class _NotMergeableError(Exception):
    """The typed statistics must be left out."""


def merge_column_statistics(parts: Sequence[bytes]) -> bytes:
    """One `ColumnStatistics` message from several, in any order. Raises WireError."""
    if len(parts) == 1:
        return parts[0]
    is_small = sum(map(len, parts)) <= _CACHED_BYTES
    return _merged_small(tuple(parts)) if is_small else _merged(parts)


@lru_cache(maxsize=1024)  # the columns of row ids have the same statistics in many transactions, or twice in one
def _merged_small(parts: tuple[bytes, ...]) -> bytes:
    return _merged(parts)


def _merged(parts: Sequence[bytes]) -> bytes:
    messages = [_message(part) for part in parts]
    counts = [_values(message) for message in messages]
    merged = int_field(_NUMBER_OF_VALUES, sum(counts))
    merged += _merged_typed([m for m, count in zip(messages, counts, strict=True) if count] or messages[:1])
    if all(_HAS_NULL in m for m in messages):  # a reader takes a missing flag for true
        merged += int_field(_HAS_NULL, int(any(_all(messages, _HAS_NULL, as_int))))
    if all(_BYTES_ON_DISK in m for m in messages):
        merged += int_field(_BYTES_ON_DISK, sum(_all(messages, _BYTES_ON_DISK, as_int)))
    return merged


def int_range(part: bytes) -> tuple[int, int] | None:
    """Minimum and maximum of an integer column, if they are known. Raises WireError."""
    for number, value, _, _ in scan_fields(part):
        if number == 2:
            typed = int_fields(as_bytes(number, value))
            return (zigzag(typed[1]), zigzag(typed[2])) if 1 in typed and 2 in typed else None
    return None


def with_timestamp_bounds(part: bytes, low: int, high: int) -> bytes:
    """The statistics of a column of timestamps with other bounds, in nanoseconds since 1970. Raises WireError."""
    (low_ms, least), (high_ms, most) = divmod(low, _MAX_NANOS + 1), divmod(high, _MAX_NANOS + 1)
    typed = signed_field(3, low_ms) + signed_field(4, high_ms) + _nano_bounds(least, most)
    others = (field.raw for field in read_fields(part) if field.number != _TIMESTAMP)
    return b"".join([*others, bytes_field(_TIMESTAMP, typed)])


def with_short_texts(part: bytes) -> bytes:
    """The statistics of a column, with bounds of at most 1 KiB: below the smallest text, above the largest.

    The ORC library writes whole texts, each as long as it is. Java's writer cuts them too, and marks them as cut, but
    ORC 1.5 in Hive 3.1.3 does not know that mark, and takes a column without exact bounds for one without values. A
    bound that was cut and then raised serves a filter in the same way. Raises WireError.
    """
    if len(part) <= _LONGEST_BOUND:
        return part
    return b"".join(
        bytes_field(_STRING, _short_bounds(field.as_bytes)) if field.number == _STRING else field.raw
        for field in read_fields(part)
    )


def _short_bounds(typed: bytes) -> bytes:
    shorten = {1: _cut, 2: _cut_and_raised}
    return b"".join(
        bytes_field(field.number, shorten[field.number](field.as_bytes)) if field.number in shorten else field.raw
        for field in read_fields(typed)
    )


def _cut(text: bytes) -> bytes:
    """A prefix of whole characters."""
    end = _LONGEST_BOUND
    if len(text) <= end:
        return text
    while end and text[end] & 0xC0 == 0x80:
        end -= 1
    return text[:end]


def _cut_and_raised(text: bytes) -> bytes:
    """A prefix that comes after all texts that begin with it; the text itself if there is none."""
    if len(text) <= _LONGEST_BOUND:
        return text
    try:
        prefix = _cut(text).decode()
    except UnicodeDecodeError:
        return text
    for at in range(len(prefix) - 1, -1, -1):
        if prefix[at] != _LAST_CHARACTER:
            following = ord(prefix[at]) + 1
            return (prefix[:at] + chr(_AFTER_SURROGATES if following == _FIRST_SURROGATE else following)).encode()
    return text


def _message(data: bytes) -> _Message:
    return {number: value for number, value, _, _ in scan_fields(data)}


def _values(message: _Message) -> int:
    return as_int(_NUMBER_OF_VALUES, message[_NUMBER_OF_VALUES]) if _NUMBER_OF_VALUES in message else 0


def _merged_typed(messages: Sequence[_Message]) -> bytes:
    merged = b""
    for number in messages[0]:
        merge = _MERGERS.get(number)
        if merge is not None and all(number in message for message in messages):
            typed = _all(messages, number, as_bytes)
            try:
                merged += bytes_field(number, typed[0] if len(typed) == 1 else merge([_message(t) for t in typed]))
            except _NotMergeableError:
                continue
    return merged


def _all(messages: Sequence[_Message], number: int, value_of: Callable[[int, int | bytes], T]) -> list[T]:
    """The value of a field in each message. Raises _NotMergeableError where it is missing."""
    found = [value_of(number, message[number]) for message in messages if number in message]
    if len(found) != len(messages):
        raise _NotMergeableError
    return found


def _signed_sum(messages: Sequence[_Message], number: int) -> bytes:
    """A sum is left out where it overflowed, in one file or in all together."""
    found = [as_signed(number, message[number]) for message in messages if number in message]
    total = sum(found)
    return signed_field(number, total) if len(found) == len(messages) and total in _INT64 else b""


def _signed_bounds(messages: Sequence[_Message]) -> bytes:
    return signed_field(1, min(_all(messages, 1, as_signed))) + signed_field(2, max(_all(messages, 2, as_signed)))


def _int(messages: Sequence[_Message]) -> bytes:
    return _signed_bounds(messages) + _signed_sum(messages, 3)


def _double(messages: Sequence[_Message]) -> bytes:
    low, high = _all(messages, 1, as_double), _all(messages, 2, as_double)
    if any(map(math.isnan, low + high)):
        raise _NotMergeableError
    sums = [as_double(3, message[3]) for message in messages if 3 in message]
    total = double_field(3, sum(sums)) if len(sums) == len(messages) else b""
    return double_field(1, min(low)) + double_field(2, max(high)) + total


def _string(messages: Sequence[_Message]) -> bytes:
    # 1 and 2 are the exact bounds; Java cuts long ones and writes 4 and 5 instead (ORC-203).
    low, exact_low = min(_bound(m, exact=1, cut=4) for m in messages)
    high, cut_high = max((value, -cut) for value, cut in (_bound(m, exact=2, cut=5) for m in messages))
    bounds = bytes_field(4 if exact_low else 1, low) + bytes_field(5 if cut_high else 2, high)
    return bounds + _signed_sum(messages, 3)


def _bound(message: _Message, *, exact: int, cut: int) -> tuple[bytes, int]:
    """The bound, and 1 if it was truncated. Of two equal bounds the exact one is used."""
    if exact in message:
        return as_bytes(exact, message[exact]), 0
    if cut in message:
        return as_bytes(cut, message[cut]), 1
    raise _NotMergeableError


def _bucket(messages: Sequence[_Message]) -> bytes:
    counts = _all(messages, 1, lambda _, value: packed_varints(value))
    if len({len(count) for count in counts}) != 1:
        raise _NotMergeableError
    totals = [sum(column) for column in zip(*counts, strict=True)]
    return bytes_field(1, b"".join(map(varint, totals)))


def _decimal(messages: Sequence[_Message]) -> bytes:
    low = min(_all(messages, 1, _as_decimal))
    high = max(_all(messages, 2, _as_decimal))
    bounds = bytes_field(1, f"{low:f}".encode()) + bytes_field(2, f"{high:f}".encode())
    sums = [_as_decimal(3, message[3]) for message in messages if 3 in message]
    if len(sums) != len(messages):
        return bounds
    with localcontext(prec=4 * MAX_DECIMAL_PRECISION):
        total = sum(sums, Decimal(0))
    digits = max(len(total.as_tuple().digits), -int(total.as_tuple().exponent))
    return bounds + (bytes_field(3, f"{total:f}".encode()) if digits <= MAX_DECIMAL_PRECISION else b"")


def _as_decimal(number: int, value: int | bytes) -> Decimal:
    try:
        found = Decimal(as_bytes(number, value).decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError) as error:
        raise WireError("decimal statistics are not a decimal") from error
    if not found.is_finite():
        raise WireError("decimal statistics are not a number")
    return found


def _binary(messages: Sequence[_Message]) -> bytes:
    return _signed_sum(messages, 1)


def _timestamp(messages: Sequence[_Message]) -> bytes:
    # 1 and 2 are milliseconds in the writer's time zone, 3 and 4 in UTC; 5 and 6 the nanoseconds below them, plus 1.
    shapes = {tuple(sorted(message.keys() & {1, 2, 3, 4})) for message in messages}
    if len(shapes) != 1:
        raise _NotMergeableError
    merged = b""
    for low, high in ((1, 2), (3, 4)):
        if low in messages[0] and high in messages[0]:
            merged += signed_field(low, min(_all(messages, low, as_signed)))
            merged += signed_field(high, max(_all(messages, high, as_signed)))
    if not merged:
        raise _NotMergeableError
    key = 3 if 3 in messages[0] else 1
    least = min((as_signed(key, m[key]), _nanos(m, 5, 0)) for m in messages)[1]
    most = max((as_signed(key + 1, m[key + 1]), _nanos(m, 6, _MAX_NANOS)) for m in messages)[1]
    return merged + _nano_bounds(least, most)


def _nano_bounds(least: int, most: int) -> bytes:
    low = int_field(5, least + 1) if least != 0 else b""
    return low + (int_field(6, most + 1) if most != _MAX_NANOS else b"")


def _nanos(message: _Message, number: int, default: int) -> int:
    return as_int(number, message[number]) - 1 if number in message else default


def _collection(messages: Sequence[_Message]) -> bytes:
    return (
        int_field(1, min(_all(messages, 1, as_int)))
        + int_field(2, max(_all(messages, 2, as_int)))
        + int_field(3, sum(_all(messages, 3, as_int)))
    )


_MERGERS: dict[int, Callable[[Sequence[_Message]], bytes]] = {
    2: _int,
    3: _double,
    4: _string,
    5: _bucket,
    6: _decimal,
    7: _signed_bounds,
    8: _binary,
    _TIMESTAMP: _timestamp,
    12: _collection,
}
