"""Offsets inside of Arrow arrays that point elsewhere, as in memory of another library or in data from the network.

`validate()` looks at the first and the last offset of an array. Arrow copies and converts arrays without a look at the
others, and one that points outside of the data ends the process. So does an index outside of a dictionary. The whole
check, `validate(full=True)`, also finds text that is not UTF-8, which is no reason to refuse the other rows: that is
found when the values are converted.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.types as pat

_BINARY: Final = (pat.is_binary, pat.is_large_binary, pat.is_binary_view)
#: Types of text, and those of the same offsets whose values may be any bytes.
_TEXTS: Final = (
    (pat.is_string, pa.binary()),
    (pat.is_large_string, pa.large_binary()),
    (pat.is_string_view, pa.binary_view()),
)
#: Types of lists, and those of the same offsets with elements that take no memory.
_LISTS: Final = (
    (pat.is_list, pa.list_(pa.null())),
    (pat.is_map, pa.list_(pa.null())),
    (pat.is_large_list, pa.large_list(pa.null())),
    (pat.is_list_view, pa.list_view(pa.null())),
    (pat.is_large_list_view, pa.large_list_view(pa.null())),
)


def has_offsets(type_: pa.DataType) -> bool:
    """Whether arrays of the type need `check_offsets`."""
    if isinstance(type_, pa.BaseExtensionType):
        return has_offsets(type_.storage_type)
    if pat.is_run_end_encoded(type_):
        return has_offsets(type_.value_type)
    if pat.is_struct(type_) or pat.is_fixed_size_list(type_):
        return any(has_offsets(type_.field(i).type) for i in range(type_.num_fields))
    kinds = (pat.is_dictionary, pat.is_nested, *_BINARY, *(is_text for is_text, _ in _TEXTS))
    return any(is_kind(type_) for is_kind in kinds)


def check_offsets(array: pa.Array) -> None:
    """Raises ArrowInvalid if an offset in the array, or in one inside of it, points outside of its data."""
    type_ = array.type
    if not len(array) or not has_offsets(type_):
        return
    if isinstance(type_, pa.BaseExtensionType):
        check_offsets(array.storage)
    elif pat.is_dictionary(type_):
        pa.DictionaryArray.from_arrays(array.indices, pa.nulls(len(array.dictionary)))  # checks the indices
        check_offsets(array.dictionary)
    elif pat.is_run_end_encoded(type_):
        check_offsets(array.values)
    elif pat.is_struct(type_):
        for i in range(type_.num_fields):
            check_offsets(array.field(i))
    elif any(is_binary(type_) for is_binary in _BINARY):
        array.validate(full=True)
    elif pat.is_nested(type_):
        _check_list(array)
    else:
        _check_text(array)


def _check_text(array: pa.Array) -> None:
    for is_text, bare in _TEXTS:
        if is_text(array.type):
            _alike(array, bare, array.buffers()).validate(full=True)


def _check_list(array: pa.Array) -> None:
    elements = [array.keys, array.items] if pat.is_map(array.type) else [array.values]
    is_view = pat.is_list_view(array.type) or pat.is_large_list_view(array.type)
    for is_kind, bare in _LISTS:
        if is_kind(array.type):
            buffers = array.buffers()[: 3 if is_view else 2]
            _alike(array, bare, buffers, [pa.nulls(len(elements[0]))]).validate(full=True)
    for each in elements:
        check_offsets(each if is_view else _of_rows(each, array))


def _of_rows(elements: pa.Array, array: pa.Array) -> pa.Array:
    """The elements of the rows of a slice: a large array is written slice by slice."""
    if pat.is_fixed_size_list(array.type):
        return elements
    first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return elements.slice(first, end - first)


def _alike(
    array: pa.Array, type_: pa.DataType, buffers: list[pa.Buffer | None], children: list[pa.Array] | None = None
) -> pa.Array:
    """An array of another type with the same memory."""
    return pa.Array.from_buffers(type_, len(array), buffers, -1, array.offset, children)
