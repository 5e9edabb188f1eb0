"""Clients of metastores that belong to one test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient, HousekeepingResult
from tests.support.warehouses import warehouse_in


def sqlite_uri(folder: Path) -> str:
    """The address of a SQLite metastore in `folder`."""
    return f"sqlite:///{folder}/metastore.db"


def connect_in(folder: Path, uri: str | None = None, **options: Any) -> MetastoreClient:
    """Connect to a metastore, made if there is none, with the warehouse of `folder`.

    Args:
        folder: Usually the test's `tmp_path`.
        uri: The metastore's address; by default that of a SQLite file in `folder`.
        options: As `connect_metastore` takes them.
    """
    options.setdefault("create", True)
    return connect_metastore(uri or sqlite_uri(folder), warehouse=warehouse_in(folder), **options)


def housekeeping(client: EmbeddedMetastoreClient) -> HousekeepingResult:
    """Run the housekeeping of an embedded metastore, which nobody else is doing meanwhile."""
    result = client.run_housekeeping()
    assert result is not None
    return result
