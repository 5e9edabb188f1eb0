"""The columns of a new table, and those that are added to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from hive_ingest.errors import ConfigurationError, InvalidOperation
from hive_ingest.model import Column, Table, columns_of
from hive_ingest.schema import columns_of_schema, is_same_type, schema_of

_Columns = Mapping[str, str] | Sequence[Column]


def table_columns(
    columns: _Columns | None, schema: object | None, partition_keys: _Columns | Sequence[str] | None
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """The data columns and the partition keys of a new table, from the arguments of `create_table`.

    Raises:
        ConfigurationError: `columns` and `schema` are both missing, or name different columns.
        UnsupportedFeature: No Hive type holds the values of a column of `schema`.
    """
    if schema is None:
        if columns is None:
            raise ConfigurationError("a new table needs columns: give columns={'id': 'bigint', …} or schema=data")
        return columns_of(columns), columns_of(cast("_Columns | None", partition_keys))
    given = columns_of(columns)
    found = columns_of_schema(schema_of(schema), {column.name: column.type for column in given})
    comments = {column.name: column.comment for column in given}
    by_name = {column.name: replace(column, comment=comments.get(column.name, "")) for column in found}
    keys = _keys_of(by_name, partition_keys)
    names = {key.name for key in keys}
    return tuple(by_name.get(column.name, column) for column in found if column.name not in names), keys


def _keys_of(columns: Mapping[str, Column], keys: _Columns | Sequence[str] | None) -> tuple[Column, ...]:
    """Partition keys, some by their names alone. Those with a type need not be columns of the data."""
    if keys is None or isinstance(keys, Mapping):
        return columns_of(keys)
    if isinstance(keys, str):
        raise ConfigurationError(f"partition_keys={keys!r} is one text: give a list of names")
    found = []
    for key in keys:
        if isinstance(key, str) and key.lower() not in columns:
            raise ConfigurationError(
                f"partition key {key!r} is not a column of the data ({', '.join(columns)}): give it with its type, as "
                f"in {{{key!r}: 'string'}}"
            )
        found.append(columns[key.lower()] if isinstance(key, str) else key)
    return columns_of(found)


def with_columns_added(table: Table, columns: _Columns, *, if_not_exists: bool) -> Table:
    """The table with more columns at the end.

    Raises:
        InvalidOperation: A column is there already; with `if_not_exists`, with another type.
    """
    types = {column.name: column.type for column in (*table.columns, *table.partition_keys)}
    added = []
    for column in columns_of(columns):
        if column.name not in types:
            added.append(column)
        elif not if_not_exists or not is_same_type(types[column.name], column.type):
            raise InvalidOperation(
                f"{table.name} has a column {column.name!r} already, of type {types[column.name]}: choose another name "
                f"than {column.name!r} for one of type {column.type}"
            )
    return replace(table, columns=(*table.columns, *added)) if added else table
