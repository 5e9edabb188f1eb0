"""The life of a client: options, clones, forks, threads, closing."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from hive_ingest.errors import ConfigurationError, ConnectionMisuse, MetastoreError, MetastoreUnavailable
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.model import TxnId
from tests.support.metastores import connect_in


@pytest.fixture
def ms(sqlite_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_in(tmp_path, sqlite_uri, busy_timeout_seconds=0.2) as client:
        assert isinstance(client, EmbeddedMetastoreClient)
        yield client


def test_it_is_a_metastore_client(ms: EmbeddedMetastoreClient, tmp_path: Path) -> None:
    assert isinstance(ms, MetastoreClient)
    assert ms.uri == f"sqlite:///{tmp_path}/metastore.db"
    assert ms.warehouse == f"file:{tmp_path}/warehouse"
    assert repr(ms) == f"EmbeddedMetastoreClient({ms.uri!r}, warehouse={ms.warehouse!r})"
    assert ms.txn_timeout_seconds == 300


def test_a_full_disk_is_named_with_what_to_do(sqlite_uri: str, tmp_path: Path) -> None:
    """The message said to check the address and the server."""
    with connect_in(tmp_path, sqlite_uri):
        pass

    def fill(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # no more than there are now

    event.listen(Pool, "connect", fill)
    try:
        with (
            connect_in(tmp_path, sqlite_uri) as client,
            pytest.raises(MetastoreUnavailable, match=r"disk is full.*: free some space on its disk"),
        ):
            list(map(client.create_database, (f"database_{number}" for number in range(1_000))))
    finally:
        event.remove(Pool, "connect", fill)


def test_importing_the_package_loads_no_sqlalchemy() -> None:
    code = "import sys, hive_ingest.metastore_client; assert 'sqlalchemy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_warehouse_may_be_given_as_a_path_or_a_uri(sqlite_uri: str, tmp_path: Path) -> None:
    for warehouse in (tmp_path / "w", str(tmp_path / "w"), f"file:{tmp_path}/w", f"file://{tmp_path}/w/"):
        with connect_metastore(sqlite_uri, warehouse=warehouse, create=True) as client:
            assert client.get_database("default").location == f"file:{tmp_path}/w"


# -- making a metastore ------------------------------------------------------------------------------


def test_a_mistyped_uri_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(MetastoreError, match=r"there is no file '.*typo/metastore.db'.*create=True"):
        connect_metastore(f"sqlite:///{tmp_path}/typo/metastore.db", warehouse=tmp_path / "warehouse")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_metastore_only_when_asked(sqlite_uri: str, tmp_path: Path) -> None:
    (tmp_path / "metastore.db").touch()
    with pytest.raises(MetastoreError, match=r"empty database.*create=True"):
        connect_metastore(sqlite_uri)
    assert (tmp_path / "metastore.db").read_bytes() == b""
    connect_metastore(sqlite_uri, create=True).close()
    connect_metastore(sqlite_uri).close()


def test_the_warehouse_lies_beside_the_file_unless_given(sqlite_uri: str, tmp_path: Path) -> None:
    with connect_metastore(sqlite_uri, create=True) as client:
        assert client.get_database("default").location == f"file:{tmp_path}/warehouse"
        assert client.create_database("web").location == f"file:{tmp_path}/warehouse/web.db"


def test_another_warehouse_than_the_metastores_is_refused(sqlite_uri: str, tmp_path: Path) -> None:
    """Databases would have been created in the other one without a word."""
    connect_metastore(sqlite_uri, warehouse=tmp_path / "one", create=True).close()
    refused = rf"has the warehouse 'file:{tmp_path}/one', and warehouse='file:{tmp_path}/two' was given"
    for create in (False, True):
        with pytest.raises(ConfigurationError, match=refused):
            connect_metastore(sqlite_uri, warehouse=tmp_path / "two", create=create)
    assert not (tmp_path / "two").exists()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    connect_metastore(sqlite_uri, warehouse=tmp_path / "link").close()


def test_a_metastore_remembers_its_warehouse(sqlite_uri: str, tmp_path: Path) -> None:
    connect_metastore(sqlite_uri, warehouse=tmp_path / "elsewhere", create=True).close()
    with connect_metastore(sqlite_uri) as client:
        assert client.create_database("web").location == f"file:{tmp_path}/elsewhere/web.db"


def test_connecting_does_not_create_a_missing_warehouse(sqlite_uri: str, tmp_path: Path) -> None:
    """Its disk may not be mounted: files written below the mount point would be hidden later."""
    connect_metastore(sqlite_uri, create=True).close()
    (tmp_path / "warehouse").rmdir()
    connect_metastore(sqlite_uri, create=True).close()
    assert not (tmp_path / "warehouse").exists()


def test_a_metastore_file_that_is_removed_does_not_come_back_empty(ms: EmbeddedMetastoreClient, tmp_path: Path) -> None:
    ms._context.sessions._pool.engine.dispose()
    for file in tmp_path.glob("metastore.db*"):
        file.unlink()
    with pytest.raises(MetastoreUnavailable, match="unable to open"):
        ms.open_txns()
    assert not (tmp_path / "metastore.db").exists()


# -- options -----------------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_with_the_known_ones(sqlite_uri: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option 'timeout'.*txn_timeout_seconds"):
        connect_metastore(sqlite_uri, warehouse=tmp_path, timeout=3, create=True)


@pytest.mark.parametrize("value", [0, -1, "soon", None, True, float("nan"), float("inf")])
def test_an_invalid_option_is_refused(sqlite_uri: str, tmp_path: Path, value: object) -> None:
    with pytest.raises(ConfigurationError, match="txn_timeout_seconds"):
        connect_metastore(sqlite_uri, warehouse=tmp_path, txn_timeout_seconds=value, create=True)


@pytest.mark.parametrize(
    ("option", "value"), [("max_open_batch", 7.5), ("max_open_txns", 0), ("housekeeping_interval_seconds", -1)]
)
def test_every_option_has_its_own_range(sqlite_uri: str, tmp_path: Path, option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=option):
        connect_metastore(sqlite_uri, warehouse=tmp_path, **{option: value}, create=True)


def test_a_user_without_a_name_is_shown_by_uid(ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setenv("LNAME", "another")  # the name is remembered as long as the variables that give it are the same
    ms.open_txns()
    assert ms.get_open_txns_info().transactions[0].user == str(os.getuid())


# -- closing and cloning -----------------------------------------------------------------------------


def test_a_call_on_a_closed_client_reports_that_it_is_closed(ms: EmbeddedMetastoreClient) -> None:
    ms.close()
    ms.close()
    with pytest.raises(ConnectionMisuse, match="closed"):
        ms.open_txns()
    with pytest.raises(ConnectionMisuse, match="closed"):
        ms.get_databases()


def test_a_clone_lives_on_when_its_origin_is_closed(ms: EmbeddedMetastoreClient) -> None:
    ms.clock_offset_seconds = 60
    with ms.clone() as clone:
        ms.close()
        assert clone.open_txns() == [1]
        assert clone.clock_offset_seconds == 60
        assert (clone.uri, clone.warehouse) == (ms.uri, ms.warehouse)


def test_a_clone_that_is_not_closed_keeps_no_connection_open(ms: EmbeddedMetastoreClient) -> None:
    pool = ms._context.sessions._pool
    assert ms.clone().open_txns() == [1]
    gc.collect()
    assert pool.engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    ms.close()
    assert pool.engine.pool.checkedin() == 0  # type: ignore[attr-defined]


def test_a_clone_works_in_another_thread(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    with ms.clone() as clone:
        thread = threading.Thread(target=clone.heartbeat, kwargs={"txn_id": txn_id})
        thread.start()
        thread.join()
    ms.commit_txn(txn_id)


def test_a_clone_uses_the_same_file_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with connect_metastore("sqlite:///metastore.db", warehouse="warehouse", create=True) as client:
        client.open_txns()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with client.clone() as clone:
            assert clone.get_valid_txns().open == (1,)


def in_child(work: Callable[[], bool]) -> int:
    """The exit code of a forked child: 0 if `work` gives True there."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:  # noqa: BLE001 - a child must not run the rest of the tests
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_opens_its_own_connections(ms: EmbeddedMetastoreClient) -> None:
    ms.open_txns()
    assert in_child(lambda: ms.open_txns() == [2]) == 0
    assert ms.open_txns() == [3]


