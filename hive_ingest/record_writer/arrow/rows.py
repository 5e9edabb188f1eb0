"""Rows that are Python objects (mappings and dataclasses) as batches of Arrow data."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeGuard

import pyarrow as pa

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer.arrow.object_arrays import check_objects, object_array
from hive_ingest.record_writer.arrow.row_times import check_times
from hive_ingest.record_writer.typed_columns import TypedColumn
from hive_ingest.schema import object_columns

#: Rows that become one batch.
ROWS_AT_ONCE: Final = 8_192


def is_row(item: object) -> TypeGuard[Any]:
    """Whether the object is one row: a mapping, or an instance of a dataclass."""
    return isinstance(item, Mapping) or (dataclasses.is_dataclass(item) and not isinstance(item, type))


def schema_of_rows(data: Any) -> pa.Schema | None:
    """The columns of a list of rows, with the types that Arrow infers from all of them; None for other data.

    Raises:
        SerializationError: The values of a column have different types.
    """
    if is_row(data):
        data = [data]
    if not isinstance(data, list | tuple) or not data or not all(map(is_row, data)):
        return None
    rows = [_fields(row) for row in data]
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        return pa.schema([(str(name), _type_of([row.get(name) for row in rows])) for name in names])
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SerializationError(f"the columns of the rows cannot be inferred: {error}") from error


def stream_of(data: Any) -> pa.RecordBatchReader:
    """The batches of data with the Arrow interface.

    Raises:
        SerializationError: A column cannot be converted, such as one of pandas with values of different types.
    """
    if objects := object_columns(data):
        raise SerializationError(objects)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        check_objects(data, reader.schema)
        return reader
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SerializationError(
            f"{type(data).__name__} data cannot be converted to Arrow's: {'; '.join(map(str, error.args))}"
        ) from error


class RowBatches:
    """Makes batches of rows. Rows without a field become batches without its column.

    Arrow infers the type of each column from its values. The table only says which of them are maps.

    Args:
        columns: The columns of the table.
    """

    def __init__(self, columns: Iterable[TypedColumn]) -> None:
        self._types = dict(columns)

    def batches(self, rows: Iterable[Any], first_record: int) -> Iterator[pa.RecordBatch]:
        """The batches of consecutive rows.

        Args:
            rows: Mappings and dataclasses.
            first_record: The number of the first row, for errors.

        Raises:
            SerializationError: A value has no Arrow type.
        """
        kept: list[dict[str, Any]] = []
        names: tuple[str, ...] = ()
        for item in rows:
            row = _fields(item)
            if kept and tuple(row) != names:
                yield from self._batches(kept, names, first_record)
                first_record += len(kept)
                kept = []
            names = tuple(row)
            kept.append(row)
        if kept:
            yield from self._batches(kept, names, first_record)

    def _batches(
        self, rows: list[dict[str, Any]], names: tuple[str, ...], first_record: int
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield self._batch(rows, names)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            if len(rows) == 1:
                raise SerializationError(
                    f"record {first_record}: a value has no Arrow type: {error}", record=first_record
                ) from error
            # Values of different types in one column: each row has its own types, and is bad or not.
            for number, row in enumerate(rows, first_record):
                yield from self._batches([row], names, number)

    def _batch(self, rows: list[dict[str, Any]], names: tuple[str, ...]) -> pa.RecordBatch:
        arrays = [self._array(name, [row[name] for row in rows]) for name in names]
        if not names:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, names=list(map(str, names)))

    def _array(self, name: Any, values: list[Any]) -> pa.Array:
        try:
            return object_array(_with_nulls(values), self._types.get(str(name).lower()))
        except ValueError as error:
            if isinstance(error, pa.ArrowException):
                raise
            raise ValueError(f"{name!r} has {error}") from error


def _type_of(values: list[Any]) -> pa.DataType:
    values = _with_nulls(values)
    type_ = pa.array(values).type
    check_times(type_, values, one_zone=False)
    return type_


def _with_nulls(values: list[Any]) -> list[Any]:
    """The values, with None for pandas' NA and NaT, of which Arrow makes no array."""
    if (pandas := sys.modules.get("pandas")) is None:
        return values
    missing = (pandas.NA, pandas.NaT)
    return [None if any(value is each for each in missing) else value for value in values]


def _fields(row: Any) -> dict[str, Any]:
    """The values of a row by name, without dataclasses in them."""
    if isinstance(row, Mapping):
        return {name: _plain(value) for name, value in row.items()}
    return {field.name: _plain(getattr(row, field.name)) for field in dataclasses.fields(row)}


def _plain(value: Any) -> Any:
    """The value with dataclasses as dicts, however deep they are in it."""
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(map(_plain, value))
    if kind is dict or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return _fields(value)
    return value
