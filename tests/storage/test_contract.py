"""What every file store promises, on every kind of file system."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.orc
import pytest

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage import Location, copy_file

NAMES = ["time=10%3A30", "with blank", "é", "日本", "a+b", "a=b", "50%", "__HIVE_DEFAULT_PARTITION__", "x" * 200]


def put(location: Location, data: bytes = b"x", *, sync: bool = False) -> None:
    with location.create(sync=sync) as out:
        out.write(data)


def content(location: Location) -> bytes:
    with location.open_input() as file:
        return bytes(file.read())


def names(folder: Location) -> list[str]:
    return [entry.name for entry in folder.list()]


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_holds_what_was_written_in_order(root: Location, sync: bool) -> None:
    with (root / "a").create(sync=sync) as out:
        assert out.write(b"one") == 3
        assert out.write(memoryview(bytearray(b"two"))) == 3
        assert out.write(pa.py_buffer(b"three")) == 5
        assert out.write(b"") == 0
        assert out.tell() == 11
    assert out.closed
    assert content(root / "a") == b"onetwothree"
    assert root.store.file_size((root / "a").path) == 11


def test_an_empty_file_is_a_file(root: Location) -> None:
    put(root / "a", b"", sync=True)
    assert content(root / "a") == b""
    assert [(entry.name, entry.size_bytes, entry.is_folder) for entry in root.list()] == [("a", 0, False)]


def test_a_file_is_read_at_random(root: Location) -> None:
    data = bytes(range(256)) * 1000
    put(root / "a", data)
    with (root / "a").open_input() as file:
        assert file.size() == len(data)
        assert file.read_at(10, 1000) == data[1000:1010]
        assert file.read_at(100, len(data) - 10) == data[-10:], "reading beyond the end gives what there is"
        file.seek(len(data) - 1)
        assert file.read() == data[-1:]
        assert file.read() == b""


def test_orc_is_written_and_read(root: Location) -> None:
    table = pa.table({"a": range(10_000), "b": [str(i) for i in range(10_000)]})
    with (root / "a.orc").create(sync=True) as out:
        pyarrow.orc.write_table(table, pa.PythonFile(out, mode="w"))
    with (root / "a.orc").open_input() as file:
        assert pyarrow.orc.read_table(file).equals(table)


def test_creating_never_replaces(root: Location) -> None:
    put(root / "a", b"mine")
    with pytest.raises(PathExists):
        (root / "a").create(sync=False)
    assert content(root / "a") == b"mine"


def test_a_file_is_not_created_without_its_folder(root: Location) -> None:
    with pytest.raises(StreamingIOFailure, match="missing"):
        put(root / "missing" / "a")
    assert not (root / "missing").exists()


def test_a_discarded_file_is_gone(root: Location) -> None:
    out = (root / "a").create(sync=False)
    out.write(b"x")
    out.discard()
    out.discard()
    assert out.closed
    assert root.list() == []


def write_and_fail(location: Location) -> None:
    with location.create(sync=False) as out:
        out.write(b"x")
        raise KeyError


def test_an_error_in_the_with_block_discards_the_file(root: Location) -> None:
    with pytest.raises(KeyError):
        write_and_fail(root / "a")
    assert root.list() == []


def test_rename_gives_the_new_name(root: Location) -> None:
    put(root / "a", b"data")
    (root / "a").rename(root / "b")
    assert names(root) == ["b"]
    assert content(root / "b") == b"data"


def test_rename_never_replaces(root: Location) -> None:
    put(root / "a", b"new")
    put(root / "b", b"old")
    with pytest.raises(PathExists):
        (root / "a").rename(root / "b")
    assert (content(root / "a"), content(root / "b")) == (b"new", b"old")


def test_of_many_renames_to_one_name_one_succeeds(root: Location) -> None:
    sources = [root / f"source-{number}" for number in range(8)]
    for source in sources:
        put(source, source.name.encode())
    barrier = threading.Barrier(len(sources))

    def rename(source: Location) -> bool:
        barrier.wait(60)
        try:
            source.rename(root / "target")
        except PathExists:
            return False
        return True

    with ThreadPoolExecutor(len(sources)) as pool:
        done = list(pool.map(rename, sources))
    assert done.count(True) == 1
    winner = sources[done.index(True)]
    assert content(root / "target") == winner.name.encode()
    assert names(root) == sorted([*(source.name for source in sources if source != winner), "target"])


def test_a_missing_source_is_reported_as_such(root: Location) -> None:
    with pytest.raises(PathNotFound, match="missing"):
        (root / "missing").rename(root / "b")
    with pytest.raises(PathNotFound, match="missing"):
        (root / "missing").open_input()
    with pytest.raises(PathNotFound, match="missing"):
        root.store.file_size((root / "missing").path)


def test_make_folder_returns_what_it_created_outermost_first(root: Location) -> None:
    (root / "a").make_folder()
    assert (root / "a" / "b" / "c").make_folder() == [(root / "a" / "b").path, (root / "a" / "b" / "c").path]
    assert (root / "a" / "b" / "c").make_folder() == []


def test_creating_a_folder_can_require_that_it_is_new_or_has_a_parent(root: Location) -> None:
    assert (root / "a").make_folder(exist_ok=False, parents=False) == [(root / "a").path]
    put(root / "a" / "mine")
    with pytest.raises(PathExists):
        (root / "a").make_folder(exist_ok=False)
    with pytest.raises(PathNotFound):
        (root / "b" / "c").make_folder(parents=False)
    assert names(root) == ["a"]
    assert names(root / "a") == ["mine"]


def test_a_new_folder_and_its_first_file_are_made_together(root: Location) -> None:
    delta = root / "delta_1_1"
    delta.store.make_folder_with(delta.path, "first", b"2")
    assert names(delta) == ["first"]
    put(delta / "second")
    with pytest.raises(PathExists):
        delta.store.make_folder_with(delta.path, "third", b"3")
    assert names(delta) == ["first", "second"]
    with pytest.raises(PathNotFound):
        root.store.make_folder_with((root / "missing" / "delta").path, "first", b"2")
    assert names(root) == ["delta_1_1"]


def test_a_published_file_has_its_new_name_alone(root: Location) -> None:
    put(root / ".hidden", b"data")
    (root / "folder").make_folder()
    (root / ".hidden").publish(root / "folder" / "a")
    root.store.unmark_folders([(root / "folder").path])
    root.store.remove_old_names([(root / ".hidden").path])
    assert names(root) == ["folder"]
    assert content(root / "folder" / "a") == b"data"


def test_syncing_changes_no_folder(root: Location) -> None:
    (root / "empty").make_folder()
    root.store.sync_folders([(root / "empty").path])
    assert names(root) == ["empty"]
    assert names(root / "empty") == []


def test_of_many_writers_that_require_a_new_folder_one_gets_it(root: Location) -> None:
    barrier = threading.Barrier(8)

    def make(_: int) -> bool:
        barrier.wait(60)
        try:
            (root / "delta_1_1").make_folder(exist_ok=False, parents=False)
        except PathExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(make, range(8))).count(True) == 1
    assert names(root) == ["delta_1_1"]


def test_a_folder_is_not_created_where_a_file_exists(root: Location) -> None:
    put(root / "a")
    for folder in (root / "a", root / "a" / "b"):
        with pytest.raises(StreamingIOFailure):
            folder.make_folder()
    assert content(root / "a") == b"x"


def test_a_listing_is_sorted_and_gives_the_kind_of_each_entry(root: Location) -> None:
    (root / "b" / "c").make_folder()
    put(root / "b" / "c" / "z", b"123")
    put(root / "a", b"1")
    assert [(e.name, e.size_bytes, e.is_folder) for e in root.list()] == [("a", 1, False), ("b", 0, True)]
    found = [entry.path for entry in root.list(recursive=True)]
    assert found == [f"{root.path}/{name}" for name in ("a", "b", "b/c", "b/c/z")]


def test_a_missing_folder_is_not_an_empty_one(root: Location) -> None:
    with pytest.raises(PathNotFound, match="missing"):
        (root / "missing").list()
    assert (root / "missing").list(missing_ok=True) == []
    assert not (root / "missing").exists()


def test_what_is_missing_is_deleted_without_error(root: Location) -> None:
    (root / "missing").delete_file()
    (root / "missing").delete_folder()
    assert root.list() == []


def test_deleting_removes_the_whole_folder(root: Location) -> None:
    (root / "b" / "c").make_folder()
    put(root / "b" / "c" / "z")
    put(root / "a")
    (root / "b").delete_folder()
    (root / "a").delete_file()
    assert root.list() == []


@pytest.mark.parametrize("name", NAMES)
def test_names_are_kept_as_they_are(root: Location, name: str) -> None:
    folder = root / name
    folder.make_folder(exist_ok=False, parents=False)
    put(folder / name, name.encode())
    assert [(entry.path, entry.name) for entry in root.list()] == [(folder.path, name)]
    (folder / name).rename(folder / f"{name[:100]}2")
    assert content(folder / f"{name[:100]}2") == name.encode()
    assert Location.of(str(root)).path == root.path


def test_a_folder_is_listed_while_others_write_to_it(root: Location) -> None:
    put(root / "kept")
    stop = threading.Event()

    def write_and_delete(number: int) -> None:
        while not stop.is_set():
            (root / f"folder-{number}").make_folder()
            put(root / f"folder-{number}" / "a")
            (root / f"folder-{number}").delete_folder()

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write_and_delete, number) for number in range(2)]
        try:
            for _ in range(20):
                assert f"{root.path}/kept" in [entry.path for entry in root.list(recursive=True)]
        finally:
            stop.set()
        for writer in writers:
            writer.result()


@pytest.mark.timeout(1800)  # six minutes on a machine with twenty other processes
def test_ten_thousand_files_are_made_listed_and_removed(root: Location) -> None:
    """More than any service lists in one answer."""
    folder = root / "many"
    folder.make_folder()
    expected = [f"{number:05d}" for number in range(10_000)]
    root.store.create_all([(folder / name).path for name in expected], b"", sync=False)
    assert names(folder) == expected
    assert len(root.list(recursive=True)) == 10_001
    folder.delete_folder()
    assert root.list() == []


def test_a_file_is_copied(root: Location) -> None:
    put(root / "a", b"data")
    copy_file(root / "a", root / "b", sync=True)
    assert content(root / "b") == b"data"


def test_files_of_one_content_are_created_together(root: Location) -> None:
    paths = [(root / f"{number:02d}").path for number in range(20)]
    root.store.create_all(paths, b"2", sync=True)
    assert names(root) == [f"{number:02d}" for number in range(20)]
    assert all(content(root / name) == b"2" for name in names(root))
    put(root / "there", b"mine")
    with pytest.raises(PathExists):
        root.store.create_all([(root / "new").path, (root / "there").path], b"2", sync=True)
    assert content(root / "there") == b"mine"


def test_locations_are_values_that_processes_exchange(root: Location) -> None:
    put(root / "a", b"data")
    assert content(pickle.loads(pickle.dumps(root / "a"))) == b"data"
