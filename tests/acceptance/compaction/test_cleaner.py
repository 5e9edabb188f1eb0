"""Hive's own cases of the cleaner (`TestCleaner`), each with the name of Hive's in snake case."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.compaction import Cleaner, CleanerSettings
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState, CompactionType, TxnId, TxnState, TxnType, WriteId
from hive_ingest.storage import FileStore, Location
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.support.compactions import MAJOR, MINOR, NO_GRACE, Compacted
from tests.support.fronts import Front
from tests.support.metastores import housekeeping
from tests.support.store_path import copy_tree

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own cleaner"),
    pytest.mark.one_embedded,
]

CASES = (
    "test_nothing",
    "test_retry_after_failed_cleanup_delay_enabled",
    "test_retry_after_failed_cleanup_delay_disabled",
    "test_retention_after_failed_cleanup",
    "test_cleanup_after_major_table_compaction",
    "test_cleanup_after_iow_and_major_table_compaction",
    "test_cleanup_after_major_table_compaction_with_long_running_query",
    "test_cleanup_after_major_partition_compaction",
    "test_cleanup_after_minor_table_compaction",
    "test_cleanup_after_minor_partition_compaction",
    "test_cleanup_after_major_partition_compaction_no_base",
    "test_dropped_table",
    "test_dropped_partition",
    "test_process_compaction_candidates_in_parallel",
    "test_delayed_cleanup_after_major_compaction",
    "test_delayed_cleanup_after_minor_compaction_on_partition",
    "test_delayed_cleanup_after_minor_and_major_compaction",
    "test_ready_for_cleaning_pileup",
    "test_no_cleanup_after_major_compaction",
    "test_no_cleanup_after_minor_compaction_on_partition",
    "test_with_single_base_cleaner_succeeds",
    "test_with_newer_base_cleaner_succeeds",
    "test_with_not_yet_visible_base",
    "test_clean_multiple_times_with_same_watermark",
    "test_nothing_to_clean_after_aborts_base",
    "test_nothing_to_clean_after_aborts_delta",
    "test_ready",
    "test_compaction_high_watermark_is_honored",
    "test_cleanup_on_concurrent_minor_compactions",
    "test_compaction_hwm_is_honored_with_min_open_write_id_set",
    "test_compaction_hwm_is_honored_with_min_open_write_id_set_and_aborted_iow",
)
SUCCEEDED, READY = CompactionState.SUCCEEDED, CompactionState.READY_FOR_CLEANING
FAILED, REFUSED = CompactionState.FAILED, CompactionState.REFUSED


@pytest.fixture
def based(table: Compacted) -> Compacted:
    """A base of write id 1, two deltas and a delete delta."""
    table.insert(1, 2, 3, overwrite=True)
    table.inserts(4, 5)
    table.delete(table.row_id(2))
    return table


def states(table: Compacted) -> list[CompactionState]:
    """Newest first."""
    return [info.state for info in table.history() if info.type is not CompactionType.ABORT_TXN_CLEANUP]


@contextlib.contextmanager
def undeletable(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(self: FileStore, path: str) -> None:
        raise StreamingIOFailure(f"cannot remove {path!r}: busy")

    with monkeypatch.context() as patch:
        patch.setattr(type(Location.of(str(table.folder)).store), "delete_folder", refuse)
        yield


def test_nothing(ms: EmbeddedMetastoreClient) -> None:
    assert Cleaner(ms).run_once() == []


def check_retries(table: Compacted, monkeypatch: pytest.MonkeyPatch, retention: float) -> None:
    settings = replace(NO_GRACE, retention_seconds=retention, retry_seconds=60.0, max_attempts=3)
    table.inserts(1, 2)
    table.compact()
    clock = retention + 1
    with undeletable(table, monkeypatch):
        for attempt, delay in ((1, 60.0), (2, 120.0)):
            table.client.clock_offset_seconds = clock
            (result,) = table.clean(settings)
            assert (result.state, states(table)) == (READY, [READY])
            assert result.message.startswith(f"attempt {attempt} of 3: cannot remove")
            table.client.clock_offset_seconds = clock + delay - 5
            assert table.clean(settings) == [], "it waits"
            clock += delay + retention + 1
        table.client.clock_offset_seconds = clock
        (result,) = table.clean(settings)
        assert (result.state, states(table)) == (FAILED, [FAILED])
        assert "busy" in (table.history()[0].error_message or "")


def test_retry_after_failed_cleanup_delay_enabled(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    check_retries(table, monkeypatch, retention=2.0)


def test_retry_after_failed_cleanup_delay_disabled(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    check_retries(table, monkeypatch, retention=0.0)


@pytest.mark.on_both
def test_retention_after_failed_cleanup(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(NO_GRACE, retry_seconds=60.0)
    table.inserts(1, 2)
    table.compact()
    with undeletable(table, monkeypatch):
        table.clean(settings)
    assert table.clean(settings) == []
    table.client.clock_offset_seconds = 61
    (result,) = table.clean(settings)
    assert result.state is SUCCEEDED
    assert table.short_folders() == ["delta_1_2_v"]


def check_clean(table: Compacted, kind: CompactionType, left: list[str], part: str | None = None) -> None:
    before = table.rows()
    table.compact(kind, part=part)
    (result,) = table.clean()
    assert result.state is SUCCEEDED
    assert table.short_folders(part) == left
    assert table.rows() == before
    assert states(table) == [SUCCEEDED]
    assert table.clean() == []


def test_cleanup_after_major_table_compaction(based: Compacted) -> None:
    check_clean(based, MAJOR, ["base_4_v"])


def compact_by_hand(table: Compacted, kind: CompactionType, copies: dict[str, str], highest: int) -> None:
    """A compaction up to its commit, whose folders are copies of others, under names that its transaction ends."""
    assert table.request(kind).accepted
    info = table.client.find_next_compact("by hand")
    assert info is not None
    (txn_id,) = table.client.open_txns(txn_type=TxnType.COMPACTION)
    table.client.update_compactor_state(replace(info, highest_write_id=WriteId(highest)), txn_id)
    for source, target in copies.items():
        copy_tree(table.folder / source, table.folder / f"{target}_v{txn_id:07d}")
    table.client.mark_compacted(info)
    table.client.commit_txn(txn_id)


def test_cleanup_after_iow_and_major_table_compaction(table: Compacted) -> None:
    """Of two bases with one write id the compaction's is read, as it includes the other."""
    table.inserts(1, 2)
    table.insert(3, overwrite=True)
    before = table.rows()
    compact_by_hand(table, MAJOR, {"base_0000003": "base_0000003"}, 3)
    (result,) = table.clean()
    assert result.state is SUCCEEDED
    assert table.short_folders() == ["base_3_v"]
    assert table.rows() == before


