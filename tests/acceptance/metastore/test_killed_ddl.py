"""DROP and ALTER in processes that are killed halfway."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import (
    InvalidOperation,
    LockTimeout,
    MetastoreUnavailable,
    StreamingIOFailure,
)
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient, folder_tasks
from hive_ingest.metastore_client.embedded.folders import rename_folder
from hive_ingest.model import Table, TableName
from hive_ingest.storage import LocalStore, Location
from tests.acceptance.metastore.requests import READ, component, lock
from tests.acceptance.metastore.web_table import COLUMNS, PARTITION, folder, rename, writer

embedded = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore's folders and commits are its own")


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_metastore(
        metastore_uri, warehouse=tmp_path / "warehouse", ddl_lock_wait_seconds=0.2, create=True
    ) as client:
        client.create_database("web")
        yield client


@pytest.fixture
def table(ms: MetastoreClient) -> Table:
    ms.create_table("web.t", columns=COLUMNS, partition_keys={"p": "int"})
    ms.add_partitions("web.t", [["1"]])
    return ms.get_table("web.t")


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


def kill_after_commit(
    ms: MetastoreClient, patch: pytest.MonkeyPatch, change: Callable[[MetastoreClient], None]
) -> None:
    def die(self: object) -> None:
        raise Killed

    patch.setattr(folder_tasks.FolderTasks, "finish", die)
    with pytest.raises(Killed):
        change(ms)
    patch.undo()


def kill_after_folder(
    ms: MetastoreClient, patch: pytest.MonkeyPatch, change: Callable[[MetastoreClient], None]
) -> None:

    def die(source: Location, target: Location) -> None:
        rename_folder(source, target)
        raise Killed

    patch.setattr("hive_ingest.metastore_client.embedded.folder_tasks.rename_folder", die)
    with pytest.raises(Killed):
        change(ms)
    patch.undo()


def kill_before_removal(
    ms: MetastoreClient, patch: pytest.MonkeyPatch, change: Callable[[MetastoreClient], None]
) -> None:
    def die(*_: object) -> None:
        raise Killed

    patch.setattr(LocalStore, "delete_folder", die)
    with pytest.raises(Killed):
        change(ms)
    patch.undo()


killed = pytest.mark.parametrize("kill", [kill_after_commit, kill_after_folder, kill_before_removal])
Kill = Callable[[MetastoreClient, pytest.MonkeyPatch, Callable[[MetastoreClient], None]], None]


def with_rows(table: Table) -> Path:
    made = folder(table.location) / PARTITION / "delta_0000001_0000001_0000"
    made.mkdir()
    (made / "bucket_00000").write_bytes(b"ORC")
    return made


def trash(tmp_path: Path) -> list[Path]:
    return list(tmp_path.rglob(".hive_ingest_trash_*"))


@embedded
@killed
def test_rows_of_a_table_dropped_by_a_killed_process_do_not_come_back(
    ms: MetastoreClient, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: Kill
) -> None:
    """The folder was removed after the COMMIT: a new table of that name showed the remaining files."""
    with_rows(table)
    kill(ms, monkeypatch, lambda ms: ms.drop_table("web.t"))
    again = ms.create_table("web.t", columns=COLUMNS, partition_keys={"p": "int"})
    assert again.location == table.location
    assert not (folder(again.location) / PARTITION).exists()
    ms.add_partitions("web.t", [["1"]])
    assert list((folder(again.location) / PARTITION).iterdir()) == []
    assert isinstance(ms, EmbeddedMetastoreClient)
    ms.run_housekeeping()
    assert trash(tmp_path) == []
    assert (folder(again.location) / PARTITION).is_dir()


@embedded
@killed
def test_rows_of_a_partition_dropped_by_a_killed_process_do_not_come_back(
    ms: MetastoreClient, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: Kill
) -> None:
    with_rows(table)
    kill(ms, monkeypatch, lambda ms: ms.drop_partition("web.t", ["1"]))
    ms.add_partitions("web.t", [["1"]])
    assert list((folder(table.location) / PARTITION).iterdir()) == []
    assert isinstance(ms, EmbeddedMetastoreClient)
    ms.run_housekeeping()
    assert trash(tmp_path) == []
    assert (folder(table.location) / PARTITION).is_dir()


@embedded
def test_a_second_process_that_creates_the_table_meanwhile_keeps_its_rows(
    ms: MetastoreClient, table: Table, metastore_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the COMMIT of the drop and the removal: the removal took the rows of the new table."""
    with_rows(table)
    finish = folder_tasks.FolderTasks.finish
    with connect_metastore(metastore_uri) as other:

        def meanwhile(self: folder_tasks.FolderTasks) -> None:
            monkeypatch.setattr(folder_tasks.FolderTasks, "finish", finish)
            new = other.create_table("web.t", columns=COLUMNS, partition_keys={"p": "int"})
            other.add_partitions("web.t", [["1"]])
            with_rows(new)
            finish(self)

        monkeypatch.setattr(folder_tasks.FolderTasks, "finish", meanwhile)
        ms.drop_table("web.t")
    assert (folder(table.location) / PARTITION / "delta_0000001_0000001_0000").is_dir()


