"""Hive's own cases of the cleaner with aborts and watermarks (`TestCleaner`), and cases beyond Hive's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.compaction import Cleaner, CleanerSettings
from hive_ingest.model import CompactionState, TxnId, TxnState
from hive_ingest.storage import FileStore, Location
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.support.compactions import MAJOR, MINOR, NO_GRACE, Compacted
from tests.support.fronts import Front
from tests.support.metastores import housekeeping

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own cleaner"),
    pytest.mark.one_embedded,
]

CASES = (
    "test_nothing_to_clean_after_aborts_base",
    "test_nothing_to_clean_after_aborts_delta",
    "test_ready",
    "test_compaction_high_watermark_is_honored",
    "test_compaction_hwm_is_honored_with_min_open_write_id_set",
    "test_compaction_hwm_is_honored_with_min_open_write_id_set_and_aborted_iow",
)
SUCCEEDED, READY = CompactionState.SUCCEEDED, CompactionState.READY_FOR_CLEANING
FAILED, REFUSED = CompactionState.FAILED, CompactionState.REFUSED


def abort_without_files(table: Compacted, times: int) -> list[TxnId]:
    found = []
    for _ in range(times):
        txn_id, _ = table.begin()
        table.client.abort_txn(txn_id)
        found.append(txn_id)
    return found


def aborted_txns(table: Compacted) -> set[TxnId]:
    transactions = table.client.get_open_txns_info().transactions
    return {info.id for info in transactions if info.state is TxnState.ABORTED}


def check_aborts(table: Compacted, left: list[str]) -> None:
    """Two transactions that aborted after they published, above the only folder with rows."""
    aborted = [table.aborted_insert(number) for number in (2, 3)]
    assert len(table.client.get_aborted_components(table.name)) == len(aborted)
    assert table.compact(MAJOR).state is READY
    assert not table.request(MAJOR).accepted
    table.clean()
    assert table.states() == [SUCCEEDED]
    assert table.short_folders() == left
    assert table.client.get_aborted_components(table.name) == []
    assert table.ids() == [1]


def test_nothing_to_clean_after_aborts_base(table: Compacted) -> None:
    table.insert(1, overwrite=True)
    check_aborts(table, ["base_1"])


def test_nothing_to_clean_after_aborts_delta(table: Compacted) -> None:
    table.insert(1)
    check_aborts(table, ["delta_1_1"])


def test_ready(parts: Compacted) -> None:
    parts.insert(0, part="today", overwrite=True)
    parts.inserts(1, 3, part="today")
    (blocking,) = parts.client.open_txns()
    parts.compact(MINOR, part="today")
    folders = parts.folders("today")
    assert parts.clean() == []
    assert parts.folders("today") == folders
    assert len(folders) == 5
    assert parts.states() == [READY]
    parts.client.commit_txn(blocking)
    parts.clean()
    assert parts.short_folders("today") == ["base_1", "delta_2_4_v"]


def clean_one(table: Compacted, settings: CleanerSettings = NO_GRACE) -> None:
    """Only the first that is ready, as a round of Hive's cleaner does."""
    answers = iter([table.client.find_ready_to_clean()[:1], []])
    table.clean(settings, client=Front(table.client, find_ready_to_clean=lambda **_: next(answers)))


def test_compaction_high_watermark_is_honored(table: Compacted) -> None:
    table.insert(0, overwrite=True)
    for last in (3, 5):
        table.inserts(last - 1, last)
        table.compact(MINOR)
    before = table.rows()
    clean_one(table)
    assert table.states() == [READY, SUCCEEDED]
    assert table.short_folders() == ["base_1", "delta_2_3_v", "delta_2_5_v", "delta_4_4", "delta_5_5"]
    assert table.rows() == before


def compact_rounds(table: Compacted, rounds: int) -> list[str]:
    """Three deltas and a major compaction, that many times. Returns all folders, which no cleaner has seen."""
    for number in range(rounds):
        table.inserts(3 * number + 1, 3 * number + 3)
        table.compact(MAJOR)
    return table.short_folders()


