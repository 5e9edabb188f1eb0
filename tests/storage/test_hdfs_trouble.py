"""Trouble with HDFS in the middle of a commit: all of the transaction is visible or nothing, and the next succeeds."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage import Location, OutputFile
from hive_ingest.storage.hdfs.client import CALL_TIMEOUT_SECONDS
from hive_ingest.storage.hdfs.store import HdfsStore
from hive_ingest.testing import faults
from tests.services.hdfs import Hdfs

ROWS_A_COMMIT = 30
SINK, SOURCE = "numbers", "a"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Of this module alone. Whoever this process says it is when a client connects again, it stays."""
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture
def metastore(
    hdfs: Hdfs, hdfs_root: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[hi.MetastoreClient]:
    """An embedded metastore in a local file, whose warehouse is on HDFS. There this process is not the superuser."""
    hdfs.set_permission(hdfs_root.path, "777")
    # A client of its own, for this name of the same NameNode.
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    warehouse = str(hdfs_root / "warehouse").replace("127.0.0.1", "localhost")
    with hi.connect_metastore(f"sqlite:///{tmp_path}/metastore.db", warehouse=warehouse, create=True) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int"}, partition_keys={"part": "string"})
        yield client


@pytest.fixture
def table(metastore: hi.MetastoreClient) -> Location:
    return Location.of(metastore.get_table("web.t").location)


def connect(client: hi.MetastoreClient) -> hi.StreamingConnection:
    return hi.StreamingConnection.connect(
        client, table="web.t", record_writer=hi.StrictJsonWriter(), sink=SINK, sources=[SOURCE]
    )


def commit(connection: hi.StreamingConnection) -> int:
    """Commit the rows after those of the sink's progress, in three partitions. Returns the new position."""
    connection.begin_transaction()
    latest = connection.progress[SOURCE]
    start = latest.position if latest else 0
    end = start + ROWS_A_COMMIT
    connection.write("\n".join(json.dumps({"id": number, "part": f"p{number % 3}"}) for number in range(start, end)))
    connection.commit_transaction(positions={SOURCE: end})
    return int(end)


def ids(client: hi.MetastoreClient) -> list[int]:
    return sorted(hi.read_table(client, "web.t")["id"].to_pylist())


@contextmanager
def once_at(point: str, action: Callable[[], object]) -> Iterator[None]:
    """Do something when the first thread passes a point. The others wait there until it is done."""
    lock, done = threading.Lock(), threading.Event()

    def observe(passed: str) -> None:
        with lock:
            if passed == point and not done.is_set():
                done.set()
                action()

    with faults(observe=observe):
        yield
    assert done.is_set(), f"{point} was never passed: the test tests nothing"


@pytest.mark.parametrize("point", ["after_create_partitions", "between_renames"])
def test_a_restart_of_the_namenode_during_a_commit_is_waited_for(
    hdfs: Hdfs, metastore: hi.MetastoreClient, table: Location, point: str
) -> None:
    def restart() -> None:
        set_timeout(table, 600.0)  # however slow this machine is
        hdfs.stop_namenode()
        hdfs.start_namenode()

    with connect(metastore) as connection:
        commit(connection)
        with once_at(point, restart):
            commit(connection)
        assert ids(metastore) == list(range(2 * ROWS_A_COMMIT))
        commit(connection)
    assert ids(metastore) == list(range(3 * ROWS_A_COMMIT))
    set_timeout(table, CALL_TIMEOUT_SECONDS)


def stop(hdfs: Hdfs, table: Location) -> None:
    """Stop the NameNode; meanwhile calls wait for a second only."""
    set_timeout(table, 1.0)
    hdfs.stop_namenode()


def start(hdfs: Hdfs, table: Location) -> None:
    hdfs.start_namenode()
    set_timeout(table, CALL_TIMEOUT_SECONDS)


def set_timeout(table: Location, seconds: float) -> None:
    assert isinstance(table.store, HdfsStore)
    table.store._client._timeout = seconds


Trouble = tuple[Callable[[Hdfs, Location], object], Callable[[Hdfs, Location], object], str]


def limit_names(hdfs: Hdfs, table: Location) -> None:
    """No partition takes another file or folder."""
    for number in range(3):
        hdfs.set_quota((table / f"part=p{number}").path, names=1)


def lift_limits(hdfs: Hdfs, table: Location) -> None:
    for number in range(3):
        hdfs.set_quota((table / f"part=p{number}").path)


TROUBLES: dict[str, Trouble] = {
    "namenode_down": (
        stop,
        start,
        "no answer from hdfs://.* within 1 s|the connection to the NameNode broke",
    ),
    "safe_mode": (
        lambda hdfs, _: hdfs.enter_safe_mode(),
        lambda hdfs, _: hdfs.leave_safe_mode(),
        "the NameNode is in safe mode: wait until",
    ),
    "permission": (
        lambda hdfs, table: hdfs.set_permission(table.path, "000"),
        lambda hdfs, table: hdfs.set_permission(table.path, "755"),
        "permission denied: give this user the right",
    ),
    "quota": (limit_names, lift_limits, "the name quota is used up: remove files, or raise it"),
}


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("namenode_down", "between_renames"),
        *itertools.product(("safe_mode", "permission", "quota"), ("after_create_partitions", "between_renames")),
    ],
)
def test_trouble_in_the_middle_of_a_commit_fails_it_by_name_and_leaves_nothing_of_it(
    hdfs: Hdfs, metastore: hi.MetastoreClient, table: Location, name: str, point: str
) -> None:
    begin, end, message = TROUBLES[name]
    with connect(metastore) as connection:
        commit(connection)
        try:
            with once_at(point, lambda: begin(hdfs, table)), pytest.raises(StreamingIOFailure, match=message):
                commit(connection)
            connection.abort_transaction()
        finally:
            end(hdfs, table)
    assert metastore.show_locks() == []
    assert ids(metastore) == list(range(ROWS_A_COMMIT))
    with connect(metastore) as connection:
        assert commit(connection) == 2 * ROWS_A_COMMIT
    assert ids(metastore) == list(range(2 * ROWS_A_COMMIT))
    assert hidden(table) == []


