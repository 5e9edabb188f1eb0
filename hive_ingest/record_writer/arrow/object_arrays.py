"""Arrow arrays of Python objects, with types that Arrow infers from the values alone.

The rules for the types of a table are those of Arrow data, so nothing may be converted before they are applied. Given a
type, `pyarrow.array` takes 1.5 for an int, a number for a timestamp and a key of another case for null. So it is given
none. Arrow would infer a struct where a column is a map: such values are taken apart here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from hive_ingest.record_writer.arrow.row_times import check_times, with_nanoseconds
from hive_ingest.schema import HiveType

_BOOLEANS: Final = (bool, np.bool_)
_TEXT_KINDS: Final = ("string", "char", "varchar")


def object_array(values: Sequence[Any], type_: HiveType | None) -> pa.Array:
    """The values of a column, or of a part of one.

    Args:
        values: Python objects.
        type_: The type in the table, which says where maps are; None if the table has no such column.

    Raises:
        ValueError: Arrow would change a value because of the others, or a value is no map where the table has one.
        pyarrow.ArrowException, TypeError, OverflowError: Arrow infers no type.
    """
    if type_ is None or not _has_map(type_):
        return _inferred(values, type_)
    if all(value is None for value in values):
        return pa.nulls(len(values))
    if type_.kind == "map":
        return _map_array(values, type_)
    return _list_array(values, type_) if type_.kind == "array" else _struct_array(values, type_)


def _has_map(type_: HiveType) -> bool:
    return type_.kind == "map" or any(_has_map(child) for _, child in type_.children)


def _map_array(values: Iterable[Any], type_: HiveType) -> pa.Array:
    pairs = [None if value is None else _pairs(value) for value in values]
    keys = [key for each in pairs for key, _ in each or ()]
    if any(key is None for key in keys):
        raise ValueError("null as the key of a map")
    # Without keys no type is inferred, and Arrow has no map whose keys have none.
    key_array = object_array(keys, type_.children[0][1]) if keys else pa.array([], type_.children[0][1].arrow)
    items = object_array([item for each in pairs for _, item in each or ()], type_.children[1][1])
    return pa.MapArray.from_arrays(
        _offsets(pairs), key_array, items, type=pa.map_(key_array.type, items.type), mask=_nulls(pairs)
    )


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        return [(key, item) for key, item in value]
    raise ValueError(f"a {type(value).__name__} in place of a map, which a mapping or a list of pairs can be")


def _list_array(values: Iterable[Any], type_: HiveType) -> pa.Array:
    items = [None if value is None else _items(value) for value in values]
    elements = object_array([item for each in items for item in each or ()], type_.children[0][1])
    return pa.ListArray.from_arrays(_offsets(items), elements, mask=_nulls(items))


def _items(value: Any) -> list[Any]:
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"a {type(value).__name__} in place of an array")
    return list(value)


def _struct_array(values: Sequence[Any], type_: HiveType) -> pa.Array:
    for value in values:
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"a {type(value).__name__} in place of a struct")
    names = list(dict.fromkeys(name for value in values if value is not None for name in value))
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a name of a field that is not text")
    if not names:
        return pa.array(values, pa.struct([]))
    types = dict(type_.children)
    arrays = [
        object_array([None if value is None else value.get(name) for value in values], types.get(name.lower()))
        for name in names
    ]
    return pa.StructArray.from_arrays(arrays, names=names, mask=_nulls(values))


def _offsets(parts: Iterable[list[Any] | None]) -> pa.Array:
    return pa.array(np.cumsum([0, *(len(part or ()) for part in parts)]), pa.int32())


def _nulls(values: Sequence[Any]) -> pa.Array | None:
    is_null = [value is None for value in values]
    return pa.array(is_null, pa.bool_()) if any(is_null) else None


# -- values without maps -------------------------------------------------------------------------------


def _inferred(values: Sequence[Any], type_: HiveType | None) -> pa.Array:
    array = pa.array(values)
    check_times(array.type, values)
    found = with_nanoseconds(array.type, values)
    _check_kinds(found, values, type_)
    return array if found == array.type else pa.array(values, found)


def check_objects(frame: Any, schema: pa.Schema) -> None:
    """Check that Arrow has kept the Python objects in a data frame of pandas.

    Args:
        frame: The frame, or any other data.
        schema: Its columns, as Arrow has converted them.

    Raises:
        ValueError: It has changed one, because of the others in its column. Names the column.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(frame, pandas.DataFrame):
        return
    for place, name in enumerate(frame.columns):
        column, found = frame.iloc[:, place], schema.types[place]
        if column.dtype != np.object_ or pat.is_string(found) or pat.is_large_string(found):
            continue
        values = [None if missing else value for value, missing in zip(column.tolist(), column.isna(), strict=True)]
        try:
            check_times(found, values)
            if with_nanoseconds(found, values) != found:
                raise ValueError("nanoseconds, which Arrow cuts off in a column of objects")
            _check_kinds(found, values, None)
        except ValueError as error:
            raise ValueError(f"column {name!r} has {error}") from error


def _check_kinds(found: pa.DataType, values: Iterable[Any], type_: HiveType | None) -> None:
    """Raises ValueError if the type that Arrow has found for values changes one of them, or its text.

    Arrow takes a boolean among floats for a number and text among bytes for bytes. As a float, a whole number may have
    another text, which counts where the table has a string; so do the zeros of decimals and of fractions of seconds.
    """
    if pat.is_struct(found):
        rows = [value for value in values if isinstance(value, Mapping)]
        types = dict(type_.children) if type_ is not None and type_.kind == "struct" else {}
        for field in found:
            _check_kinds(field.type, [row.get(field.name) for row in rows], types.get(field.name.lower()))
    elif pat.is_list(found):
        lists = (value for value in values if value is not None and not _has_one_kind(value))
        is_array = type_ is not None and type_.kind == "array"
        _check_kinds(found.value_type, chain.from_iterable(lists), type_.children[0][1] if type_ and is_array else None)
    elif type_ is not None and type_.kind in _TEXT_KINDS and not pat.is_string(found):
        _check_texts(found, values)
    elif pat.is_floating(found):
        _refuse(values, _BOOLEANS, "booleans and numbers in one column")
    elif pat.is_binary(found):
        _refuse(values, (str,), "text and bytes in one column")


def _has_one_kind(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != np.object_


def _refuse(values: Iterable[Any], kinds: tuple[type, ...], what: str) -> None:
    if any(issubclass(kind, kinds) for kind in set(map(type, values))):
        raise ValueError(what)


def _check_texts(found: pa.DataType, values: Iterable[Any]) -> None:
    for value in values:
        if value is None:
            continue
        alone = pa.array([value])
        alone = pa.array([value], with_nanoseconds(alone.type, [value]))
        if alone.type != found and alone.cast(pa.string()) != alone.cast(found).cast(pa.string()):
            raise ValueError(f"{value!r} among values of another type, which would change its text")
