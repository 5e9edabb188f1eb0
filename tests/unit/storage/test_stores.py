"""The one place that opens files: it never replaces, and leaves nothing that only looks complete."""

from __future__ import annotations

import errno
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from hive_ingest.errors import ConfigurationError, PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage import ArrowStore, FileStore, LocalStore, Location

STORES: list[Callable[[], FileStore]] = [LocalStore, lambda: ArrowStore(pafs.LocalFileSystem)]


@pytest.fixture(params=STORES, ids=["local", "arrow"])
def store(request: pytest.FixtureRequest) -> FileStore:
    made: FileStore = request.param()
    return made


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "FILE://{}", "file://localhost{}", "{}", "{}/", "file:{}/"])
def test_every_form_of_a_local_location_gives_the_same_path(form: str, tmp_path: Path) -> None:
    location = Location.of(form.format(tmp_path))
    assert isinstance(location.store, LocalStore)
    assert location.path == str(tmp_path)


def test_a_relative_location_counts_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("demo/warehouse").path == str(tmp_path / "demo" / "warehouse")


def test_a_location_is_never_percent_decoded() -> None:
    assert Location.of("file:/w/t/time=10%3A30").path == "/w/t/time=10%3A30"
    assert Location.of("gs://bucket/t/time=10%3A30").path == "bucket/t/time=10%3A30"


@pytest.mark.parametrize("location", ["", "file:rel", "file://host/x", "file:", "ftp://host/x", "http:/x", "a\0b"])
def test_an_invalid_location_is_refused(location: str) -> None:
    with pytest.raises(ConfigurationError):
        Location.of(location)


def test_an_object_store_refuses_to_be_written() -> None:
    location = Location.of("gs://bucket/warehouse/t/")
    store, path = location.store, location.path
    assert path == "bucket/warehouse/t"
    for write in (
        lambda: store.create(f"{path}/x", sync=True),
        lambda: store.rename(f"{path}/x", f"{path}/y"),
        lambda: store.make_folder(path),
    ):
        with pytest.raises(UnsupportedFeature, match="supported for reading only"):
            write()


def test_locations_on_one_file_system_share_their_store() -> None:
    one, other = Location.of("gs://bucket/a"), Location.of("gs://bucket/b")
    assert one.store is other.store
    assert one.store is not Location.of("gs://elsewhere/a").store
    assert Location.of("/a").store is Location.of("file:/b").store


def test_a_location_is_a_value(tmp_path: Path) -> None:
    location = Location.of(f"file:{tmp_path}/") / "k=1%3A2" / "delta_1_1"
    assert (location.path, location.uri) == (f"{tmp_path}/k=1%3A2/delta_1_1", f"file:{tmp_path}/k=1%3A2/delta_1_1")
    assert location.name == "delta_1_1"
    assert pickle.loads(pickle.dumps(location)) == location
    assert {location: 1}[Location.of(f"{tmp_path}/k=1%3A2/delta_1_1")] == 1
    assert str(Location.of("gs://bucket/t/") / "x") == "gs://bucket/t/x"


def test_a_rename_between_file_systems_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="different file systems"):
        (Location.of(str(tmp_path)) / "a").rename(Location.of("gs://bucket/a"))


