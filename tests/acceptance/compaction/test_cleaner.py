"""Hive's own cases of the cleaner (`TestCleaner`), each with the name of Hive's in snake case."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.compaction import Cleaner
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState, CompactionType, TxnType, WriteId
from hive_ingest.storage import FileStore, Location
from tests.acceptance.compaction.test_cleaner_aborts import CASES as ABORTS
from tests.support.compactions import MAJOR, MINOR, NO_GRACE, Compacted
from tests.support.fronts import Front
from tests.support.hive_cases import check_ported
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
    "test_cleanup_on_concurrent_minor_compactions",
)
SUCCEEDED, READY = CompactionState.SUCCEEDED, CompactionState.READY_FOR_CLEANING
FAILED, REFUSED = CompactionState.FAILED, CompactionState.REFUSED


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
            assert (result.state, table.states()) == (READY, [READY])
            assert result.message.startswith(f"attempt {attempt} of 3: cannot remove")
            (noted,) = table.history()
            assert noted.error_message == result.message
            table.client.clock_offset_seconds = clock + delay - 5
            assert table.clean(settings) == [], "it waits"
            clock += delay + retention + 1
        table.client.clock_offset_seconds = clock
        (result,) = table.clean(settings)
        assert (result.state, table.states()) == (FAILED, [FAILED])
        assert "busy" in (table.history()[0].error_message or "")
        assert table.clean(settings) == []


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
    assert table.states() == [SUCCEEDED]
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
        folders = based.folders()
        assert based.clean() == [], "the reader may still need the old files"
        assert (based.states(), based.folders()) == ([READY], folders)
        seen = first.num_rows + sum(batch.num_rows for batch in batches)
    assert seen == len(before)
    based.clean()
    assert (based.states(), based.short_folders()) == ([SUCCEEDED], ["base_4_v"])
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
    assert parts.history() == []
    assert parts.short_folders("other") == ["delta_4_4"]


@pytest.mark.on_both
def test_process_compaction_candidates_in_parallel(parts: Compacted) -> None:
    for number in range(5):
        parts.insert(0, part=f"p{number}", overwrite=True)
        parts.inserts(1, 2, part=f"p{number}")
    before = parts.rows()
    for number in range(5):
        parts.compact(MINOR, part=f"p{number}")

    def clean(_: int) -> None:
        with parts.client.clone() as client:
            Cleaner(client, NO_GRACE).run_once()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(clean, range(3)))
    assert parts.states() == [SUCCEEDED] * 5
    for first in range(1, 16, 3):
        left = [f"base_{first}", f"delta_{first + 1}_{first + 2}_v"]
        assert parts.short_folders(f"p{first // 3}") == left
    assert parts.rows() == before


def check_delayed(table: Compacted, kind: CompactionType, left: list[str], part: str | None = None) -> None:
    retention = replace(NO_GRACE, retention_seconds=100)
    table.compact(kind, part=part)
    folders = table.folders(part)
    for seconds in (0, 50):
        table.client.clock_offset_seconds = seconds
        assert table.clean(retention) == []
        assert (table.states(), table.folders(part)) == ([READY], folders)
    table.client.clock_offset_seconds = 101
    (result,) = table.clean(retention)
    assert result.state is SUCCEEDED
    assert (table.states(), table.short_folders(part)) == ([SUCCEEDED], left)


def test_delayed_cleanup_after_major_compaction(based: Compacted) -> None:
    check_delayed(based, MAJOR, ["base_4_v"])


def test_delayed_cleanup_after_minor_compaction_on_partition(parts: Compacted) -> None:
    check_delayed(partition_with_base(parts), MINOR, ["base_1", "delta_2_3_v"], "today")


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
    assert table.states() == [READY, SUCCEEDED]
    table.client.clock_offset_seconds = 151
    table.clean(retention)
    assert (table.states(), table.short_folders()) == ([SUCCEEDED] * 2, ["base_3_v"])
    assert table.rows() == before


def test_ready_for_cleaning_pileup(parts: Compacted) -> None:
    """An open transaction keeps the cleaner from a minor and then from a major compaction of one partition."""
    partition_with_base(parts)
    (blocking,) = parts.client.open_txns()
    for waiting, kind in enumerate((MINOR, MAJOR), 1):
        parts.compact(kind, part="today")
        folders = parts.folders("today")
        assert parts.clean() == []
        assert (parts.states(), parts.folders("today")) == ([READY] * waiting, folders)
        parts.inserts(10 * waiting, 10 * waiting + 1, part="today")
    before = parts.rows()
    parts.client.commit_txn(blocking)
    parts.clean()
    assert [info.type for info in parts.history()] == [MAJOR, MINOR]
    assert parts.states() == [SUCCEEDED] * 2
    assert parts.short_folders("today") == ["base_6_v", "delta_7_7", "delta_8_8"]
    assert parts.rows() == before


def test_ready_for_cleaning_pileup_of_minor_compactions(table: Compacted) -> None:
    """Beyond Hive's case: one round of the cleaner ends all of them, in the order of their write ids."""
    for last in (2, 4, 6):
        table.inserts(last - 1, last)
        table.compact(MINOR)
    table.compact(MAJOR)
    before = table.rows()
    assert table.states() == [READY] * 4
    assert [result.info.type for result in table.clean()] == [MINOR, MINOR, MINOR, MAJOR]
    assert table.states() == [SUCCEEDED] * 4
    assert table.short_folders() == ["delta_1_6_v"], "the major one found nothing left to merge"
    assert table.rows() == before


