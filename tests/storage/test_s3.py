"""What S3 alone does to a file store, and the library on it from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.errors import PathExists, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage import Location
from hive_ingest.storage.s3.options import S3Options
from hive_ingest.storage.s3.store import S3Store
from tests.services.s3 import S3Service
from tests.storage.objects import bucket_of, content, key_of, put

# -- what a store of objects has not ---------------------------------------------------------------------


def test_a_folder_without_an_object_of_its_own_is_a_folder(s3: S3Service, s3_root: Location) -> None:
    """Hadoop's S3A may have removed it, and other tools never make it."""
    s3.client().put_object(Bucket=bucket_of(s3_root), Key=key_of(s3_root / "p=1" / "delta_1_1" / "a"), Body=b"x")
    assert (s3_root / "p=1").exists()
    assert (s3_root / "p=1").make_folder() == []
    with pytest.raises(PathExists):
        (s3_root / "p=1").make_folder(exist_ok=False)
    assert [(entry.name, entry.is_folder) for entry in s3_root.list()] == [("p=1", True)]
    found = [entry.path.removeprefix(f"{s3_root.path}/") for entry in s3_root.list(recursive=True)]
    assert found == ["p=1", "p=1/delta_1_1", "p=1/delta_1_1/a"]


def test_names_that_begin_alike_are_not_mixed_up(s3_root: Location) -> None:
    (s3_root / "delta_1_10").make_folder()
    put(s3_root / "delta_1_10" / "a")
    assert not (s3_root / "delta_1_1").exists()
    (s3_root / "delta_1_1").delete_folder()
    assert content(s3_root / "delta_1_10" / "a") == b"x"


def test_a_folder_with_more_files_than_one_answer_lists(s3: S3Service, s3_root: Location) -> None:
    (s3_root / "many").make_folder()
    s3_root.store.create_all([(s3_root / "many" / f"{number:05d}").path for number in range(2100)], b"x", sync=True)
    assert [entry.name for entry in (s3_root / "many").list()] == [f"{number:05d}" for number in range(2100)]
    assert len(s3_root.list(recursive=True)) == 2101
    s3.set_faults()
    (s3_root / "many").delete_folder()
    assert s3.requests()["DeleteObjects"] == 3
    assert s3_root.list() == []


def test_a_folder_is_not_renamed(s3_root: Location) -> None:
    (s3_root / "a").make_folder()
    with pytest.raises(UnsupportedFeature, match="cannot rename a folder"):
        s3_root.store.rename_folder((s3_root / "a").path, (s3_root / "b").path)


# -- how it is reached -----------------------------------------------------------------------------------


def test_a_missing_bucket_is_named(s3: S3Service) -> None:
    with pytest.raises(StreamingIOFailure, match=r"s3a://nowhere/t.*no such bucket"):
        Location.of("s3a://nowhere/t").list()


def test_schemes_of_one_bucket_share_their_store() -> None:
    assert Location.of("s3://bucket/a").store is Location.of("s3a://bucket/b").store
    assert Location.of("s3a://bucket/a").store is not Location.of("s3a://other/a").store


def test_options_of_a_bucket_take_precedence() -> None:
    properties = {
        "fs.s3a.endpoint": "minio:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "all",
        "fs.s3a.bucket.web.access.key": "web",
        "fs.s3a.bucket.web.secret.key": "secret",
        "fs.s3a.assumed.role.arn": " ",
    }
    web = S3Options.of_properties(properties, "web")
    assert (web.endpoint, web.path_style, web.access_key, web.role_arn) == ("http://minio:9000", True, "web", None)
    assert S3Options.of_properties(properties, "other").access_key == "all"
    assert "secret" not in repr(web)


def test_without_its_client_s3_is_refused_and_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(UnsupportedFeature, match=r"hive-ingest\[s3\]"):
        S3Store("bucket", S3Options).exists("/a")


# -- the library on it -----------------------------------------------------------------------------------


@pytest.fixture
def metastore(s3_root: Location, tmp_path: Path) -> Iterator[hi.MetastoreClient]:
    """An embedded metastore in a local file, whose warehouse is on S3."""
    uri = f"sqlite:///{tmp_path}/metastore.db"
    with hi.connect_metastore(uri, warehouse=str(s3_root / "warehouse"), create=True) as client:
        client.create_database("web")
        yield client


def test_a_table_on_s3_is_written_read_compacted_and_cleaned(
    metastore: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    table = metastore.create_table(
        "web.events", columns={"id": "bigint", "msg": "string"}, partition_keys={"time": "string"}
    )
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
    hi.compact(metastore, "web.events", kind="major", wait=True)
    hi.Compactor(metastore, roles=["cleaner"]).run_once()
    assert hi.read_table(metastore, "web.events").num_rows == 30
    partition = Location.of(table.location) / "time=10%3A0"
    (base,) = [entry.name for entry in partition.list()]
    assert base.startswith("base_")
    assert s3.uploads(bucket_of(s3_root)) == []
    assert (Location.of(table.location) / ".hive_ingest").list() == []


def test_a_commit_makes_few_requests_for_each_partition(metastore: hi.MetastoreClient, s3: S3Service) -> None:
    """Each takes tens of milliseconds on AWS, and costs money."""
    metastore.create_table("web.t", columns={"id": "bigint"}, partition_keys={"p": "string"})
    with hi.StreamingConnection.connect(metastore, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        for _ in range(2):
            s3.set_faults()
            with connection.transaction():
                connection.write("\n".join(json.dumps({"id": number, "p": str(number % 20)}) for number in range(100)))
    requests = s3.requests()
    assert requests == {
        "PutObject": 40,  # the file, which was in memory until then, and _orc_acid_version, which makes the folder
        "ListObjectsV2": 20,  # whether nothing else lies in the folder
        "DeleteObjects": 1,  # the markers of the folders above
    }


def test_an_aborted_transaction_leaves_neither_files_nor_uploads(
    metastore: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    table = metastore.create_table("web.t", columns={"id": "bigint", "msg": "string"})
    with hi.StreamingConnection.connect(metastore, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        connection.begin_transaction()
        connection.write('{"id": 1, "msg": "x"}')
        connection.abort_transaction()
    assert hi.read_table(metastore, "web.t").num_rows == 0
    assert s3.uploads(bucket_of(s3_root)) == []
    assert [entry.name for entry in Location.of(table.location).list(recursive=True)] in ([], [".hive_ingest"])


def test_of_two_writers_of_one_folder_the_second_publishes_nothing(
    metastore: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    """As after a metastore was restored from an older copy. Folders of other partitions were made before."""
    table = metastore.create_table("web.t", columns={"id": "bigint"}, partition_keys={"p": "string"})
    metastore.add_partitions("web.t", [["7"]])
    theirs = Location.of(table.location) / "p=7" / "delta_0000001_0000001_0000"
    with hi.StreamingConnection.connect(metastore, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        theirs.make_folder()
        put(theirs / "bucket_00000", b"theirs")
        connection.begin_transaction()
        for number in range(20):
            connection.write(json.dumps({"id": number, "p": str(number)}))
        with pytest.raises(PathExists, match="exists already and is not of this transaction"):
            connection.commit_transaction()
        connection.abort_transaction()
    files = [key for key in s3.keys(bucket_of(s3_root)) if "bucket_" in key or "_orc_acid_version" in key]
    assert files == [key_of(theirs / "bucket_00000")]
    assert content(theirs / "bucket_00000") == b"theirs"
    assert s3.uploads(bucket_of(s3_root)) == []
