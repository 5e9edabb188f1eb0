"""What S3 alone does to a file store, and the library on it from end to end."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage import Location, local_spill_folder
from hive_ingest.storage.s3_client import S3Client
from hive_ingest.storage.s3_options import S3Options
from hive_ingest.storage.s3_store import S3Store
from tests.services.s3 import S3Service

MIB = 1 << 20


def put(location: Location, data: bytes = b"x") -> None:
    with location.create(sync=True) as out:
        out.write(data)


def content(location: Location) -> bytes:
    with location.open_input() as file:
        return bytes(file.read())


def stage(hidden: Location, target: Location, data: bytes = b"rows") -> None:
    hidden.announce_rename(target)
    put(hidden, data)


def bucket_of(location: Location) -> str:
    return str(location).removeprefix("s3a://").partition("/")[0]


def key_of(location: Location) -> str:
    return location.path[1:]


# -- files that are renamed later ----------------------------------------------------------------------


def test_a_file_whose_rename_is_announced_is_uploaded_under_its_later_name(s3: S3Service, s3_root: Location) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "bucket_00000"
    stage(hidden, target)
    assert s3.uploads(bucket_of(s3_root)) == [key_of(target)]
    assert not target.exists()
    assert [entry.name for entry in s3_root.list()] == [".hidden"]
    assert s3_root.store.file_size(hidden.path) == 4
    with pytest.raises(StreamingIOFailure, match="not published yet"):
        hidden.open_input()
    hidden.rename(target)
    assert content(target) == b"rows"
    assert [entry.name for entry in s3_root.list()] == ["bucket_00000"]
    assert s3.uploads(bucket_of(s3_root)) == []


def test_publishing_copies_no_bytes(s3_root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    stage(s3_root / ".hidden", s3_root / "a")
    monkeypatch.setattr("hive_ingest.storage.s3_upload.Upload.add_copy", lambda *_: pytest.fail("it was copied"))
    (s3_root / ".hidden").rename(s3_root / "a")
    assert content(s3_root / "a") == b"rows"


def test_another_process_publishes_what_this_one_has_written(s3: S3Service, s3_root: Location) -> None:
    """All that it needs is in the store."""
    hidden, target = s3_root / ".hidden", s3_root / "a"
    stage(hidden, target)
    received = pickle.loads(pickle.dumps(hidden))
    other = S3Store(bucket_of(s3_root))
    other.rename(received.path, target.path)
    assert content(target) == b"rows"
    assert s3.uploads(bucket_of(s3_root)) == []


def test_a_published_file_is_never_replaced(s3: S3Service, s3_root: Location) -> None:
    stage(s3_root / ".first", s3_root / "a", b"first")
    stage(s3_root / ".second", s3_root / "a", b"second")
    (s3_root / ".first").rename(s3_root / "a")
    with pytest.raises(PathExists):
        (s3_root / ".second").rename(s3_root / "a")
    assert content(s3_root / "a") == b"first"
    (s3_root / ".second").delete_file()
    assert s3.uploads(bucket_of(s3_root)) == []


def test_a_hidden_file_is_deleted_with_its_upload(s3: S3Service, s3_root: Location) -> None:
    stage(s3_root / ".hidden", s3_root / "a", b"x" * 6 * MIB)
    (s3_root / ".hidden").delete_file()
    assert s3.uploads(bucket_of(s3_root)) == []
    assert s3_root.list() == []
    with pytest.raises(PathNotFound):
        (s3_root / ".hidden").rename(s3_root / "a")


def test_a_discarded_file_leaves_no_upload(s3: S3Service, s3_root: Location) -> None:
    (s3_root / ".hidden").announce_rename(s3_root / "a")
    out = (s3_root / ".hidden").create(sync=True)
    out.write(b"x" * 9 * MIB)
    assert s3.uploads(bucket_of(s3_root)) == [key_of(s3_root / "a")]
    out.discard()
    assert s3.uploads(bucket_of(s3_root)) == []
    assert s3_root.list() == []


def test_a_folder_is_deleted_with_the_uploads_in_it(s3: S3Service, s3_root: Location) -> None:
    (s3_root / "t" / "hidden").make_folder()
    stage(s3_root / "t" / "hidden" / "1", s3_root / "t" / "delta" / "a")
    (s3_root / "t").delete_folder()
    assert s3.uploads(bucket_of(s3_root)) == []
    assert s3_root.list() == []


def test_a_file_is_renamed_to_another_name_than_the_announced_one(s3_root: Location) -> None:
    """A partition may lie elsewhere than its name says."""
    (s3_root / "elsewhere").make_folder()
    stage(s3_root / ".hidden", s3_root / "p=1" / "a")
    (s3_root / ".hidden").rename(s3_root / "elsewhere" / "a")
    assert content(s3_root / "elsewhere" / "a") == b"rows"
    assert [entry.name for entry in s3_root.list()] == ["elsewhere"]


def test_a_file_that_cannot_be_renamed_to_another_name_stays_invisible(s3: S3Service, s3_root: Location) -> None:
    put(s3_root / "taken", b"taken")
    stage(s3_root / ".hidden", s3_root / "a")
    with pytest.raises(PathExists):
        (s3_root / ".hidden").rename(s3_root / "taken")
    (s3_root / ".hidden").delete_file()
    assert [entry.name for entry in s3_root.list()] == ["taken"]
    assert content(s3_root / "taken") == b"taken"
    assert s3.uploads(bucket_of(s3_root)) == []


@pytest.mark.parametrize("is_staged", [False, True])
def test_a_large_file_is_uploaded_in_parts(s3_root: Location, is_staged: bool) -> None:
    data = b"".join(bytes([number]) * MIB for number in range(20))
    target = s3_root / "a"
    if is_staged:
        stage(s3_root / ".hidden", target, data)
        (s3_root / ".hidden").rename(target)
    else:
        put(target, data)
    assert content(target) == data
    with target.open_input() as file:
        assert file.read_at(10, 3 * MIB - 5) == data[3 * MIB - 5 : 3 * MIB + 5]


# -- answers that are lost -----------------------------------------------------------------------------


@pytest.fixture
def every_call_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the first answer was lost, and the call was repeated."""
    call = S3Client.call

    def twice(self: S3Client, action: str, path: str, function: Callable[[Any], Any]) -> Any:
        if action in ("rename", "finish", "make folder"):
            call(self, action, path, function)
        return call(self, action, path, function)

    monkeypatch.setattr(S3Client, "call", twice)


