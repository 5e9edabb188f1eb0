"""A pair of NameNodes: a failover is waited for, and loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.storage.hdfs.client import HdfsClient
from tests.services.hdfs import Hdfs


def put(location: Location, data: bytes = b"x") -> None:
    with location.create(sync=True) as out:
        out.write(data)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Two NameNodes, named in the `hdfs-site.xml` of HADOOP_CONF_DIR."""
    folder = tmp_path_factory.mktemp("pair")
    with Hdfs(folder / "hdfs", is_ha=True) as running, pytest.MonkeyPatch.context() as patch:
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in running.configuration().items()
        )
        (folder / "core-site.xml").write_text("<configuration/>")
        (folder / "hdfs-site.xml").write_text(f"<configuration>{properties}</configuration>")
        patch.setenv("HADOOP_CONF_DIR", str(folder))
        yield running


@pytest.fixture
def root(pair: Hdfs, request: pytest.FixtureRequest) -> Location:
    made = Location.of(f"{pair.uri}/{request.node.name}")
    made.make_folder()
    return made


def test_files_are_written_and_read_before_and_after_a_failover(pair: Hdfs, root: Location) -> None:
    put(root / "before")
    pair.fail_over(1)
    put(root / "after")
    assert [entry.name for entry in root.list()] == ["after", "before"]
    pair.fail_over(0)
    assert [entry.name for entry in root.list()] == ["after", "before"]


def test_a_file_that_is_being_written_survives_a_failover(pair: Hdfs, root: Location) -> None:
    out = (root / "a").create(sync=True)
    out.write(b"1" * 100_000)
    pair.fail_over(1)
    out.write(b"2" * 100_000)
    out.close()
    with (root / "a").open_input() as file:
        assert file.read() == b"1" * 100_000 + b"2" * 100_000
    pair.fail_over(0)


def test_while_none_is_active_calls_wait(pair: Hdfs, root: Location) -> None:
    put(root / "a")
    pair.make_standby(0)
    started, done = threading.Event(), threading.Event()

    def rename() -> None:
        started.set()
        (root / "a").rename(root / "b")
        done.set()

    thread = threading.Thread(target=rename)
    thread.start()
    started.wait(60)
    assert not done.wait(1), "there is nobody who could have renamed it"
    pair.make_active(1)
    thread.join(60)
    assert done.is_set()
    assert [entry.name for entry in root.list()] == ["b"]
    pair.fail_over(0)


def test_when_none_becomes_active_the_call_fails_by_name_after_its_time_limit(pair: Hdfs, root: Location) -> None:
    client = HdfsClient(pair.uri, timeout_seconds=1)
    pair.make_standby(0)
    try:
        with pytest.raises(StreamingIOFailure, match="no answer from hdfs://warehouse"):
            client.call("look at", root.path, lambda hdfs: hdfs.get_file_info(root.path))
    finally:
        pair.make_active(0)
