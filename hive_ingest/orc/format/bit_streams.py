"""ORC's streams of bits: which values are present, and booleans.

Bits are packed into bytes, the highest first; the last byte is padded. Bytes are run-length encoded: a control byte
below 128 is followed by a byte that is repeated (control + 3) times, any other one by (256 - control) literal bytes.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hive_ingest.orc.format.protobuf import WireError

Bits: TypeAlias = npt.NDArray[np.uint8]

_SHORTEST_RUN = 3
_MOST_LITERALS = 128


def read_bits(stream: bytes, count: int) -> Bits:
    """The bits of a decompressed stream, as 0 and 1. Raises WireError if it does not hold exactly `count`."""
    expected = -(-count // 8)
    data = bytearray()
    at = 0
    while at < len(stream):
        control = stream[at]
        if control < _MOST_LITERALS:
            data += stream[at + 1 : at + 2] * (control + _SHORTEST_RUN)
            at += 2
        else:
            data += stream[at + 1 : at + 257 - control]
            at += 257 - control
        if len(data) > expected:
            break
    if at != len(stream) or len(data) != expected:
        raise WireError(f"a stream of {count} bits holds more or fewer")
    return np.unpackbits(np.frombuffer(data, np.uint8), count=count)


def write_bits(bits: Bits) -> bytes:
    """The stream of these bits, before compression; its bytes are not searched for runs."""
    data = np.packbits(bits).tobytes()
    parts = (data[at : at + _MOST_LITERALS] for at in range(0, len(data), _MOST_LITERALS))
    return b"".join(bytes([256 - len(part)]) + part for part in parts)
