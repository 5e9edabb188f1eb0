"""Reads streams of integers number by number, as the specification of ORC describes their runs."""

from __future__ import annotations

_WIDTHS = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]


def read_integers(stream: bytes, *, signed: bool) -> list[int]:
    """The numbers of a stream of `DIRECT` runs, after decompression."""
    found: list[int] = []
    while stream:
        assert stream[0] >> 6 == 1, "another kind of run"
        width = _WIDTHS[stream[0] >> 1 & 31]
        count = ((stream[0] & 1) << 8 | stream[1]) + 1
        size = -(-count * width // 8)
        bits = int.from_bytes(stream[2 : 2 + size], "big") >> size * 8 - count * width
        numbers = [bits >> width * (count - 1 - i) & (1 << width) - 1 for i in range(count)]
        found += [number >> 1 ^ -(number & 1) for number in numbers] if signed else numbers
        stream = stream[2 + size :]
    return found
