"""Files on S3 that are renamed later: small ones are written once more, larger ones are uploads that are completed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.storage.s3.client import S3Client
from hive_ingest.storage.s3.store import S3Store
from tests.services.s3 import S3Service
from tests.storage.objects import LARGE, MIB, bucket_of, content, key_of, put, stage


@pytest.fixture(params=[b"", b"rows", LARGE], ids=["empty", "small", "large"])
def data(request: pytest.FixtureRequest) -> bytes:
    """Of a file."""
    return bytes(request.param)


def test_a_file_whose_rename_is_announced_is_uploaded_under_its_later_name(s3: S3Service, s3_root: Location) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "bucket_00000"
    stage(hidden, target, LARGE)
    assert s3.uploads(bucket_of(s3_root)) == [key_of(target)]
    assert not target.exists()
    assert [entry.name for entry in s3_root.list()] == [".hidden"]
    assert s3_root.store.file_size(hidden.path) == len(LARGE)
    with pytest.raises(StreamingIOFailure, match="not published yet"):
        hidden.open_input()
    hidden.rename(target)
    assert content(target) == LARGE
    assert [entry.name for entry in s3_root.list()] == ["bucket_00000"]
    assert s3.uploads(bucket_of(s3_root)) == []


def test_a_small_file_takes_a_request_for_each_of_its_names(s3: S3Service, s3_root: Location) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "bucket_00000"
    s3.set_faults()
    stage(hidden, target)
    assert not target.exists()
    hidden.publish(target)
    s3_root.store.remove_old_names([hidden.path])
    hidden.delete_file()
    requests = s3.requests()
    del requests["ListObjectsV2"], requests["HeadObject"]  # of `exists`
    assert requests == {"PutObject": 2, "DeleteObjects": 1}
    assert content(target) == b"rows"
    assert [entry.name for entry in s3_root.list()] == ["bucket_00000"]


def test_publishing_copies_no_bytes_of_a_large_file(s3: S3Service, s3_root: Location) -> None:
    stage(s3_root / ".hidden", s3_root / "a", LARGE)
    s3.set_faults()
    (s3_root / ".hidden").rename(s3_root / "a")
    assert s3.requests() == {"CompleteMultipartUpload": 1, "DeleteObject": 1}
    assert content(s3_root / "a") == LARGE


def test_another_process_publishes_what_this_one_has_written(s3: S3Service, s3_root: Location, data: bytes) -> None:
    """All that it needs is in the store."""
    hidden, target = s3_root / ".hidden", s3_root / "a"
    stage(hidden, target, data)
    received = pickle.loads(pickle.dumps(hidden))
    other = S3Store(bucket_of(s3_root))
    other.rename(received.path, target.path)
    assert content(target) == data
    assert s3.uploads(bucket_of(s3_root)) == []


def test_a_published_file_is_never_replaced(s3: S3Service, s3_root: Location, data: bytes) -> None:
    stage(s3_root / ".first", s3_root / "a", data)
    stage(s3_root / ".second", s3_root / "a", b"2" + data)
    (s3_root / ".first").rename(s3_root / "a")
    with pytest.raises(PathExists):
        (s3_root / ".second").rename(s3_root / "a")
    assert content(s3_root / "a") == data
    (s3_root / ".second").delete_file()
    assert s3.uploads(bucket_of(s3_root)) == []


@pytest.mark.parametrize("size", [1, 6 * MIB])
def test_a_hidden_file_is_deleted_with_its_upload(s3: S3Service, s3_root: Location, size: int) -> None:
    stage(s3_root / ".hidden", s3_root / "a", b"x" * size)
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


def test_a_hidden_name_is_given_once(s3_root: Location, data: bytes) -> None:
    put(s3_root / ".hidden", b"mine")
    with pytest.raises(PathExists):
        stage(s3_root / ".hidden", s3_root / "a", data)
    assert content(s3_root / ".hidden") == b"mine"


def test_a_folder_is_deleted_with_the_uploads_in_it(s3: S3Service, s3_root: Location, data: bytes) -> None:
    (s3_root / "t" / "hidden").make_folder()
    stage(s3_root / "t" / "hidden" / "1", s3_root / "t" / "delta" / "a", data)
    (s3_root / "t").delete_folder()
    assert s3.uploads(bucket_of(s3_root)) == []
    assert s3_root.list() == []


def test_a_file_is_renamed_to_another_name_than_the_announced_one(s3_root: Location, data: bytes) -> None:
    """A partition may lie elsewhere than its name says."""
    (s3_root / "elsewhere").make_folder()
    stage(s3_root / ".hidden", s3_root / "p=1" / "a", data)
    (s3_root / ".hidden").rename(s3_root / "elsewhere" / "a")
    assert content(s3_root / "elsewhere" / "a") == data
    assert [entry.name for entry in s3_root.list()] == ["elsewhere"]


def test_a_file_that_cannot_be_renamed_to_another_name_stays_invisible(
    s3: S3Service, s3_root: Location, data: bytes
) -> None:
    put(s3_root / "taken", b"taken")
    stage(s3_root / ".hidden", s3_root / "a", data)
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
def test_a_new_name_whose_answer_was_lost_is_ours(s3_root: Location, data: bytes) -> None:
    assert (s3_root / "folder").make_folder(exist_ok=False) == [(s3_root / "folder").path]
    put(s3_root / "folder" / "small", b"small")
    put(s3_root / "folder" / "large", b"x" * 9 * MIB)
    stage(s3_root / ".hidden", s3_root / "folder" / "a", data)
    (s3_root / ".hidden").rename(s3_root / "folder" / "a")
    (s3_root / "folder" / "a").rename(s3_root / "folder" / "b")
    assert [entry.name for entry in (s3_root / "folder").list()] == ["b", "large", "small"]
    assert content(s3_root / "folder" / "b") == data


def test_a_rename_is_finished_that_was_interrupted_before_its_last_step(s3_root: Location, data: bytes) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "a"
    stage(hidden, target, data)
    hidden.publish(target)  # its old name, or the record of its upload, still lies there
    assert hidden.exists()
    S3Store(bucket_of(s3_root)).rename(hidden.path, target.path)
    assert content(target) == data
    assert not hidden.exists()


def test_a_file_whose_upload_was_removed_is_not_renamed(s3: S3Service, s3_root: Location) -> None:
    """By a lifecycle rule, for example."""
    hidden, target = s3_root / ".hidden", s3_root / "a"
    stage(hidden, target, LARGE)
    client, bucket = s3.client(), bucket_of(s3_root)
    (upload,) = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    with pytest.raises(StreamingIOFailure, match="upload was removed"):
        S3Store(bucket).rename(hidden.path, target.path)
    assert not target.exists()
    hidden.delete_file()
    assert s3_root.list() == []