def test_a_child_forked_while_another_thread_is_inside_a_call_works(ms: EmbeddedMetastoreClient) -> None:
    inside, forked = threading.Event(), threading.Event()

    def wait_inside(session: Session) -> None:
        inside.set()
        forked.wait(60)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ms._context.sessions.run, wait_inside)
        assert inside.wait(60)
        child = in_child(lambda: ms.get_valid_txns().high_water_mark == 0)
        forked.set()
        waiting.result(timeout=60)
    assert child == 0


# -- threads -----------------------------------------------------------------------------------------


def test_one_client_may_be_shared_by_threads(sqlite_uri: str, tmp_path: Path) -> None:
    """One connection for all of them ended in SIGSEGV, or in a rollback of another thread's transaction."""
    with (
        connect_metastore(sqlite_uri, warehouse=tmp_path / "warehouse", create=True) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        client.create_table("t", columns={"id": "int"})

        def work(_: int) -> list[TxnId]:
            found = []
            for _ in range(10):
                (txn_id,) = client.open_txns()
                client.allocate_table_write_ids("t", [txn_id])
                client.get_table("t")
                client.heartbeat(txn_id=txn_id)
                client.commit_txn(txn_id)
                found.append(txn_id)
            return found

        ids = [txn_id for found in pool.map(work, range(8)) for txn_id in found]
        assert sorted(ids) == list(range(1, 81))
        assert client.get_valid_txns().open == ()
        assert client.get_valid_write_ids(["t"])[0].high_water_mark == 80


def test_a_rollback_of_one_thread_leaves_the_transaction_of_another(ms: EmbeddedMetastoreClient) -> None:
    opened, rolled_back = threading.Event(), threading.Event()

    def slowly(session: Session) -> None:
        session.execute_sql("CREATE TABLE slow (x)")
        opened.set()
        assert rolled_back.wait(60)

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ms._context.sessions.run, slowly)
        assert opened.wait(60)
        with pytest.raises(MetastoreUnavailable):
            ms.open_txns()  # the file is locked by the other thread: it fails, and rolls back its own alone
        rolled_back.set()
        slow.result(timeout=60)
    assert ms._context.sessions.execute_sql("SELECT * FROM slow") == []


