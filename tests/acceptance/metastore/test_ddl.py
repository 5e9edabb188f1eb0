"""DROP and ALTER beside readers and writers, and in processes that are killed halfway."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import (
    InvalidOperation,
    LockTimeout,
    MetastoreUnavailable,
    NoSuchObject,
    StreamingIOFailure,
    TxnAborted,
)
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient, folder_tasks
from hive_ingest.metastore_client.embedded.folders import rename_folder
from hive_ingest.model import Column, DataOperationType, Table, TableName, TxnId, columns_of
from hive_ingest.storage import LocalStore, Location
from tests.acceptance.metastore.requests import READ, component, lock

COLUMNS = {"id": "int", "msg": "string"}
PARTITION = "p=1"

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


HARMFUL: dict[str, Callable[[MetastoreClient], None]] = {
    "drop the table": lambda ms: ms.drop_table("web.t"),
    "drop the partition": lambda ms: ms.drop_partition("web.t", ["1"]),
    "drop the database": lambda ms: ms.drop_database("web", cascade=True),
    "rename": rename,
    "replace columns": retype,
}
harmful = pytest.mark.parametrize("change", HARMFUL.values(), ids=HARMFUL.keys())


# -- locks -------------------------------------------------------------------------------------------


@harmful
def test_a_change_waits_for_those_who_write_and_names_them(
    ms: MetastoreClient, table: Table, change: Callable[[MetastoreClient], None]
) -> None:
    """It took no lock: the writer's commit was acknowledged, and its rows were gone or unreadable."""
    txn_id = writer(ms)
    with pytest.raises(LockTimeout, match=rf"transaction {txn_id} of me@localhost.*hive-ingest abort"):
        change(ms)
    assert ms.get_table("web.t") == table
    ms.commit_txn(txn_id)
    change(ms)
    assert ms.show_locks() == []


def test_a_change_continues_when_the_writer_ends(ms: MetastoreClient, table: Table, metastore_uri: str) -> None:
    txn_id = writer(ms)
    with connect_metastore(metastore_uri, ddl_lock_wait_seconds=60) as patient, ThreadPoolExecutor(1) as pool:
        dropping = pool.submit(patient.drop_table, "web.t")
        while len(ms.show_locks("web.t")) < 2:
            time.sleep(0.01)
        assert not dropping.done()
        ms.commit_txn(txn_id)
        dropping.result(timeout=60)
    assert ms.get_tables("web") == []


@pytest.mark.parametrize("change", ["add a column", "set a property"])
def test_a_change_that_affects_nobody_waits_for_nobody(ms: MetastoreClient, table: Table, change: str) -> None:
    txn_id = writer(ms)
    if change == "add a column":
        ms.alter_table("web.t", replace(table, columns=(*table.columns, Column("more", "int"))))
    else:
        ms.alter_table("web.t", replace(table, properties={**table.properties, "comment": "new"}))
    ms.commit_txn(txn_id)


# -- writers without a lock --------------------------------------------------------------------------


@embedded
@harmful
def test_a_writer_without_a_lock_is_aborted_by_the_change(
    ms: MetastoreClient, table: Table, change: Callable[[MetastoreClient], None]
) -> None:
    txn_id = writer(ms, locked=False)
    change(ms)
    with pytest.raises(TxnAborted, match=r"web\.t was (dropped|renamed).*while it was open"):
        ms.commit_txn(txn_id)


@embedded
def test_a_table_dropped_and_created_again_under_an_open_transaction_gets_none_of_its_rows(
    ms: MetastoreClient, table: Table
) -> None:
    txn_id = writer(ms, locked=False)
    ms.drop_table("web.t")
    ms.create_table("web.t", columns={"other": "double"}, partition_keys={"p": "int"})
    with pytest.raises(TxnAborted, match="was dropped while it was open"):
        ms.commit_txn(txn_id)


@embedded
def test_a_partition_dropped_and_added_again_under_an_open_transaction_gets_none_of_its_rows(
    ms: MetastoreClient, table: Table
) -> None:
    txn_id = writer(ms, locked=False)
    ms.drop_partition("web.t", ["1"])
    ms.add_partitions("web.t", [["1"]])
    with pytest.raises(TxnAborted, match=r"p=1 of web\.t was dropped"):
        ms.commit_txn(txn_id)


@embedded
def test_a_writer_of_another_partition_is_not_aborted(ms: MetastoreClient, table: Table) -> None:
    (txn_id,) = ms.open_txns()
    ms.allocate_table_write_ids("web.t", [txn_id])
    lock(ms, component(READ, "web", "t", "p=2", operation=DataOperationType.INSERT), txn_id=txn_id)
    ms.drop_partition("web.t", ["1"])
    ms.commit_txn(txn_id)


