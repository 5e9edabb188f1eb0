"""Folders of tables that are created at once, or cannot be moved: one location, one table, and a log to read."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hive_ingest.errors import InvalidOperation, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient, folder_tasks, tables
from hive_ingest.metastore_client.embedded.folders import make_folders
from hive_ingest.model import DataOperationType, LockState, Table, TableName
from hive_ingest.storage import LocalStore, Location
from tests.acceptance.metastore.requests import READ, component, lock
from tests.support.tables import create_table

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore's folders are its own")


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_metastore(metastore_uri, warehouse=tmp_path / "warehouse", create=True) as client:
        yield client


def test_two_tables_created_at_once_in_two_databases_do_not_share_a_folder(
    ms: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL each checked the location before the other was committed."""
    for database in ("a", "b"):
        ms.create_database(database)
    location, first = str(tmp_path / "shared"), threading.Event()

    def make_slowly(*arguments: object, **options: object) -> None:
        if not first.is_set():
            first.set()
            second.append(pool.submit(ms.create_table, "b.t", columns={"id": "int"}, location=location))
            with contextlib.suppress(TimeoutError):  # it waits for this one
                second[0].exception(timeout=1)
        make_folders(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "make_folders", make_slowly)
    with ThreadPoolExecutor(1) as pool:
        second: list[Future[Table]] = []
        ms.create_table("a.t", columns={"id": "int"}, location=location)
        with pytest.raises(InvalidOperation, match=r"table a\.t lies at"):
            second[0].result()
    assert ms.get_tables("b") == []


def test_a_rename_that_cannot_be_finished_is_not_logged_each_time_a_waiter_looks(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(source: Location, target: Location) -> None:
        raise StreamingIOFailure(f"{source} cannot be renamed (read-only file system)")

    table = create_table(ms)
    with monkeypatch.context() as patch:
        patch.setattr(folder_tasks, "rename_folder", refuse)
        ms.alter_table("web.t", replace(table, name=TableName("web", "u")))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            response = lock(ms, component(READ, "web", "u"))
            for _ in range(5):
                assert ms.check_lock(response.lock_id).state is LockState.WAITING
        assert caplog.text.count("is still to be moved or removed") <= 1
    ms.check_lock(response.lock_id)
    assert ms.check_lock(response.lock_id).state is LockState.ACQUIRED


def refuse_rename(source: Location, target: Location) -> None:
    raise StreamingIOFailure(f"{source} cannot be renamed (read-only file system)")


def refuse_removal(self: LocalStore, path: str) -> None:
    raise StreamingIOFailure(f"{path} cannot be removed (read-only file system)")


@pytest.mark.parametrize(
    ("owner", "name", "refuse"),
    [(folder_tasks, "rename_folder", refuse_rename), (LocalStore, "delete_folder", refuse_removal)],
    ids=["not hidden yet", "not removed yet"],
)
def test_aborted_writes_of_a_table_that_takes_a_dropped_tables_name_are_remembered(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, refuse: object
) -> None:
    """Its write ids begin below those of the dropped table, whose folder was removed after the rename.

    The aborted write was forgotten then, so it counted as committed.
    """
    create_table(ms)
    earlier = ms.open_txns(5)
    ms.allocate_table_write_ids("web.t", earlier)
    for txn_id in earlier:
        ms.abort_txn(txn_id)
    other = ms.create_table("web.u", columns={"id": "int"})
    (txn_id,) = ms.open_txns()
    ms.allocate_table_write_ids("web.u", [txn_id])
    lock(ms, component(READ, "web", "u", operation=DataOperationType.INSERT), txn_id=txn_id)
    ms.abort_txn(txn_id)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, refuse)
        ms.drop_table("web.t")
    ms.alter_table("web.u", replace(other, name=TableName("web", "t")))
    assert isinstance(ms, EmbeddedMetastoreClient)
    ms.clock_offset_seconds = 100_000
    ms.run_housekeeping()
    assert ms.get_valid_txns().aborted == (txn_id,)
