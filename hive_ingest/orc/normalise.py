"""Makes Arrow data safe for pyarrow's ORC writer. Observed with pyarrow 26, Hive 3.1.3 and Hive 4.0.1:

- **Null structs.** Where a struct is null and its child is not, the writer puts one value too many into the
  child's stream, and every later row of that column reads its neighbour's value. So
  validity is pushed down to the children, at every depth; where nothing is null, nothing is copied.
- **Timestamps before 1970 with a fraction of a second** get negative nanoseconds. pyarrow reads them back; Hive's
  query fails. They are encoded once more (`early_timestamps`). Those of the last second before 1970, after its first
  millisecond, are refused: ORC has no form for them, and Hive's own files show them a second later. All others are
  right from 1677-09-21 00:12:44, the first second that Arrow's nanoseconds hold, to 2262-04-11 23:47:16.854775807, in
  every time zone of the reader.
- **Dates** are right from 0001-01-01 to 9999-12-31, also before 1582-10-15, because the files say that they count
  in the proleptic Gregorian calendar (see `tail`). Beyond, Hive shows another day or NULL: refused.

`unwritable_values` finds what is refused, `has_early_fractions` what is encoded once more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from hive_ingest.arrow_arrays import numbers_of
from hive_ingest.errors import SerializationError, UnsupportedFeature

BoolArray = npt.NDArray[np.bool_]
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: What `unwritable_values` finds, for messages.
UNWRITABLE = (
    "a timestamp before 1677-09-21 00:12:44 or in the last 999 milliseconds before 1970, or a date outside the years 1 "
    "to 9999"
)
_FIRST_SECOND = -(2**63 // 10**9)  # the first whole one that nanoseconds can hold
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, in days since 1970-01-01


def normalise(batch: pa.RecordBatch, schema: pa.Schema) -> pa.StructArray:
    """The rows of `batch` as one struct with exactly the types of `schema`, safe to write. Columns match by position.

    Raises SerializationError for a value that its column's type, or an ORC file, cannot hold.
    """
    if batch.schema.equals(schema) and is_safe(schema):
        return batch.to_struct_array()
    if batch.num_columns != len(schema):
        raise SerializationError(f"a batch of {batch.num_columns} columns does not fit {len(schema)} columns")
    columns = [_writable(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(schema))


def unwritable_values(array: pa.Array) -> BoolArray | None:
    """The rows with a date or timestamp, at any depth, that Hive would not read unchanged; None if there are none.

    These are timestamps before 1677-09-21 00:12:44 and in the last 999 milliseconds before 1970, and dates outside the
    years 1 to 9999.
    """
    if not _holds(array.type, _is_limited):
        return None
    mask = _rows_with(array, _unwritable, _is_limited)
    return mask if mask.any() else None


def has_early_fractions(array: pa.Array) -> bool:
    """Whether there is a timestamp before 1970 with a fraction of a second, at any depth."""
    is_timestamp: Callable[[pa.DataType], bool] = pat.is_timestamp
    return _holds(array.type, is_timestamp) and bool(_rows_with(array, _early_fractions, is_timestamp).any())


def why_unreadable(array: pa.Array) -> str | None:
    """The reason why a value of `array`, at any depth, is unreadable; None if all can be read.

    Unreadable are text that is not UTF-8, a decimal with more digits than its type, and `unwritable_values`.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return None if unwritable_values(array) is None else UNWRITABLE


def unreadable_row(batch: pa.RecordBatch) -> tuple[int, str] | None:
    """The first row with an unreadable value, and the reason; None if all can be read."""
    found = _unreadable_column(batch)
    if found is None or batch.num_rows <= 1:
        return None if found is None else (0, found)
    # Copies, because Arrow checks nested values outside a slice too.
    middle = batch.num_rows // 2
    first, second = (
        pa.concat_batches([part, part.slice(0, 0)]) for part in (batch.slice(0, middle), batch.slice(middle))
    )
    if (in_first := unreadable_row(first)) is not None:
        return in_first
    in_second = unreadable_row(second)
    return None if in_second is None else (middle + in_second[0], in_second[1])


def _unreadable_column(batch: pa.RecordBatch) -> str | None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if (why := why_unreadable(column)) is not None:
            return f"column {field.name!r}: {why}"
    return None


def check_writable(schema: pa.Schema) -> None:
    """Raises UnsupportedFeature for a type that ORC files of Hive do not have."""
    for field in schema:
        _check_type(field.name, field.type)


# -- types -----------------------------------------------------------------------------------------

_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_PLAIN_TYPES = frozenset([*_NUMBERS, pa.bool_(), pa.string(), pa.binary(), pa.date32()])


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


def _is_plain(type_: pa.DataType) -> bool:
    if pat.is_timestamp(type_):
        return type_.tz is None
    return type_ in _PLAIN_TYPES or pat.is_decimal128(type_)


