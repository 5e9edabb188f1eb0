"""Tables on HDFS of which snapshots are kept: HDFS removes and renames no folder that has one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.compaction import Cleaner
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState
from hive_ingest.storage import Location
from tests.services.hdfs import Hdfs
from tests.support.compactions import NO_GRACE


@pytest.fixture
def metastore(hdfs_root: Location, tmp_path: Path) -> Iterator[hi.MetastoreClient]:
    """An embedded metastore in a local file, whose warehouse is on HDFS."""
    uri = f"sqlite:///{tmp_path}/metastore.db"
    with hi.connect_metastore(uri, warehouse=str(hdfs_root / "warehouse"), create=True) as client:
        client.create_database("web")
        yield client


def make_table(client: hi.MetastoreClient) -> Location:
    return Location.of(client.create_table("web.t", columns={"id": "int"}).location)


def append(client: hi.MetastoreClient, number: int) -> None:
    hi.append(client, "web.t", pa.table({"id": pa.array([number], pa.int32())}))


def ids(client: hi.MetastoreClient, table: str = "web.t") -> list[int]:
    return sorted(hi.read_table(client, table)["id"].to_pylist())


def test_a_table_with_a_snapshot_is_written_compacted_and_cleaned(hdfs: Hdfs, metastore: hi.MetastoreClient) -> None:
    table = make_table(metastore)
    append(metastore, 1)
    hdfs.make_snapshot(table.path, "before")
    append(metastore, 2)
    hi.compact(metastore, "web.t", kind="major", wait=True)
    [cleaned] = Cleaner(metastore, NO_GRACE).run_once()
    assert (cleaned.state, len(cleaned.removed)) == (CompactionState.SUCCEEDED, 2)
    append(metastore, 3)
    assert ids(metastore) == [1, 2, 3]
    kept = table / ".snapshot" / "before" / "delta_0000001_0000001_0000"
    assert [entry.name for entry in kept.list() if entry.name.startswith("bucket_")] == ["bucket_00000"]
    hdfs.delete_snapshot(table.path, "before")


def test_the_folder_of_a_dropped_table_stays_until_its_snapshot_is_deleted(
    hdfs: Hdfs, metastore: hi.MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_table(metastore)
    append(metastore, 1)
    hdfs.make_snapshot(table.path, "kept")
    metastore.drop_table("web.t")
    assert "is still to be moved or removed" in caplog.text
    assert "delete its snapshots" in caplog.text
    assert table.exists()
    hdfs.delete_snapshot(table.path, "kept")
    assert isinstance(metastore, EmbeddedMetastoreClient)
    metastore.run_housekeeping()
    assert not table.exists()
