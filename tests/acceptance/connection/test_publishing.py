"""Publishing touches no folder that is not the transaction's own, and takes no missing folder for an empty one."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection, TransactionState
from hive_ingest.errors import ConfigurationError, InvalidTable, PathExists, PathNotFound, StreamingError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Column
from hive_ingest.record_writer import RecordSchema, StrictJsonWriter
from hive_ingest.storage import LocalStore
from hive_ingest.testing import faults
from tests.support.store_path import copy_tree, remove_tree
from tests.support.warehouses import store_path


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.t", columns={"id": "int"})
    metastore.create_table("web.p", columns={"id": "int"}, partition_keys={"y": "int", "m": "int"})
    return metastore


def connect(client: MetastoreClient, table: str = "t", **options: Any) -> StreamingConnection:
    options.setdefault("record_writer", StrictJsonWriter())
    return StreamingConnection.connect(client, database="web", table=table, **options)


def write(client: MetastoreClient, record: bytes, table: str = "t", **options: Any) -> None:
    with connect(client, table, **options) as conn, conn.transaction():
        conn.write(record)


def ids(client: MetastoreClient, table: str = "t") -> list[int]:
    return sorted(hi.read_table(client, f"web.{table}").column("id").to_pylist())


def folder(client: MetastoreClient, table: str = "t") -> Path:
    return store_path(client.get_table(f"web.{table}").location)


def visible_files(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and ".hive_ingest" not in file.parts
    }


def test_a_delta_of_another_writer_is_neither_joined_nor_removed(ms: MetastoreClient) -> None:
    """A copy that was restored, or a second table at the same location, has a delta of the next write id already.

    The folder used to be accepted, and after the clash of the file names it was removed with everything in it.
    """
    write(ms, b'{"id": 1}')
    with connect(ms) as conn:
        theirs = folder(ms) / "delta_0000002_0000002_0000"
        copy_tree(folder(ms) / "delta_0000001_0000001_0000", theirs)
        before = visible_files(folder(ms))
        conn.begin_transaction()
        conn.write(b'{"id": 2}')
        with pytest.raises(PathExists, match=r"delta_0000002.*hive-ingest repair"):
            conn.commit_transaction()
        conn.abort_transaction()
    assert visible_files(folder(ms)) == before
    assert ids(ms) == [1]


def test_only_files_published_before_the_conflict_are_removed(ms: MetastoreClient) -> None:
    write(ms, b'{"id": 1, "y": 1, "m": 1}\n{"id": 2, "y": 1, "m": 2}', "p")
    theirs = folder(ms, "p") / "y=1/m=2/delta_0000002_0000002_0000"
    copy_tree(folder(ms, "p") / "y=1/m=2/delta_0000001_0000001_0000", theirs)
    before = visible_files(folder(ms, "p"))
    with connect(ms, "p") as conn, pytest.raises(PathExists), conn.transaction():
        conn.write(b'{"id": 3, "y": 1, "m": 1}\n{"id": 4, "y": 1, "m": 2}\n{"id": 5, "y": 1, "m": 3}')
    assert visible_files(folder(ms, "p")) == before


def test_a_table_whose_folder_is_missing_is_not_read_as_empty_nor_created_again(ms: MetastoreClient) -> None:
    """The warehouse's disk was not mounted: the table read as empty, and a sink committed all its input once more."""
    write(ms, b'{"id": 1}')
    away = folder(ms).rename(folder(ms).with_name("away"))
    with pytest.raises(PathNotFound, match="mount its file system"):
        ids(ms)
    with pytest.raises(PathNotFound), connect(ms) as conn, conn.transaction():
        conn.write(b'{"id": 2}')
    assert not folder(ms).exists()
    away.rename(folder(ms))
    assert ids(ms) == [1]


