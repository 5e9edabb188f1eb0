"""The markers of folders on S3: s3a before Hadoop 3.3.1 takes a folder that has one for an empty folder.

Hive 3.1.3's cleaner and its DROP then removed the marker and left the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import PathExists, StreamingIOFailure
from hive_ingest.storage import Location
from tests.services.s3 import S3Service
from tests.services.s3_faults import S3Fault
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
    bucket = str(root).removeprefix("s3a://").partition("/")[0]
    return [key for key in s3.keys(bucket) if key.endswith("/") and ".hive_ingest" not in key]


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
    with (delta / "bucket_00000").create(sync=True) as out:
        out.write(b"rows")
    delta.store.sync_folders([delta.path])
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
