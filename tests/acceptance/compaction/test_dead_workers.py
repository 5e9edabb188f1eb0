"""What workers and cleaners held whose processes have ended is taken from them without a wait, and from no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hive_ingest.compaction import Compactor, CompactorSettings, Worker
from hive_ingest.compaction.cleaner_lock import locked_for_cleaning, release_locks_of_dead_cleaners
from hive_ingest.compaction.dead_workers import take_back_from_dead_workers
from hive_ingest.model import (
    CompactionInfo,
    CompactionState,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    TxnId,
    TxnType,
)
from hive_ingest.transactions import Owner
from tests.support.compactions import FAST, MINOR, Compacted

pytestmark = [pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has its own test in tests/thrift")]

WORKING, INITIATED = CompactionState.WORKING, CompactionState.INITIATED
ME = Owner.of_this_process()
DEAD = replace(ME, start="1")
LIVING = {
    "this process": ME,
    "another machine": replace(DEAD, host="elsewhere"),
    "another container": replace(DEAD, boot=f"{ME.boot.partition('.')[0]}.1"),
}


def worker_id_of(owner: Owner) -> str:
    return f"hive-ingest-{owner.process}-{owner.incarnation:04d}"


def take(table: Compacted, owner: Owner) -> CompactionInfo:
    """A worker takes the compaction from the queue, and dies there."""
    info: CompactionInfo | None = table.client.find_next_compact(worker_id_of(owner))
    assert info is not None
    return info


def open_txn(table: Compacted, owner: Owner, agent_info: str = "hive-ingest compactor") -> TxnId:
    agent_info = owner.to_agent_info(agent_info)
    found: TxnId = table.client.open_txns(1, agent_info=agent_info, txn_type=TxnType.COMPACTION)[0]
    return found


def test_what_a_dead_worker_took_and_never_began_goes_back(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request(MINOR)
    take(table, DEAD)
    assert take_back_from_dead_workers(table.client) == 1
    assert [(info.state, info.worker_id) for info in table.history()] == [(INITIATED, None)]


def test_the_transaction_of_a_dead_worker_is_aborted_with_the_reason(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request(MINOR)
    info = take(table, DEAD)
    txn_id = open_txn(table, DEAD)
    table.client.update_compactor_state(info, txn_id)
    assert take_back_from_dead_workers(table.client) == 1
    assert [info.state for info in table.history()] == [INITIATED]
    (aborted,) = [each for each in table.client.get_open_txns_info().transactions if each.id == txn_id]
    assert "process of the compaction's worker has ended" in aborted.abort_reason


def test_a_transaction_that_the_dead_worker_had_not_named_yet_is_aborted(table: Compacted) -> None:
    table.request(MINOR)
    take(table, DEAD)
    open_txn(table, DEAD)
    take_back_from_dead_workers(table.client)
    assert table.client.get_valid_txns().open == ()


@pytest.mark.one_embedded
@pytest.mark.parametrize("owner", LIVING.values(), ids=LIVING)
def test_a_worker_of_another_machine_is_presumed_alive(table: Compacted, owner: Owner) -> None:
    table.request(MINOR)
    table.client.update_compactor_state(take(table, owner), open_txn(table, owner))
    assert take_back_from_dead_workers(table.client) == 0
    assert [info.state for info in table.history()] == [WORKING]
    assert len(table.client.get_valid_txns().open) == 1


@pytest.mark.one_embedded
def test_a_transaction_that_compacts_nothing_is_left_to_its_timeout(table: Compacted) -> None:
    """A dead writer's rows may be wanted by whoever decides about its source (E3)."""
    table.client.open_txns(1, agent_info=DEAD.to_agent_info("a writer"))
    take_back_from_dead_workers(table.client)
    assert len(table.client.get_valid_txns().open) == 1


@pytest.mark.one_embedded
def test_a_running_compactor_takes_the_work_of_a_dead_one(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request(MINOR)
    take(table, DEAD)
    (work,) = Compactor(table.client, roles=["worker"], settings=CompactorSettings(job=FAST)).run_once().worked
    assert work.state is CompactionState.READY_FOR_CLEANING


@contextmanager
def cleaner_with_lock(table: Compacted, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    info = CompactionInfo(0, table.name, None, MINOR, CompactionState.READY_FOR_CLEANING)
    with monkeypatch.context() as patch:
        patch.setattr(Owner, "of_this_process", lambda sink="": owner)
        cleaner = locked_for_cleaning(table.client, info)
        cleaner.__enter__()
    assert len(table.client.show_locks()) == 1
    yield
    cleaner.__exit__(None, None, None)


def test_a_ddl_statement_does_not_wait_for_the_lock_of_a_dead_cleaner_to_time_out(
    table: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cleaner_with_lock(table, DEAD, monkeypatch):
        Compactor(table.client, roles=["cleaner"]).run_once()
        assert table.client.show_locks() == []
        table.client.drop_table(table.name)


@pytest.mark.one_embedded
@pytest.mark.parametrize("owner", LIVING.values(), ids=LIVING)
def test_the_lock_of_a_cleaner_that_may_be_alive_is_left_to_it(
    table: Compacted, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cleaner_with_lock(table, owner, monkeypatch):
        assert release_locks_of_dead_cleaners(table.client) == 0
        assert len(table.client.show_locks()) == 1


@pytest.mark.one_embedded
def test_locks_of_others_than_cleaners_are_left_to_their_timeouts(table: Compacted) -> None:
    component = LockComponent(LockType.SHARED_READ, LockLevel.TABLE, table.name.database, table.name.table)
    request = replace(LockRequest((component,)), agent_info=DEAD.to_agent_info("a reader"))
    held = table.client.lock(request).lock_id
    assert release_locks_of_dead_cleaners(table.client) == 0
    table.client.unlock(held)


@pytest.mark.one_embedded
def test_a_worker_of_a_forked_process_has_an_id_of_its_own(table: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(table.client)
    before = worker.id
    monkeypatch.setattr("hive_ingest.compaction.worker.os.getpid", lambda: ME.pid + 1)
    worker.run_once()
    assert worker.id != before