@embedded
def test_a_writer_that_waited_for_the_change_is_aborted(ms: MetastoreClient, table: Table, metastore_uri: str) -> None:
    """Its write id is from before the change."""
    first = writer(ms)
    with connect_metastore(metastore_uri, ddl_lock_wait_seconds=60) as patient, ThreadPoolExecutor(1) as pool:
        dropping = pool.submit(patient.drop_table, "web.t")
        while len(ms.show_locks("web.t")) < 2:
            time.sleep(0.01)
        second = writer(ms)
        ms.commit_txn(first)
        dropping.result(timeout=60)
    with pytest.raises(TxnAborted, match="was dropped while it was open"):
        ms.commit_txn(second)


# -- killed halfway ----------------------------------------------------------------------------------


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


# -- locations ---------------------------------------------------------------------------------------


@embedded
@pytest.mark.parametrize("place", ["", "/", "/inner", "/p=1", "/.."])
def test_two_tables_cannot_lie_in_one_folder_or_in_each_others(ms: MetastoreClient, table: Table, place: str) -> None:
    """Two tables at one location: a failed commit of the one removed committed rows of the other."""
    with pytest.raises(InvalidOperation, match=r"cannot lie at .*Choose another location"):
        ms.create_table("web.second", columns=COLUMNS, location=table.location + place)
    assert ms.get_tables("web") == ["t"]


@embedded
def test_a_symbolic_link_does_not_hide_that_two_tables_share_a_folder(
    ms: MetastoreClient, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder(table.location))
    with pytest.raises(InvalidOperation, match="cannot lie at"):
        ms.create_table("web.second", columns=COLUMNS, location=str(tmp_path / "link"))


@embedded
def test_a_table_cannot_contain_the_folder_of_a_database(ms: MetastoreClient, tmp_path: Path) -> None:
    for location in (tmp_path / "warehouse", tmp_path / "warehouse" / "web.db", tmp_path):
        with pytest.raises(InvalidOperation, match="the database"):
            ms.create_table("web.t", columns=COLUMNS, location=str(location))


@embedded
@pytest.mark.parametrize("name", ["base_0000005", "delta_0000001_0000001_0000", "delete_delta_0000002_0000002"])
def test_a_folder_that_holds_rows_cannot_become_a_table_or_a_partition(
    ms: MetastoreClient, table: Table, tmp_path: Path, name: str
) -> None:
    for place in (tmp_path / "warehouse" / "web.db" / "u", folder(table.location) / "p=2"):
        (place / name).mkdir(parents=True)
    with pytest.raises(InvalidOperation, match=rf"already holds ACID files \('{name}'\)"):
        ms.create_table("web.u", columns=COLUMNS)
    with pytest.raises(InvalidOperation, match=rf"already holds ACID files \('{name}'\)"):
        ms.add_partitions("web.t", [["2"]])
    assert ms.list_partition_names("web.t") == ["p=1"]
    with pytest.raises(NoSuchObject):
        ms.get_table("web.u")


@embedded
def test_nothing_is_created_in_a_registered_folder_that_is_missing(ms: MetastoreClient, table: Table) -> None:
    """The disk may not be mounted: rows would be written below the mount point, and be gone with the next mount."""
    folder(table.location).rename(folder(table.location).with_name("elsewhere"))
    with pytest.raises(StreamingIOFailure, match="is missing: mount its disk"):
        ms.add_partitions("web.t", [["2"]])
    assert not folder(table.location).exists()


# -- write ids after a restore, and identity ---------------------------------------------------------


def test_write_ids_can_be_raised_above_what_lies_in_the_folders(ms: MetastoreClient, table: Table) -> None:
    ms.raise_write_ids("web.t", 8)  # type: ignore[arg-type]
    (txn_id,) = ms.open_txns()
    assert ms.allocate_table_write_ids("web.t", [txn_id])[0].write_id >= 8
    seen = ms.get_valid_write_ids(["web.t"])[0]
    assert all(seen.is_valid(write_id) for write_id in range(1, 8))  # type: ignore[arg-type]
    ms.raise_write_ids("web.t", 3)  # type: ignore[arg-type]
    (next_,) = ms.open_txns()
    assert ms.allocate_table_write_ids("web.t", [next_])[0].write_id >= 9


def test_transactions_can_be_raised_above_those_of_compactions(ms: MetastoreClient) -> None:
    opened = ms.get_valid_txns().high_water_mark
    ms.raise_txn_ids(TxnId(opened + 8))
    seen = ms.get_valid_txns()
    assert seen.high_water_mark >= opened + 7
    assert all(seen.is_valid(TxnId(txn_id)) for txn_id in range(opened + 1, opened + 8))
    ms.raise_txn_ids(TxnId(1))
    (next_,) = ms.open_txns()
    assert next_ > seen.high_water_mark


def test_every_metastore_has_an_id_that_its_clients_share(ms: MetastoreClient) -> None:
    assert len(ms.metastore_id) == 36
    with ms.clone() as other:
        assert other.metastore_id == ms.metastore_id


def test_threads_may_drop_and_create_tables_through_one_client(ms: MetastoreClient) -> None:
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(3):
            ms.create_table(f"web.t{number}", columns=COLUMNS)
            ms.drop_table(f"web.t{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert ms.get_tables("web") == []
