"""Cleaning beside DDL statements: nothing is removed but what the compaction of this very table has replaced."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from hive_ingest.compaction import cleaner_lock
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    CompactionState,
    DataOperationType,
    LockComponent,
    LockId,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    TableName,
)
from hive_ingest.testing import faults
from hive_ingest.transactions import now
from tests.support.compactions import MAJOR, MINOR, Compacted
from tests.support.waiting import wait_until
from tests.support.warehouses import NEEDS_FOLDER_RENAMES

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own cleaner"),
    pytest.mark.one_embedded,
]


def rename(client: EmbeddedMetastoreClient, old: TableName, new: str) -> None:
    client.alter_table(old, replace(client.get_table(old), name=TableName.of(new)))


@NEEDS_FOLDER_RENAMES
def test_a_table_that_takes_the_place_of_a_renamed_one_during_cleaning_loses_no_row(
    table: Compacted, ms: EmbeddedMetastoreClient
) -> None:
    """Both have folders of the same names, because their write ids begin at 1."""
    other = Compacted(ms, "other")
    for each in (table, other):
        each.inserts(1, 3)
    before, rows = other.rows(), table.rows()
    table.compact(MAJOR)
    swaps: list[Future[None]] = []

    def swap() -> None:
        with ms.clone() as client:
            rename(client, table.name, "web.old")
            rename(client, other.name, str(table.name))

    with ThreadPoolExecutor(1) as threads:

        def at(point: str) -> None:
            if point == "between_removals" and not swaps:
                swaps.append(threads.submit(swap))
                wait_until(lambda: any(lock.state is LockState.WAITING for lock in ms.show_locks(table.name)))

        with faults(observe=at):
            (cleaned,) = table.clean()
        swaps[0].result(60)
    assert (cleaned.state, len(cleaned.removed)) == (CompactionState.SUCCEEDED, 3)
    assert table.rows() == before
    table.name = TableName.of("web.old")
    assert table.rows() == rows


@NEEDS_FOLDER_RENAMES
def test_a_table_that_was_renamed_before_its_cleaning_is_cleaned_under_its_new_name(
    table: Compacted, ms: EmbeddedMetastoreClient
) -> None:
    other = Compacted(ms, "other")
    for each in (table, other):
        each.inserts(1, 3)
    before, rows = other.rows(), table.rows()
    table.compact(MAJOR)
    found: list[str] = []

    def at(point: str) -> None:
        if point == "after_find_ready_to_clean" and not found:
            found.append(point)
            rename(ms, table.name, "web.old")
            rename(ms, other.name, str(table.name))

    with faults(observe=at):
        assert table.clean()[0].removed == ()
    assert table.rows() == before
    assert len(table.clean()[0].removed) == 3
    table.name = TableName.of("web.old")
    assert table.rows() == rows


@pytest.mark.parametrize("what", ["compaction", "aborts"])
def test_a_table_that_a_ddl_statement_holds_is_cleaned_later(table: Compacted, what: str) -> None:
    table.inserts(1, 2)
    if what == "compaction":
        table.compact(MINOR)
    else:
        table.aborted_insert(3)
    component = LockComponent(
        LockType.EXCLUSIVE,
        LockLevel.TABLE,
        table.name.database,
        table.name.table,
        operation_type=DataOperationType.NO_TXN,
    )
    held: LockId = table.client.lock(LockRequest((component,))).lock_id
    before = table.folders()
    assert table.clean() == []
    assert table.folders() == before
    table.client.unlock(held)
    assert len(table.clean()) == 1
    assert table.folders() != before
    assert table.client.show_locks() == []


def test_nothing_is_removed_after_the_lock_has_timed_out(table: Compacted) -> None:
    """A cleaner that was stopped in the middle, while a DDL statement took the table."""
    table.inserts(1, 3)
    before = table.rows()
    table.compact(MAJOR)
    lock = table.client.lock

    def lock_and_lose(request: LockRequest) -> LockResponse:
        answer: LockResponse = lock(request)
        table.client.unlock(answer.lock_id)  # as the timeout does
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table.client, "lock", lock_and_lose)
        (cleaned,) = table.clean()
    assert (cleaned.state, cleaned.removed) == (CompactionState.READY_FOR_CLEANING, ())
    assert len(table.folders()) == 4
    assert table.rows() == before


def test_a_cleaner_asks_for_its_lock_again_after_its_machine_was_suspended(
    table: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still meanwhile."""
    table.inserts(1, 3)
    before = table.rows()
    table.compact(MAJOR)
    suspended: list[float] = []

    def at(point: str) -> None:
        if point == "between_removals" and not suspended:
            suspended.append(2 * table.client.txn_timeout_seconds)
            (held,) = table.client.show_locks(table.name)
            table.client.unlock(held.lock_id)  # as the timeout does

    monkeypatch.setattr(cleaner_lock, "now", lambda: now() + sum(suspended))
    with faults(observe=at):
        (cleaned,) = table.clean()
    assert cleaned.state is CompactionState.READY_FOR_CLEANING
    assert len(table.folders()) == 3
    assert table.rows() == before
