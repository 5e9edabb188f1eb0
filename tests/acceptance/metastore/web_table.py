"""The table `web.t`, and what is done to it beside those who write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DataOperationType, TableName, TxnId, columns_of
from tests.acceptance.metastore.requests import READ, component, lock

COLUMNS = {"id": "int", "msg": "string"}
PARTITION = "p=1"


def folder(location: str) -> Path:
    return Path(location.removeprefix("file:"))


def writer(ms: MetastoreClient, *, locked: bool = True) -> TxnId:
    """A transaction that is about to write web.t."""
    (txn_id,) = ms.open_txns()
    ms.allocate_table_write_ids("web.t", [txn_id])
    if locked:
        lock(ms, component(READ, "web", "t", operation=DataOperationType.INSERT, dynamic=True), txn_id=txn_id)
    return txn_id


def rename(ms: MetastoreClient, to: str = "u") -> None:
    ms.alter_table("web.t", replace(ms.get_table("web.t"), name=TableName("web", to)))


def retype(ms: MetastoreClient) -> None:
    ms.alter_table("web.t", replace(ms.get_table("web.t"), columns=columns_of({"id": "bigint"})))