def test_no_cleanup_after_major_compaction(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"NO_CLEANUP": "true"})
    table.inserts(1, 2)
    table.compact(MAJOR)
    (result,) = table.clean()
    assert (result.state, table.states()) == (REFUSED, [REFUSED])
    assert "NO_CLEANUP" in (table.history()[0].error_message or "")
    assert table.short_folders() == ["base_2_v", "delta_1_1", "delta_2_2"]
    found = ms.get_table(table.name)
    ms.alter_table(table.name, replace(found, properties={**found.properties, "NO_CLEANUP": "false"}))
    table.compact(MAJOR)
    table.clean()
    assert table.states() == [SUCCEEDED, REFUSED]
    assert table.short_folders() == ["base_2_v"]


def test_no_cleanup_after_minor_compaction_on_partition(parts: Compacted) -> None:
    parts.inserts(1, 2, part="today")
    parts.compact(MINOR, part="today")

    def marked(*args: Any) -> list[Any]:
        return [
            replace(each, properties={"NO_CLEANUP": "True"}) for each in parts.client.get_partitions_by_names(*args)
        ]

    (result,) = parts.clean(client=Front(parts.client, get_partitions_by_names=marked))
    assert (result.state, parts.states()) == (REFUSED, [REFUSED])
    assert parts.short_folders("today") == ["delta_1_1", "delta_1_2_v", "delta_2_2"]
    parts.compact(MINOR, part="today")
    parts.clean()
    assert parts.states() == [SUCCEEDED, REFUSED]
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
    assert table.states() == [SUCCEEDED]
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
    assert based.states() == [SUCCEEDED]
    assert based.short_folders() == ["base_4_v"]
    assert based.rows() == before


def test_cleanup_on_concurrent_minor_compactions(table: Compacted) -> None:
    """Two workers have compacted the same deltas: the later result is read, the earlier one is obsolete."""
    table.insert(1, overwrite=True)
    table.inserts(2, 3)
    table.compact(MINOR)
    (result,) = (name for name in table.folders() if "_v" in name)
    before = table.rows()
    compact_by_hand(table, MAJOR, {result: "delta_0000002_0000003"}, 3)
    (later,) = (name for name in table.folders() if "_v" in name and name != result)
    assert later > result, "the suffix is that of a later transaction"
    assert table.rows() == before
    table.clean()
    assert table.folders() == ["base_0000001", later]
    assert set(table.states()) == {SUCCEEDED}
    assert table.rows() == before


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported() -> None:
    cases = (*CASES, *ABORTS)
    assert len(cases) == 31
    check_ported("TestCleaner", cases, {}, Path(__file__).parent.glob("test_cleaner*.py"))
