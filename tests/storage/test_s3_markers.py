"""The markers of folders on S3: s3a before Hadoop 3.3.1 takes a folder that has one for an empty folder.

Hive 3.1.3's cleaner and its DROP then removed the marker and left the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.compaction import Cleaner
from hive_ingest.errors import PathExists, StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.storage.s3.options import S3Options
from hive_ingest.storage.s3.store import S3Store
from tests.services.s3 import S3Service
from tests.services.s3_faults import S3Fault
from tests.storage.objects import bucket_of, put
from tests.support.compactions import NO_GRACE
from tests.support.rows import ids


@pytest.fixture
def ms(tmp_path: Path, s3_root: Location) -> Iterator[hi.MetastoreClient]:
    with hi.connect_metastore(
        f"sqlite:///{tmp_path}/metastore.db", warehouse=str(s3_root / "warehouse"), create=True
    ) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int"}, partition_keys={"part": "string"})
        yield client


def append(client: hi.MetastoreClient, *numbers: int) -> None:
    hi.append(client, "web.t", pa.table({"id": pa.array(numbers, pa.int32()), "part": [str(n) for n in numbers]}))


def markers(s3: S3Service, root: Location) -> list[str]:
    """Of folders in the warehouse, but for the hidden one."""
    return [key for key in s3.keys(bucket_of(root)) if key.endswith("/") and ".hive_ingest" not in key]


def test_no_folder_with_rows_in_it_keeps_its_marker(ms: hi.MetastoreClient, s3: S3Service, s3_root: Location) -> None:
    ms.add_partitions("web.t", [["1"], ["2"], ["3"]])
    append(ms, 1, 2)
    append(ms, 1)
    assert [key.rpartition("warehouse/")[2] for key in markers(s3, s3_root)] == ["web.db/t/part=3/"]
    assert ids(ms, "web.t") == [1, 1, 2]


def test_a_partition_whose_rows_are_withdrawn_is_still_there(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    append(ms, 1)
    partition = Location.of(ms.list_partitions("web.t")[0].location)
    for entry in partition.list():
        (partition / entry.name).delete_folder()
    assert partition.list() == []
    assert markers(s3, s3_root)[-1].endswith("part=1/")
    append(ms, 1)
    assert ids(ms, "web.t") == [1]


def test_a_folder_that_has_files_and_no_marker_is_not_made_again(s3: S3Service, s3_root: Location) -> None:
    delta = s3_root / "delta_1_1"
    delta.make_folder(exist_ok=False)
    put(delta / "bucket_00000")
    delta.store.unmark_folders([delta.path])
    assert markers(s3, s3_root) == []
    with pytest.raises(PathExists, match="exists already"):
        delta.make_folder(exist_ok=False)
    assert markers(s3, s3_root) == []
    assert delta.make_folder() == []


def test_a_folder_whose_making_failed_halfway_can_be_made_again(s3: S3Service, s3_root: Location) -> None:
    delta = s3_root / "delta_1_1"
    delta.parent.list()
    s3.set_faults(S3Fault("ListObjectsV2", code="AccessDenied", status=403))
    with pytest.raises(StreamingIOFailure, match="permission denied"):
        delta.make_folder(exist_ok=False, parents=False)
    s3.set_faults()
    assert delta.make_folder(exist_ok=False, parents=False) == [delta.path]


def test_a_marker_that_may_not_be_removed_does_not_fail_the_commit(ms: hi.MetastoreClient, s3: S3Service) -> None:
    s3.set_faults(S3Fault("DeleteObjects", code="AccessDenied", status=403))
    append(ms, 1)
    s3.set_faults()
    assert ids(ms, "web.t") == [1]


def test_a_partition_never_vanishes_while_its_last_files_are_removed(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    """Its marker is made first: otherwise a crash would leave a partition whose folder is missing."""
    append(ms, 1)
    partition = Location.of(ms.list_partitions("web.t")[0].location)
    (delta,) = [partition / entry.name for entry in partition.list()]
    s3.set_faults(S3Fault("PutObject", code="AccessDenied", status=403))
    with pytest.raises(StreamingIOFailure, match="permission denied"):
        delta.delete_folder()
    s3.set_faults()
    assert ids(ms, "web.t") == [1]
    delta.delete_folder()
    assert partition.list() == []


def test_a_marker_that_another_process_has_made_is_removed_with_the_next_rows(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location
) -> None:
    """Its cleaner emptied a partition that this process remembers as one with files in it."""
    append(ms, 1)
    partition = Location.of(ms.list_partitions("web.t")[0].location)
    cleaner = S3Store(bucket_of(s3_root))
    for entry in partition.list():
        cleaner.delete_folder(entry.path)
    assert markers(s3, s3_root)[-1].endswith("part=1/")
    append(ms, 1)
    assert markers(s3, s3_root) == []
    assert ids(ms, "web.t") == [1]


def test_a_partition_that_a_cleaner_has_emptied_is_still_there(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its rows were of an aborted transaction, which is forgotten with them."""
    ms.add_partitions("web.t", [["1"]])
    partition = Location.of(ms.list_partitions("web.t")[0].location)
    with (
        monkeypatch.context() as patch,
        hi.StreamingConnection.connect(ms, table="web.t", record_writer=hi.StrictJsonWriter()) as connection,
    ):
        patch.setattr(S3Store, "delete_folder", lambda *_: None)  # as if it was killed
        connection.begin_transaction()
        connection.write('{"id": 1, "part": "1"}')
        s3.set_faults(S3Fault("PutObject", code="AccessDenied", status=403, key="bucket_00000"))
        with pytest.raises(StreamingIOFailure):
            connection.commit_transaction()
    assert len(partition.list()) == 1
    Cleaner(ms, NO_GRACE).run_once()
    assert partition.list() == []
    assert markers(s3, s3_root)[-1].endswith("part=1/")
    assert ids(ms, "web.t") == []


