"""Requests to S3 that fail, are lost, or are answered in part."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import hive_ingest as hi
from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.storage.s3.options import S3Options
from hive_ingest.storage.s3.store import S3Store
from tests.services.s3 import S3Service
from tests.services.s3_faults import S3Fault
from tests.storage.objects import LARGE, MIB, bucket_of, content, put, stage
from tests.support.waiting import wait_until


@pytest.fixture
def impatient(s3_root: Location, s3: S3Service, monkeypatch: pytest.MonkeyPatch) -> Location:
    """The folder, on a store that makes each request twice at most and waits for half a second."""
    options = replace(S3Options.of_bucket(bucket_of(s3_root)), attempts=2, timeout_seconds=0.5)
    return Location(S3Store(bucket_of(s3_root), lambda: options), s3_root.path, str(s3_root))


#: What writing, publishing, reading and removing requests.
OPERATIONS = [
    "PutObject",
    "CreateMultipartUpload",
    "UploadPart",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
    "HeadObject",
    "GetObject",
    "ListObjectsV2",
    "ListMultipartUploads",
    "ListParts",
    "DeleteObject",
    "DeleteObjects",
]


def use(root: Location) -> None:
    """Every request once at least, and what must come of it."""
    folder = root / "delta_1_1"
    assert folder.make_folder(exist_ok=False) == [folder.path]
    stage(root / ".a", folder / "a", b"a" * 9 * MIB)
    stage(root / ".b", folder / "b", LARGE)
    stage(root / ".c", folder / "b", LARGE)
    stage(root / ".d", folder / "d")
    S3Store(bucket_of(root)).rename((root / ".a").path, (folder / "a").path)  # as the driver, from the record
    (root / ".b").rename(folder / "b")
    with pytest.raises(PathExists):
        (root / ".c").rename(folder / "b")
    (root / ".c").delete_file()
    S3Store(bucket_of(root)).rename((root / ".d").path, (folder / "d").path)
    put(folder / "plain", LARGE)
    (folder / "plain").rename(folder / "copied")
    sizes = [(entry.name, entry.size_bytes) for entry in folder.list()]
    assert sizes == [("a", 9 * MIB), ("b", len(LARGE)), ("copied", len(LARGE)), ("d", 4)]
    assert content(folder / "a") == b"a" * 9 * MIB
    assert content(folder / "b") == content(folder / "copied") == LARGE
    assert content(folder / "d") == b"rows"
    (root / "delta_2_2").store.make_folder_with((root / "delta_2_2").path, "first", b"2")
    (root / "delta_2_2").delete_folder()
    folder.delete_folder()
    assert root.list() == []


def test_a_client_that_is_stopped_in_a_request_delays_no_other(s3: S3Service, s3_root: Location) -> None:
    """The service of these tests read its content while nobody else was served, for as long as it was stopped."""
    port = urlsplit(s3.url).port
    assert port
    s3.set_faults()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(f"PUT /{bucket_of(s3_root)}/half HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nhalf".encode())
        wait_until(lambda: s3.requests().get("PutObject") == 1, "the request does not arrive")
        put(s3_root / "whole")
    assert content(s3_root / "whole") == b"x"
    assert "half" not in s3.keys(bucket_of(s3_root))


def test_all_operations_are_used(s3: S3Service, s3_root: Location) -> None:
    """Otherwise the tests of their faults show nothing."""
    s3.set_faults()
    use(s3_root)
    assert set(OPERATIONS) == s3.requests().keys()
    assert s3.uploads(bucket_of(s3_root)) == []


@pytest.mark.parametrize(
    "fault",
    [
        S3Fault("", "lose request"),
        S3Fault("", "lose answer"),
        S3Fault("", code="SlowDown", status=503),
        S3Fault("", code="InternalError", status=500),
    ],
    ids=lambda fault: fault.code or fault.kind,
)
def test_requests_of_each_kind_that_fail_once_change_nothing(s3: S3Service, s3_root: Location, fault: S3Fault) -> None:
    s3.set_faults(*(replace(fault, operation=operation) for operation in OPERATIONS))
    use(s3_root)
    assert s3.uploads(bucket_of(s3_root)) == []


def test_answers_that_arrive_in_part_are_requested_again(s3: S3Service, s3_root: Location) -> None:
    operations = ("GetObject", "ListObjectsV2", "CompleteMultipartUpload", "ListParts", "UploadPart", "DeleteObjects")
    s3.set_faults(*(S3Fault(operation, "half an answer") for operation in operations))
    use(s3_root)


def test_a_service_that_does_not_answer_is_an_error_and_not_a_missing_file(s3: S3Service, impatient: Location) -> None:
    put(impatient / "a")
    for operation, call in CALLS:
        s3.set_faults(S3Fault(operation, "hang", times=2))
        with pytest.raises(StreamingIOFailure, match="whose answer was lost may have taken effect") as failure:
            call(impatient)
        assert not isinstance(failure.value, PathExists | PathNotFound)
    assert [entry.name for entry in impatient.list()] == ["a"]
    assert s3.uploads(bucket_of(impatient)) == []


CALLS: list[tuple[str, Callable[[Location], object]]] = [
    ("ListObjectsV2", lambda root: root.list()),
    ("ListObjectsV2", lambda root: root.list(missing_ok=True)),
    ("ListObjectsV2", lambda root: (root / "a").exists()),
    ("HeadObject", lambda root: root.store.file_size((root / "a").path)),
    ("HeadObject", lambda root: (root / "a").rename(root / "b")),
    ("GetObject", lambda root: (root / "a").open_input()),
    ("PutObject", lambda root: put(root / "b")),
    ("CreateMultipartUpload", lambda root: put(root / "b", b"x" * 9 * MIB)),
    ("UploadPart", lambda root: put(root / "b", b"x" * 9 * MIB)),
    ("UploadPart", lambda root: stage(root / ".b", root / "b", LARGE)),
    ("PutObject", lambda root: stage(root / ".b", root / "b")),
    ("CompleteMultipartUpload", lambda root: put(root / "b", b"x" * 9 * MIB)),
    ("DeleteObject", lambda root: (root / "a").delete_file()),
    ("DeleteObjects", lambda root: root.delete_folder()),
]


@pytest.mark.parametrize(
    ("code", "status", "remedy"),
    [
        ("AccessDenied", 403, "permission denied: give these credentials"),
        ("ExpiredToken", 400, "the credentials have expired: renew them"),
        ("InvalidAccessKeyId", 403, "the access key is unknown"),
        ("SignatureDoesNotMatch", 403, "the secret key is wrong"),
        ("RequestTimeTooSkewed", 403, "the clock of this machine"),
        ("SlowDown", 503, "limits the rate of requests"),
        ("NoSuchBucket", 404, "there is no such bucket"),
    ],
)
def test_errors_say_what_to_do(s3: S3Service, impatient: Location, code: str, status: int, remedy: str) -> None:
    put(impatient / "a")
    for operation, call in CALLS:
        if operation == "HeadObject":
            continue  # its answers have no body, so the code is missing
        s3.set_faults(S3Fault(operation, code=code, status=status, times=2))
        with pytest.raises(StreamingIOFailure, match=remedy) as failure:
            call(impatient)
        assert not isinstance(failure.value, PathExists | PathNotFound)
        assert bucket_of(impatient) in str(failure.value)
    assert [entry.name for entry in impatient.list()] == ["a"]
    assert s3.uploads(bucket_of(impatient)) == []


def test_without_the_right_to_list_a_missing_file_is_not_taken_as_such(s3: S3Service, impatient: Location) -> None:
    """S3 answers HeadObject with 403 then, whether the object is there or not."""
    s3.set_faults(S3Fault("HeadObject", status=403))
    with pytest.raises(StreamingIOFailure, match="permission denied"):
        impatient.store.file_size((impatient / "a").path)


def test_a_conflict_is_resolved_by_trying_again(s3: S3Service, s3_root: Location) -> None:
    """S3 answers so while another request for the same name is under way, which may be an earlier one of our own."""
    conflict = S3Fault("PutObject", code="ConditionalRequestConflict", status=409)
    s3.set_faults(conflict, replace(conflict, operation="CompleteMultipartUpload"))
    assert (s3_root / "folder").make_folder(exist_ok=False) == [(s3_root / "folder").path]
    stage(s3_root / ".a", s3_root / "folder" / "a", LARGE)
    (s3_root / ".a").rename(s3_root / "folder" / "a")
    assert content(s3_root / "folder" / "a") == LARGE


def test_a_conflict_that_stays_means_that_the_name_is_taken(s3: S3Service, impatient: Location) -> None:
    s3.set_faults(S3Fault("PutObject", code="ConditionalRequestConflict", status=409, times=2))
    with pytest.raises(PathExists, match="another request for the same name"):
        (impatient / "folder").make_folder(exist_ok=False)


# -- transactions ----------------------------------------------------------------------------------------


@pytest.fixture
def metastore(s3_root: Location, tmp_path: Path) -> Iterator[hi.MetastoreClient]:
    """An embedded metastore in a local file, whose warehouse is on S3."""
    uri = f"sqlite:///{tmp_path}/metastore.db"
    with hi.connect_metastore(uri, warehouse=str(s3_root), create=True) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "bigint"}, partition_keys={"p": "string"})
        yield client


#: How much is kept in memory, the largest file that is written twice, the request that is refused, and a part of its
#: path.
REFUSED = [
    (0, 0, "CreateMultipartUpload", "bucket_00000"),
    (0, 0, "PutObject", ".hive_ingest/"),
    (0, 0, "UploadPart", "bucket_00000"),
    (0, 0, "CompleteMultipartUpload", "bucket_00000"),
    (0, MIB, "PutObject", ".hive_ingest/"),
    (0, MIB, "PutObject", "bucket_00000"),
    (MIB, MIB, "PutObject", "_orc_acid_version"),
    (MIB, MIB, "PutObject", "bucket_00000"),
    (MIB, MIB, "ListObjectsV2", ""),
]


@pytest.mark.parametrize(("kept_bytes", "small_bytes", "operation", "key"), REFUSED)
def test_a_transaction_that_is_refused_leaves_nothing_and_the_next_one_commits(
    metastore: hi.MetastoreClient,
    s3: S3Service,
    s3_root: Location,
    monkeypatch: pytest.MonkeyPatch,
    kept_bytes: int,
    small_bytes: int,
    operation: str,
    key: str,
) -> None:
    monkeypatch.setattr("hive_ingest.storage.objects.staged.KEPT_BYTES", kept_bytes)
    monkeypatch.setattr("hive_ingest.storage.s3.files.SMALL_BYTES", small_bytes)
    rows = "\n".join(json.dumps({"id": number, "p": str(number % 3)}) for number in range(30))
    with hi.StreamingConnection.connect(metastore, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        connection.begin_transaction()
        connection.write(rows)
        s3.set_faults(S3Fault(operation, code="AccessDenied", status=403, key=key))
        with pytest.raises(StreamingIOFailure, match="permission denied"):
            connection.commit_transaction()
        connection.abort_transaction()
        assert hi.read_table(metastore, "web.t").num_rows == 0
        keys = s3.keys(bucket_of(s3_root))
        assert [each for each in keys if "bucket_" in each or "delta_" in each or ".hive_ingest/1" in each] == []
        assert s3.uploads(bucket_of(s3_root)) == []
        connection.begin_transaction()
        connection.write(rows)
        connection.commit_transaction()
    assert sorted(hi.read_table(metastore, "web.t")["id"].to_pylist()) == list(range(30))


def test_old_names_that_cannot_be_removed_at_once_are_removed_one_by_one(
    metastore: hi.MetastoreClient, s3: S3Service, s3_root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_ingest.storage.objects.staged.KEPT_BYTES", 0)
    with hi.StreamingConnection.connect(metastore, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        s3.set_faults(S3Fault("DeleteObjects", code="AccessDenied", status=403, times=10))
        with connection.transaction():
            connection.write('{"id": 1, "p": "a"}')
    assert [each for each in s3.keys(bucket_of(s3_root)) if ".hive_ingest/1" in each] == []
    assert hi.read_table(metastore, "web.t")["id"].to_pylist() == [1]
