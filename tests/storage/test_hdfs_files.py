"""How files on HDFS are synced and closed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hdfs_native
import pytest

from hive_ingest.storage import Location
from hive_ingest.storage.hdfs.client import HdfsClient
from tests.services.hdfs import Hdfs

DATA = b"row" * 10_000
BLOCK_BYTES = 1 << 20


def put(location: Location, data: bytes = DATA, *, sync: bool = True) -> None:
    with location.create(sync=sync) as out:
        out.write(data)


def content(location: Location) -> bytes:
    with location.open_input() as file:
        return bytes(file.read())


class Calls:
    """What was asked of the client, with a part of its closing that a test holds up."""

    def __init__(self) -> None:
        self.recovered: list[str] = []
        self.looks = threading.Semaphore(0)
        self.go_on = threading.Event()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    found = Calls()
    recover_lease, read = hdfs_native.Client.recover_lease, hdfs_native.Client.read

    def recover(self: hdfs_native.Client, path: str) -> bool:
        found.recovered.append(path)
        return recover_lease(self, path)

    def look(self: hdfs_native.Client, path: str) -> Any:
        try:
            return read(self, path)
        finally:
            found.looks.release()

    monkeypatch.setattr(hdfs_native.Client, "recover_lease", recover)
    monkeypatch.setattr(hdfs_native.Client, "read", look)
    yield found
    found.go_on.set()


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_closed_as_soon_as_its_blocks_are_reported(
    hdfs_root: Location, calls: Calls, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    """The client waits half a second before it asks the NameNode again."""
    close = hdfs_native.FileWriter.close

    def close_and_wait(self: hdfs_native.FileWriter) -> None:
        close(self)
        calls.go_on.wait(60)

    monkeypatch.setattr(hdfs_native.FileWriter, "close", close_and_wait)
    put(hdfs_root / "a", sync=sync)
    assert not calls.go_on.is_set()
    assert calls.recovered == [(hdfs_root / "a").path]
    assert content(hdfs_root / "a") == DATA
    (hdfs_root / "a").rename(hdfs_root / "b")
    put(hdfs_root / "a", b"another")
    calls.go_on.set()
    assert (content(hdfs_root / "a"), content(hdfs_root / "b")) == (b"another", DATA)


def test_a_lease_is_not_recovered_before_all_blocks_are_complete(
    hdfs_root: Location, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NameNode would fence the writer, and wait for the DataNodes to agree on the block's length."""
    close = hdfs_native.FileWriter.close

    def wait_and_close(self: hdfs_native.FileWriter) -> None:
        calls.go_on.wait(60)
        close(self)

    monkeypatch.setattr(hdfs_native.FileWriter, "close", wait_and_close)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(put, hdfs_root / "a")
        for _ in range(5):
            assert calls.looks.acquire(timeout=60)
        assert calls.recovered == []
        calls.go_on.set()
        done.result()
    assert content(hdfs_root / "a") == DATA


@pytest.mark.parametrize("call", ["read", "recover_lease"])
def test_where_the_namenode_refuses_to_help_the_file_is_closed_by_the_client(
    hdfs_root: Location, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(self: object, path: str) -> None:
        raise RuntimeError(f'RPCError("org.apache.hadoop.security.AccessControlException", "{path}")')

    with monkeypatch.context() as patch:
        patch.setattr(hdfs_native.Client, call, refuse)
        put(hdfs_root / "a")
    assert content(hdfs_root / "a") == DATA


_ENDS_AT_ONCE = """
import sys
from hive_ingest.storage import Location

with Location.of(sys.argv[1]).create(sync=True) as out:
    out.write(b"last")
"""


def test_a_process_may_end_as_soon_as_its_file_is_closed(hdfs_root: Location) -> None:
    """A thread of the client is still waiting then."""
    for number in range(3):
        file = hdfs_root / f"a{number}"
        run = subprocess.run(
            [sys.executable, "-c", _ENDS_AT_ONCE, str(file)], capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stderr) == (0, "")
        assert content(file) == b"last"


@pytest.fixture(scope="module")
def small_blocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    """A folder on an HDFS of its own, whose blocks are small."""
    folder = tmp_path_factory.mktemp("small-blocks")
    site = folder / "site.xml"
    property_ = f"<property><name>dfs.blocksize</name><value>{BLOCK_BYTES}</value></property>"
    site.write_text(f"<configuration>{property_}</configuration>")
    with Hdfs(folder / "hdfs", java_options=[f"-Dhiveingest.site={site}"]) as running:
        yield Location.of(f"{running.uri}/")


@pytest.mark.parametrize(
    ("sizes", "synced"),
    [
        ([100], [100]),
        ([BLOCK_BYTES - 1], [BLOCK_BYTES - 1]),
        ([BLOCK_BYTES], [BLOCK_BYTES]),
        ([BLOCK_BYTES + 1], [BLOCK_BYTES, BLOCK_BYTES + 1]),
        (
            [BLOCK_BYTES - 7, 20, 3 * BLOCK_BYTES],
            [number * BLOCK_BYTES for number in (1, 2, 3, 4)] + [4 * BLOCK_BYTES + 13],
        ),
    ],
)
def test_every_block_is_synced(
    small_blocks: Location, monkeypatch: pytest.MonkeyPatch, sizes: list[int], synced: list[int]
) -> None:
    """An hsync at the end leaves the earlier blocks of the file in the DataNode's memory."""
    file = small_blocks / f"file-{'-'.join(map(str, sizes))}"
    begin, written, found = HdfsClient.begin, [0], []

    def record(self: HdfsClient, action: str, path: str, function: Any, *, repeat: bool = False) -> Any:
        if action == "sync":
            found.append(out.tell())
        return begin(self, action, path, function, repeat=repeat)

    monkeypatch.setattr(HdfsClient, "begin", record)
    data = bytes(range(256)) * (sum(sizes) // 256 + 1)
    with file.create(sync=True) as out:
        for size in sizes:
            out.write(data[written[0] : written[0] + size])
            written[0] += size
    assert found == synced
    assert content(file) == data[: sum(sizes)]


@pytest.mark.parametrize("is_effective", [True, False])
def test_a_file_whose_closing_lost_its_answer_is_closed(
    hdfs_root: Location, monkeypatch: pytest.MonkeyPatch, is_effective: bool
) -> None:
    """As when the NameNode is restarted at that moment."""
    close = hdfs_native.FileWriter.close

    def lose(self: hdfs_native.FileWriter) -> None:
        if is_effective:
            close(self)
        raise OSError("RPC listener disconnected")

    with monkeypatch.context() as patch:
        patch.setattr(hdfs_native.FileWriter, "close", lose)
        put(hdfs_root / "a")
    assert content(hdfs_root / "a") == DATA