@pytest.mark.local_warehouse(because="other stores have no symbolic links")
def test_a_warehouse_that_was_moved_is_used_through_a_link_at_its_old_place(ms: MetastoreClient) -> None:
    write(ms, b'{"id": 1}')
    warehouse = folder(ms).parents[1]
    moved = warehouse.rename(warehouse.with_name("moved"))
    with pytest.raises(PathNotFound):
        ids(ms)
    warehouse.symlink_to(moved)
    write(ms, b'{"id": 2}')
    assert ids(ms) == [1, 2]
    assert list(moved.rglob("delta_*/bucket_00000")), "the rows are in the folder that was moved"


def test_a_partition_whose_folder_is_missing_is_not_read_as_empty_nor_created_again(ms: MetastoreClient) -> None:
    write(ms, b'{"id": 1, "y": 1, "m": 1}', "p")
    partition = folder(ms, "p") / "y=1" / "m=1"
    remove_tree(partition)
    with pytest.raises(PathNotFound, match="mount its file system"):
        ids(ms, "p")
    with pytest.raises(PathNotFound, match="mount its file system"), connect(ms, "p") as conn, conn.transaction():
        conn.write(b'{"id": 2, "y": 1, "m": 1}')
    assert not partition.exists()


def remove_new_partition(client: MetastoreClient) -> None:
    """A real metastore does this when a second writer's call to add the same partition has failed."""
    remove_tree(folder(client, "p") / "y=1" / "m=1")


def test_a_new_partition_whose_folder_was_removed_before_it_was_published_gets_it_again(ms: MetastoreClient) -> None:
    def remove(point: str) -> None:
        if point == "after_create_partitions":
            remove_new_partition(ms)

    with faults(observe=remove):
        write(ms, b'{"id": 1, "y": 1, "m": 1}', "p")
    assert ids(ms, "p") == [1]


def test_a_new_partition_whose_folder_was_removed_after_it_was_published_is_not_committed(ms: MetastoreClient) -> None:
    def remove(point: str) -> None:
        if point == "after_publish":
            remove_new_partition(ms)

    with faults(observe=remove), pytest.raises(PathNotFound, match="write the transaction again"):
        write(ms, b'{"id": 1, "y": 1, "m": 1}', "p")
    assert ms.get_valid_txns().open == ()


def test_a_missing_progress_table_does_not_let_the_input_be_written_again(ms: MetastoreClient) -> None:
    with connect(ms, sink="s", sources=["a"]) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        conn.commit_transaction(positions={"a": 1})
    progress = folder(ms, "s__progress")
    away = progress.rename(progress.with_name("away"))
    with pytest.raises(PathNotFound, match="mount its file system"):
        connect(ms, sink="s", sources=["a"])
    away.rename(progress)
    with connect(ms, sink="s", sources=["a"]) as conn:
        conn.begin_transaction()
        assert conn.progress["a"] is not None
        conn.abort_transaction()


@pytest.mark.local_warehouse(because="its file system is patched")
def test_a_partition_on_another_file_system_gets_its_files_there(
    ms: MetastoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files were renamed to the partition's path on the table's own file system, where no reader looks."""
    write(ms, b'{"id": 1, "y": 1, "m": 1}', "p")
    monkeypatch.setattr(LocalStore, "can_rename", lambda self, source, target: "m=2" not in target)
    write(ms, b'{"id": 2, "y": 1, "m": 1}\n{"id": 3, "y": 1, "m": 2}', "p")
    assert ids(ms, "p") == [1, 2, 3]
    hidden = [path for path in folder(ms, "p").rglob(".hive_ingest/*") if path.is_file()]
    assert not hidden, "neither the copy nor the original stays under a hidden name"


@pytest.mark.local_warehouse(because="a bind mount is one of a local disk")
def test_a_partition_that_is_a_bind_mount_gets_its_files_by_copying(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its device is the table's, but no link or rename leads into it."""
    real = os.link

    def link(source: str, target: str, **options: Any) -> None:
        if ("m=2" in target) != ("m=2" in source):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), target)
        real(source, target, **options)

    monkeypatch.setattr(os, "link", link)
    write(ms, b'{"id": 2, "y": 1, "m": 1}\n{"id": 3, "y": 1, "m": 2}', "p")
    assert ids(ms, "p") == [2, 3]
    assert not [path for path in folder(ms, "p").rglob(".*orc") if path.is_file()]


