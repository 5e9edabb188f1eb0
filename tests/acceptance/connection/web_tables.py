"""Tables of a website that tests of connections write into."""

from __future__ import annotations

import json
from typing import Any

from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from tests.support import connections


def create_web_tables(client: MetastoreClient) -> None:
    """`web.plain`, and `web.alerts` with two partition keys and four buckets."""
    client.create_database("web")
    client.create_table("web.plain", columns={"id": "int", "msg": "string"})
    client.create_table(
        "web.alerts",
        columns={"id": "int", "msg": "string"},
        partition_keys={"continent": "string", "country": "string"},
        bucket_columns=["id"],
        num_buckets=4,
    )


def record(id: int, msg: str = "m", **partition: Any) -> bytes:
    return json.dumps({"id": id, "msg": msg, **partition}).encode()


def connect(client: MetastoreClient, table: str = "plain", **options: Any) -> StreamingConnection:
    return connections.connect(client, table, agent_info="test", **options)
