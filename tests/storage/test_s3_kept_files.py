"""Files on S3 that this process publishes itself: they stay in memory until then, and take one request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.storage.s3.options import S3Options
from hive_ingest.storage.s3.store import S3Store
from tests.services.s3 import S3Service
from tests.services.s3_faults import S3Fault
from tests.storage.objects import LARGE, MIB, bucket_of, content, key_of, put


def keep(hidden: Location, target: Location, data: bytes = b"rows") -> None:
    """Write a file that this process renames later."""
    hidden.announce_rename(target, here=True)
    put(hidden, data)


@pytest.fixture(params=[b"", b"rows", LARGE, b"x" * 9 * MIB], ids=["empty", "small", "of one part", "of two parts"])
def data(request: pytest.FixtureRequest) -> bytes:
    """Of a file; the largest one is an upload."""
    return bytes(request.param)


def test_a_file_that_stays_in_memory_takes_one_request(s3: S3Service, s3_root: Location) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "bucket_00000"
    s3.set_faults()
    keep(hidden, target, LARGE)
    assert s3.requests() == {}
    assert hidden.store.file_size(hidden.path) == len(LARGE)
    assert content(hidden) == LARGE
    hidden.publish(target)
    hidden.store.remove_old_names([hidden.path])
    hidden.delete_file()
    assert s3.requests() == {"PutObject": 1}
    assert content(target) == LARGE
    assert [entry.name for entry in s3_root.list()] == ["bucket_00000"]


def test_nothing_is_seen_of_a_file_before_it_is_published(s3: S3Service, s3_root: Location, data: bytes) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "a"
    keep(hidden, target, data)
    assert key_of(target) not in s3.keys(bucket_of(s3_root))
    hidden.rename(target)
    assert content(target) == data
    assert [entry.name for entry in s3_root.list()] == ["a"]


def test_a_file_that_is_given_up_leaves_nothing(s3: S3Service, s3_root: Location, data: bytes) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "a"
    keep(hidden, target, data)
    hidden.delete_file()
    assert s3_root.list() == []
    assert s3.uploads(bucket_of(s3_root)) == []
    with pytest.raises(PathNotFound):
        hidden.rename(target)


def test_a_file_whose_publishing_failed_can_be_published_again(s3: S3Service, s3_root: Location) -> None:
    hidden, target = s3_root / ".hidden", s3_root / "a"
    keep(hidden, target)
    s3.set_faults(S3Fault("PutObject", code="AccessDenied", status=403))
    with pytest.raises(StreamingIOFailure, match="permission denied"):
        hidden.publish(target)
    assert not target.exists()
    hidden.publish(target)
    assert content(target) == b"rows"


def test_a_file_of_another_writer_is_never_replaced(s3_root: Location, data: bytes) -> None:
    put(s3_root / "a", b"theirs")
    keep(s3_root / ".hidden", s3_root / "a", data)
    with pytest.raises(PathExists):
        (s3_root / ".hidden").rename(s3_root / "a")
    (s3_root / ".hidden").delete_file()
    assert content(s3_root / "a") == b"theirs"


@pytest.mark.parametrize("kind", ["lose request", "lose answer"])
def test_an_answer_that_is_lost_neither_loses_nor_duplicates_a_file(
    s3: S3Service, s3_root: Location, kind: str
) -> None:
    keep(s3_root / ".hidden", s3_root / "a")
    s3.set_faults(S3Fault("PutObject", kind))
    (s3_root / ".hidden").rename(s3_root / "a")
    assert content(s3_root / "a") == b"rows"
    assert [entry.name for entry in s3_root.list()] == ["a"]


def test_files_for_which_there_is_no_room_are_brought_to_the_store(
    s3: S3Service, s3_root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded, whatever the number of partitions, and given back by files that are published or given up."""
    monkeypatch.setattr("hive_ingest.storage.objects.staged.KEPT_BYTES", 10)
    for name in "abcd":
        keep(s3_root / f".{name}", s3_root / name)
    hidden = [key for key in s3.keys(bucket_of(s3_root)) if key.rpartition("/")[2].startswith(".")]
    assert [key[-2:] for key in hidden] == [".c", ".d"]
    (s3_root / ".a").rename(s3_root / "a")
    (s3_root / ".b").delete_file()
    (s3_root / ".c").rename(s3_root / "c")
    (s3_root / ".d").rename(s3_root / "d")
    s3.set_faults()
    keep(s3_root / ".e", s3_root / "e")
    keep(s3_root / ".f", s3_root / "f")
    assert s3.requests() == {}
    for name in "ef":
        (s3_root / f".{name}").rename(s3_root / name)
    assert [entry.name for entry in s3_root.list()] == ["a", "c", "d", "e", "f"]