@pytest.mark.on_both
def test_cleanup_after_major_table_compaction_with_long_running_query(based: Compacted) -> None:
    before = based.rows()
    with hi.scan(based.client, based.name, row_ids=True) as reader:
        batches = iter(reader)
        first = next(batches)
        based.compact(MAJOR)
        assert based.clean() == [], "the reader may still need the old files"
        assert states(based) == [READY]
        seen = first.num_rows + sum(batch.num_rows for batch in batches)
    assert seen == len(before)
    based.clean()
    assert based.short_folders() == ["base_4_v"]
    assert based.rows() == before


def partition_with_base(parts: Compacted) -> Compacted:
    parts.insert(1, 2, part="today", overwrite=True)
    parts.inserts(3, 4, part="today")
    parts.insert(5, part="other")
    return parts


def test_cleanup_after_major_partition_compaction(parts: Compacted) -> None:
    check_clean(partition_with_base(parts), MAJOR, ["base_3_v"], "today")
    assert parts.short_folders("other") == ["delta_4_4"]


def test_cleanup_after_minor_table_compaction(based: Compacted) -> None:
    check_clean(based, MINOR, ["base_1", "delete_delta_2_4_v", "delta_2_4_v"])


def test_cleanup_after_minor_partition_compaction(parts: Compacted) -> None:
    check_clean(partition_with_base(parts), MINOR, ["base_1", "delta_2_3_v"], "today")


def test_cleanup_after_major_partition_compaction_no_base(parts: Compacted) -> None:
    parts.inserts(1, 2, part="today")
    check_clean(parts, MAJOR, ["base_2_v"], "today")


def test_dropped_table(based: Compacted) -> None:
    based.compact(MAJOR)
    (info,) = based.client.find_ready_to_clean()
    based.client.drop_table(based.name)
    front = Front(based.client, find_ready_to_clean=lambda **_: [info])
    (result,) = based.clean(client=front)
    assert result.state is SUCCEEDED
    assert based.history() == []


