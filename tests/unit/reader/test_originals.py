"""Rows of files without the ACID columns have the ROW__IDs that Hive gives them, before and after a compaction."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.errors import CorruptFile
from tests.unit.compaction.folders import Folder, Row

BUCKET = encode_bucket(0)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "t").mkdir()
    return Folder(tmp_path / "t")


def put(folder: Folder, name: str, *ids: int, **options: int) -> None:
    """An ORC file as Hive writes it into a table that is not transactional."""
    path = folder.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"id": pa.array(ids, pa.int32()), "text": pa.array([f"row {i}" for i in ids], pa.string())}
    orc.write_table(pa.table(rows), str(path), **options)


def row(number: int, row_id: int, *, bucket: int = 0, write_id: int = 0, statement: int = 0) -> Row:
    return (write_id, encode_bucket(bucket, statement), row_id), (number, f"row {number}")


def test_row_ids_are_positions_in_the_files_of_a_bucket(folder: Folder) -> None:
    put(folder, "000000_0", 10, 11, 12)
    put(folder, "000001_0", 20, 21)
    put(folder, "000000_0_copy_1", 13)
    put(folder, "000000_0_copy_2", 14, 15)
    assert folder.rows() == [
        *(row(number, at) for at, number in enumerate(range(10, 16))),
        row(20, 0, bucket=1),
        row(21, 1, bucket=1),
    ]


def test_copies_are_numbered_in_the_order_of_their_names_as_text(folder: Folder) -> None:
    """As Hive sorts paths: the tenth copy comes before the second one."""
    put(folder, "000000_0", 0)
    for copy, number in ((1, 1), (10, 2), (2, 3)):
        put(folder, f"000000_0_copy_{copy}", number)
    assert folder.rows() == [row(number, number) for number in range(4)]


def test_files_of_a_union_lie_in_folders_of_their_own(folder: Folder) -> None:
    put(folder, "HIVE_UNION_SUBDIR_2/000000_0", 3)
    put(folder, "HIVE_UNION_SUBDIR_1/000000_0", 1, 2)
    put(folder, "HIVE_UNION_SUBDIR_1/.staging/000000_0", 99)
    put(folder, "000000_0", 0)
    assert folder.rows() == [row(number, number) for number in range(4)]


def test_row_ids_go_on_from_stripe_to_stripe(folder: Folder) -> None:
    put(folder, "000000_0", *range(60_000), stripe_size=64 << 10)
    assert orc.ORCFile(str(folder.path / "000000_0")).nstripes > 3
    assert folder.rows() == [row(number, number) for number in range(60_000)]


def test_loaded_files_have_the_write_id_and_statement_of_their_folder(folder: Folder) -> None:
    folder.high_water_mark = 4
    put(folder, "base_0000002/000000_0", 1, 2)
    put(folder, "delta_0000003_0000003_0001/000000_0", 3)
    put(folder, "delta_0000003_0000003_0001/000000_0_copy_1", 4)
    folder.insert(4, [(5, "row 5")])
    assert folder.rows() == [
        row(1, 0, write_id=2),
        row(2, 1, write_id=2),
        row(3, 0, write_id=3, statement=1),
        row(4, 1, write_id=3, statement=1),
        row(5, 0, write_id=4),
    ]


def test_a_loaded_file_of_an_open_transaction_is_not_read(folder: Folder) -> None:
    folder.high_water_mark = 1
    put(folder, "delta_0000002_0000002_0000/000000_0", 1)
    assert folder.rows() == []


def test_delete_events_hit_original_rows(folder: Folder) -> None:
    put(folder, "000000_0", 0, 1)
    put(folder, "000000_0_copy_1", 2, 3)
    folder.delete(1, [(0, BUCKET, 1), (0, BUCKET, 2)])
    assert folder.rows() == [row(0, 0), row(3, 3)]


@pytest.mark.parametrize("stripe_bytes", [64 << 20, 1000])
def test_a_major_compaction_writes_the_row_ids_down(folder: Folder, stripe_bytes: int) -> None:
    put(folder, "000000_0", *range(20_000), stripe_size=64 << 10)
    put(folder, "000000_0_copy_1", *range(20_000, 20_010))
    put(folder, "000001_0", 50_000)
    folder.insert(1, [(60_000, "row 60000")])
    folder.delete(2, [(0, BUCKET, 7), (0, BUCKET, 20_001)])
    before = folder.rows()
    result = folder.compact("major", stripe_bytes=stripe_bytes)
    assert result is not None
    assert result.folders == ("base_0000002_v0000900",)
    assert folder.rows() == before
    assert len(before) == 20_010


def test_original_files_alone_are_compacted_into_a_base_before_all_write_ids(folder: Folder) -> None:
    put(folder, "000000_0", 1, 2)
    before = folder.rows()
    result = folder.compact("major")
    assert result is not None
    assert result.folders == ("base_-9223372036854775808_v0000900",)
    assert folder.rows() == before
    folder.insert(1, [(3, "row 3")])
    assert [numbers for _, numbers in folder.rows()] == [(1, "row 1"), (2, "row 2"), (3, "row 3")]


def test_a_minor_compaction_leaves_original_files_alone(folder: Folder) -> None:
    put(folder, "000000_0", 1, 2)
    assert folder.plan("minor") is None
    folder.insert(1, [(3, "row 3")])
    folder.insert(2, [(4, "row 4")])
    before = folder.rows()
    result = folder.compact("minor")
    assert result is not None
    assert [(file.folder_name, file.rows) for file in result.files] == [("delta_0000001_0000002_v0000900", 2)]
    assert folder.rows() == before


def test_columns_are_those_of_the_table_as_in_acid_files(folder: Folder) -> None:
    """Hive 1 named columns by position, and a column added since then is null."""
    path = folder.path / "000000_0"
    orc.write_table(pa.table({"_col0": pa.array([1], pa.int16()), "_col1": ["row 1"]}), str(path))
    folder.columns = {"id": "int", "text": "string", "more": "double"}
    assert folder.rows() == [((0, BUCKET, 0), (1, "row 1", None))]
    folder.compact("major")
    assert folder.rows() == [((0, BUCKET, 0), (1, "row 1", None))]


def test_an_acid_file_with_the_name_of_an_original_is_refused(folder: Folder) -> None:
    path = folder.insert(1, [(1, "row 1")])
    path.rename(folder.path / "000000_0")
    with pytest.raises(CorruptFile, match=r"000000_0.*has the ACID columns"):
        folder.rows()


def test_a_damaged_original_is_named(folder: Folder) -> None:
    put(folder, "000000_0", *range(1000))
    path = folder.path / "000000_0"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CorruptFile, match="000000_0"):
        folder.rows()