# -- trouble -----------------------------------------------------------------------------------------


def test_a_metastore_that_stays_busy_is_unavailable_and_nothing_happened(
    ms: EmbeddedMetastoreClient, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "metastore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(MetastoreUnavailable, match=r"too busy.*stopped.*fuser"):
        ms.open_txns()
    other.execute("ROLLBACK")
    other.close()
    assert ms.open_txns() == [1]


def test_a_call_that_fails_halfway_leaves_nothing(ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from hive_ingest.metastore_client.embedded import transactions

    monkeypatch.setattr(transactions, "_INSERT_MIN_HISTORY", "INSERT INTO nowhere VALUES (:txn_id, :min_open)")
    with pytest.raises(MetastoreError, match="refused a statement"):
        ms.open_txns()
    monkeypatch.undo()
    assert ms.get_valid_txns().high_water_mark == 0
    assert ms.open_txns() == [1]


def test_housekeeping_that_cannot_run_does_not_stop_the_call(
    ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise MetastoreUnavailable("too busy")

    monkeypatch.setattr(ms._housekeeping, "_keep_house", fail)
    assert ms.open_txns() == [1]
    assert "housekeeping put off: too busy" in caplog.text


def test_an_interrupt_rolls_back(ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ms._transactions, "_open", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ms.open_txns()
    monkeypatch.undo()
    assert ms.open_txns() == [1]