def test_files_that_are_given_up_leave_no_memory_taken_when_the_store_refuses(
    ms: hi.MetastoreClient, s3: S3Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_ingest.storage.objects.staged.KEPT_BYTES", 1000)
    table = Location.of(ms.get_table("web.t").location)
    with hi.StreamingConnection.connect(ms, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        connection.begin_transaction()
        connection.write("\n".join(json.dumps({"id": number, "p": str(number)}) for number in range(10)))
        connection.flush()
        s3.set_faults(S3Fault("HeadObject", code="403", status=403), S3Fault("DeleteObject", code="403", status=403))
        connection.abort_transaction()
        s3.set_faults()
    keep(table / ".hidden", table / "a", b"x" * 1000)
    assert s3.requests().get("PutObject") is None


def test_options_that_are_read_again_do_not_change_a_file_under_way(s3: S3Service, s3_root: Location) -> None:
    """Credentials and the size of parts may come from one file, of which both were changed."""
    sizes = [8 * MIB, 5 * MIB]

    def options() -> S3Options:
        found = S3Options.of_bucket(bucket_of(s3_root))
        return replace(found, part_bytes=sizes.pop(0))

    root = Location(S3Store(bucket_of(s3_root), options), s3_root.path, str(s3_root))
    with (root / "a").create(sync=True) as out:
        out.write(b"x" * 7 * MIB)
        s3.set_faults(S3Fault("PutObject", code="ExpiredToken", status=400))
        with pytest.raises(StreamingIOFailure, match="the credentials have expired"):
            put(root / "b")
        out.write(b"y" * 7 * MIB)
    assert sizes == []
    assert content(root / "a") == b"x" * 7 * MIB + b"y" * 7 * MIB


def test_a_part_that_was_not_uploaded_never_leaves_a_file_without_it(s3: S3Service, s3_root: Location) -> None:
    """Whoever closes the file after an error gets the error again."""
    target = s3_root / "a"
    out = target.create(sync=True)
    s3.set_faults(S3Fault("UploadPart", code="AccessDenied", status=403))
    with pytest.raises(StreamingIOFailure, match="permission denied"):
        out.write(b"x" * 17 * MIB)
    with pytest.raises(StreamingIOFailure, match="permission denied"):
        out.close()
    assert s3_root.list() == []
    assert s3.uploads(bucket_of(s3_root)) == []


# -- transactions ----------------------------------------------------------------------------------------


@pytest.fixture
def ms(s3_root: Location, tmp_path: Path) -> Iterator[hi.MetastoreClient]:
    with hi.connect_metastore(f"sqlite:///{tmp_path}/metastore.db", warehouse=str(s3_root), create=True) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "bigint"}, partition_keys={"p": "string"})
        yield client


def test_an_aborted_transaction_makes_no_request_for_its_files(ms: hi.MetastoreClient, s3: S3Service) -> None:
    with hi.StreamingConnection.connect(ms, table="web.t", record_writer=hi.StrictJsonWriter()) as connection:
        connection.begin_transaction()
        connection.write("\n".join(json.dumps({"id": number, "p": str(number)}) for number in range(3)))
        connection.flush()
        s3.set_faults()
        connection.abort_transaction()
        assert s3.requests() == {}