def test_a_file_holds_what_was_written_in_order(store: FileStore, tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    with store.create(path, sync=True) as out:
        assert out.write(b"one") == 3
        assert out.write(memoryview(bytearray(b"two"))) == 3
        assert out.write(pa.py_buffer(b"three")) == 5
        assert out.tell() == 11
    assert out.closed
    with store.open_input(path) as source:
        assert source.read() == b"onetwothree"


def test_parts_are_written_in_order(store: FileStore, tmp_path: Path) -> None:
    with store.create(f"{tmp_path}/a", sync=False) as out:
        out.write_all([])
        out.write_all([b"one"])
        out.write_all([b"", memoryview(b"two"), pa.py_buffer(b"three"), bytearray(b"four")])
        assert out.tell() == 15
    assert (tmp_path / "a").read_bytes() == b"onetwothreefour"


def test_parts_are_written_in_order_however_many_and_however_short_the_writes_of_the_system_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [b"%d" % number * (number % 4) for number in range(3_000)]
    real = os.writev
    counts: list[int] = []

    def writev(fd: int, buffers: Sequence[memoryview]) -> int:
        counts.append(len(buffers))
        data = b"".join(buffers)
        return real(fd, [data[: max(1, len(data) // 3)]])

    monkeypatch.setattr(os, "writev", writev)
    with LocalStore().create(f"{tmp_path}/a", sync=False) as out:
        out.write_all([])
        out.write_all([b"", memoryview(b"first"), pa.py_buffer(b""), bytearray(b"second"), b""])
        out.write_all(parts)
        assert out.tell() == len(b"firstsecond") + sum(map(len, parts))
    assert (tmp_path / "a").read_bytes() == b"firstsecond" + b"".join(parts)
    assert max(counts) <= os.sysconf("SC_IOV_MAX")


def test_an_output_file_serves_pyarrow_as_a_python_file(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3]})
    with LocalStore().create(f"{tmp_path}/a", sync=False) as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    with LocalStore().open_input(f"{tmp_path}/a") as source:
        assert pa.ipc.open_file(source).read_all() == table


def test_creating_never_replaces(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(StreamingIOFailure, match="exists already"):
        store.create(f"{tmp_path}/a", sync=False)
    assert (tmp_path / "a").read_bytes() == b"mine"


def test_a_discarded_file_is_gone(store: FileStore, tmp_path: Path) -> None:
    out = store.create(f"{tmp_path}/a", sync=False)
    out.write(b"x")
    out.discard()
    out.discard()
    assert not list(tmp_path.iterdir())


def write_and_fail(store: FileStore, path: str) -> None:
    with store.create(path, sync=False) as out:
        out.write(b"x")
        raise KeyError


def test_an_error_in_the_with_block_discards_the_file(store: FileStore, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_and_fail(store, f"{tmp_path}/a")
    assert not list(tmp_path.iterdir())


def abandon(path: str) -> None:
    LocalStore().create(path, sync=False).write(b"x")


def test_an_abandoned_file_is_removed(tmp_path: Path) -> None:
    with pytest.warns(ResourceWarning, match="abandoned"):
        abandon(f"{tmp_path}/a")
    assert not list(tmp_path.iterdir())


def test_a_failed_sync_removes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = LocalStore().create(f"{tmp_path}/a", sync=True)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StreamingIOFailure, match=r"finish .*device reported an error") as caught:
        out.close()
    assert isinstance(caught.value.__cause__, OSError)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = LocalStore().create(f"{tmp_path}/a", sync=False)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", fail)
    with pytest.raises(StreamingIOFailure, match=r"write .*disk is full: free some space") as caught:
        out.write(b"x")
    assert isinstance(caught.value.__cause__, OSError)
    out.discard()


def test_rename_returns_the_new_name(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    store.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_rename_never_replaces(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(StreamingIOFailure, match="exists already"):
        store.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "b").read_bytes() == b"old"


def test_rename_without_hard_links_never_replaces_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(StreamingIOFailure, match="exists already"):
        LocalStore().rename(f"{tmp_path}/a", f"{tmp_path}/b")
    LocalStore().rename(f"{tmp_path}/a", f"{tmp_path}/c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "c"]


def test_a_folder_can_be_renamed_but_not_over_another(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(StreamingIOFailure, match="exists already"):
        LocalStore().rename(f"{tmp_path}/a", f"{tmp_path}/b")
    LocalStore().rename(f"{tmp_path}/a", f"{tmp_path}/c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "c"]


def test_a_missing_source_is_reported_as_such(store: FileStore, tmp_path: Path) -> None:
    with pytest.raises(StreamingIOFailure, match="rename"):
        store.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    with pytest.raises(StreamingIOFailure, match="open"):
        store.open_input(f"{tmp_path}/a")


def test_make_folder_returns_what_it_created_outermost_first(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert store.make_folder(f"{tmp_path}/a/b/c/") == [f"{tmp_path}/a/b", f"{tmp_path}/a/b/c"]
    assert store.make_folder(f"{tmp_path}/a/b/c") == []


def test_a_folder_is_not_created_where_a_file_exists(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    for path in (f"{tmp_path}/a", f"{tmp_path}/a/b"):
        with pytest.raises(StreamingIOFailure, match="is a file, not a folder"):
            LocalStore().make_folder(path)


def test_folders_are_synced_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(tmp_path / str(i)) for i in range(20)]
    for folder in folders:
        os.mkdir(folder)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    LocalStore().sync_folders(folders + folders)
    assert sorted(synced) == sorted(folders)


def test_a_folder_that_cannot_be_synced_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamingIOFailure, match="gone"):
        LocalStore().sync_folders([str(tmp_path), f"{tmp_path}/gone"])


def test_a_listing_is_sorted_and_gives_the_kind_of_each_entry(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "z").write_bytes(b"123")
    (tmp_path / "a").write_bytes(b"1")
    assert [(e.name, e.size_bytes, e.is_folder) for e in store.list(str(tmp_path))] == [("a", 1, False), ("b", 0, True)]
    paths = [e.path for e in store.list(str(tmp_path), recursive=True)]
    assert paths == [f"{tmp_path}/{name}" for name in ("a", "b", "b/c", "b/c/z")]


def test_a_missing_path_lists_as_empty_and_deletes_without_error(store: FileStore, tmp_path: Path) -> None:
    missing = f"{tmp_path}/missing"
    assert store.list(missing, missing_ok=True) == []
    assert not store.exists(missing)
    store.delete_file(missing)
    store.delete_folder(missing)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_not_an_empty_one(store: FileStore, tmp_path: Path) -> None:
    with pytest.raises(PathNotFound, match="missing"):
        store.list(f"{tmp_path}/missing")


def test_creating_a_folder_can_require_that_it_is_new_or_has_a_parent(store: FileStore, tmp_path: Path) -> None:
    assert store.make_folder(f"{tmp_path}/a", exist_ok=False, parents=False) == [f"{tmp_path}/a"]
    with pytest.raises(PathExists):
        store.make_folder(f"{tmp_path}/a", exist_ok=False)
    with pytest.raises(PathNotFound):
        store.make_folder(f"{tmp_path}/b/c", parents=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_deleting_removes_the_whole_folder(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "z").write_bytes(b"123")
    (tmp_path / "a").write_bytes(b"1")
    store.delete_folder(f"{tmp_path}/b")
    store.delete_file(f"{tmp_path}/a")
    assert not list(tmp_path.iterdir())


def test_without_its_client_hdfs_is_refused_and_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    location = Location.of("hdfs://without-a-client/warehouse")
    with pytest.raises(UnsupportedFeature, match=r"hdfs://without-a-client/ .*pip install 'hive-ingest\[hdfs\]'"):
        location.exists()