def test_a_partition_on_a_file_system_without_renames_is_refused_before_anything_is_visible(
    ms: MetastoreClient, metastore_kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ms, b'{"id": 1, "y": 1, "m": 1}', "p")
    monkeypatch.chdir(tmp_path)
    found = ms.get_partitions_by_names("web.p", ["y=1/m=1"])
    elsewhere = [replace(found[0], location="gs://coldstore/p/y=1/m=1")]
    monkeypatch.setattr(type(ms), "get_partitions_by_names", lambda *_: elsewhere)
    before = visible_files(folder(ms, "p"))
    with pytest.raises(StreamingError, match="supported for reading only"):
        write(ms, b'{"id": 2, "y": 1, "m": 1}', "p")
    assert not (tmp_path / "coldstore").exists()
    assert visible_files(folder(ms, "p")) == before


# -- after the commit ----------------------------------------------------------------------------------


def test_a_failing_hook_does_not_make_a_committed_transaction_look_failed(
    ms: MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(_: object) -> None:
        raise KeyError("a bug of the caller's")

    with connect(ms, on_commit=hook) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        info = conn.commit_transaction()
        assert conn.state is TransactionState.COMMITTED
        assert info.rows == 1
    assert "on_commit" in caplog.text
    assert ids(ms) == [1]


def test_a_failure_to_start_the_cleaning_thread_does_not_make_a_committed_transaction_look_failed(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    def refuse_threads(point: str) -> None:
        if point == "after_commit_txn":  # some stores publish on threads, too
            monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)

    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        conn.flush()
        with faults(observe=refuse_threads):
            assert conn.commit_transaction().rows == 1
        monkeypatch.undo()
    assert ids(ms) == [1]
    assert not list((folder(ms) / ".hive_ingest").iterdir())


# -- arguments of the commit ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m=4/y=2020", "y=2020", "Y=2020/M=x", "y=2020/m=4/d=1", "junk", "y=/m=4"])
def test_an_impossible_partition_is_refused_and_the_transaction_stays_open(ms: MetastoreClient, name: str) -> None:
    with connect(ms, "p") as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1, "y": 1, "m": 1}')
        with pytest.raises(ConfigurationError, match=r"not a name|not a partition"):
            conn.commit_transaction(partitions=[name])
        assert conn.state is TransactionState.OPEN
        conn.commit_transaction(partitions=["Y=2020/M=5"])
    assert ms.list_partition_names("web.p") == ["y=1/m=1", "y=2020/m=5"]


# -- DDL beside the connection -------------------------------------------------------------------------


class _Picky(StrictJsonWriter):
    """Refuses a table with more than one column."""

    refuses = True

    def bind(self, schema: RecordSchema) -> None:
        if self.refuses and len(schema.columns) > 1:
            raise InvalidTable("too many columns")
        super().bind(schema)


def test_a_begin_after_a_refused_schema_reads_the_table_again(ms: MetastoreClient) -> None:
    writer = _Picky()
    with connect(ms, record_writer=writer) as conn:
        table = ms.get_table("web.t")
        ms.alter_table("web.t", replace(table, columns=(*table.columns, Column("msg", "string"))))
        for _ in range(2):
            with pytest.raises(InvalidTable, match="too many columns"):
                conn.begin_transaction()
        writer.refuses = False
        with conn.transaction():
            conn.write(b'{"id": 1, "msg": "x"}')
    assert hi.read_table(ms, "web.t").to_pylist() == [{"id": 1, "msg": "x"}]
