"""Streaming connections with the options that most tests need."""

from __future__ import annotations

from typing import Any

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from tests.support.tables import full_name


def connect(client: Any, table: str = "t", **options: Any) -> StreamingConnection:
    """Connect to a table; the records are JSON objects unless `record_writer` is among the options.

    Args:
        client: A metastore's client, or what a test puts in front of one.
        table: With its database, or in the database `web`.
        options: As `StreamingConnection.connect` takes them.
    """
    options.setdefault("record_writer", hi.StrictJsonWriter())
    database, _, name = full_name(table).partition(".")
    return StreamingConnection.connect(client, database=database, table=name, **options)
