"""Folders chosen for a snapshot as Hive's AcidUtils.getAcidState chooses them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_ingest.acid.directory import ListedEntry, acid_directory
from hive_ingest.acid.names import BaseName, DeleteDeltaName, DeltaName, parse_folder_name
from hive_ingest.acid.write_ids import ValidTxnList, ValidWriteIdList
from hive_ingest.errors import CorruptFile, StreamingIOFailure
from hive_ingest.model import TableName, TxnId, WriteId

TABLE = TableName("web", "alerts")
ALL_TXNS = ValidTxnList(TxnId(10**9))


def snapshot(hwm, open_=(), aborted=()):
    return ValidWriteIdList(TABLE, WriteId(hwm), tuple(open_), tuple(aborted))


def state(folders, write_ids, txns=ALL_TXNS, files=(), **options):
    """`base_5*` stands for a base of Hive 3.1's compactor: with `_metadata_acid` in it."""
    entries = [
        ListedEntry(f.rstrip("*"), True, children=("_metadata_acid",) if f.endswith("*") else ("bucket_00000",))
        for f in folders
    ]
    entries += [ListedEntry(name, False, size) for name, size in files]
    random.Random(len(entries)).shuffle(entries)
    return acid_directory(entries, write_ids, txns, **options)


def names(found):
    return [str(name) for name in found]


def test_the_best_base_and_the_deltas_above_it_are_read():
    found = state(
        [
            "base_0000005*",
            "base_0000010*",
            "base_0000049*",
            "delta_0000025_0000025",
            "delta_0000029_0000029",
            "delta_0000035_0000035",
            "delta_0000050_0000105",
            "delta_0000090_0000120",
        ],
        snapshot(100),
    )
    assert str(found.base) == "base_0000049"
    assert names(found.deltas) == ["delta_0000050_0000105"]
    assert sorted(found.obsolete) == [
        "base_0000005",
        "base_0000010",
        "delta_0000025_0000025",
        "delta_0000029_0000029",
        "delta_0000035_0000035",
    ]


def test_minor_compacted_deltas_make_narrower_ones_obsolete():
    found = state(
        [
            "delta_0000040_0000060",
            "delta_0000060_0000060_0001",
            "delta_0000060_0000060_0004",
            "delta_0000060_0000060_0007",
            "delta_0000052_0000055",
            "delta_0000061_0000061",
            "base_0000050*",
        ],
        snapshot(100),
    )
    assert str(found.base) == "base_0000050"
    assert names(found.deltas) == ["delta_0000040_0000060", "delta_0000061_0000061"]
    assert names(found.obsolete) == [
        "delta_0000052_0000055",
        "delta_0000060_0000060_0001",
        "delta_0000060_0000060_0004",
        "delta_0000060_0000060_0007",
    ]


def test_all_statements_of_a_transaction_are_read_in_order():
    found = state(["delta_0000003_0000003_0004", "delta_0000003_0000003_0001"], snapshot(3))
    assert names(found.deltas) == ["delta_0000003_0000003_0001", "delta_0000003_0000003_0004"]


def test_a_compacted_delta_makes_the_statements_of_its_write_ids_obsolete():
    found = state(
        ["delta_0000003_0000003_v0000009", "delta_0000003_0000003_0000", "delete_delta_0000003_0000003_0001"],
        snapshot(3),
    )
    assert names(found.deltas) == ["delta_0000003_0000003_v0000009"]
    assert found.delete_deltas == ()
    assert names(found.obsolete) == ["delta_0000003_0000003_0000", "delete_delta_0000003_0000003_0001"]


@pytest.mark.parametrize("first", ["delta_0000001_0000003", "delete_delta_0000001_0000003"])
def test_between_the_two_renames_of_a_minor_compaction_of_hive_3_no_row_is_missed(first: str):
    """Readers saw the wide delete delta alone, and took the deltas with all rows for obsolete."""
    before = ["delta_0000001_0000001_0000", "delta_0000003_0000003_0000"]
    events = ["delete_delta_0000002_0000002_0000", "delete_delta_0000003_0000003_0000"]
    found = state([*before, *events, first], snapshot(3))
    is_delete = first.startswith("delete")
    assert names(found.deltas) == (before if is_delete else [first])
    assert names(found.delete_deltas) == ([first] if is_delete else events)


def test_of_two_compactions_of_one_range_the_later_one_is_read():
    first = ["delete_delta_0000001_0000004_v0000012", "delta_0000001_0000004_v0000012"]
    second = ["delete_delta_0000001_0000004_v0000015", "delta_0000001_0000004_v0000015"]
    found = state([*first, *second], snapshot(4))
    assert names([*found.delete_deltas, *found.deltas]) == second
    assert names(found.obsolete) == first


