"""Tables of a test, in the database `web`, and the files in their folders.

Where a table is named here and in the modules beside this one, `t` stands for `web.t`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, TableName
from tests.support.warehouses import store_path

DATABASE = "web"


def full_name(table: str | TableName) -> str:
    """`table` with its database."""
    name = str(table)
    return name if "." in name else f"{DATABASE}.{name}"


def create_table(
    client: MetastoreClient, table: str = "t", columns: Mapping[str, str] | None = None, **layout: Any
) -> Table:
    """Create a table, and its database if that does not exist.

    Args:
        columns: By default one column, `id int`.
        layout: Partition keys, buckets and properties as `MetastoreClient.create_table` takes them.
    """
    name = full_name(table)
    client.create_database(name.partition(".")[0], if_not_exists=True)
    return client.create_table(name, columns=columns or {"id": "int"}, **layout)


def folder_of(table: Table) -> Path:
    """The folder of a table, as `store_path` has it."""
    return store_path(table.location)


def table_folder(client: MetastoreClient, table: str | TableName = "t") -> Path:
    """The folder of the table with this name."""
    return folder_of(client.get_table(full_name(table)))


def files_of(client: MetastoreClient, table: str = "t") -> list[str]:
    """All files in the table's folder, hidden leftovers included, by their path in it."""
    root = table_folder(client, table)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
