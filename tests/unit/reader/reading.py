"""Reads of the table `web.t`, and who reads."""

from __future__ import annotations

from typing import Any

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnInfo, TxnState
from hive_ingest.reader import read_table

BUCKET_0 = 536870912


def open_readers(client: MetastoreClient) -> list[TxnInfo]:
    return [t for t in client.get_open_txns_info().transactions if t.state is TxnState.OPEN]


def ids(client: MetastoreClient, **options: Any) -> list[int]:
    found: list[int] = read_table(client, "web.t", columns=["id"], **options)["id"].to_pylist()
    return found
