"""DROP on S3, which cannot rename a folder: files are removed where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.metastore_client.embedded.folder_tasks import FolderTasks
from hive_ingest.metastore_client.embedded.sessions import Row
from hive_ingest.model import TableName
from hive_ingest.storage import Location
from hive_ingest.storage.s3.store import S3Store
from tests.services.s3 import S3Service
from tests.services.s3_faults import S3Fault
from tests.storage.objects import LARGE
from tests.support.rows import ids


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def ms(uri: str, s3_root: Location) -> Iterator[hi.MetastoreClient]:
    with hi.connect_metastore(uri, warehouse=str(s3_root / "warehouse"), create=True) as client:
        client.create_database("web")
        create(client)
        yield client


def create(client: hi.MetastoreClient) -> None:
    client.create_table("web.t", columns={"id": "int"}, partition_keys={"part": "string"})


def append(client: hi.MetastoreClient, *numbers: int) -> None:
    parts = ["a" if number % 2 else "b" for number in numbers]
    hi.append(client, "web.t", pa.table({"id": pa.array(numbers, pa.int32()), "part": parts}))


def keys(s3: S3Service, root: Location, part: str) -> list[str]:
    bucket = str(root).removeprefix("s3a://").partition("/")[0]
    return [key for key in s3.keys(bucket) if part in key]


def housekeeping(client: hi.MetastoreClient) -> None:
    assert isinstance(client, EmbeddedMetastoreClient)
    client.run_housekeeping()


def drop_table(client: hi.MetastoreClient) -> None:
    client.drop_table("web.t")


def drop_partition(client: hi.MetastoreClient) -> None:
    client.drop_partition("web.t", ["a"])


def drop_database(client: hi.MetastoreClient) -> None:
    client.drop_database("web", cascade=True)


Drop = Callable[[hi.MetastoreClient], None]
drops = pytest.mark.parametrize(
    ("drop", "gone"), [(drop_table, "web.db/t/"), (drop_partition, "part=a/"), (drop_database, "web.db/")]
)


@drops
def test_a_drop_removes_all_files_and_nothing_else(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location, drop: Drop, gone: str
) -> None:
    append(ms, 1, 2, 3)
    ms.create_table("default.other", columns={"id": "int"})
    before = set(keys(s3, s3_root, ""))
    assert keys(s3, s3_root, gone)
    drop(ms)
    left = set(keys(s3, s3_root, ""))
    assert {key for key in before if gone not in key} <= left
    assert [key for key in left - before if not key.endswith("web.db/")] == [], "the marker of an emptied folder"
    assert not any(gone in key for key in left if not key.endswith("web.db/"))


def test_a_folder_next_to_it_whose_name_begins_with_its_own_stays(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    ms.create_table("web.t2", columns={"id": "int"})
    hi.append(ms, "web.t2", pa.table({"id": pa.array([7], pa.int32())}))
    drop_table(ms)
    assert ids(ms, "web.t2") == [7]


@pytest.mark.parametrize("drop", [drop_table, drop_partition])
def test_rows_dropped_by_a_killed_process_do_not_come_back(
    ms: hi.MetastoreClient, uri: str, s3: S3Service, s3_root: Location, monkeypatch: pytest.MonkeyPatch, drop: Drop
) -> None:
    append(ms, 1, 3)

    def die(self: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(FolderTasks, "finish", die)
        with pytest.raises(Killed):
            drop(ms)
    assert keys(s3, s3_root, "part=a/delta_")
    with hi.connect_metastore(uri) as other:
        if drop is drop_table:
            create(other)
        else:
            other.add_partitions("web.t", [["a"]])
        assert ids(other, "web.t") == []
        append(other, 5)
        housekeeping(other)
        assert ids(other, "web.t") == [5]


def test_a_removal_takes_no_files_of_a_table_that_was_created_in_its_place(
    ms: hi.MetastoreClient, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes the removal, in several steps, and creates the table, before this one continues."""
    append(ms, 1, 2, 3)
    monkeypatch.setattr("hive_ingest.storage.s3.store._DELETE_AT_ONCE", 2)
    remove, delete_some, steps = FolderTasks._do, S3Store.delete_some, []

    def count(self: S3Store, path: str) -> bool:
        steps.append(path)
        return delete_some(self, path)

    with hi.connect_metastore(uri) as other:

        def overtaken(self: FolderTasks, task: Row) -> None:
            monkeypatch.setattr(FolderTasks, "_do", remove)
            create(other)
            append(other, 9)
            remove(self, task)

        monkeypatch.setattr(FolderTasks, "_do", overtaken)
        monkeypatch.setattr(S3Store, "delete_some", count)
        drop_table(ms)
    assert len(steps) > 2
    assert ids(ms, "web.t") == [9]


def test_a_drop_that_cannot_remove_its_files_succeeds_and_the_next_process_removes_them(
    ms: hi.MetastoreClient, uri: str, s3: S3Service, s3_root: Location, caplog: pytest.LogCaptureFixture
) -> None:
    append(ms, 1)
    s3.set_faults(S3Fault("DeleteObjects", code="AccessDenied", status=403))
    drop_table(ms)
    assert "is still to be moved or removed" in caplog.text
    assert "permission denied" in caplog.text
    assert keys(s3, s3_root, "web.db/t/")
    with hi.connect_metastore(uri) as other:
        housekeeping(other)
    assert keys(s3, s3_root, "web.db/t/") == []


def test_a_removal_forgets_no_aborted_write_of_a_table_that_took_the_name_meanwhile(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    append(ms, 1)
    append(ms, 3)
    other = ms.create_table("web.other", columns={"id": "int"}, location=str(s3_root / "elsewhere"))
    with hi.StreamingConnection.connect(ms, table="web.other", record_writer=hi.ArrowWriter()) as connection:
        connection.begin_transaction()
        txn_id = connection.txn_id
        connection.write(pa.table({"id": pa.array([5], pa.int32())}))
        connection.abort_transaction()
    s3.set_faults(S3Fault("DeleteObjects", code="AccessDenied", status=403))
    drop_table(ms)
    ms.alter_table("web.other", replace(other, name=TableName("web", "t")))
    assert isinstance(ms, EmbeddedMetastoreClient)
    ms.clock_offset_seconds = 100_000
    ms.run_housekeeping()
    assert txn_id in ms.get_valid_txns().aborted


def test_the_upload_of_a_writer_that_the_drop_aborts_is_removed(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    bucket = str(s3_root).removeprefix("s3a://").partition("/")[0]
    table = Location.of(ms.get_table("web.t").location)
    hidden, target = table / ".hidden", table / "part=a" / "bucket_00000"
    hidden.announce_rename(target)
    with hidden.create(sync=True) as out:
        out.write(LARGE)
    assert s3.uploads(bucket)
    drop_table(ms)
    assert s3.uploads(bucket) == []
    assert keys(s3, s3_root, "web.db/t/") == []
