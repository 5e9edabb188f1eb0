"""What lies on Google Cloud Storage is read, and nothing is written there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.fs as pafs
import pytest

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, PathNotFound, UnsupportedFeature
from hive_ingest.storage import Location
from hive_ingest.storage.gs_filesystem import gs_filesystem
from hive_ingest.storage.location import _store
from tests.services.gcs import GcsService, running_gcs
from tests.storage.objects import content
from tests.support.hive_tables import TABLES, register_without_files, unpack_all

NAMES = ["time=10%3A30", "with blank", "é", "日本", "a+b", "a=b", "50%", "__HIVE_DEFAULT_PARTITION__", "x" * 200]


@pytest.fixture(scope="module")
def gcs_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsService]:
    """Started when the first test requests it. Each test has a bucket of its own."""
    with running_gcs(tmp_path_factory.mktemp("gcs")) as running:
        yield running


@pytest.fixture
def gcs(gcs_service: GcsService, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsService]:
    """The service, to which locations of Google Cloud Storage lead during the test."""
    for name, value in gcs_service.environment.items():
        monkeypatch.setenv(name, value)
    yield gcs_service
    _store.cache_clear()


@pytest.fixture
def bucket(gcs: GcsService) -> str:
    """A new bucket."""
    return gcs.new_bucket()


def entries(location: Location, *, recursive: bool = False) -> list[tuple[str, int, bool]]:
    """Of a listing: the path below the folder, the size, and whether it is a folder."""
    start = len(location.path) + 1
    found = location.list(recursive=recursive)
    assert [entry.name for entry in found] == [entry.path.rpartition("/")[2] for entry in found]
    return [(entry.path[start:], entry.size_bytes, entry.is_folder) for entry in found]


def test_folders_are_listed_whether_or_not_they_have_objects_of_their_own(gcs: GcsService, bucket: str) -> None:
    """pyarrow leaves out those that have none, such as those that Hive makes: a table would be read as empty."""
    for key in ("t/a", "t/p=1/delta_1_1/bucket_00000", "t/p=2/", "t/p=2/delta_1_1/bucket_00000", "t/p=3/", "t2/a"):
        gcs.upload(bucket, key, b"12345")
    table = Location.of(f"gs://{bucket}/t")
    assert entries(table) == [("a", 5, False), ("p=1", 0, True), ("p=2", 0, True), ("p=3", 0, True)]
    assert entries(table / "p=1") == [("delta_1_1", 0, True)]
    assert entries(table / "p=3") == []
    assert entries(table, recursive=True) == [
        ("a", 5, False),
        ("p=1", 0, True),
        ("p=1/delta_1_1", 0, True),
        ("p=1/delta_1_1/bucket_00000", 5, False),
        ("p=2", 0, True),
        ("p=2/delta_1_1", 0, True),
        ("p=2/delta_1_1/bucket_00000", 5, False),
        ("p=3", 0, True),
    ]
    assert entries(Location.of(f"gs://{bucket}")) == [("t", 0, True), ("t2", 0, True)]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_kept_as_they_are(gcs: GcsService, bucket: str, name: str) -> None:
    gcs.upload(bucket, f"t/{name}/{name}", name.encode())
    folder = Location.of(f"gs://{bucket}/t") / name
    assert entries(folder.parent) == [(name, 0, True)]
    assert entries(folder) == [(name, len(name.encode()), False)]
    assert content(folder / name) == name.encode()


def test_a_file_is_read_at_random(gcs: GcsService, bucket: str) -> None:
    data = bytes(range(256)) * 1000
    gcs.upload(bucket, "a", data)
    location = Location.of(f"gs://{bucket}/a")
    assert location.exists()
    assert location.store.file_size(location.path) == len(data)
    with location.open_input() as file:
        assert file.size() == len(data)
        assert file.read_at(10, 1000) == data[1000:1010]
        assert file.read_at(100, len(data) - 10) == data[-10:]


def test_what_is_missing_is_not_empty(gcs: GcsService, bucket: str) -> None:
    for place in (bucket, "nowhere"):
        missing = Location.of(f"gs://{place}/missing")
        assert not missing.exists()
        assert missing.list(missing_ok=True) == []
        for call in (missing.list, missing.open_input, partial(missing.store.file_size, missing.path)):
            with pytest.raises(PathNotFound):
                call()


@pytest.mark.parametrize("key", ["3.1.3/parts", "4.0.1/parts"])
def test_a_table_that_hive_wrote_is_read_and_is_not_written(
    gcs: GcsService, bucket: str, tmp_path: Path, key: str
) -> None:
    tables = unpack_all(tmp_path / "tables")
    uri = f"sqlite:///{tmp_path}/metastore.db"
    with hi.connect_metastore(uri, warehouse=f"gs://{bucket}/warehouse", create=True) as metastore:
        metastore.create_database("h")
        name = register_without_files(metastore, tables, key)
        location = metastore.get_table(name).location
        assert location == f"gs://{bucket}/warehouse/h.db/parts"
        gcs.upload_all(bucket, "warehouse/h.db/parts", tables / key)
        found = hi.read_table(metastore, name, row_ids=True).to_pylist()
        with pytest.raises(UnsupportedFeature, match=r"Google Cloud Storage is supported for reading only"):
            hi.StreamingConnection.connect(metastore, table=name, record_writer=hi.StrictJsonWriter())
    ids = {tuple(row["row__id"].values()) for row in found}
    assert ids == {tuple(row_id) for row_id, *_ in TABLES[key]["rows"]}
    columns = ("id", "msg", "country", "month")
    cells = [tuple("" if row[name] is None else str(row[name]) for name in columns) for row in found]
    default = "__HIVE_DEFAULT_PARTITION__"
    expected = [tuple("" if each in (None, default) else str(each) for each in row[1:]) for row in TABLES[key]["rows"]]
    assert sorted(cells) == sorted(expected)


def test_an_endpoint_that_is_not_a_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"fs\.gs\.storage\.root\.url is 'gcs:4443': give a URL"):
        gs_filesystem({"fs.gs.storage.root.url": "gcs:4443"})


def test_a_pyarrow_without_the_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pafs, "GcsFileSystem")
    monkeypatch.setattr(pafs, "_not_imported", ["GcsFileSystem"])  # as pyarrow does where it was built without
    with pytest.raises(UnsupportedFeature, match="this pyarrow cannot read Google Cloud Storage"):
        gs_filesystem({})
