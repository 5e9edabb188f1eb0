"""What the initiator, the worker and `show deltas` know of a folder: which folders count, and how large they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.compaction import FolderSize, FolderState
from hive_ingest.errors import CorruptFile, PathNotFound
from hive_ingest.model import TableName, TxnId, WriteId
from hive_ingest.storage import Location

NO_TXNS = ValidTxnList(TxnId(100))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    return tmp_path / "t"


def put(folder: Path, path: str, size_bytes: int = 10) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size_bytes)


def state_of(
    folder: Path,
    highest: int = 10,
    *,
    open_: tuple[int, ...] = (),
    aborted: tuple[int, ...] = (),
    txns: ValidTxnList = NO_TXNS,
) -> FolderState:
    write_ids = ValidWriteIdList(
        TableName("db", "t"), WriteId(highest), tuple(map(WriteId, open_)), tuple(map(WriteId, aborted))
    )
    return FolderState.read(Location.of(str(folder)), write_ids, txns)


def names(folders: tuple[FolderSize, ...]) -> list[str]:
    return [each.name for each in folders]


def test_an_empty_folder_holds_nothing(folder: Path) -> None:
    state = state_of(folder)
    assert (state.base, state.deltas, state.delete_deltas, state.obsolete, state.aborted) == (None, (), (), (), ())
    assert (state.delta_count, state.delta_bytes, state.base_bytes) == (0, 0, 0)


def test_base_deltas_and_delete_deltas_are_counted_with_all_their_files(folder: Path) -> None:
    put(folder, "base_0000003_v0000007/bucket_00000", 1000)
    put(folder, "base_0000003_v0000007/bucket_00001", 500)
    put(folder, "delta_0000004_0000004_0000/bucket_00000", 100)
    put(folder, "delta_0000005_0000005_0000/bucket_00000", 70)
    put(folder, "delete_delta_0000006_0000006_0000/bucket_00000", 30)
    state = state_of(folder)
    assert state.base == FolderSize("base_0000003_v0000007", (1000, 500))
    assert (state.base.files, state.base.size_bytes) == (2, 1500)
    assert names(state.deltas) == ["delta_0000004_0000004_0000", "delta_0000005_0000005_0000"]
    assert names(state.delete_deltas) == ["delete_delta_0000006_0000006_0000"]
    assert (state.delta_count, state.delta_bytes, state.base_bytes) == (3, 200, 1500)


def test_small_files_are_those_below_the_limit() -> None:
    size = FolderSize("delta_0000001_0000001_0000", (9, 10, 11))
    assert [size.small_files(limit) for limit in (9, 10, 100)] == [0, 1, 3]


def test_hidden_and_empty_files_are_not_counted(folder: Path) -> None:
    delta = "delta_0000001_0000001_0000"
    put(folder, f"{delta}/bucket_00000", 100)
    put(folder, f"{delta}/bucket_00001", 0)
    put(folder, f"{delta}/_orc_acid_version", 1)
    put(folder, f"{delta}/.bucket_00000.crc", 8)
    put(folder, f"{delta}/_tmp/bucket_00002", 1000)
    assert state_of(folder).deltas == (FolderSize(delta, (100,)),)


def test_what_a_writer_stages_is_not_seen(folder: Path) -> None:
    put(folder, ".hive_ingest/17_ab_cd.0.orc", 100)
    put(folder, "_SUCCESS", 1)
    state = state_of(folder)
    assert (state.base_bytes, state.delta_count, state.obsolete) == (0, 0, ())


def test_what_a_base_covers_is_obsolete(folder: Path) -> None:
    put(folder, "base_0000002/bucket_00000", 50)
    put(folder, "delta_0000003_0000003_0000/bucket_00000", 20)
    put(folder, "base_0000004_v0000009/bucket_00000", 60)
    state = state_of(folder)
    assert state.base is not None
    assert state.base.name == "base_0000004_v0000009"
    assert sorted(state.obsolete) == ["base_0000002", "delta_0000003_0000003_0000"]


def test_a_base_of_hive_3_is_recognised_by_the_file_in_it(folder: Path) -> None:
    """As a compactor's, which may not include an open write id; an overwrite's may."""
    put(folder, "base_0000002/_metadata_acid", 10)
    put(folder, "base_0000002/bucket_00000", 50)
    put(folder, "base_0000001/bucket_00000", 40)
    state = state_of(folder, open_=(2,))
    assert state.base == FolderSize("base_0000001", (40,))


def test_folders_of_aborted_writes_are_apart(folder: Path) -> None:
    put(folder, "delta_0000001_0000001_0000/bucket_00000", 10)
    put(folder, "delta_0000002_0000002_0000/bucket_00000", 20)
    put(folder, "base_0000001_v0000101/bucket_00000", 30)
    txns = ValidTxnList(TxnId(110), (), (TxnId(101),))
    state = state_of(folder, aborted=(2,), txns=txns)
    assert (names(state.deltas), state.base) == (["delta_0000001_0000001_0000"], None)
    assert sorted(state.aborted) == ["base_0000001_v0000101", "delta_0000002_0000002_0000"]


def test_open_writes_and_a_compaction_under_way_count_nowhere(folder: Path) -> None:
    put(folder, "delta_0000001_0000001_0000/bucket_00000", 10)
    put(folder, "delta_0000002_0000002_0000/bucket_00000", 20)
    put(folder, "base_0000001_v0000101/bucket_00000", 30)
    state = state_of(folder, open_=(2,), txns=ValidTxnList(TxnId(110), (TxnId(101),)))
    assert names(state.deltas) == ["delta_0000001_0000001_0000"]
    assert (state.base, state.obsolete, state.aborted) == (None, (), ())


def test_without_a_base_original_files_are_the_base(folder: Path) -> None:
    put(folder, "000000_0", 100)
    put(folder, "000001_0", 0)
    put(folder, "HIVE_UNION_SUBDIR_1/000000_0", 40)
    put(folder, "HIVE_UNION_SUBDIR_1/.000000_0.crc", 4)
    put(folder, "delta_0000001_0000001_0000/bucket_00000", 10)
    state = state_of(folder)
    assert (sorted(state.originals.file_bytes), state.base_bytes, state.delta_bytes) == ([40, 100], 140, 10)


def test_a_base_makes_original_files_obsolete(folder: Path) -> None:
    put(folder, "000000_0", 100)
    put(folder, "base_0000001_v0000009/bucket_00000", 60)
    state = state_of(folder)
    assert (state.base_bytes, state.originals.files, state.obsolete) == (60, 0, ("000000_0",))


def test_partitions_below_do_not_belong_to_the_folder_of_another(folder: Path) -> None:
    put(folder, "part=a/delta_0000001_0000001_0000/bucket_00000", 10)
    put(folder, "part=b/delta_0000002_0000002_0000/bucket_00000", 20)
    state = state_of(folder / "part=a")
    assert names(state.deltas) == ["delta_0000001_0000001_0000"]


def test_a_folder_whose_name_ends_with_a_slash_is_the_same(folder: Path) -> None:
    put(folder, "delta_0000001_0000001_0000/bucket_00000", 10)
    write_ids = ValidWriteIdList(TableName("db", "t"), WriteId(1))
    state = FolderState.read(Location.of(f"{folder}/"), write_ids, NO_TXNS)
    assert state.delta_bytes == 10


def test_a_missing_folder_and_a_foreign_name_are_errors(folder: Path) -> None:
    with pytest.raises(PathNotFound):
        state_of(folder / "gone")
    put(folder, "delta_new/bucket_00000")
    with pytest.raises(CorruptFile, match="delta_new"):
        state_of(folder)
