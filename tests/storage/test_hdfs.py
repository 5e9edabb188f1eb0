"""What HDFS alone does to a file store."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hdfs_native
import pytest

import hive_ingest as hi
from hive_ingest.errors import PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.model import TableName
from hive_ingest.storage import Location
from hive_ingest.storage.hdfs.client import HdfsClient
from hive_ingest.storage.hdfs.store import HdfsStore
from tests.services.hdfs import Hdfs


def put(location: Location, data: bytes = b"x") -> None:
    with location.create(sync=True) as out:
        out.write(data)


def test_in_safe_mode_writing_is_refused_by_name_and_reading_goes_on(hdfs: Hdfs, hdfs_root: Location) -> None:
    put(hdfs_root / "a")
    hdfs.enter_safe_mode()
    try:
        for change in (
            lambda: put(hdfs_root / "b"),
            lambda: (hdfs_root / "a").rename(hdfs_root / "b"),
            lambda: (hdfs_root / "c").make_folder(),
            lambda: (hdfs_root / "a").delete_file(),
        ):
            with pytest.raises(StreamingIOFailure, match="NameNode is in safe mode: wait until"):
                change()
        assert [entry.name for entry in hdfs_root.list()] == ["a"]
    finally:
        hdfs.leave_safe_mode()
    (hdfs_root / "a").rename(hdfs_root / "b")


def test_a_quota_that_is_used_up_is_named(hdfs: Hdfs, hdfs_root: Location) -> None:
    hdfs.set_quota(hdfs_root.path, names=2)
    put(hdfs_root / "a")
    with pytest.raises(StreamingIOFailure, match="name quota is used up"):
        put(hdfs_root / "b")
    hdfs.set_quota(hdfs_root.path, size_bytes=1000)
    with pytest.raises(StreamingIOFailure, match="space quota is used up"):
        put(hdfs_root / "b")
    hdfs.set_quota(hdfs_root.path)
    assert [entry.name for entry in hdfs_root.list()] == ["a"], "the file that found no space is removed"


_AS_ANOTHER_USER = """
import json, sys
from hive_ingest.errors import PathNotFound, StreamingIOFailure
from hive_ingest.storage import Location

closed = Location.of(sys.argv[1])
found = []
for call in (closed.list, lambda: closed.list(missing_ok=True), (closed / "a").exists, (closed / "a").open_input):
    try:
        found.append(repr(call()))
    except PathNotFound as error:
        found.append(f"not found: {error}")
    except StreamingIOFailure as error:
        found.append(f"refused: {error}")
print(json.dumps(found))
"""


def test_a_folder_that_may_not_be_read_is_not_an_empty_one(hdfs: Hdfs, hdfs_root: Location) -> None:
    (hdfs_root / "closed").make_folder()
    put(hdfs_root / "closed" / "a")
    hdfs.set_permission((hdfs_root / "closed").path, "700")
    run = subprocess.run(
        [sys.executable, "-c", _AS_ANOTHER_USER, str(hdfs_root / "closed")],
        env={**os.environ, "HADOOP_USER_NAME": "somebody"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    assert len(found) == 4
    assert all("refused" in text and "permission denied" in text for text in found), found


@pytest.mark.parametrize(
    ("environment", "owner"),
    [({"SPARK_USER": "etl"}, "etl"), ({"SPARK_USER": "etl", "HADOOP_USER_NAME": "somebody"}, "somebody")],
)
def test_a_process_of_spark_writes_as_the_user_that_its_jvm_is(
    hdfs: Hdfs, hdfs_root: Location, environment: dict[str, str], owner: str
) -> None:
    """In a container of YARN without Kerberos the process itself belongs to another user."""
    hdfs.set_permission(hdfs_root.path, "777")
    code = "import sys; from hive_ingest.storage import Location; Location.of(sys.argv[1]).make_folder()"
    inherited = {name: value for name, value in os.environ.items() if name != "HADOOP_USER_NAME"}
    command = [sys.executable, "-c", code, str(hdfs_root / "folder")]
    subprocess.run(command, env=inherited | environment, check=True)
    assert hdfs_native.Client(hdfs.uri).get_file_info((hdfs_root / "folder").path).owner == owner


def test_no_answer_is_an_error_within_the_time_limit_and_not_a_missing_file(hdfs: Hdfs, hdfs_root: Location) -> None:
    put(hdfs_root / "a")
    client = HdfsClient(hdfs.uri, timeout_seconds=1)
    path = (hdfs_root / "a").path
    hdfs.pause()
    try:
        with pytest.raises(StreamingIOFailure, match=r"no answer from .* within 1 s") as caught:
            client.call("look at", path, lambda connected: connected.get_file_info(path))
        assert not isinstance(caught.value, PathNotFound)
    finally:
        hdfs.resume()
    assert client.call("look at", path, lambda connected: connected.get_file_info(path)).length == 1


def test_a_rename_whose_answer_was_lost_is_recognised(hdfs_root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client repeats the call, which finds the source gone."""
    put(hdfs_root / "a", b"ours")
    source, target = hdfs_root / "a", hdfs_root / "b"
    rename = hdfs_native.Client.rename

    def twice(self: hdfs_native.Client, source: str, target: str, overwrite: bool) -> object:
        rename(self, source, target, overwrite)
        return rename(self, source, target, overwrite)

    monkeypatch.setattr(hdfs_native.Client, "rename", twice)
    source.rename(target)
    assert [entry.name for entry in hdfs_root.list()] == ["b"]


