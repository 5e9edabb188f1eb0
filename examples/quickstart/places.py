"""Where the quickstart keeps its table, metastore and input."""

from __future__ import annotations

from pathlib import Path

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName

NAME = TableName("demo", "flights")


def metastore_uri(demo: Path) -> str:
    return f"sqlite:///{demo / 'metastore.db'}"


def connect(demo: Path) -> MetastoreClient:
    return hi.connect_metastore(metastore_uri(demo), warehouse=demo / "warehouse")


def input_folder(demo: Path) -> Path:
    return demo / "input"