@embedded
def test_an_aborted_write_is_remembered_until_its_folder_is_gone(
    ms: MetastoreClient, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgotten with the table, a day later it counted as committed, and its rows as well."""
    txn_id = writer(ms)
    ms.abort_txn(txn_id)
    assert isinstance(ms, EmbeddedMetastoreClient)
    kill_after_commit(ms, monkeypatch, lambda ms: ms.drop_table("web.t"))
    ms.clock_offset_seconds = 100_000
    monkeypatch.setattr(folder_tasks, "_start", lambda *_: None)
    ms.run_housekeeping()
    assert txn_id in ms.get_valid_txns().aborted
    monkeypatch.undo()
    ms.run_housekeeping()
    ms.run_housekeeping()
    assert ms.get_valid_txns().aborted == ()


@embedded
def test_aborted_writes_of_a_new_table_are_not_forgotten_with_the_dropped_one(
    ms: MetastoreClient, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_after_commit(ms, monkeypatch, lambda ms: ms.drop_table("web.t"))
    ms.create_table("web.t", columns=COLUMNS, partition_keys={"p": "int"})
    txn_id = writer(ms)
    write_id = ms.allocate_table_write_ids("web.t", [txn_id])[0].write_id
    ms.add_dynamic_partitions(txn_id, write_id, "web.t", ["p=1"])
    ms.abort_txn(txn_id)
    assert isinstance(ms, EmbeddedMetastoreClient)
    ms.clock_offset_seconds = 100_000
    ms.run_housekeeping()
    assert ms.get_valid_txns().aborted == (txn_id,)


@embedded
def test_a_folder_that_cannot_be_removed_is_not_used_again(
    ms: MetastoreClient, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_rows(table)

    def refuse(source: Location, target: Location) -> None:
        raise StreamingIOFailure(f"{source} cannot be renamed (permission denied)")

    monkeypatch.setattr(folder_tasks, "rename_folder", refuse)
    ms.drop_table("web.t")
    assert "still to be moved or removed" in caplog.text
    with pytest.raises(StreamingIOFailure, match="cannot be renamed"):
        ms.create_table("web.t", columns=COLUMNS)
    monkeypatch.undo()
    ms.create_table("web.t", columns=COLUMNS)


@embedded
@pytest.mark.parametrize("kill", [kill_after_commit, kill_after_folder])
def test_a_rename_by_a_killed_process_is_finished_by_the_next(
    ms: MetastoreClient, table: Table, metastore_uri: str, monkeypatch: pytest.MonkeyPatch, kill: Kill
) -> None:
    """The folder was moved before the COMMIT: the table read empty, and the rename could not be repeated."""
    with_rows(table)
    monkeypatch.setattr("hive_ingest.metastore_client.ddl_locks._release", lambda *_: None)
    with monkeypatch.context() as patch:
        kill(ms, patch, rename)
    assert (
        len({lock.lock_id for lock in ms.show_locks("web.u")}) == 1
    )  # nobody reads or writes it before its folder is there
    with connect_metastore(metastore_uri) as other:
        (txn_id,) = other.open_txns()
        waiting = lock(other, component(READ, "web", "u"), txn_id=txn_id)
        other.check_lock(waiting.lock_id)
        (partition,) = other.list_partitions("web.u")
        assert (folder(partition.location) / "delta_0000001_0000001_0000").is_dir()
        assert partition.location.endswith("/web.db/u/p=1")
        assert not folder(table.location).exists()
        assert [found.txn_id for found in other.show_locks("web.u")] == [txn_id]
    ms.create_table("web.t", columns=COLUMNS)


@embedded
def test_a_rename_takes_along_what_is_still_to_be_removed(
    ms: MetastoreClient, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_rows(table)
    kill_before_removal(ms, monkeypatch, lambda ms: ms.drop_partition("web.t", ["1"]))
    assert len(trash(tmp_path)) == 1
    rename(ms)
    assert trash(tmp_path) == []
    assert folder(ms.get_table("web.u").location).is_dir()


@embedded
def test_a_rename_in_a_folder_that_cannot_be_written_is_refused(
    ms: MetastoreClient, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was committed, its folder stayed where it was, and every read called for a backup."""
    with_rows(table)
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(StreamingIOFailure, match=r"nothing was changed: this user cannot write to .*/web.db"):
        rename(ms)
    assert ms.get_table("web.t") == table


@embedded
def test_a_rename_to_another_file_system_is_refused(ms: MetastoreClient, table: Table, tmp_path: Path) -> None:
    with_rows(table)
    places = ("/dev/shm", "/var/tmp")  # in memory and on disk, as the tests themselves may be
    other = next(place for place in places if os.stat(place).st_dev != tmp_path.stat().st_dev)
    with tempfile.TemporaryDirectory(dir=other) as elsewhere:
        ms.create_database("other", location=f"file:{elsewhere}/other.db")
        with pytest.raises(StreamingIOFailure, match="nothing was changed: they are on different file systems"):
            ms.alter_table("web.t", replace(table, name=TableName("other", "t")))
    assert ms.get_table("web.t") == table


@embedded
def test_a_table_whose_rename_is_not_finished_is_locked_until_it_is(
    ms: MetastoreClient, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder was not there yet: readers and writers were told to restore it from a backup."""

    def refuse(source: Location, target: Location) -> None:
        raise StreamingIOFailure(f"{source} cannot be renamed (read-only file system)")

    rows = pa.table({"id": pa.array([1], pa.int32()), "msg": ["a"], "p": pa.array([1], pa.int32())})
    hi.append(ms, "web.t", rows)
    assert isinstance(ms, EmbeddedMetastoreClient)
    with monkeypatch.context() as patch:
        patch.setattr(folder_tasks, "rename_folder", refuse)
        rename(ms)
        ms.clock_offset_seconds = 100_000
        ms.run_housekeeping()
        reason = r"a rename is not finished, .*/t is still to be moved to .*/u: make both writable"
        with pytest.raises(LockTimeout, match=reason):
            hi.read_table(ms, "web.u", lock_wait_seconds=0.1)
        with pytest.raises(LockTimeout, match=reason):
            hi.append(ms, "web.u", rows, settings={"lock_wait_seconds": 0.1})
    assert hi.append(ms, "web.u", rows) is not None
    assert hi.read_table(ms, "web.u").num_rows == 2
    assert ms.show_locks() == []


@embedded
def test_a_rename_onto_a_folder_with_something_in_it_is_refused(ms: MetastoreClient, table: Table) -> None:
    other = folder(table.location).with_name("u")
    (other / "something").mkdir(parents=True)
    with pytest.raises(InvalidOperation, match="not empty"):
        rename(ms)
    assert ms.get_table("web.t") == table
    assert folder(table.location).is_dir()


@embedded
def test_a_drop_that_is_committed_does_not_look_like_one_that_failed(
    ms: MetastoreClient, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise MetastoreUnavailable("the server is gone")

    assert isinstance(ms, EmbeddedMetastoreClient)
    with monkeypatch.context() as patch:
        patch.setattr(type(ms._context.sessions), "query", fail)
        ms._context.folder_tasks.finish()
    assert "still to be moved or removed: the server is gone" in caplog.text
