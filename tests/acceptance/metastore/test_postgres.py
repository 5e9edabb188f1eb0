"""What only a server can do: lose connections, and let two writers in at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from hive_ingest.errors import MetastoreSchemaError, MetastoreUnavailable
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from tests.services.postgres import PostgresServer
from tests.support.metastores import connect_in

pytestmark = pytest.mark.postgres


@pytest.fixture
def ms(postgres_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_in(tmp_path, postgres_uri) as client:
        assert isinstance(client, EmbeddedMetastoreClient)
        yield client


def execute(uri: str, sql: str) -> None:
    url = make_url(uri)
    with psycopg.connect(
        host=str(url.query["host"]), user=url.username, dbname=url.database, autocommit=True
    ) as connection:
        connection.execute(sql)


def drop_connections(uri: str) -> None:
    execute(uri, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hive-ingest'")


def test_a_lost_connection_is_made_again(ms: EmbeddedMetastoreClient, postgres_uri: str) -> None:
    (txn_id,) = ms.open_txns()
    drop_connections(postgres_uri)
    ms.heartbeat(txn_id=txn_id)
    drop_connections(postgres_uri)
    ms.commit_txn(txn_id)
    assert ms.get_valid_txns().open == ()


def test_a_connection_lost_during_the_commit_leaves_the_outcome_unknown(
    ms: EmbeddedMetastoreClient, postgres_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (txn_id,) = ms.open_txns()
    session = ms._db._open()
    execute_sql = type(session).execute_sql

    def lose(self: Any, sql: str) -> object:
        if sql == "COMMIT":
            drop_connections(postgres_uri)
        return execute_sql(self, sql)

    monkeypatch.setattr(type(session), "execute_sql", lose)
    with pytest.raises(MetastoreUnavailable, match="outcome is unknown"):
        ms.commit_txn(txn_id)
    monkeypatch.undo()
    ms.commit_txn(txn_id)


def test_a_database_that_is_not_there_is_unavailable(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(MetastoreUnavailable, match="does not exist"):
        connect_metastore(postgres_server.uri("nowhere", password="p%40ss"), warehouse=tmp_path)


def test_a_foreign_database_is_refused(postgres_uri: str, tmp_path: Path) -> None:
    execute(postgres_uri, "CREATE TABLE songs (title text)")
    with pytest.raises(MetastoreSchemaError, match="songs"):
        connect_metastore(postgres_uri, warehouse=tmp_path)


def test_first_connections_at_once_make_the_tables_once(postgres_uri: str, tmp_path: Path) -> None:
    barrier = threading.Barrier(6)

    def connect() -> int:
        barrier.wait()
        with connect_metastore(postgres_uri, warehouse=tmp_path) as client:
            return len(client.open_txns())

    with ThreadPoolExecutor(6) as pool:
        assert [future.result() for future in [pool.submit(connect) for _ in range(6)]] == [1] * 6


def test_first_allocations_at_once_give_different_write_ids(ms: EmbeddedMetastoreClient) -> None:
    """Both find no row in NEXT_WRITE_ID; the second insert fails and the call is made again."""
    txn_ids = ms.open_txns(6)
    barrier = threading.Barrier(6)

    def allocate(index: int) -> int:
        with ms.clone() as client:
            client.get_databases()
            barrier.wait()
            return client.allocate_table_write_ids("db.t", [txn_ids[index]])[0].write_id

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(allocate, range(6))) == [1, 2, 3, 4, 5, 6]


def test_a_snapshot_never_shows_a_later_id_before_an_earlier_one(ms: EmbeddedMetastoreClient) -> None:
    """The opener holds NEXT_TXN_ID until it commits, so a second one waits instead of overtaking it."""
    first_has_its_id, go_on = threading.Event(), threading.Event()

    with ms.clone() as first, ms.clone() as second, ThreadPoolExecutor(2) as pool:
        slow_open = first._open

        def open_slowly(*arguments: Any) -> object:
            opened = slow_open(*arguments)
            first_has_its_id.set()
            assert go_on.wait(30)
            return opened

        first._open = open_slowly  # type: ignore[method-assign,assignment]
        earlier = pool.submit(first.open_txns)
        assert first_has_its_id.wait(30)
        later = pool.submit(second.open_txns)
        with pytest.raises(TimeoutError):
            later.result(timeout=0.3)
        assert ms.get_valid_txns().high_water_mark == 0
        go_on.set()
        assert (earlier.result(timeout=30), later.result(timeout=30)) == ([1], [2])