def without(folders: list[str], *gone: str) -> list[str]:
    return [name for name in folders if name not in gone]


def test_compaction_hwm_is_honored_with_min_open_write_id_set(table: Compacted) -> None:
    """Write ids are pruned before the cleaner runs, and a transaction that is open has a higher one."""
    folders = compact_rounds(table, 3)
    assert {"base_3_v", "base_6_v", "base_9_v"} <= {*folders}
    assert housekeeping(table.client).pruned_write_ids
    writer, write_id = table.begin()
    assert write_id == 10
    (table.folder / "delta_0000010_0000010_0000").mkdir()
    folders = table.short_folders()
    clean_one(table)
    folders = without(folders, "delta_1_1", "delta_2_2", "delta_3_3")
    assert table.short_folders() == folders
    table.client.commit_txn(writer)
    clean_one(table)
    folders = without(folders, "delta_4_4", "delta_5_5", "delta_6_6", "base_3_v")
    assert table.short_folders() == folders
    clean_one(table)
    assert table.short_folders() == ["base_9_v", "delta_10_10"]
    assert set(table.states()) == {SUCCEEDED}
    assert table.ids() == [*range(1, 10)]


def test_compaction_hwm_is_honored_with_min_open_write_id_set_and_aborted_iow(table: Compacted) -> None:
    compact_rounds(table, 2)
    overwrite, write_id = table.begin()
    (table.folder / f"base_{write_id:07d}").mkdir()
    table.client.abort_txn(overwrite)
    housekeeping(table.client)
    writer, _ = table.begin()
    (table.folder / "delta_0000008_0000008_0000").mkdir()
    folders = table.short_folders()
    assert "base_7" in folders
    clean_one(table, CleanerSettings())
    folders = without(folders, "delta_1_1", "delta_2_2", "delta_3_3")
    assert table.short_folders() == folders
    table.client.commit_txn(writer)
    clean_one(table, CleanerSettings())
    folders = without(folders, "delta_4_4", "delta_5_5", "delta_6_6", "base_3_v")
    assert table.short_folders() == folders
    assert "base_7" in folders, "it is above the compaction's write id"
    table.inserts(9, 10)
    table.compact(MAJOR)
    table.clean()
    assert table.short_folders() == ["base_10_v"]
    assert set(table.states()) == {SUCCEEDED}
    assert table.ids() == [1, 2, 3, 4, 5, 6, 9, 10]


# -- beyond Hive's cases -----------------------------------------------------------------------------


def test_a_reader_through_two_compactions_meets_no_missing_file(table: Compacted) -> None:
    table.inserts(1, 2)
    table.compact(MINOR)
    with hi.scan(table.client, table.name) as reader:
        table.inserts(3, 4)
        table.compact(MINOR)
        assert [result.info.highest_write_id for result in table.clean()] == [2]
        assert sum(batch.num_rows for batch in reader) == 2
    table.clean()
    assert table.short_folders() == ["delta_1_4_v"]
    assert set(table.states()) == {SUCCEEDED}
    assert table.ids() == [1, 2, 3, 4]


@pytest.mark.on_both
def test_what_aborted_transactions_left_is_removed_without_a_compaction(table: Compacted) -> None:
    table.insert(1)
    table.aborted_insert(2)
    assert len(table.folders()) == 2
    assert table.clean(CleanerSettings()) == [], "its writer may not know yet that it is aborted"
    assert len(table.folders()) == 2
    (result,) = table.clean()
    assert [location.name for location in result.removed] == ["delta_0000003_0000003_0000"]
    assert table.short_folders() == ["delta_1_1"]
    assert table.client.get_aborted_components(table.name) == []
    assert table.ids() == [1]


