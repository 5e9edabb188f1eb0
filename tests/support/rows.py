"""Rows that are identified by a column `id`: created, and read back from a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.support.tables import full_name


def rows(ids: Iterable[int], **columns: Any) -> pa.Table:
    """An Arrow table with these ids.

    Args:
        ids: The values of the column `id`, of type int32.
        columns: More columns: a list of values, or one value for all rows. A column that is None is left out.
    """
    numbers = list(ids)
    more = {name: values for name, values in columns.items() if values is not None}
    lists = {name: values if isinstance(values, list) else [values] * len(numbers) for name, values in more.items()}
    return pa.table({"id": pa.array(numbers, pa.int32()), **lists})


def ids(client: MetastoreClient, table: str = "t") -> list[int]:
    """The ids of all visible rows of a table, sorted, with duplicates."""
    return sorted(hi.read_table(client, full_name(table), columns=["id"])["id"].to_pylist())
