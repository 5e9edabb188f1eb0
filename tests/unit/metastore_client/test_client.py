"""The life of a client: options, clones, forks, threads, closing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_ingest.errors import ConfigurationError, ConnectionMisuse, MetastoreError, MetastoreUnavailable
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
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


def test_importing_the_room_loads_no_sqlalchemy() -> None:
    code = "import sys, hive_ingest.metastore_client; assert 'sqlalchemy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_warehouse_may_be_given_as_a_path_or_a_uri(sqlite_uri: str, tmp_path: Path) -> None:
    for warehouse in (tmp_path / "w", str(tmp_path / "w"), f"file:{tmp_path}/w", f"file://{tmp_path}/w/"):
        with connect_metastore(sqlite_uri, warehouse=warehouse) as client:
            assert client.get_database("default").location == f"file:{tmp_path}/w"


# -- options -----------------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_with_those_that_exist(sqlite_uri: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option 'timeout'.*txn_timeout_seconds"):
        connect_metastore(sqlite_uri, warehouse=tmp_path, timeout=3)


@pytest.mark.parametrize("value", [0, -1, "300", None, True])
def test_an_option_that_cannot_be_meant_is_refused(sqlite_uri: str, tmp_path: Path, value: object) -> None:
    with pytest.raises(ConfigurationError, match="txn_timeout_seconds"):
        connect_metastore(sqlite_uri, warehouse=tmp_path, txn_timeout_seconds=value)


@pytest.mark.parametrize(
    ("option", "value"), [("max_open_batch", 7.5), ("max_open_txns", 0), ("housekeeping_interval_seconds", -1)]
)
def test_every_option_has_its_own_range(sqlite_uri: str, tmp_path: Path, option: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=option):
        connect_metastore(sqlite_uri, warehouse=tmp_path, **{option: value})


def test_a_user_without_a_name_is_shown_by_his_number(
    ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    ms.open_txns()
    assert ms.get_open_txns_info().transactions[0].user == str(os.getuid())


# -- closing and cloning -----------------------------------------------------------------------------


def test_a_closed_client_says_so(ms: EmbeddedMetastoreClient) -> None:
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


def test_a_clone_works_in_another_thread(ms: EmbeddedMetastoreClient) -> None:
    (txn_id,) = ms.open_txns()
    with ms.clone() as clone:
        thread = threading.Thread(target=clone.heartbeat, kwargs={"txn_id": txn_id})
        thread.start()
        thread.join()
    ms.commit_txn(txn_id)


def test_a_clone_means_the_same_file_after_a_change_of_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with connect_metastore("sqlite:///metastore.db", warehouse="warehouse") as client:
        client.open_txns()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with client.clone() as clone:
            assert clone.get_valid_txns().open == (1,)


def test_a_forked_child_opens_a_connection_of_its_own(ms: EmbeddedMetastoreClient) -> None:
    ms.open_txns()
    parents = ms._db._connection
    child = os.fork()
    if child == 0:  # the child: its exit code is its answer
        try:
            opened = ms.open_txns()
            os._exit(0 if opened == [2] and ms._db._connection is not parents else 1)
        except BaseException:  # noqa: BLE001 - a child must not run the rest of the tests
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ms._db._connection is parents
    assert ms.open_txns() == [3]


# -- trouble -----------------------------------------------------------------------------------------


def test_a_metastore_that_stays_busy_is_unavailable_and_nothing_happened(ms: EmbeddedMetastoreClient) -> None:
    with ms.clone() as other:
        other._db._open().execute_sql("BEGIN IMMEDIATE")
        with pytest.raises(MetastoreUnavailable, match="too busy"):
            ms.open_txns()
        other._db._open().execute_sql("ROLLBACK")
    assert ms.open_txns() == [1]


def test_a_call_that_fails_halfway_leaves_nothing(ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from hive_ingest.metastore_client.embedded import transactions

    monkeypatch.setattr(transactions, "_INSERT_MIN_HISTORY", transactions._INSERT_TXN)
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

    monkeypatch.setattr(ms, "_keep_house", fail)
    assert ms.open_txns() == [1]
    assert "housekeeping put off: too busy" in caplog.text


def test_an_interrupt_rolls_back(ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ms, "_open", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ms.open_txns()
    monkeypatch.undo()
    assert ms.open_txns() == [1]
