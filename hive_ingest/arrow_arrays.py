"""Arrow arrays from numpy and Python values, and the reverse.

`pa.array` and `Array.to_numpy` would load pandas, where it is installed, which takes 0.6 s and 30 MiB once a process.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def number_array(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers of the same type; they are copied only if they are not contiguous."""
    type_ = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def boolean_array(values: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Booleans, such as the rows to keep in a filter."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def text_array(values: Iterable[str]) -> pa.StringArray:
    """Strings, less than 2 GiB of them."""
    encoded = [value.encode() for value in values]
    offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def numbers_of(array: pa.Array, dtype: npt.DTypeLike, *, null: int = 0) -> npt.NDArray[Any]:
    """The values of an array whose type is as wide as `dtype`, with `null` for each that is null."""
    if not len(array):
        return np.empty(0, dtype)
    validity, data = array.buffers()
    part = slice(array.offset, array.offset + len(array))
    values = np.frombuffer(data, dtype)[part]
    if not array.null_count:
        return values
    is_valid = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[part]
    return np.where(is_valid, values, np.asarray(null, dtype))