@pytest.mark.usefixtures("every_call_twice")
def test_a_new_name_whose_answer_was_lost_is_ours(s3_root: Location) -> None:
    assert (s3_root / "folder").make_folder(exist_ok=False) == [(s3_root / "folder").path]
    put(s3_root / "folder" / "small", b"small")
    put(s3_root / "folder" / "large", b"x" * 9 * MIB)
    stage(s3_root / ".hidden", s3_root / "folder" / "a")
    (s3_root / ".hidden").rename(s3_root / "folder" / "a")
    (s3_root / "folder" / "a").rename(s3_root / "folder" / "b")
    assert [entry.name for entry in (s3_root / "folder").list()] == ["b", "large", "small"]
    assert content(s3_root / "folder" / "b") == b"rows"


def test_a_rename_is_finished_that_was_interrupted_before_its_last_step(s3_root: Location) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "a"
    stage(hidden, target)
    with pytest.MonkeyPatch.context() as patch:  # the upload is completed, and its record still lies there
        patch.setattr(hidden.store, "_delete", lambda path: None)
        hidden.rename(target)
    assert hidden.exists()
    S3Store(bucket_of(s3_root)).rename(hidden.path, target.path)
    assert content(target) == b"rows"
    assert not hidden.exists()


def test_a_file_whose_upload_was_removed_is_not_renamed(s3: S3Service, s3_root: Location) -> None:
    """By a lifecycle rule, for example."""
    hidden, target = s3_root / ".hidden", s3_root / "a"
    stage(hidden, target)
    client, bucket = s3.client(), bucket_of(s3_root)
    (upload,) = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    with pytest.raises(StreamingIOFailure, match="upload was removed"):
        S3Store(bucket).rename(hidden.path, target.path)
    assert not target.exists()
    hidden.delete_file()
    assert s3_root.list() == []


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


def test_a_role_is_assumed_and_a_profile_is_used(
    s3: S3Service, s3_root: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3_root / "a")
    (tmp_path / "credentials").write_text("[web]\naws_access_key_id = of-profile\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.url)
    of_profile = S3Options(endpoint=s3.url, region="us-east-1", profile="web")
    of_role = replace(of_profile, role_arn="arn:aws:iam::123456789012:role/web")
    assert "Credential=of-profile" in headers(of_profile, s3_root / "a")
    assert "Credential=ASIA" in headers(of_role, s3_root / "a"), "the key of temporary credentials"


def headers(options: S3Options, file: Location) -> str:
    """Of a request with these options."""
    seen: list[str] = []

    def look(s3: Any) -> None:
        s3.meta.events.register("before-send.s3", lambda request, **_: seen.append(str(request.headers)))
        s3.head_object(Bucket=bucket_of(file), Key=key_of(file))

    S3Client(bucket_of(file), lambda: options).call("look at", file.path, look)
    return seen[0]


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
        "CreateMultipartUpload": 20,
        "UploadPart": 20,
        "CompleteMultipartUpload": 20,
        "PutObject": 60,  # the record of the upload, the folder, and its _orc_acid_version
        "ListObjectsV2": 20,
        "DeleteObject": 20,
        "DeleteObjects": 1,  # the markers of the folders
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


def test_rows_are_spilled_to_a_local_disk(metastore: hi.MetastoreClient, s3: S3Service, s3_root: Location) -> None:
    table = metastore.create_table("web.t", columns={"id": "bigint", "msg": "string"}, partition_keys={"p": "string"})
    settings = {"max_buffer_bytes": MIB, "spill_chunk_bytes": 1 << 12, "min_spill_bytes": 1 << 12}
    with hi.StreamingConnection.connect(
        metastore, table="web.t", record_writer=hi.StrictJsonWriter(block_bytes=1 << 12), settings=settings
    ) as connection:
        connection.begin_transaction()
        for number in range(2000):
            connection.write(json.dumps({"id": number, "msg": "x" * 60, "p": str(number % 2)}))
        connection.flush()
        assert not [key for key in s3.keys(bucket_of(s3_root)) if ".spill." in key]
        assert list(Path(local_spill_folder().path).glob("*.spill.orc"))
        connection.commit_transaction()
    assert sorted(hi.read_table(metastore, "web.t")["id"].to_pylist()) == list(range(2000))
    assert list(Path(local_spill_folder().path).iterdir()) == []
    assert (Location.of(table.location) / ".hive_ingest").list() == []


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
