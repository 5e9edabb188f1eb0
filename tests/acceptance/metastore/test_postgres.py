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

from hive_ingest.errors import ConfigurationError, MetastoreError, MetastoreSchemaError, MetastoreUnavailable
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.metastore_client.embedded.transactions import _TAKE_TXN_IDS, Transactions
from tests.services.postgres import PostgresServer
from tests.support.metastores import connect_in

pytestmark = pytest.mark.postgres


@pytest.fixture
def ms(postgres_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_in(tmp_path, postgres_uri) as client:
        assert isinstance(client, EmbeddedMetastoreClient)
        yield client


def arguments_of(uri: str) -> dict[str, Any]:
    url = make_url(uri)
    return {"host": str(url.query["host"]), "user": url.username, "dbname": url.database}


def execute(uri: str, sql: str) -> None:
    with psycopg.connect(**arguments_of(uri), autocommit=True) as connection:
        connection.execute(sql)


def drop_connections(uri: str) -> None:
    execute(uri, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hive-ingest'")


def test_a_lost_connection_is_reestablished(ms: EmbeddedMetastoreClient, postgres_uri: str) -> None:
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
    execute_sql = Session.execute_sql

    def lose(self: Session, sql: str) -> object:
        if sql == "COMMIT":
            drop_connections(postgres_uri)
        return execute_sql(self, sql)

    monkeypatch.setattr(Session, "execute_sql", lose)
    with pytest.raises(MetastoreUnavailable, match="outcome is unknown"):
        ms.commit_txn(txn_id)
    monkeypatch.undo()
    ms.commit_txn(txn_id)


def test_a_missing_database_is_unavailable(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(MetastoreUnavailable, match="does not exist"):
        connect_metastore(postgres_server.uri("nowhere", password="p%40ss"), warehouse=tmp_path, create=True)


def test_a_foreign_database_is_refused(postgres_uri: str, tmp_path: Path) -> None:
    execute(postgres_uri, "CREATE TABLE songs (title text)")
    with pytest.raises(MetastoreSchemaError, match="songs"):
        connect_metastore(postgres_uri, warehouse=tmp_path, create=True)


def test_concurrent_first_connections_create_the_tables_once(postgres_uri: str, tmp_path: Path) -> None:
    barrier = threading.Barrier(6)

    def connect() -> int:
        barrier.wait()
        with connect_metastore(postgres_uri, warehouse=tmp_path, create=True) as client:
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
    first_has_its_id, resume = threading.Event(), threading.Event()

    with ms.clone() as first, ms.clone() as second, ThreadPoolExecutor(2) as pool:
        transactions = first._transactions
        assert isinstance(transactions, Transactions)
        slow_open = transactions._open

        def open_slowly(*arguments: Any) -> object:
            opened = slow_open(*arguments)
            first_has_its_id.set()
            assert resume.wait(60)
            return opened

        transactions._open = open_slowly  # type: ignore[method-assign,assignment]
        earlier = pool.submit(first.open_txns)
        assert first_has_its_id.wait(60)
        later = pool.submit(second.open_txns)
        with pytest.raises(TimeoutError):
            later.result(timeout=0.3)
        assert ms.get_valid_txns().high_water_mark == 0
        resume.set()
        assert (earlier.result(timeout=60), later.result(timeout=60)) == ([1], [2])


# -- making, threads, limits -------------------------------------------------------------------------


def test_the_tables_are_created_only_on_request(postgres_uri: str, tmp_path: Path) -> None:
    with pytest.raises(MetastoreError, match=r"empty database.*create=True"):
        connect_metastore(postgres_uri, warehouse=tmp_path / "warehouse")
    with pytest.raises(ConfigurationError, match="no warehouse"):
        connect_metastore(postgres_uri, create=True)
    connect_metastore(postgres_uri, warehouse=tmp_path / "warehouse", create=True).close()
    with connect_metastore(postgres_uri) as client:
        assert client.get_database("default").location == f"file:{tmp_path}/warehouse"


def test_one_client_may_be_shared_by_threads(ms: EmbeddedMetastoreClient) -> None:
    def work(_: int) -> list[int]:
        found: list[int] = []
        for _ in range(10):
            (txn_id,) = ms.open_txns()
            ms.allocate_table_write_ids("db.t", [txn_id])
            ms.commit_txn(txn_id)
            found.append(txn_id)
        return found

    with ThreadPoolExecutor(8) as pool:
        assert sorted(txn_id for found in pool.map(work, range(8)) for txn_id in found) == list(range(1, 81))
    assert ms.get_valid_txns().open == ()


def test_a_process_stopped_inside_a_call_delays_the_others_for_a_bounded_time(
    postgres_uri: str, tmp_path: Path
) -> None:
    """Stopped (SIGSTOP, a suspended VM) with row locks held, it made all others wait for as long as it stayed so."""
    limits: dict[str, Any] = {"idle_in_transaction_timeout_seconds": 0.5, "busy_timeout_seconds": 20}
    inside, resume = threading.Event(), threading.Event()

    def stop(session: Session) -> None:
        session.scalar(_TAKE_TXN_IDS, count=1)
        inside.set()
        assert resume.wait(60)
        session.scalar(_TAKE_TXN_IDS, count=1)

    with (
        connect_metastore(postgres_uri, warehouse=tmp_path, create=True, **limits) as stopped,
        connect_metastore(postgres_uri, **limits) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        stopping = pool.submit(stopped._context.sessions.run, stop)  # type: ignore[attr-defined]
        assert inside.wait(60)
        assert other.open_txns() == [1]
        resume.set()
        stopping.result(timeout=60)  # its connection was ended, so the call was made again
        assert other.open_txns() == [4]


def test_a_row_lock_that_is_kept_for_long_is_an_error_that_says_how_to_find_its_holder(
    postgres_uri: str, tmp_path: Path
) -> None:
    with (
        connect_metastore(postgres_uri, warehouse=tmp_path, create=True, busy_timeout_seconds=0.3) as client,
        psycopg.connect(**arguments_of(postgres_uri)) as holder,
    ):
        holder.execute('SELECT * FROM "NEXT_TXN_ID" FOR UPDATE')
        with pytest.raises(MetastoreUnavailable, match=r"too busy.*pg_stat_activity"):
            client.open_txns()
        holder.rollback()
        assert client.open_txns() == [1]


@pytest.mark.parametrize(("configured", "used"), [("off", "on"), ("local", "local"), ("remote_write", "remote_write")])
def test_a_commit_is_on_disk_when_it_returns(postgres_uri: str, tmp_path: Path, configured: str, used: str) -> None:
    """With synchronous_commit=off, as a server, database or role may have it, commits that answered can be lost."""
    database = make_url(postgres_uri).database
    execute(postgres_uri, f'ALTER DATABASE "{database}" SET synchronous_commit = {configured}')
    with connect_metastore(postgres_uri, warehouse=tmp_path, create=True) as client:
        assert isinstance(client, EmbeddedMetastoreClient)
        assert client._context.sessions.execute_sql("SHOW synchronous_commit") == [(used,)]


def test_a_server_that_does_not_sync_its_disk_gives_a_warning(
    postgres_uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connect_metastore(postgres_uri, warehouse=tmp_path, create=True).close()
    assert "the server runs with fsync off" in caplog.text  # the tests' own server does, for speed
