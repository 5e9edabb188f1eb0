"""A scan that is planned here and read elsewhere: the same rows, of the same snapshot, or an error."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import ConfigurationError, NoSuchObject, StreamingIOFailure
from hive_ingest.model import TxnState
from hive_ingest.reader import read_table
from hive_ingest.reader.scan_plan import Split, plan_scan

BUCKET_0 = 536870912

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def table(make_table: Any, struct: Any) -> Any:
    """Six rows in three deltas, the second row deleted."""
    found = make_table()
    for first in (1, 3, 5):
        found.insert(found.commit(), struct(id=[first, first + 1], msg=["a", "b"]))
    found.delete(found.commit(), [(1, BUCKET_0, 1)])
    return found


@pytest.fixture
def parts(make_table: Any, struct: Any) -> Any:
    """One row in each of three partitions."""
    found = make_table("web.p", partition_keys={"day": "int"})
    for day in (1, 2, 3):
        found.client.add_partitions("web.p", [[str(day)]])
        found.insert(found.commit(), struct(id=[day * 10], msg=["x"]), partition=f"day={day}")
    return found


def rows(splits: list[Split]) -> list[dict[str, Any]]:
    """Read splits as another process would, after pickling."""
    return [row for split in splits for batch in pickle.loads(pickle.dumps(split)).read() for row in batch.to_pylist()]


@pytest.mark.parametrize("split_bytes", [1, 128 << 20])
def test_all_splits_together_are_the_scan(metastore: Any, table: Any, split_bytes: int) -> None:
    splits = plan_scan(metastore, "web.t", split_bytes=split_bytes, row_ids=True)
    assert rows(splits) == read_table(metastore, "web.t", row_ids=True).to_pylist()
    assert [row["id"] for row in rows(splits)] == [1, 3, 4, 5, 6]
    assert len(splits) == (3 if split_bytes == 1 else 1)


@pytest.mark.parametrize("split_bytes", [1, 128 << 20])
def test_small_partitions_share_a_split(metastore: Any, parts: Any, split_bytes: int) -> None:
    splits = plan_scan(metastore, "web.p", split_bytes=split_bytes)
    assert [(row["id"], row["day"]) for row in rows(splits)] == [(10, 1), (20, 2), (30, 3)]
    assert len(splits) == (3 if split_bytes == 1 else 1)


def test_columns_and_partitions_that_are_not_requested_are_not_read(metastore: Any, parts: Any) -> None:
    where = (pc.field("day") > 1) & (pc.field("id") < 30)
    splits = plan_scan(metastore, "web.p", columns=["id"], filter=where)
    assert [files.partition.name for split in splits for files in split.files] == ["day=2", "day=3"]
    assert rows(splits) == [{"id": 20}]


def test_a_commit_after_the_plan_is_not_in_it(metastore: Any, table: Any, struct: Any) -> None:
    splits = plan_scan(metastore, "web.t")
    table.insert(table.commit(), struct(id=[7], msg=["c"]))
    assert [row["id"] for row in rows(splits)] == [1, 3, 4, 5, 6]


def test_a_table_without_files_has_no_split(metastore: Any, make_table: Any) -> None:
    make_table()
    assert plan_scan(metastore, "web.t") == []


@pytest.mark.parametrize("name", ["delta_0000002_0000002_0000", "delete_delta_0000004_0000004_0000"])
def test_a_file_that_is_gone_is_an_error_and_never_a_missing_row(metastore: Any, table: Any, name: str) -> None:
    (split,) = plan_scan(metastore, "web.t")
    (table.path / name / "bucket_00000").unlink()
    with pytest.raises(StreamingIOFailure, match=rf"{name}/bucket_00000' was in the snapshot .*Read again"):
        pa.Table.from_batches(split.read())


def test_a_plan_leaves_no_transaction_open(metastore: Any, table: Any) -> None:
    plan_scan(metastore, "web.t")
    with pytest.raises(ConfigurationError, match="no column 'nowhere'"):
        plan_scan(metastore, "web.t", columns=["nowhere"])
    with pytest.raises(NoSuchObject):
        plan_scan(metastore, "web.nothing")
    assert [t for t in metastore.get_open_txns_info().transactions if t.state is TxnState.OPEN] == []
