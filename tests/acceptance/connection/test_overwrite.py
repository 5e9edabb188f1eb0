"""INSERT OVERWRITE: what a transaction writes replaces what was there, whole or not at all."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import LockTimeout
from hive_ingest.metastore_client import MetastoreClient
from tests.support import connections
from tests.support.rows import ids, rows
from tests.support.tables import create_table, table_folder


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore, "plain")
    create_table(metastore, "parts", partition_keys={"part": "string"})
    hi.append(metastore, "web.plain", rows([1, 2]))
    hi.append(metastore, "web.parts", rows([1, 2], part=["a", "b"]))
    return metastore


def connect(client: MetastoreClient, table: str, **more: Any) -> StreamingConnection:
    more = {"overwrite": True} | more
    return connections.connect(client, table, record_writer=hi.ArrowWriter(), **more)


def names(ms: MetastoreClient, table: str) -> set[str]:
    root = table_folder(ms, table)
    return {path.name for path in root.rglob("*") if path.is_dir() and path.name.startswith(("base", "delta"))}


def test_an_overwrite_is_a_new_base(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn, conn.transaction():
        conn.write(rows([7, 8, 9]))
    assert ids(ms, "plain") == [7, 8, 9]
    assert names(ms, "plain") == {"delta_0000001_0000001_0000", "base_0000002"}
    hi.append(ms, "web.plain", rows([10]))
    assert ids(ms, "plain") == [7, 8, 9, 10]


def test_an_overwrite_without_rows_empties_the_table(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn, conn.transaction():
        pass
    assert ids(ms, "plain") == []
    hi.append(ms, "web.plain", rows([3]))
    assert ids(ms, "plain") == [3]


def test_only_the_partitions_written_are_replaced(ms: MetastoreClient) -> None:
    with connect(ms, "parts") as conn, conn.transaction():
        conn.write(rows([5, 6], part=["b", "c"]))
    assert ids(ms, "parts") == [1, 5, 6]


def test_a_static_partition_is_emptied_by_an_overwrite_without_rows(ms: MetastoreClient) -> None:
    with connect(ms, "parts", static_partition_values=["a"]) as conn, conn.transaction():
        pass
    assert ids(ms, "parts") == [2]


def test_an_aborted_overwrite_changes_nothing(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        conn.write(rows([7]))
        conn.abort_transaction()
    assert ids(ms, "plain") == [1, 2]
    assert names(ms, "plain") == {"delta_0000001_0000001_0000"}


def test_appenders_wait_for_an_overwrite_and_their_rows_come_after_it(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        conn.write(rows([7]))
        client = ms.clone()
        waiting = threading.Thread(target=hi.append, args=(client, "web.plain", rows([8])))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        conn.commit_transaction()
        waiting.join()
        client.close()
    assert ids(ms, "plain") == [7, 8]


def test_an_overwrite_waits_for_the_appender_before_it(ms: MetastoreClient) -> None:
    with connect(ms, "plain", overwrite=False) as appender:
        appender.begin_transaction()
        appender.write(rows([3]))
        settings = {"lock_wait_seconds": 0.2}
        with connect(ms, "plain", settings=settings) as conn, pytest.raises(LockTimeout, match=r"web\.plain"):
            conn.begin_transaction()
        appender.commit_transaction()
    with connect(ms, "plain") as conn, conn.transaction():
        conn.write(rows([7]))
    assert ids(ms, "plain") == [7]
