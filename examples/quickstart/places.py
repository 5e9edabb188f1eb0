"""Where the quickstart keeps its table, metastore and input."""

from __future__ import annotations

from pathlib import Path

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName

ROOT = Path(__file__).resolve().parents[2]
NAME = TableName("demo", "flights")
#: The name under which the writers keep their progress.
SINK = "flights"
#: When the writers compact a partition: each of the 36 gets only a few deltas.
COMPACTION = hi.CompactionPolicy(max_deltas=1)


def metastore_uri(demo: Path) -> str:
    return f"sqlite:///{demo / 'metastore.db'}"


def warehouse(demo: Path) -> Path:
    return demo / "warehouse"


def connect(demo: Path) -> MetastoreClient:
    return hi.connect_metastore(metastore_uri(demo), warehouse=warehouse(demo), create=True)


def input_folder(demo: Path) -> Path:
    """The folder whose files the writers read."""
    return demo / "input"


def prepared_folder(demo: Path) -> Path:
    """Files that have not arrived yet."""
    return demo / "prepared"


def picture(demo: Path) -> Path:
    return demo / "flights.png"


def broker_address(demo: Path) -> Path:
    """The file that has the address of the Kafka broker."""
    return demo / "broker"