def test_a_folder_that_gets_files_while_it_is_emptied_keeps_no_marker(
    s3: S3Service, s3_root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer publishes after the cleaner has found nothing else in the folder, and before it makes the marker."""
    partition = s3_root / "part=1"
    partition.make_folder()
    partition.store.make_folder_with((partition / "delta_1_1").path, "bucket_00000", b"rows")
    partition.store.unmark_folders([partition.path])
    mark = S3Store._mark

    def publish_first(store: S3Store, path: str) -> None:
        partition.store.make_folder_with((partition / "delta_2_2").path, "bucket_00000", b"rows")
        partition.store.unmark_folders([partition.path])
        mark(store, path)

    monkeypatch.setattr(S3Store, "_mark", publish_first)
    S3Store(bucket_of(s3_root)).delete_folder((partition / "delta_1_1").path)
    assert [entry.name for entry in partition.list()] == ["delta_2_2"]
    assert markers(s3, s3_root) == []


def test_a_folder_whose_marker_is_removed_while_it_is_emptied_is_still_there(
    s3: S3Service, s3_root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer published meanwhile, and withdrew its files."""
    partition = s3_root / "part=1"
    partition.make_folder()
    partition.store.make_folder_with((partition / "delta_1_1").path, "bucket_00000", b"rows")
    delete = S3Store._delete_keys

    def unmark_first(store: S3Store, path: str, keys: Sequence[str]) -> None:
        partition.store.unmark_folders([partition.path])
        delete(store, path, keys)

    monkeypatch.setattr(S3Store, "_delete_keys", unmark_first)
    S3Store(bucket_of(s3_root)).delete_folder((partition / "delta_1_1").path)
    assert partition.list() == []
    assert markers(s3, s3_root)[-1].endswith("part=1/")


def test_markers_stay_where_hadoop_keeps_them(
    ms: hi.MetastoreClient, s3: S3Service, s3_root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket with versions, each removal would leave an object that says so."""
    kept = S3Options.of_properties({"fs.s3a.directory.marker.retention": "keep"}, "bucket").keep_markers
    monkeypatch.setattr(S3Store, "_keeps_markers", kept)
    ms.add_partitions("web.t", [["1"]])
    s3.set_faults()
    append(ms, 1)
    assert [key for key in markers(s3, s3_root) if key.endswith("part=1/")]
    assert ids(ms, "web.t") == [1]