def hidden(table: Location) -> list[str]:
    """The hidden files below the table, which its next writer has to remove."""
    found = [entry.path for entry in table.list(recursive=True) if not entry.is_folder]
    return [path for path in found if "/.hive_ingest/" in path]


def test_trouble_after_the_last_rename_does_not_fail_the_commit(
    hdfs: Hdfs, metastore: hi.MetastoreClient, table: Location
) -> None:
    """The commit itself is the metastore's."""
    with connect(metastore) as connection:
        commit(connection)
        try:
            with once_at("after_publish", hdfs.enter_safe_mode):
                commit(connection)
            assert ids(metastore) == list(range(2 * ROWS_A_COMMIT))
        finally:
            hdfs.leave_safe_mode()
        commit(connection)
    assert ids(metastore) == list(range(3 * ROWS_A_COMMIT))
    assert hidden(table) == []


def test_without_a_datanode_a_commit_fails_by_name_and_reading_fails_too(
    hdfs: Hdfs, metastore: hi.MetastoreClient, table: Location
) -> None:
    with connect(metastore) as connection:
        commit(connection)
    hdfs.stop_datanode()
    try:
        with connect(metastore) as connection, pytest.raises(StreamingIOFailure, match="DataNode"):
            commit(connection)
        with pytest.raises(StreamingIOFailure, match="DataNode"):
            ids(metastore)
    finally:
        hdfs.start_datanodes()
    assert ids(metastore) == list(range(ROWS_A_COMMIT))
    with connect(metastore) as connection:
        assert commit(connection) == 2 * ROWS_A_COMMIT
    assert ids(metastore) == list(range(2 * ROWS_A_COMMIT))


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS of its own, with each block on two of its three DataNodes."""
    folder = tmp_path_factory.mktemp("replicated")
    site = folder / "site.xml"
    site.write_text("<configuration><property><name>dfs.replication</name><value>2</value></property></configuration>")
    with Hdfs(folder / "hdfs", datanodes=3, java_options=[f"-Dhiveingest.site={site}"]) as running:
        yield running


def test_after_a_datanode_has_died_new_files_are_written_and_unfinished_ones_are_whole_or_fail(
    replicated: Hdfs,
) -> None:
    """The NameNode takes it for alive for minutes, and assigns it to two thirds of the files."""
    root = Location.of(f"{replicated.uri}/")
    data = bytes(range(256)) * 1000
    begun = [(root / f"begun{number}").create(sync=True) for number in range(5)]
    for out in begun:
        out.write(data)
    replicated.stop_datanode()
    try:
        whole = [path for out in begun if (path := finished(out, data)) is not None]
        new = [root / f"new{number}" for number in range(10)]
        for file in new:
            with file.create(sync=True) as out:
                out.write(data)
                out.write(data)
        for path in [*whole, *(file.path for file in new)]:
            with root.store.open_input(path) as source:
                assert source.read() == 2 * data
        assert len(root.list()) == len(whole) + len(new)
    finally:
        replicated.start_datanodes()


def finished(out: OutputFile, data: bytes) -> str | None:
    """The path of a file that has been finished with `data`; None if it failed, and is gone."""
    try:
        with out:
            out.write(data)
    except StreamingIOFailure:
        return None
    return out.path