def test_dropped_partition(parts: Compacted) -> None:
    partition_with_base(parts).compact(MAJOR, part="today")
    (info,) = parts.client.find_ready_to_clean()
    parts.client.drop_partition(parts.name, ["today"])
    front = Front(parts.client, find_ready_to_clean=lambda **_: [info])
    (result,) = parts.clean(client=front)
    assert result.state is SUCCEEDED
    assert parts.short_folders("other") == ["delta_4_4"]


@pytest.mark.on_both
def test_process_compaction_candidates_in_parallel(parts: Compacted) -> None:
    for number in range(5):
        parts.inserts(1, 2, part=f"p{number}")
    before = parts.rows()
    for number in range(5):
        parts.compact(MAJOR, part=f"p{number}")

    def clean(_: int) -> None:
        with parts.client.clone() as client:
            Cleaner(client, NO_GRACE).run_once()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(clean, range(3)))
    assert states(parts) == [SUCCEEDED] * 5
    assert all(len(parts.folders(f"p{number}")) == 1 for number in range(5))
    assert parts.rows() == before


def check_delayed(table: Compacted, kind: CompactionType, part: str | None = None) -> None:
    retention = replace(NO_GRACE, retention_seconds=100)
    table.compact(kind, part=part)
    folders = table.folders(part)
    assert table.clean(retention) == []
    assert table.folders(part) == folders
    table.client.clock_offset_seconds = 101
    (result,) = table.clean(retention)
    assert result.state is SUCCEEDED
    assert len(table.folders(part)) < len(folders)


def test_delayed_cleanup_after_major_compaction(based: Compacted) -> None:
    check_delayed(based, MAJOR)


def test_delayed_cleanup_after_minor_compaction_on_partition(parts: Compacted) -> None:
    check_delayed(partition_with_base(parts), MINOR, "today")


@pytest.mark.on_both
def test_delayed_cleanup_after_minor_and_major_compaction(table: Compacted) -> None:
    retention = replace(NO_GRACE, retention_seconds=100)
    table.inserts(1, 2)
    table.compact(MINOR)
    table.client.clock_offset_seconds = 50
    table.insert(3)
    before = table.rows()
    table.compact(MAJOR)
    table.client.clock_offset_seconds = 101
    table.clean(retention)
    assert table.short_folders() == ["base_3_v", "delta_1_2_v", "delta_3_3"], "the first one's time has come"
    assert states(table) == [READY, SUCCEEDED]
    table.client.clock_offset_seconds = 151
    table.clean(retention)
    assert table.short_folders() == ["base_3_v"]
    assert table.rows() == before


def test_ready_for_cleaning_pileup(table: Compacted) -> None:
    for last in (2, 4, 6):
        table.inserts(last - 1, last)
        table.compact(MINOR)
    table.compact(MAJOR)
    before = table.rows()
    assert states(table) == [READY] * 4
    table.clean()
    assert states(table)[0] is SUCCEEDED
    assert set(states(table)) == {SUCCEEDED}
    assert table.short_folders() == ["delta_1_6_v"], "the major one found nothing left to merge"
    assert table.rows() == before


def test_no_cleanup_after_major_compaction(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"NO_CLEANUP": "true"})
    table.inserts(1, 2)
    table.compact(MAJOR)
    (result,) = table.clean()
    assert (result.state, states(table)) == (REFUSED, [REFUSED])
    assert "NO_CLEANUP" in (table.history()[0].error_message or "")
    assert table.short_folders() == ["base_2_v", "delta_1_1", "delta_2_2"]
    found = ms.get_table(table.name)
    ms.alter_table(table.name, replace(found, properties={**found.properties, "NO_CLEANUP": "false"}))
    table.compact(MAJOR)
    table.clean()
    assert states(table) == [SUCCEEDED, REFUSED]
    assert table.short_folders() == ["base_2_v"]


def test_no_cleanup_after_minor_compaction_on_partition(parts: Compacted) -> None:
    parts.inserts(1, 2, part="today")
    parts.compact(MINOR, part="today")

    def marked(*args: Any) -> list[Any]:
        return [
            replace(each, properties={"NO_CLEANUP": "True"}) for each in parts.client.get_partitions_by_names(*args)
        ]

    (result,) = parts.clean(client=Front(parts.client, get_partitions_by_names=marked))
    assert (result.state, states(parts)) == (REFUSED, [REFUSED])
    assert parts.short_folders("today") == ["delta_1_1", "delta_1_2_v", "delta_2_2"]
    parts.compact(MINOR, part="today")
    parts.clean()
    assert states(parts) == [SUCCEEDED, REFUSED]
    assert parts.short_folders("today") == ["delta_1_2_v"]


