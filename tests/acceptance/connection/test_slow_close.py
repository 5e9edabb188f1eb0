"""On a store where each step takes long, all files of a commit take it at the same time; nothing else changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.storage import LocalStore
from tests.support.connections import connect
from tests.support.rows import ids, rows
from tests.support.tables import create_table, table_folder

pytestmark = [
    pytest.mark.one_embedded,
    pytest.mark.local_warehouse(because="the local file system is made slow; others are as they are"),
]
#: ACID folders of a commit: one for each of three partitions and the progress. Each gets a file.
FOLDERS = 4
#: One to close for each of three partitions and the progress, and one that marks each of their folders.
FILES = 8


@pytest.fixture
def ms(metastore: MetastoreClient, monkeypatch: pytest.MonkeyPatch) -> MetastoreClient:
    monkeypatch.setattr(LocalStore, "closes_slowly", True)
    monkeypatch.setattr(LocalStore, "parallel_files", 16)
    create_table(metastore, partition_keys={"part": "string"})
    return metastore


def sink(client: MetastoreClient, **options: Any) -> hi.StreamingConnection:
    return connect(client, record_writer=hi.ArrowWriter(), sink="s", sources=["a"], **options)


def commit(conn: hi.StreamingConnection, parts: Sequence[str], position: int) -> None:
    conn.begin_transaction()
    conn.write(rows(range(len(parts)), part=list(parts)))
    conn.commit_transaction(positions={"a": position})


def hidden(client: MetastoreClient) -> list[str]:
    tables = [table_folder(client), table_folder(client, "s__progress")]
    return [path.name for table in tables for path in table.rglob(".hive_ingest/*")]


def unmarked(client: MetastoreClient, table: str = "t") -> list[str]:
    folders = {path.parent for path in table_folder(client, table).rglob("bucket_*")}
    assert folders
    return [str(folder) for folder in folders if (folder / "_orc_acid_version").read_bytes() != b"2"]


def test_every_folder_is_marked_and_nothing_hidden_is_left(ms: MetastoreClient) -> None:
    with sink(ms) as conn:
        commit(conn, "abc", 1)
        commit(conn, "cd", 2)
        conn.begin_transaction()
        assert (latest := conn.progress["a"]) is not None
        assert latest.position == 2
        conn.abort_transaction()
    assert ids(ms) == [0, 0, 1, 1, 2]
    assert (unmarked(ms), unmarked(ms, "s__progress"), hidden(ms)) == ([], [], [])


def test_an_overwrite_without_rows_is_marked_too(ms: MetastoreClient) -> None:
    with connect(ms, record_writer=hi.ArrowWriter(), overwrite=True, static_partition_values=["x"]) as conn:
        conn.begin_transaction()
        conn.commit_transaction()
    (base,) = table_folder(ms).rglob("base_*")
    assert (base / "_orc_acid_version").read_bytes() == b"2"


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Barrier]:
    """Closing a file waits until so many are being closed."""
    from hive_ingest.storage.local_store import LocalOutputFile

    real, barrier = LocalOutputFile.close, threading.Barrier(FILES, timeout=60)

    def close(self: LocalOutputFile) -> None:
        if not self.closed:
            barrier.wait()
        real(self)

    monkeypatch.setattr(LocalStore, "create_all", super(LocalStore, LocalStore).create_all)
    with monkeypatch.context() as patch:
        patch.setattr(LocalOutputFile, "close", close)
        yield barrier


def test_all_files_are_closed_at_the_same_time(ms: MetastoreClient, closing: threading.Barrier) -> None:
    """One after the other, twenty partitions took two seconds on HDFS."""
    with sink(ms) as conn:
        commit(conn, "abc", 1)
    assert ids(ms) == [0, 1, 2]


@pytest.mark.parametrize("step", ["make_folder", "publish"])
def test_the_folders_and_files_of_all_tables_are_published_at_the_same_time(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The progress waited for the data, and on S3 each commit for three requests more."""
    real, barrier = getattr(LocalStore, step), threading.Barrier(FOLDERS, timeout=60)

    def wait(self: LocalStore, path: str, *arguments: Any, **options: Any) -> Any:
        if options.get("exist_ok") is not True:  # as for all folders but ACID folders
            barrier.wait()
        return real(self, path, *arguments, **options)

    with sink(ms) as conn:
        commit(conn, "abc", 1)
        with monkeypatch.context() as patch:
            patch.setattr(LocalStore, step, wait)
            commit(conn, "abc", 2)
    assert sorted(ids(ms)) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("fails_at", range(FILES))
def test_a_file_that_cannot_be_created_fails_the_commit_and_nothing_is_left(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    monkeypatch.setattr(LocalStore, "create_all", super(LocalStore, LocalStore).create_all)
    real, lock, created = LocalStore.create, threading.Lock(), [0]

    def create(self: LocalStore, path: str, *, sync: bool) -> Any:
        with lock:
            created[0] += 1
            number = created[0] - 1
        if number == fails_at:
            raise StreamingIOFailure(f"cannot create {path!r}: the disk is full")
        return real(self, path, sync=sync)

    with sink(ms) as conn:
        conn.begin_transaction()
        conn.write(rows(range(3), part=["a", "b", "c"]))
        with monkeypatch.context() as patch:
            patch.setattr(LocalStore, "create", create)
            with pytest.raises(StreamingIOFailure, match="the disk is full"):
                conn.commit_transaction(positions={"a": 1})
        conn.abort_transaction()
        commit(conn, "ab", 1)
    assert ids(ms) == [0, 1]
    assert (unmarked(ms), hidden(ms)) == ([], [])