def test_a_removal_is_on_the_disk_before_the_aborted_transaction_is_forgotten(
    table: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure between the two could bring the folder back, whose rows nobody would know to be aborted."""
    table.inserts(1, 2)
    done: list[str] = []
    store = type(Location.of(str(table.folder)).store)
    sync = store.sync_folders

    def synced(self: FileStore, paths: Iterable[str]) -> None:
        done.append(f"synced {[Path(path).name for path in paths]} with {len(table.folders())} folders")

    def mark_cleaned(*args: Any, **options: Any) -> None:
        done.append("forgotten")
        table.client.mark_cleaned(*args, **options)

    table.aborted_insert(3)
    table.compact(MAJOR)
    monkeypatch.setattr(store, "sync_folders", synced)
    table.clean(client=Front(table.client, mark_cleaned=mark_cleaned))
    assert done == [f"synced {[table.folder.name]} with 1 folders", "forgotten"]
    monkeypatch.setattr(store, "sync_folders", sync)
    table.aborted_insert(4)
    monkeypatch.setattr(store, "sync_folders", synced)
    table.clean(client=Front(table.client, mark_cleaned=mark_cleaned))
    assert done[2:] == done[:2]


@pytest.mark.parametrize(("offset_seconds", "is_removed"), [(-1000, False), (301, True)])
def test_the_time_since_an_abort_is_that_of_the_metastores_clock(
    table: Compacted, offset_seconds: float, is_removed: bool
) -> None:
    """The cleaner's own machine may have another time."""
    table.client.clock_offset_seconds = offset_seconds if offset_seconds < 0 else 0
    table.insert(1)
    table.aborted_insert(2)
    table.client.clock_offset_seconds = offset_seconds
    table.clean(CleanerSettings())
    assert table.short_folders() == (["delta_1_1"] if is_removed else ["delta_1_1", "delta_3_3"])


def test_a_clock_that_was_set_back_does_not_keep_replaced_files(table: Compacted) -> None:
    table.client.clock_offset_seconds = 86_400
    table.inserts(1, 2)
    table.aborted_insert(3)
    table.compact()
    table.client.clock_offset_seconds = 0
    housekeeping(table.client)
    settings = CleanerSettings(retention_seconds=60)
    table.clean(settings)
    assert len(table.folders()) == 4
    table.client.clock_offset_seconds = 301
    table.clean(settings)
    assert table.short_folders() == ["delta_1_2_v"]


def test_aborted_rows_beside_rows_of_others_are_remembered(table: Compacted) -> None:
    aborted, _ = table.begin()
    table.client.abort_txn(aborted)
    table.insert(1)
    (name,) = table.folders()
    (table.folder / name).rename(table.folder / "delta_0000001_0000002")
    assert table.clean() == []
    assert [each.txn_id for each in table.client.get_aborted_components(table.name)] == [aborted]


@pytest.mark.parametrize(
    "point", ["after_find_ready_to_clean", "between_removals", "after_removals", "after_mark_cleaned"]
)
def test_a_cleaner_that_dies_at_any_step_is_finished_by_the_next(based: Compacted, point: str) -> None:
    before = based.rows()
    based.compact(MAJOR)
    with faults(CrashPoint(point)), pytest.raises(FaultError):
        based.clean()
    assert based.rows() == before
    based.clean()
    assert based.short_folders() == ["base_4_v"]
    assert based.states() == [SUCCEEDED]
    assert based.rows() == before


def test_a_missing_folder_is_not_taken_for_a_cleaned_one(based: Compacted) -> None:
    """As of a disk that is not mounted."""
    based.compact(MAJOR)
    based.folder.rename(based.folder.with_name("elsewhere"))
    (result,) = based.clean()
    assert (result.state, based.states()) == (READY, [READY])
    assert "missing" in result.message


def test_a_cleaner_that_is_stopped_leaves_the_other_partitions_to_the_next(parts: Compacted) -> None:
    for part in ("a", "b"):
        parts.insert(1, part=part)
        parts.insert(2, part=part)
        parts.compact(MAJOR, part=part)
    answers = iter((False, False, True, True, True))
    (result,) = Cleaner(parts.client, NO_GRACE, is_stopped=lambda: next(answers)).run_once()
    assert result.state is SUCCEEDED
    assert sorted(parts.states(), key=str) == sorted([READY, SUCCEEDED], key=str)
