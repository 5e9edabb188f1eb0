"""Arrow data made safe for pyarrow's ORC writer.

The writer takes a child of a struct at its word: where the struct is null and the child is not, a value too many
goes into the child's stream, and every later row of that column reads its neighbour's value (seen with pyarrow
26; only a struct that is itself a child of a struct with nulls is treated right). So validity is pushed down
to the children first, at every depth. Where nothing is null, nothing is copied.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.errors import SerializationError, UnsupportedFeature


def normalise(batch: pa.RecordBatch, schema: pa.Schema) -> pa.StructArray:
    """The rows of `batch` as one struct of exactly the types of `schema`, safe to write; columns by position.

    Raises SerializationError for a value that its column's type cannot hold.
    """
    if batch.schema.equals(schema) and not holds_struct(schema):
        return batch.to_struct_array()
    if batch.num_columns != len(schema):
        raise SerializationError(f"a batch of {batch.num_columns} columns does not fit {len(schema)} columns")
    columns = [writable(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(schema))


@lru_cache(maxsize=128)
def holds_struct(schema: pa.Schema) -> bool:
    """A struct at any depth of any column."""
    return any(_holds_struct(field.type) for field in schema)


def writable(array: pa.Array, field: pa.Field) -> pa.Array:
    """One column, cast to the type of `field` and with nulls pushed down into structs."""
    if array.type != field.type:
        try:
            array = array.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SerializationError(
                f"column {field.name!r} of type {field.type} cannot hold what it was given as {array.type}: {error}"
            ) from error
    return _pushed_down(array) if _holds_struct(array.type) else array


def check_writable(schema: pa.Schema) -> None:
    """Raises UnsupportedFeature for a type that ORC files of Hive do not have."""
    for field in schema:
        _check_type(field.name, field.type)


def _check_type(name: str, type_: pa.DataType) -> None:
    if pat.is_struct(type_):
        for child in type_:
            _check_type(f"{name}.{child.name}", child.type)
    elif pat.is_map(type_):
        _check_type(f"{name}.key", type_.key_type)
        _check_type(f"{name}.value", type_.item_type)
    elif pat.is_list(type_):
        _check_type(f"{name}.item", type_.value_type)
    elif not _is_plain(type_):
        raise UnsupportedFeature(f"column {name!r}: Arrow's {type_} has no counterpart in ORC; cast it first")


_PLAIN_TYPES = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32()),
)


def _is_plain(type_: pa.DataType) -> bool:
    if pat.is_timestamp(type_):
        return type_.tz is None
    return type_ in _PLAIN_TYPES or pat.is_decimal128(type_)


@lru_cache(maxsize=4096)
def _holds_struct(type_: pa.DataType) -> bool:
    if pat.is_struct(type_):
        return True
    return any(_holds_struct(type_.field(i).type) for i in range(type_.num_fields))


def _pushed_down(array: pa.Array) -> pa.Array:
    """The same values; returns `array` itself where it is safe already."""
    if pat.is_struct(array.type):
        return _pushed_down_struct(array)
    if pat.is_map(array.type) and _holds_struct(array.type):
        return _pushed_down_map(array)
    if pat.is_list(array.type) and _holds_struct(array.type):
        return _pushed_down_list(array)
    return array


def _pushed_down_struct(array: pa.StructArray) -> pa.Array:
    # flatten() gives each child the nulls of its struct.
    before = array.flatten() if array.null_count else [array.field(i) for i in range(array.type.num_fields)]
    after = [_pushed_down(child) for child in before]
    if not array.null_count and all(new is old for new, old in zip(after, before, strict=True)):
        return array
    return pa.StructArray.from_arrays(after, fields=list(array.type), mask=_null_mask(array))


def _pushed_down_list(array: pa.ListArray) -> pa.Array:
    before = array.flatten()  # without the values of null lists and of rows outside the slice
    after = _pushed_down(before)
    if after is before:
        return array
    return pa.ListArray.from_arrays(_compact_offsets(array), after, type=array.type, mask=_null_mask(array))


def _pushed_down_map(array: pa.MapArray) -> pa.Array:
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys, items = array.keys.slice(start, stop - start), array.items.slice(start, stop - start)
    safe_keys, safe_items = _pushed_down(keys), _pushed_down(items)
    if safe_keys is keys and safe_items is items:
        return array
    offsets = pa.array(np.asarray(array.offsets) - start, pa.int32())
    return pa.MapArray.from_arrays(offsets, safe_keys, safe_items, type=array.type, mask=_null_mask(array))


def _compact_offsets(array: pa.ListArray) -> pa.Array:
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(pc.fill_null(pc.list_value_length(array), 0), out=offsets[1:])
    return pa.array(offsets)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