def test_a_delta_and_the_delete_delta_of_the_same_range_are_both_read():
    found = state(
        [
            "delta_0000030_0000050_v0000009",
            "delete_delta_0000030_0000050_v0000009",
            "delete_delta_0000040_0000040_0000",
            "delta_0000030_0000030_0000",
        ],
        snapshot(60),
    )
    assert found.deltas == (DeltaName(WriteId(30), WriteId(50), None, TxnId(9)),)
    assert found.delete_deltas == (DeleteDeltaName(WriteId(30), WriteId(50), None, TxnId(9)),)
    assert sorted(found.obsolete) == ["delete_delta_0000040_0000040_0000", "delta_0000030_0000030_0000"]


def test_an_update_creates_a_delta_and_a_delete_delta_of_one_statement():
    found = state(["delta_0000002_0000002_0000", "delete_delta_0000002_0000002_0000"], snapshot(2))
    assert names(found.deltas) == ["delta_0000002_0000002_0000"]
    assert names(found.delete_deltas) == ["delete_delta_0000002_0000002_0000"]
    assert found.obsolete == ()


def test_a_compacted_range_with_an_open_write_id_is_read_by_its_parts():
    # delta_4_5 is closed, but 4 is open in this snapshot
    found = state(["delta_0000001_0000001", "delta_0000002_0000005"], snapshot(100, open_=[4]))
    assert names(found.deltas) == ["delta_0000001_0000001", "delta_0000002_0000005"]


def test_open_write_ids_are_not_read_and_not_obsolete():
    found = state(
        [
            "delta_0000001_0000001",
            "delta_0000002_0000005",
            "delta_0000004_0000004_0001",
            "delta_0000004_0000004_0003",
            "delta_0000101_0000101_0001",
        ],
        snapshot(100, open_=[4]),
    )
    assert names(found.deltas) == ["delta_0000001_0000001", "delta_0000002_0000005"]
    assert found.obsolete == ()
    assert found.aborted == ()


def test_a_batch_that_is_half_open_is_read_for_its_committed_half():
    found = state(["delta_0000002_0000005"], snapshot(3, open_=[3]))
    assert names(found.deltas) == ["delta_0000002_0000005"]


def test_folders_of_aborted_writes_alone_are_named_for_the_cleaner():
    found = state(
        ["delta_0000001_0000002", "delta_0000003_0000004", "base_0000005", "delete_delta_0000006_0000006_0000"],
        snapshot(6, aborted=[2, 3, 4, 5, 6]),
    )
    assert names(found.deltas) == ["delta_0000001_0000002"]
    assert found.base is None
    assert found.aborted == ("base_0000005", "delete_delta_0000006_0000006_0000", "delta_0000003_0000004")
    assert found.aborted_write_ids == {3, 4, 5, 6}
    assert found.has_uncompacted_aborts


def test_a_compaction_is_seen_only_when_its_own_transaction_is_committed():
    folders = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "base_0000002_v0000020"]
    before = state(folders, snapshot(2), ValidTxnList(TxnId(19)))
    running = state(folders, snapshot(2), ValidTxnList(TxnId(20), open=(TxnId(20),)))
    aborted = state(folders, snapshot(2), ValidTxnList(TxnId(20), aborted=(TxnId(20),)))
    after = state(folders, snapshot(2), ValidTxnList(TxnId(20)))
    assert [before.base, running.base, aborted.base] == [None] * 3
    assert [len(s.deltas) for s in (before, running, aborted, after)] == [2, 2, 2, 0]
    assert [s.aborted for s in (before, running, aborted)] == [(), (), ("base_0000002_v0000020",)]
    assert after.base == BaseName(WriteId(2), TxnId(20))
    assert after.obsolete == ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000")


def test_an_overwrite_counts_once_committed_whatever_is_open_below_it():
    folders = ["delta_0000001_0000001_0000", "base_0000003", "delta_0000004_0000004_0000"]
    committed = state(folders, snapshot(4, open_=[2]))
    still_open = state(folders, snapshot(4, open_=[3]))
    assert str(committed.base) == "base_0000003"
    assert committed.obsolete == ("delta_0000001_0000001_0000",)
    assert still_open.base is None
    assert names(still_open.deltas) == ["delta_0000001_0000001_0000", "delta_0000004_0000004_0000"]


def test_of_two_bases_for_one_write_id_the_compactors_is_read():
    found = state(["base_0000005", "base_0000005_v0000016"], snapshot(5))
    assert str(found.base) == "base_0000005_v0000016"
    assert found.obsolete == ("base_0000005",)


