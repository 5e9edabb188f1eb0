"""ORC's streams of integers: runs of up to 512 numbers in as many bits as the largest needs (RLE version 2, `DIRECT`).

Of the four kinds of runs, this is the one that holds any numbers. The ORC library also looks for repetitions and
constant differences, which makes its streams shorter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: Numbers of one stream, in groups; a group begins with a run of its own.
Groups = Sequence[npt.NDArray[np.int64]]

_DIRECT = 0b01 << 6
_RUN_VALUES = 512
_BITS = 64
#: Widths in bits that a run can have. Their codes are 0, 1, 2, …
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, _BITS)


def write_integers(groups: Groups, *, signed: bool) -> tuple[bytes, list[int]]:
    """The stream of these numbers, before compression, and the position of each group's first byte in it.

    Args:
        groups: The numbers.
        signed: Whether the stream has negative numbers; in any other, all numbers must be 0 or more.
    """
    runs: list[bytes] = []
    starts: list[int] = []
    at = 0
    for group in groups:
        starts.append(at)
        numbers = (group << 1 ^ group >> (_BITS - 1)) if signed else group
        for first in range(0, len(numbers), _RUN_VALUES):
            runs.append(_run(numbers[first : first + _RUN_VALUES].astype(">u8")))
            at += len(runs[-1])
    return b"".join(runs), starts


def _run(numbers: npt.NDArray[np.uint64]) -> bytes:
    code = bisect_left(_WIDTHS, int(numbers.max()).bit_length())
    length = len(numbers) - 1
    header = bytes((_DIRECT | code << 1 | length >> 8, length & 0xFF))
    bits = np.unpackbits(numbers.view(np.uint8).reshape(len(numbers), -1), axis=1)
    return header + np.packbits(bits[:, _BITS - _WIDTHS[code] :]).tobytes()