def test_with_single_base_cleaner_succeeds(table: Compacted) -> None:
    table.insert(1, overwrite=True)
    compact_by_hand(table, MAJOR, {}, 1)
    (result,) = table.clean()
    assert (result.state, result.removed) == (SUCCEEDED, ())
    assert table.short_folders() == ["base_1"]


def test_with_newer_base_cleaner_succeeds(table: Compacted) -> None:
    table.inserts(1, 2)
    table.compact(MAJOR)
    table.insert(3, overwrite=True)
    table.clean()
    assert table.short_folders() == ["base_2_v", "base_3"], "the newer one is above the compaction's write id"
    assert states(table) == [SUCCEEDED]
    assert table.ids() == [3]


def test_with_not_yet_visible_base(table: Compacted) -> None:
    """The base of a compaction that is still open belongs to nobody else."""
    table.inserts(1, 2)
    table.compact(MINOR)
    (txn_id,) = table.client.open_txns(txn_type=TxnType.COMPACTION)
    (table.folder / f"base_0000002_v{txn_id:07d}").mkdir()
    table.clean()
    assert table.short_folders() == ["base_2_v", "delta_1_2_v"]
    assert table.ids() == [1, 2]
    table.client.abort_txn(txn_id)


def test_clean_multiple_times_with_same_watermark(based: Compacted) -> None:
    before = based.rows()
    based.compact(MAJOR)
    again = based.request(MAJOR)
    assert (again.accepted, again.state, again.id) == (False, READY, based.history()[0].id)
    based.clean()
    assert states(based) == [SUCCEEDED]
    assert based.short_folders() == ["base_4_v"]
    assert based.rows() == before


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
    assert states(table) == [SUCCEEDED]
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
    assert states(parts) == [READY]
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
    assert states(table) == [READY, SUCCEEDED]
    assert table.short_folders() == ["base_1", "delta_2_3_v", "delta_2_5_v", "delta_4_4", "delta_5_5"]
    assert table.rows() == before


def test_cleanup_on_concurrent_minor_compactions(table: Compacted) -> None:
    """Two workers have compacted the same deltas: one result is read, the other one is obsolete."""
    table.insert(1, overwrite=True)
    table.inserts(2, 3)
    table.compact(MINOR)
    (result,) = (name for name in table.folders() if "_v" in name)
    before = table.rows()
    compact_by_hand(table, MAJOR, {result: "delta_0000002_0000003"}, 3)
    assert table.short_folders().count("delta_2_3_v") == 2
    assert table.rows() == before
    table.clean()
    assert table.short_folders() == ["base_1", "delta_2_3_v"]
    assert set(states(table)) == {SUCCEEDED}
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
    assert set(states(table)) == {SUCCEEDED}
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
    assert set(states(table)) == {SUCCEEDED}
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
    assert set(states(table)) == {SUCCEEDED}
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
    assert states(based) == [SUCCEEDED]
    assert based.rows() == before


def test_a_missing_folder_is_not_taken_for_a_cleaned_one(based: Compacted) -> None:
    """As of a disk that is not mounted."""
    based.compact(MAJOR)
    based.folder.rename(based.folder.with_name("elsewhere"))
    (result,) = based.clean()
    assert (result.state, states(based)) == (READY, [READY])
    assert "missing" in result.message


def test_a_cleaner_that_is_stopped_leaves_the_other_partitions_to_the_next(parts: Compacted) -> None:
    for part in ("a", "b"):
        parts.insert(1, part=part)
        parts.insert(2, part=part)
        parts.compact(MAJOR, part=part)
    answers = iter((False, False, True, True, True))
    (result,) = Cleaner(parts.client, NO_GRACE, is_stopped=lambda: next(answers)).run_once()
    assert result.state is SUCCEEDED
    assert sorted(states(parts), key=str) == sorted([READY, SUCCEEDED], key=str)


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported() -> None:
    ported = [name for name in CASES if name in globals()]
    print(f"TestCleaner: {len(ported)} of {len(CASES)} ported")
    assert len(CASES) == 31
    assert [*CASES] == ported