@pytest.mark.parametrize("base", ["base_0000010*", "base_0000010_v0000007"])
def test_a_compactors_base_over_an_open_write_id_is_a_snapshot_too_old(base):
    with pytest.raises(StreamingIOFailure, match=r"base_0000010.*too old"):
        state([base, "delta_0000011_0000011"], snapshot(11, open_=[8]))


def test_an_older_base_without_open_write_ids_serves_an_older_snapshot():
    found = state(["base_0000005*", "base_0000010*", "delta_0000006_0000008"], snapshot(8))
    assert str(found.base) == "base_0000005"
    assert names(found.deltas) == ["delta_0000006_0000008"]


def test_original_files_are_rows_until_there_is_a_base():
    folders = ["HIVE_UNION_SUBDIR_1", "delta_0000001_0000001", "_tmp.x", ".hive_ingest"]
    files = [("000000_0", 5), ("000001_1", 5), ("000002_0", 0), ("_done", 3)]
    without = state(folders, snapshot(5), files=files)
    assert without.original_files == ("000000_0", "000001_1")
    assert without.original_folders == ("HIVE_UNION_SUBDIR_1",)
    assert state(folders, snapshot(5), files=files, ignore_empty_files=False).original_files[-1] == "000002_0"
    covered = state([*folders, "base_0000001*"], snapshot(5), files=files)
    assert covered.original_files == covered.original_folders == ()
    assert set(covered.obsolete) >= {"000000_0", "000001_1", "HIVE_UNION_SUBDIR_1", "delta_0000001_0000001"}


def test_the_base_of_original_files_is_older_than_any_transaction():
    found = state(["base_-9223372036854775808*", "delta_0000001_0000001"], snapshot(2, open_=[2]))
    assert found.base == BaseName(WriteId(-(2**63)))
    assert names(found.deltas) == ["delta_0000001_0000001"]


def test_a_foreign_name_is_refused():
    with pytest.raises(CorruptFile, match="delta_copy"):
        state(["delta_copy"], snapshot(5))


# -- every valid write id exactly once, whatever has been compacted -------------------------------


@st.composite
def histories(draw):
    """Statements of single write ids, with compactions of ranges below the lowest open one on top."""
    hwm = draw(st.integers(1, 12))
    states = draw(st.lists(st.sampled_from("ccccoa"), min_size=hwm, max_size=hwm))
    statements = {(i, draw(st.integers(0, 2)), draw(st.booleans())) for i in range(1, hwm + 1)}
    statements |= {(i, 0, True) for i in range(1, hwm + 1) if draw(st.booleans())}
    ids = snapshot(hwm, *[[i for i, s in enumerate(states, 1) if s == wanted] for wanted in "oa"])
    last = (ids.min_open or hwm + 1) - 1
    ranges = draw(st.lists(st.tuples(st.integers(1, hwm), st.integers(0, hwm)), max_size=3))
    folders = {}
    for write_id, statement, is_delete in statements:
        kind = DeleteDeltaName if is_delete else DeltaName
        folders[str(kind(WriteId(write_id), WriteId(write_id), statement))] = {(write_id, statement, is_delete)}
    base = draw(st.integers(0, last))
    for low, high in nested((low, min(low + width, last)) for low, width in ranges):
        is_cut_by_base = low <= base < high
        if low <= high and not is_cut_by_base and ids.is_range_valid(WriteId(low), WriteId(high)).value != "none":
            inside = {s for s in statements if low <= s[0] <= high and states[s[0] - 1] == "c"}
            for kind, is_delete in ((DeltaName, False), (DeleteDeltaName, True)):
                folders[str(kind(low, high, None, TxnId(1)))] = {s for s in inside if s[2] is is_delete}
    if base:
        folders[str(BaseName(base, TxnId(1)))] = {s for s in statements if s[0] <= base and states[s[0] - 1] == "c"}
    return ids, statements, folders


def nested(ranges):
    """Only ranges that hold each other or do not touch: compactions never half overlap."""
    kept: list[tuple[int, int]] = []
    for low, high in ranges:
        if all(high < a or b < low or (a <= low and high <= b) or (low <= a and b <= high) for a, b in kept):
            kept.append((low, high))
    return kept


@settings(max_examples=300)
@given(histories())
def test_every_valid_write_is_in_exactly_one_folder_that_is_read(history):
    ids, statements, folders = history
    found = acid_directory([ListedEntry(name, True) for name in folders], ids, ALL_TXNS)
    read = [str(name) for name in (found.base, *found.deltas, *found.delete_deltas) if name]
    seen = [write for name in read for write in folders[name] if ids.is_valid(write[0])]
    assert sorted(seen) == sorted(s for s in statements if ids.is_valid(s[0]))
    assert not set(read) & {*found.obsolete, *found.aborted}
    assert all(parse_folder_name(name) is not None for name in read)
