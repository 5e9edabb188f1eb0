"""The part of the Protocol Buffers wire format that ORC's tails use.

Parsing raises WireError for bytes that are not a message. It always terminates, and never allocates by an unchecked
length. See `docs/design.md` for why this is not the `protobuf` library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10
_BYTES_OF = tuple(bytes([number]) for number in range(0x80))
_UINT64 = 0xFFFFFFFFFFFFFFFF


class WireError(ValueError):
    """These bytes are not a protobuf message."""


class Field(NamedTuple):
    """One field: `value` is an int for a varint, the payload for any other wire type; `raw` is the encoded field."""

    number: int
    value: int | bytes
    raw: bytes

    @property
    def as_int(self) -> int:
        return as_int(self.number, self.value)

    @property
    def as_signed(self) -> int:
        """A zigzag number (`sint32`, `sint64`)."""
        return as_signed(self.number, self.value)

    @property
    def as_bytes(self) -> bytes:
        return as_bytes(self.number, self.value)

    @property
    def as_double(self) -> float:
        return as_double(self.number, self.value)


def as_int(number: int, value: int | bytes) -> int:
    """The value of a field. Raises WireError for a payload."""
    if isinstance(value, int):
        return value
    raise WireError(f"field {number} is not a number")


def as_signed(number: int, value: int | bytes) -> int:
    """The value of a zigzag number (`sint32`, `sint64`). Raises WireError for a payload."""
    return zigzag(as_int(number, value))


def as_double(number: int, value: int | bytes) -> float:
    """The value of a `double`. Raises WireError for any other field."""
    payload = as_bytes(number, value)
    if len(payload) != _FIXED_SIZES[_FIXED64]:
        raise WireError(f"field {number} is not a double")
    found: float = struct.unpack("<d", payload)[0]
    return found


def as_bytes(number: int, value: int | bytes) -> bytes:
    """The payload of a field. Raises WireError for a number."""
    if isinstance(value, int):
        raise WireError(f"field {number} is not a message or text")
    return value


def zigzag(value: int) -> int:
    """The number of a `sint32` or `sint64`."""
    return value >> 1 ^ -(value & 1)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and the position after it."""
    number = shift = 0
    for byte in data[at : at + _MAX_VARINT_BYTES]:
        at += 1
        if byte < 0x80:
            return (number | byte << shift) & _UINT64, at
        number |= (byte & 0x7F) << shift
        shift += 7
    raise WireError("a number does not end")


def read_fields(data: bytes) -> Iterator[Field]:
    """The fields of one message, in the order in which they were written."""
    for number, value, start, end in scan_fields(data):
        yield Field(number, value, data[start:end])


def scan_fields(data: bytes) -> list[tuple[int, int | bytes, int, int]]:
    """Number, value, start and end of each field of one message, in the order in which they were written.

    For messages that are parsed by the thousand: it takes half the time of `read_fields`.
    """
    found: list[tuple[int, int | bytes, int, int]] = []
    at, size_of_data = 0, len(data)
    while at < size_of_data:
        start, key = at, data[at]
        at += 1
        if key >= 0x80:  # most numbers are a single byte: a call for each would take half of the time
            key, at = read_varint(data, start)
        wire_type = key & 7
        if wire_type in (_VARINT, _BYTES):
            if at < size_of_data and data[at] < 0x80:
                value = data[at]
                at += 1
            else:
                value, at = read_varint(data, at)
            if wire_type == _VARINT:
                found.append((key >> 3, value, start, at))
                continue
            size = value
        else:
            size = _FIXED_SIZES.get(wire_type, -1)
        if not 0 <= size <= size_of_data - at:
            raise WireError(f"field {key >> 3} is cut off or of an unknown kind")
        end = at + size
        found.append((key >> 3, data[at:end], start, end))
        at = end
    return found


def int_fields(data: bytes) -> dict[int, int]:
    """The numbers of a message by field number; for a repeated field the last one."""
    return {number: value for number, value, _, _ in scan_fields(data) if isinstance(value, int)}


def packed_varints(value: int | bytes) -> list[int]:
    """The numbers of a repeated field, packed into one payload or written one by one."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(number)
    return found


def varint(number: int) -> bytes:
    if 0 <= number < len(_BYTES_OF):  # as most are
        return _BYTES_OF[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def int_field(number: int, value: int) -> bytes:
    """`uint32`, `uint64`, `bool` or an enum."""
    key = _BYTES_OF[number << 3] if number < 16 else varint(number << 3)  # calls would take most of the time
    return key + (_BYTES_OF[value] if 0 <= value < 0x80 else varint(value))


def signed_field(number: int, value: int) -> bytes:
    """`sint32` or `sint64`, zigzag."""
    return int_field(number, value << 1 if value >= 0 else (-value << 1) - 1)


def bytes_field(number: int, payload: bytes) -> bytes:
    size = len(payload)
    if number < 16 and size < 0x80:  # as most are
        return _BYTES_OF[number << 3 | _BYTES] + _BYTES_OF[size] + payload
    return varint(number << 3 | _BYTES) + varint(size) + payload


def double_field(number: int, value: float) -> bytes:
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value)
