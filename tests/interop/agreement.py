"""Hive and our reader on one table: the same rows under the same ROW__IDs, whoever wrote or changed them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DEFAULT_PARTITION_NAME, Column, Table
from tests.interop.hive import RealHive

#: Partition values and ROW__ID, which together name a row, and its cells.
Rows = dict[tuple[Any, ...], tuple[Any, ...]]

BOTH_MODES = (False, True)
ROW_MODE = (False,)


def assert_agreement(hive: RealHive, client: MetastoreClient, name: str, *, modes: Sequence[bool] = ROW_MODE) -> Rows:
    """That Hive selects, in each of `modes` (vectorised or not), what we read; gives those rows."""
    table = client.get_table(name)
    ours = read_by_us(client, table)
    for vectorized in modes:
        assert read_by_hive(hive, table, vectorized=vectorized) == ours
    return ours


def read_by_us(client: MetastoreClient, table: Table) -> Rows:
    found = hi.read_table(client, table.name, row_ids=True)
    columns = {column.name: python_values(found[column.name], column) for column in all_columns(table)}
    row_ids = [tuple(row_id.values()) for row_id in found["row__id"].to_pylist()]
    return by_row(table, row_ids, columns)


def read_by_hive(hive: RealHive, table: Table, *, vectorized: bool) -> Rows:
    # The names of columns may be words of HiveQL; row__id needs another one to be a column of a table.
    names = [column.name for column in all_columns(table)]
    query = f"select row__id as rid, {', '.join(f'`{name}`' for name in names)} from {table.name}"
    found = hive.select(query, vectorized=vectorized)
    columns = {
        column.name: [as_compared(row[at], column) for row in found] for at, column in enumerate(all_columns(table), 1)
    }
    return by_row(table, [tuple(row[0].values()) for row in found], columns)


def by_row(table: Table, row_ids: list[tuple[int, ...]], columns: dict[str, list[Any]]) -> Rows:
    keys = [columns.pop(key.name) for key in table.partition_keys]
    places = zip(*keys, row_ids, strict=True)
    rows = dict(zip(places, zip(*columns.values(), strict=True), strict=True))
    assert len(rows) == len(row_ids), "a ROW__ID came twice in a partition"
    return rows


def all_columns(table: Table) -> tuple[Column, ...]:
    return (*table.columns, *table.partition_keys)


def python_values(values: pa.ChunkedArray, column: Column) -> list[Any]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us"))
    return [as_compared(value, column) for value in values.to_pylist()]


def as_compared(value: Any, column: Column) -> Any:
    """One form for both.

    Hive gives the blanks of char(n) sometimes, and shows the null of a string key as the name of the default partition.
    """
    if column.type.startswith("char") and value is not None:
        return value.rstrip(" ")
    if value == DEFAULT_PARTITION_NAME:
        return None
    return plain(value, column.type.startswith("map"))


def plain(value: Any, is_map: bool = False) -> Any:
    """Hashable or at least comparable: floats by their bits, a map of ours (pairs) as Hive's (a dict)."""
    if isinstance(value, float):
        return value.hex()
    if is_map and isinstance(value, list):
        value = dict(value)
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def ids(rows: Rows, at: int = 0) -> list[Any]:
    """The cells of one column, sorted."""
    return sorted(cells[at] for cells in rows.values())