@lru_cache(maxsize=4096)
def _holds(type_: pa.DataType, is_kind: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type of that kind occurs at any depth."""
    return is_kind(type_) or any(_holds(type_.field(i).type, is_kind) for i in range(type_.num_fields))


@lru_cache(maxsize=128)
def is_safe(schema: pa.Schema) -> bool:
    """Whether no column can hold a value that must be checked."""
    return not any(_holds(field.type, kind) for field in schema for kind in (pat.is_struct, _is_limited))


def _is_limited(type_: pa.DataType) -> bool:
    """Whether some values of the type cannot be written."""
    limited: bool = pat.is_timestamp(type_) or pat.is_date32(type_)
    return limited


# -- one column ------------------------------------------------------------------------------------


def _writable(array: pa.Array, field: pa.Field) -> pa.Array:
    if array.type != field.type:
        array = _cast(array, field)
    bad = unwritable_values(array)
    if bad is not None:
        raise SerializationError(
            f"column {field.name!r} holds a value that Hive could not read, in row {int(bad.argmax())} of the batch: "
            f"{UNWRITABLE}. "
            "Round it to a whole second, or use a string column"
        )
    return _pushed_down(array) if _holds(array.type, pat.is_struct) else array


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SerializationError(
            f"column {field.name!r} of type {field.type} cannot hold the values of type {array.type}: {error}"
        ) from error


# -- nulls pushed down into structs ----------------------------------------------------------------


def _pushed_down(array: pa.Array) -> pa.Array:
    """The same values. Returns `array` itself if it is safe already."""
    if not _holds(array.type, pat.is_struct):
        return array
    if pat.is_struct(array.type):
        return _pushed_down_struct(array)
    return _pushed_down_map(array) if pat.is_map(array.type) else _pushed_down_list(array)


def _pushed_down_struct(array: pa.StructArray) -> pa.Array:
    before = _children(array)
    after = [_pushed_down(child) for child in before]
    if not array.null_count and all(new is old for new, old in zip(after, before, strict=True)):
        return array
    return pa.StructArray.from_arrays(after, fields=list(array.type), mask=_null_mask(array))


def _pushed_down_list(array: pa.ListArray) -> pa.Array:
    before = array.flatten()  # without the values of null lists and of rows outside the slice
    after = _pushed_down(before)
    if after is before:
        return array
    return pa.ListArray.from_arrays(pa.array(_offsets(array)), after, type=array.type, mask=_null_mask(array))


def _pushed_down_map(array: pa.MapArray) -> pa.Array:
    offsets, keys, items = _entries(array)
    safe_keys, safe_items = _pushed_down(keys), _pushed_down(items)
    if safe_keys is keys and safe_items is items:
        return array
    return pa.MapArray.from_arrays(pa.array(offsets), safe_keys, safe_items, type=array.type, mask=_null_mask(array))


def _children(array: pa.StructArray) -> list[pa.Array]:
    """The children, each with the nulls of the struct."""
    children: list[pa.Array] = array.flatten()
    return children if array.null_count else [array.field(i) for i in range(array.type.num_fields)]


def _offsets(array: pa.ListArray) -> npt.NDArray[np.int32]:
    """Indices into `array.flatten()`."""
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(pc.fill_null(pc.list_value_length(array), 0), out=offsets[1:])
    return offsets


def _entries(array: pa.MapArray) -> tuple[npt.NDArray[np.int32], pa.Array, pa.Array]:
    """Offsets that start at 0, and the keys and items that they refer to."""
    offsets = np.asarray(array.offsets)
    start, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return offsets - offsets[0], array.keys.slice(start, count), array.items.slice(start, count)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# -- dates and timestamps --------------------------------------------------------------------------


def _unwritable(array: pa.Array) -> BoolArray:
    if pat.is_timestamp(array.type):
        ticks = numbers_of(array, np.int64)
        second = _UNITS_PER_SECOND[array.type.unit]
        early: BoolArray = ticks < 0
        return early & ((ticks >= -(999 * second // 1000)) | (ticks < _FIRST_SECOND * second)) if early.any() else early
    days = numbers_of(array, np.int32)
    return np.asarray((days < _FIRST_DAY) | (days > _LAST_DAY))


def _early_fractions(array: pa.Array) -> BoolArray:
    ticks = numbers_of(array, np.int64)
    early: BoolArray = ticks < 0
    return early & (ticks % _UNITS_PER_SECOND[array.type.unit] != 0) if early.any() else early


def _rows_with(
    array: pa.Array, find: Callable[[pa.Array], BoolArray], is_kind: Callable[[pa.DataType], bool]
) -> BoolArray:
    """The rows where `find` finds a value, at any depth, in arrays of types of that kind."""
    type_ = array.type
    if is_kind(type_):
        return find(array)
    mask: BoolArray = np.zeros(len(array), np.bool_)
    if not _holds(type_, is_kind):
        return mask
    if pat.is_struct(type_):
        for child in _children(array):
            mask |= _rows_with(child, find, is_kind)
        return mask
    if pat.is_map(type_):
        offsets, keys, items = _entries(array)
        found = _any_in(offsets, _rows_with(keys, find, is_kind) | _rows_with(items, find, is_kind))
        found &= np.asarray(array.is_valid())
        return found
    return _any_in(_offsets(array), _rows_with(array.flatten(), find, is_kind))


def _any_in(offsets: npt.NDArray[np.int32], mask: BoolArray) -> BoolArray:
    counts = np.concatenate([[0], np.cumsum(mask)])
    found: BoolArray = counts[offsets[1:]] > counts[offsets[:-1]]
    return found