def test_a_rename_whose_request_was_lost_is_repeated(hdfs_root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    put(hdfs_root / "a", b"ours")
    rename, calls = hdfs_native.Client.rename, itertools.count()

    def lose(self: hdfs_native.Client, source: str, target: str, overwrite: bool) -> object:
        if next(calls) < 2:
            raise OSError("RPC listener disconnected")
        return rename(self, source, target, overwrite)

    monkeypatch.setattr(hdfs_native.Client, "rename", lose)
    (hdfs_root / "a").rename(hdfs_root / "b")
    assert [entry.name for entry in hdfs_root.list()] == ["b"]


@pytest.mark.parametrize(
    ("lost", "call"),
    [
        ("get_file_info", lambda root: (root / "a").exists()),
        ("list_status", lambda root: root.list()),
        ("mkdirs", lambda root: (root / "b").make_folder()),
        ("delete", lambda root: (root / "a").delete_file()),
        ("read", lambda root: (root / "a").open_input()),
    ],
)
def test_a_call_whose_answer_was_lost_is_repeated(
    hdfs_root: Location, monkeypatch: pytest.MonkeyPatch, lost: str, call: Callable[[Location], object]
) -> None:
    put(hdfs_root / "a")
    function, calls = getattr(hdfs_native.Client, lost), itertools.count()

    def lose(self: hdfs_native.Client, *arguments: object) -> object:
        found = function(self, *arguments)
        if not next(calls):
            raise OSError("RPC listener disconnected")
        return found

    monkeypatch.setattr(hdfs_native.Client, lost, lose)
    assert call(hdfs_root) != []
    assert next(calls) > 1


@pytest.mark.parametrize(
    "answer",
    [
        ("ipc.RetriableException", "Name node is in safe mode"),
        (
            "hdfs.server.namenode.SafeModeException",
            "Cannot rename /a. Name node is in safe mode.\\nThe reported blocks 0 needs additional 9 blocks to reach "
            "the threshold 0.9990 of total blocks 9.\\nSafe mode will be turned off automatically once the thresholds "
            "have been reached.",
        ),
    ],
)
def test_a_namenode_that_is_being_started_is_waited_for(
    hdfs_root: Location, monkeypatch: pytest.MonkeyPatch, answer: tuple[str, str]
) -> None:
    """The first is what one of a pair answers, the second a single one."""
    rename, calls = hdfs_native.Client.rename, itertools.count()

    def refuse(self: hdfs_native.Client, source: str, target: str, overwrite: bool) -> object:
        if not next(calls):
            raise RuntimeError(f'RPCError("org.apache.hadoop.{answer[0]}", "{answer[1]}")')
        return rename(self, source, target, overwrite)

    put(hdfs_root / "a")
    monkeypatch.setattr(hdfs_native.Client, "rename", refuse)
    (hdfs_root / "a").rename(hdfs_root / "b")
    assert [entry.name for entry in hdfs_root.list()] == ["b"]


def test_a_namenode_that_stays_in_safe_mode_is_an_error_that_says_so(
    hdfs_root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that it does not answer."""

    def refuse(*_: object) -> object:
        raise RuntimeError(
            'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot delete /a. Name node is in '
            'safe mode.\\nSafe mode will be turned off automatically once the thresholds have been reached.")'
        )

    assert isinstance(hdfs_root.store, HdfsStore)
    monkeypatch.setattr(hdfs_root.store._client, "_timeout", 2.0)
    monkeypatch.setattr(hdfs_native.Client, "delete", refuse)
    with pytest.raises(StreamingIOFailure, match="the NameNode is in safe mode: wait until"):
        (hdfs_root / "a").delete_file()


def test_a_name_that_hdfs_does_not_allow_is_an_error_that_says_so(hdfs_root: Location) -> None:
    for change in (lambda: (hdfs_root / "10:30").make_folder(), lambda: put(hdfs_root / "10:30")):
        with pytest.raises(StreamingIOFailure, match="HDFS allows no name of this kind, such as one with a ':'"):
            change()


def test_a_source_that_was_never_there_is_not_taken_for_a_rename_whose_answer_was_lost(hdfs_root: Location) -> None:
    put(hdfs_root / "b", b"theirs")
    with pytest.raises(StreamingIOFailure):
        (hdfs_root / "a").rename(hdfs_root / "b")


def test_folders_are_renamed_and_removed_only_when_they_may_be(hdfs_root: Location) -> None:
    store = hdfs_root.store
    for name in ("full", "empty", "source"):
        (hdfs_root / name).make_folder()
    put(hdfs_root / "full" / "a")
    put(hdfs_root / "source" / "s")
    assert not store.is_free((hdfs_root / "full").path)
    with pytest.raises(StreamingIOFailure):
        store.rename_folder((hdfs_root / "source").path, (hdfs_root / "full").path)
    store.rename_folder((hdfs_root / "source").path, (hdfs_root / "empty").path)
    assert [entry.name for entry in (hdfs_root / "empty").list()] == ["s"]
    assert not store.delete_empty_folder((hdfs_root / "full").path)
    assert store.delete_empty_folder((hdfs_root / "missing").path)
    assert [entry.name for entry in hdfs_root.list()] == ["empty", "full"]


def look(location: Location, answers: multiprocessing.SimpleQueue[str]) -> None:
    try:
        answers.put(str(location.exists()))
    except UnsupportedFeature as error:
        answers.put(str(error))


@pytest.mark.parametrize(("method", "answer"), [("spawn", "True"), ("fork", "start processes by the method 'spawn'")])
def test_a_child_uses_hdfs_unless_it_was_forked(hdfs_root: Location, method: str, answer: str) -> None:
    """The client would hang in it."""
    put(hdfs_root / "a")
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    child = context.Process(target=look, args=(hdfs_root / "a", answers))
    child.start()
    assert answer in answers.get()
    child.join()
    assert child.exitcode == 0


@pytest.fixture
def metastore(hdfs_root: Location, tmp_path: Path) -> Iterator[hi.MetastoreClient]:
    """An embedded metastore in a local file, whose warehouse is on HDFS."""
    uri = f"sqlite:///{tmp_path}/metastore.db"
    with hi.connect_metastore(uri, warehouse=str(hdfs_root / "warehouse"), create=True) as client:
        client.create_database("web")
        yield client


def test_a_table_on_hdfs_is_written_read_compacted_renamed_and_dropped(
    metastore: hi.MetastoreClient, hdfs_root: Location
) -> None:
    table = metastore.create_table(
        "web.events", columns={"id": "bigint", "msg": "string"}, partition_keys={"time": "string"}
    )
    assert table.location == f"{hdfs_root}/warehouse/web.db/events"
    rows = [{"id": number, "msg": "é", "time": f"10:{number % 3}"} for number in range(30)]
    for start in (0, 10, 20):
        with hi.StreamingConnection.connect(
            metastore, table="web.events", record_writer=hi.StrictJsonWriter(), sink="events", sources=["a"]
        ) as connection:
            connection.begin_transaction()
            connection.write("\n".join(json.dumps(row) for row in rows[start : start + 10]))
            connection.commit_transaction(positions={"a": start + 10})
    read = sorted(hi.read_table(metastore, "web.events").to_pylist(), key=lambda row: row["id"])
    assert read == rows
    outcomes = hi.compact(metastore, "web.events", kind="major", wait=True)
    assert [outcome.state.text for outcome in outcomes] == ["ready for cleaning"] * 3
    assert hi.read_table(metastore, "web.events").num_rows == 30
    metastore.alter_table("web.events", replace(table, name=TableName("web", "renamed")))
    assert sorted(hi.read_table(metastore, "web.renamed")["id"].to_pylist()) == list(range(30))
    metastore.drop_table("web.renamed")
    assert [entry.name for entry in (hdfs_root / "warehouse" / "web.db").list()] == ["events__progress"]
