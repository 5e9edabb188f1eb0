"""Masks with one bit for each byte of a text: 64 bytes are looked at in one operation.

Bit i of word w stands for byte 64 w + i. Bits beyond the end of the text are 0 unless a function says otherwise.
(The method is that of simdjson: Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019.)
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from hive_ingest.record_writer.text.blocks import SCAN_BYTES

#: Unsigned words of 64 bits, the lowest byte first.
BitMask: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

_WORD: Final = np.dtype("<u8")
_ONE: Final = np.uint64(1)
_TOP: Final = np.uint64(63)


def mask_of(data: Any, *codes: int) -> BitMask:
    """Where a text has one of these bytes."""
    mask = _empty_mask(len(data))
    packed = mask.view(np.uint8)
    for at in range(0, len(data), SCAN_BYTES):
        part = data[at : at + SCAN_BYTES]
        found = part == codes[0]
        for code in codes[1:]:
            found |= part == code
        bits = np.packbits(found, bitorder="little")
        packed[at // 8 : at // 8 + len(bits)] = bits
    return mask


def mask_at(places: Any, length: int) -> BitMask:
    """A mask of `length` bytes, of which these are marked."""
    marked = np.zeros(length, np.bool_)
    marked[places] = True
    mask = _empty_mask(length)
    bits = np.packbits(marked, bitorder="little")
    mask.view(np.uint8)[: len(bits)] = bits
    return mask


def places_in(mask: BitMask) -> Any:
    """The marked bytes, in ascending order."""
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little").view(np.bool_))


def odd_from(mask: BitMask) -> BitMask:
    """Each byte that has an odd number of marked ones up to and with it; bits beyond the text are as its last one."""
    odd = mask.copy()
    for distance in (1, 2, 4, 8, 16, 32):
        odd ^= odd << np.uint64(distance)
    before = np.bitwise_xor.accumulate(odd >> _TOP)
    odd[1:] ^= np.where(before[:-1], ~np.uint64(0), np.uint64(0))
    return odd


def after_each(mask: BitMask) -> BitMask:
    """Each byte that follows a marked one."""
    shifted = mask << _ONE
    shifted[1:] |= mask[:-1] >> _TOP
    return shifted


def before_each(mask: BitMask) -> BitMask:
    """Each byte that a marked one follows."""
    shifted = mask >> _ONE
    shifted[:-1] |= mask[1:] << _TOP
    return shifted


def _empty_mask(length: int) -> BitMask:
    return np.zeros(-(-length // 64), _WORD)
