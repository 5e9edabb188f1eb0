"""Hive's bucket hash, version 2, over whole columns.

A column hashes by Murmur3 (32 bits, seed 104729) over the bytes of its values, which `bucket_bytes` describes, a null
to 0. Several columns, the fields of a struct and the elements of an array combine as `31 * hash + next`. The bucket is
the hash without its sign, modulo the number of buckets. Sources: `ObjectInspectorUtils.getBucketHashCode`,
`getBucketNumber`, `Murmur3.hash32`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.acid.bucket_bytes import bytes_of, numbers_of
from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.schema import HiveType, parse_type

UInt32Array = npt.NDArray[np.uint32]
Int32Array = npt.NDArray[np.int32]
_Int64Array = npt.NDArray[np.int64]
_Column = Any  # pa.Array | pa.ChunkedArray: pyarrow has no types

_SEED = 104729
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_M, _N = np.uint32(5), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_MASK = 0xFFFFFFFF
#: For fewer strings of a length than this, a vectorised step costs more than a loop over the strings.
_FEW = 24


def bucket_ids(columns: Sequence[_Column], types: Sequence[str], num_buckets: int) -> Int32Array:
    """The bucket of each row, 0 to `num_buckets` - 1.

    `columns` are the bucket columns in table order (Arrow arrays or chunked arrays of one length), `types` their
    Hive types (see `check_bucket_type`). Raises UnsupportedFeature for another type, ConfigurationError for no buckets.
    """
    if num_buckets < 1:
        raise ConfigurationError(f"a table has at least one bucket, not {num_buckets}")
    return ((bucket_hash_codes(columns, types) & np.int32(0x7FFFFFFF)) % np.int32(num_buckets)).astype(np.int32)


def bucket_hash_codes(columns: Sequence[_Column], types: Sequence[str]) -> Int32Array:
    """The hash of each row over all bucket columns; arguments and errors as `bucket_ids`."""
    if not columns or len(columns) != len(types):
        raise ConfigurationError(f"{len(columns)} bucket columns and {len(types)} types: give at least one of each")
    combined = np.zeros(len(columns[0]), dtype=np.uint32)
    for column, type_ in zip(columns, types, strict=True):
        combined *= np.uint32(31)
        combined += _hash_column(column, type_)
    return combined.view(np.int32)


def check_bucket_type(type_: str) -> HiveType:
    """The type of a bucket column: a primitive type other than binary, or an array or a struct of such types.

    Raises:
        UnsupportedFeature: It cannot be hashed here. Hive's hash of a binary is not that of its value alone, and in a
            map it hashes keys and values in different ways.
    """
    parsed = parse_type(type_)
    if not _can_be_hashed(parsed):
        raise UnsupportedFeature(
            f"a bucket column of type {type_} is not supported: use a primitive type other than binary, or an array or "
            "a struct of such types"
        )
    return parsed


def _can_be_hashed(type_: HiveType) -> bool:
    return type_.kind not in ("binary", "map") and all(_can_be_hashed(child) for _, child in type_.children)


def _hash_column(column: _Column, type_: str) -> UInt32Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return _hash_array(array, check_bucket_type(type_))


def _hash_array(array: _Column, type_: HiveType) -> UInt32Array:
    if type_.kind == "struct":
        hashes = _hash_structs(array, [child for _, child in type_.children])
    elif type_.kind == "array":
        hashes = _hash_lists(array, type_.children[0][1])
    else:
        hashes = _hash_values(array, type_.kind)
    if array.null_count:
        hashes[pc.is_null(array).to_numpy(zero_copy_only=False)] = 0
    return hashes


# -- nested values ---------------------------------------------------------------------------------


def _hash_structs(array: _Column, children: Sequence[HiveType]) -> UInt32Array:
    hashes = np.zeros(len(array), np.uint32)
    for place, child in enumerate(children):
        hashes *= np.uint32(31)
        hashes += _hash_array(array.field(place), child)
    return hashes


def _hash_lists(array: _Column, child: HiveType) -> UInt32Array:
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, end = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
    elements = _hash_array(array.values.slice(first, end - first), child)
    # Longest first, so that those that still have an element at a step are the first ones.
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = offsets[:-1][order] - first, lengths[order]
    hashes = np.zeros(len(array), np.uint32)
    for step in range(int(lengths[0]) if len(lengths) else 0):
        live = int(np.searchsorted(-lengths, -step, side="left"))
        hashes[:live] = hashes[:live] * np.uint32(31) + elements[starts[:live] + step]
    found = np.empty_like(hashes)
    found[order] = hashes
    return found


# -- numbers ---------------------------------------------------------------------------------------


def _hash_values(array: _Column, kind: str) -> UInt32Array:
    if kind in ("boolean", "tinyint"):  # Hive takes the value itself
        values: UInt32Array = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint32).copy()
        return values
    if (numbers := numbers_of(array, kind)) is not None:
        return _hash_numbers(numbers)
    return _hash_bytes(bytes_of(array, kind))


def _hash_numbers(numbers: npt.NDArray[Any]) -> UInt32Array:
    # Hive hashes the number's big-endian bytes, and Murmur3 reads them as little-endian words
    words = numbers.byteswap().view(np.uint32).reshape(len(numbers), numbers.itemsize // 4)
    hashes = np.full(len(numbers), _SEED, dtype=np.uint32)
    for i in range(words.shape[1]):
        hashes = _mix(np.ascontiguousarray(words[:, i]), hashes)
    return _finish(hashes, np.uint32(numbers.itemsize))


# -- strings of bytes ------------------------------------------------------------------------------


def _hash_bytes(array: _Column) -> UInt32Array:
    starts, lengths, data = _spans(array)
    # Longest first, so that the strings that still have a word at step i are the first ones.
    order = np.argsort(-(lengths >> 2), kind="stable")
    starts, lengths = starts[order], lengths[order]
    hashes = _hash_words(data, starts, lengths >> 2)
    _hash_tails(data, starts, lengths, hashes)
    found = np.empty_like(hashes)
    found[order] = _finish(hashes, lengths.astype(np.uint32))
    return found


def _spans(array: _Column) -> tuple[_Int64Array, _Int64Array, npt.NDArray[np.uint8]]:
    """Start and length of each value, in bytes, and the bytes."""
    array = array.cast(pa.large_binary())
    _, offset_buffer, data_buffer = array.buffers()
    if len(array) == 0 or offset_buffer is None:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, np.zeros(0, dtype=np.uint8)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer else np.zeros(0, dtype=np.uint8)
    return offsets[:-1], np.diff(offsets), data


def _hash_words(data: npt.NDArray[np.uint8], starts: _Int64Array, counts: _Int64Array) -> UInt32Array:
    """Mix in the whole words of each string. `counts` are the numbers of words, in descending order."""
    hashes = np.full(len(starts), _SEED, dtype=np.uint32)
    if len(starts) == 0 or counts[0] == 0:
        return hashes
    word_at: Any = np.ndarray(len(data) - 3, dtype="<u4", buffer=data, strides=(1,))
    step = 0
    while (live := int(np.searchsorted(-counts, -step, side="left"))) > _FEW:
        hashes[:live] = _mix(word_at[starts[:live] + 4 * step], hashes[:live])
        step += 1
    for i in range(live):
        words = np.frombuffer(data, dtype="<u4", count=int(counts[i]) - step, offset=int(starts[i]) + 4 * step)
        hashes[i] = _mix_one(words, int(hashes[i]))
    return hashes


def _hash_tails(data: npt.NDArray[np.uint8], starts: _Int64Array, lengths: _Int64Array, hashes: UInt32Array) -> None:
    """Mix in, in place, the one to three bytes after the last whole word."""
    rest = lengths & 3
    ends = starts + lengths - rest
    signed = data.view(np.int8)
    tails = np.zeros(len(starts), dtype=np.int32)
    for i in range(3):
        some = np.flatnonzero(rest > i)
        # Java's bytes are signed: one above 127 sets all higher bits (Murmur3.hash32 never masked its tail)
        tails[some] ^= signed[ends[some] + i].astype(np.int32) << np.int32(8 * i)
    hashes ^= _scramble(tails.view(np.uint32)) * (rest > 0)


# -- Murmur3 ---------------------------------------------------------------------------------------


def _scramble(words: UInt32Array) -> UInt32Array:
    words = words * _C1
    return _rotate(words, 15) * _C2


def _rotate(words: UInt32Array, bits: int) -> UInt32Array:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _mix(words: UInt32Array, hashes: UInt32Array) -> UInt32Array:
    return _rotate(hashes ^ _scramble(words), 13) * _M + _N


def _mix_one(words: UInt32Array, hash_: int) -> int:
    """Like `_mix`, for all words of one string."""
    for word in _scramble(words).tolist():
        hash_ ^= word
        hash_ = ((hash_ << 13 | hash_ >> 19) * 5 + 0xE6546B64) & _MASK
    return hash_


def _finish(hashes: UInt32Array, lengths: UInt32Array | np.uint32) -> UInt32Array:
    hashes = hashes ^ lengths
    hashes ^= hashes >> np.uint32(16)
    hashes *= _F1
    hashes ^= hashes >> np.uint32(13)
    hashes *= _F2
    hashes ^= hashes >> np.uint32(16)
    return hashes
