"""Rows that are Python objects (mappings and dataclasses) as batches of Arrow data."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeGuard

import pyarrow as pa

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer.typed_columns import TypedColumn
from hive_ingest.schema import HiveType

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
    try:
        return pa.schema(list(pa.array([_fields(row) for row in data]).type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SerializationError(f"the columns of the rows cannot be inferred: {error}") from error


class RowBatches:
    """Makes batches of rows. Rows without a field become batches without its column.

    Arrow infers the type of each column from its values. Only maps have the types of the table, because Arrow would
    infer a struct.

    Args:
        columns: The columns of the table.
    """

    def __init__(self, columns: Iterable[TypedColumn]) -> None:
        self._maps = {name: type_.arrow for name, type_ in columns if _has_map(type_)}

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
        array = pa.array(values, self._maps.get(str(name).lower()))
        if pa.types.is_timestamp(array.type) and array.type.tz and any(map(_is_naive, values)):
            raise ValueError(f"{name!r} has timestamps with and without a time zone")
        return array


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


def _is_naive(value: Any) -> bool:
    return isinstance(value, dt.datetime) and value.tzinfo is None


def _has_map(type_: HiveType) -> bool:
    return type_.kind == "map" or any(_has_map(child) for _, child in type_.children)
