"""What may happen to a bucket while a transaction is under way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.storage.s3.options import S3Options
from hive_ingest.storage.s3.store import S3Store
from tests.services.s3 import S3Service
from tests.services.s3_faults import S3Fault
from tests.storage.objects import LARGE, bucket_of, content, put, stage
from tests.support.rows import ids

ATTEMPTS = 2


@pytest.fixture
def s3(s3: S3Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Service:
    """Each request is made twice at most."""
    site = (s3.folder / "core-site.xml").read_text()
    more = f"<property><name>fs.s3a.attempts.maximum</name><value>{ATTEMPTS}</value></property></configuration>"
    (tmp_path / "core-site.xml").write_text(site.replace("</configuration>", more))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return s3


@pytest.fixture
def ms(s3_root: Location, tmp_path: Path) -> Iterator[hi.MetastoreClient]:
    with hi.connect_metastore(f"sqlite:///{tmp_path}/metastore.db", warehouse=str(s3_root), create=True) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "bigint"}, partition_keys={"p": "string"})
        yield client


def rows(*numbers: int) -> str:
    return "\n".join(json.dumps({"id": number, "p": str(number)}) for number in numbers)


def leftovers(s3: S3Service, root: Location) -> list[str]:
    """Files of ACID folders and hidden ones."""
    return [key for key in s3.keys(bucket_of(root)) if "/delta_" in key or "/.hive_ingest/1" in key]


def test_credentials_that_expire_are_read_again(s3: S3Service, s3_root: Location) -> None:
    """Whoever renews them in a file need not restart the process."""
    read = []

    def options() -> S3Options:
        read.append(1)
        return S3Options.of_bucket(bucket_of(s3_root))

    root = Location(S3Store(bucket_of(s3_root), options), s3_root.path, str(s3_root))
    put(root / "a")
    s3.set_faults(S3Fault("PutObject", code="ExpiredToken", status=400))
    with pytest.raises(StreamingIOFailure, match="the credentials have expired"):
        put(root / "b")
    put(root / "b")
    assert len(read) == 2
    assert [entry.name for entry in root.list()] == ["a", "b"]


def test_a_transaction_whose_credentials_expire_is_written_again(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    with hi.StreamingConnection.connect(ms, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        connection.begin_transaction()
        connection.write(rows(1, 2))
        # also what is to be removed then cannot be
        expired = [S3Fault(each, code="ExpiredToken", status=400, times=99) for each in ("PutObject", "DeleteObjects")]
        s3.set_faults(*expired)
        with pytest.raises(StreamingIOFailure, match="the credentials have expired"):
            connection.commit_transaction()
        connection.abort_transaction()
        s3.set_faults()
        connection.begin_transaction()
        connection.write(rows(3))
        connection.commit_transaction()
    assert ids(ms, "web.t") == [3]


def test_an_error_within_an_answer_of_success_is_an_error(s3: S3Service, s3_root: Location) -> None:
    """S3 begins to answer CompleteMultipartUpload before it is done."""
    fault = S3Fault("CompleteMultipartUpload", code="InternalError", status=200, times=1)
    stage(s3_root / ".a", s3_root / "a", LARGE)
    s3.set_faults(fault)
    (s3_root / ".a").rename(s3_root / "a")
    assert content(s3_root / "a") == LARGE


def test_a_bucket_with_versions_is_written_like_any_other(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    s3.client().put_bucket_versioning(Bucket=bucket_of(s3_root), VersioningConfiguration={"Status": "Enabled"})
    with hi.StreamingConnection.connect(ms, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        for numbers in ((1, 2), (2, 3)):
            with connection.transaction():
                connection.write(rows(*numbers))
        connection.begin_transaction()
        connection.write(rows(4))
        s3.set_faults(S3Fault("PutObject", code="AccessDenied", status=403, key="bucket_00000"))
        with pytest.raises(StreamingIOFailure, match="permission denied"):
            connection.commit_transaction()
        connection.abort_transaction()
    assert ids(ms, "web.t") == [1, 2, 2, 3]
    assert not [key for key in leftovers(s3, s3_root) if "p=4" in key]
    folder = s3_root / "folder"
    folder.make_folder()
    for data in (b"1", b"2"):  # a name that was removed is free
        stage(s3_root / ".a", folder / "a", data)
        (s3_root / ".a").rename(folder / "a")
        assert content(folder / "a") == data
        (folder / "a").delete_file()
    folder.delete_folder()
    assert not folder.exists()


def test_an_upload_that_a_lifecycle_rule_removes_fails_the_commit_of_the_process_that_wrote_it(
    s3: S3Service, s3_root: Location
) -> None:
    """Its service forgets the upload; that of the tests fails then."""
    hidden, target = s3_root / ".hidden", s3_root / "a"
    stage(hidden, target, LARGE)
    s3.set_faults(S3Fault("CompleteMultipartUpload", code="NoSuchUpload", status=404))
    with pytest.raises(StreamingIOFailure, match="write the transaction again"):
        hidden.rename(target)
    hidden.delete_file()
    assert s3_root.list() == []


def test_a_folder_whose_making_is_never_answered_is_not_left(s3: S3Service, s3_root: Location) -> None:
    """Its file may be there all the same."""
    s3.set_faults(S3Fault("PutObject", "lose answer", times=ATTEMPTS))
    with pytest.raises(StreamingIOFailure, match="whose answer was lost may have taken effect"):
        s3_root.store.make_folder_with(f"{s3_root.path}/delta_1_1", "_orc_acid_version", b"2")
    assert not [key for key in s3.keys(bucket_of(s3_root)) if "delta_1_1" in key]


@pytest.mark.parametrize("kind", ["answer", "lose request", "lose answer"])
@pytest.mark.parametrize(
    ("operation", "key"),
    [("PutObject", "_orc_acid_version"), ("ListObjectsV2", ""), ("PutObject", "bucket_00000"), ("DeleteObjects", "")],
)
def test_each_request_of_a_commit_may_be_refused_or_lost_for_good(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location, kind: str, operation: str, key: str
) -> None:
    """As when the service limits the rate, or goes away: the transaction is there as a whole or not at all."""
    with hi.StreamingConnection.connect(ms, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        with connection.transaction():
            connection.write(rows(1, 2))
        connection.begin_transaction()
        connection.write(rows(1, 2))
        s3.set_faults(S3Fault(operation, kind, code="SlowDown", status=503, times=ATTEMPTS, key=key))
        try:
            connection.commit_transaction()
        except StreamingIOFailure:
            connection.abort_transaction()
            s3.set_faults()
            connection.begin_transaction()
            connection.write(rows(1, 2))
            connection.commit_transaction()
        s3.set_faults()
    assert ids(ms, "web.t") == [1, 1, 2, 2]
    assert len({key.partition("/delta_")[2].partition("/")[0] for key in leftovers(s3, s3_root)}) == 2
