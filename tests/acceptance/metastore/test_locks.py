"""Hive 4's locks as TestTxnHandler and its successors have them, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from hive_ingest.errors import ConfigurationError, NoSuchLock, TxnOpen
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockId,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    TxnId,
)
from tests.acceptance.metastore.requests import (
    ACQUIRED,
    EXCL_WRITE,
    EXCLUSIVE,
    READ,
    WAITING,
    WRITE,
    component,
    lock,
    states,
)
from tests.support.metastores import housekeeping

NO_LOCK = LockId(999_999)

# -- which objects overlap ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "asked", "answer"),
    [
        (("db",), ("other",), ACQUIRED),
        (("db",), ("db",), WAITING),
        (("db",), ("db", "t"), WAITING),
        (("db",), ("other", "t"), ACQUIRED),
        (("db", "t"), ("db", "u"), ACQUIRED),
        (("db", "t"), ("db", "t"), WAITING),
        (("db", "t"), ("db", "t", "ds=today"), WAITING),
        (("db", "t"), ("db", "u", "ds=today"), ACQUIRED),
        (("db", "t", "ds=today"), ("db", "t", "ds=yesterday"), ACQUIRED),
        (("db", "t", "ds=today"), ("db", "t", "ds=today"), WAITING),
        (("db", "t", "ds=today"), ("db", "t", "ds=today/hour=1"), ACQUIRED),
        (("db", "t", "ds=today"), ("db", "t"), WAITING),
        (("db", "t"), ("db",), WAITING),
        (("DB", "T", "DS=Today"), ("db", "t", "ds=Today"), WAITING),
        pytest.param(
            *(("db", "t", "ds=Today"), ("db", "t", "ds=today"), ACQUIRED),
            marks=pytest.mark.only_on(["sqlite", "postgres", "hive401"], because="Hive 3 takes values without case"),
        ),
    ],
)
def test_an_exclusive_lock_covers_its_object_and_what_lies_in_it(
    metastore: MetastoreClient, held: tuple[str, ...], asked: tuple[str, ...], answer: LockState
) -> None:
    assert lock(metastore, component(EXCLUSIVE, *held)).state is ACQUIRED
    assert lock(metastore, component(EXCLUSIVE, *asked)).state is answer


# -- which types wait for which ----------------------------------------------------------------------


_WRITERS_SHARE = pytest.mark.only_on(["sqlite", "postgres", "hive401"], because="Hive 3's SHARED_WRITE excludes others")


@pytest.mark.parametrize(
    ("types", "answers"),
    [
        ((READ, READ), (ACQUIRED, ACQUIRED)),
        ((EXCLUSIVE, READ, READ), (ACQUIRED, WAITING, WAITING)),
        ((READ, WRITE), (ACQUIRED, ACQUIRED)),
        ((EXCLUSIVE, READ, WRITE), (ACQUIRED, WAITING, WAITING)),
        ((READ, EXCLUSIVE), (ACQUIRED, WAITING)),
        ((EXCLUSIVE, READ, EXCLUSIVE), (ACQUIRED, WAITING, WAITING)),
        ((WRITE, READ), (ACQUIRED, ACQUIRED)),
        pytest.param((WRITE, WRITE, READ), (ACQUIRED, ACQUIRED, ACQUIRED), marks=_WRITERS_SHARE),
        pytest.param((WRITE, WRITE, WRITE), (ACQUIRED, ACQUIRED, ACQUIRED), marks=_WRITERS_SHARE),
        ((EXCL_WRITE, EXCL_WRITE, READ), (ACQUIRED, WAITING, ACQUIRED)),
        ((EXCL_WRITE, EXCL_WRITE, EXCL_WRITE), (ACQUIRED, WAITING, WAITING)),
        ((WRITE, EXCL_WRITE), (ACQUIRED, WAITING)),
        ((EXCL_WRITE, WRITE), (ACQUIRED, WAITING)),
        ((READ, EXCL_WRITE), (ACQUIRED, ACQUIRED)),
        ((WRITE, EXCLUSIVE), (ACQUIRED, WAITING)),
        ((EXCL_WRITE, EXCLUSIVE), (ACQUIRED, WAITING)),
        ((EXCLUSIVE, EXCLUSIVE, WRITE), (ACQUIRED, WAITING, WAITING)),
        ((EXCLUSIVE, EXCLUSIVE, READ), (ACQUIRED, WAITING, WAITING)),
        ((EXCLUSIVE, EXCL_WRITE), (ACQUIRED, WAITING)),
    ],
)
def test_the_matrix_of_hive_4(
    metastore: MetastoreClient, types: tuple[LockType, ...], answers: tuple[LockState, ...]
) -> None:
    assert tuple(states(metastore, *types)) == answers


def test_a_later_reader_queues_after_a_waiting_exclusive_lock(metastore: MetastoreClient) -> None:
    assert states(metastore, READ, EXCLUSIVE, READ) == [ACQUIRED, WAITING, WAITING]


def test_dropping_a_table_does_not_wait_for_a_reader_of_its_database(metastore: MetastoreClient) -> None:
    lock(metastore, component(READ, "db"))
    assert lock(metastore, component(EXCLUSIVE, "db", "t")).state is ACQUIRED


def test_reading_a_database_does_not_wait_for_the_drop_of_a_table(metastore: MetastoreClient) -> None:
    lock(metastore, component(EXCLUSIVE, "db", "t"))
    assert lock(metastore, component(READ, "db")).state is ACQUIRED


def test_reading_a_table_waits_for_the_drop_of_a_partition(metastore: MetastoreClient) -> None:
    lock(metastore, component(EXCLUSIVE, "db", "t", "ds=today"))
    assert lock(metastore, component(READ, "db", "t")).state is WAITING


def test_locks_of_one_transaction_do_not_wait_for_each_other(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    assert lock(metastore, component(EXCLUSIVE, table="t"), txn_id=txn_id).state is ACQUIRED
    assert lock(metastore, component(EXCLUSIVE, table="t"), txn_id=txn_id).state is ACQUIRED


def test_locks_outside_transactions_wait_for_each_other(metastore: MetastoreClient) -> None:
    assert lock(metastore, component(EXCLUSIVE, table="t"), txn_id=TxnId(0)).state is ACQUIRED
    assert lock(metastore, component(EXCLUSIVE, table="t"), txn_id=TxnId(0)).state is WAITING


# -- waiting -----------------------------------------------------------------------------------------


def test_a_waiting_lock_is_acquired_when_its_blocker_is_aborted(metastore: MetastoreClient) -> None:
    (holder,) = metastore.open_txns()
    lock(metastore, component(EXCL_WRITE, table="t"), txn_id=holder)
    waiting = lock(metastore, component(WRITE, table="t"))
    assert metastore.check_lock(waiting.lock_id).state is WAITING
    metastore.abort_txn(holder)
    assert metastore.check_lock(waiting.lock_id).state is ACQUIRED
    assert metastore.check_lock(waiting.lock_id).state is ACQUIRED


def test_all_components_of_a_request_are_granted_together(metastore: MetastoreClient) -> None:
    (holder,) = metastore.open_txns()
    lock(metastore, component(EXCLUSIVE, table="t"), txn_id=holder)
    both = lock(metastore, component(READ, table="free"), component(READ, table="t"))
    assert both.state is WAITING
    assert {row.state for row in metastore.show_locks() if row.lock_id == both.lock_id} == {WAITING}
    metastore.commit_txn(holder)
    assert metastore.check_lock(both.lock_id).state is ACQUIRED
    assert {row.state for row in metastore.show_locks()} == {ACQUIRED}


def test_a_request_of_two_components_blocks_a_request_of_one(metastore: MetastoreClient) -> None:
    both = lock(metastore, component(EXCLUSIVE, table="t"), component(EXCLUSIVE, table="u"), txn_id=TxnId(0))
    one = lock(metastore, component(EXCLUSIVE, table="u"), txn_id=TxnId(0))
    assert one.state is WAITING
    metastore.unlock(both.lock_id)
    assert metastore.check_lock(one.lock_id).state is ACQUIRED
    metastore.unlock(one.lock_id)
    assert metastore.show_locks() == []


# -- the end of a lock -------------------------------------------------------------------------------


def test_checking_an_unknown_lock_is_an_error(metastore: MetastoreClient) -> None:
    with pytest.raises(NoSuchLock):
        metastore.check_lock(NO_LOCK)


def test_the_lock_of_an_aborted_transaction_is_gone(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    lock_id = lock(metastore, component(EXCLUSIVE, table="t"), txn_id=txn_id).lock_id
    metastore.abort_txn(txn_id)
    with pytest.raises(NoSuchLock):
        metastore.check_lock(lock_id)


@pytest.mark.parametrize("end", ["commit_txn", "abort_txn"])
def test_locks_end_with_their_transaction(metastore: MetastoreClient, end: str) -> None:
    (txn_id,) = metastore.open_txns()
    lock(metastore, component(EXCLUSIVE, "db"), txn_id=txn_id)
    lock(metastore, component(READ, table="t"), txn_id=txn_id)
    getattr(metastore, end)(txn_id)
    assert metastore.show_locks() == []
    assert lock(metastore, component(EXCLUSIVE, "db")).state is ACQUIRED


def test_a_lock_inside_a_transaction_is_not_unlocked(metastore: MetastoreClient) -> None:
    lock_id = lock(metastore, component(READ, table="t")).lock_id
    with pytest.raises(TxnOpen, match=r"transaction 1|txnid:1"):
        metastore.unlock(lock_id)
    assert len(metastore.show_locks()) == 1


def test_a_waiting_lock_inside_a_transaction_can_be_released(metastore: MetastoreClient) -> None:
    lock(metastore, component(EXCLUSIVE, table="t"))
    waiting = lock(metastore, component(READ, table="t"))
    metastore.unlock(waiting.lock_id)
    assert len(metastore.show_locks()) == 1


def test_an_unlock_may_be_repeated(metastore: MetastoreClient) -> None:
    lock_id = lock(metastore, component(READ, table="t"), txn_id=TxnId(0)).lock_id
    metastore.unlock(lock_id)
    metastore.unlock(lock_id)


@pytest.mark.only_on(["sqlite", "postgres"], because="the clock is moved")
def test_a_heartbeat_keeps_a_lock_outside_a_transaction_alive(metastore: EmbeddedMetastoreClient) -> None:
    kept = lock(metastore, component(READ, table="t"), txn_id=TxnId(0)).lock_id
    lost = lock(metastore, component(READ, table="t"), txn_id=TxnId(0)).lock_id
    metastore.clock_offset_seconds = 200
    metastore.heartbeat(lock_id=kept)
    metastore.clock_offset_seconds = 400
    assert housekeeping(metastore).timed_out_lock_rows == 1
    metastore.check_lock(kept)
    with pytest.raises(NoSuchLock):
        metastore.check_lock(lost)
    with pytest.raises(NoSuchLock):
        metastore.heartbeat(lock_id=lost)


@pytest.mark.only_on(["sqlite", "postgres"], because="the clock is moved")
def test_a_heartbeat_by_lock_id_keeps_its_transaction_alive(metastore: EmbeddedMetastoreClient) -> None:
    lock_id = lock(metastore, component(READ, table="t")).lock_id
    metastore.clock_offset_seconds = 200
    metastore.heartbeat(lock_id=lock_id)
    metastore.clock_offset_seconds = 400
    assert housekeeping(metastore).timed_out_txns == ()


# -- what is shown -----------------------------------------------------------------------------------


def test_show_locks_shows_every_field(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    held = lock(metastore, component(EXCLUSIVE, "db", "t", "ds=today"), txn_id=one, agent_info="agent one")
    waiting = lock(metastore, component(READ, "db", "t"), txn_id=two, agent_info="agent two")
    outside = lock(metastore, component(READ, "other"), txn_id=TxnId(0))
    first, second, third = metastore.show_locks()
    assert (first.lock_id, first.internal_id, first.txn_id) == (held.lock_id, 1, one)
    assert (first.database, first.table, first.partition_name) == ("db", "t", "ds=today")
    assert (first.state, first.type, first.user, first.hostname) == (ACQUIRED, EXCLUSIVE, "me", "localhost")
    assert first.agent_info == "agent one"
    assert first.acquired_at_ms is not None
    assert (second.lock_id, second.state, second.acquired_at_ms) == (waiting.lock_id, WAITING, None)
    assert (second.blocked_by_lock_id, second.blocked_by_internal_id) == (held.lock_id, 1)
    assert (third.lock_id, third.database, third.table, third.txn_id) == (outside.lock_id, "other", None, 0)
    assert third.last_heartbeat_ms > 0


def test_show_locks_of_one_table_shows_its_partitions_too(metastore: MetastoreClient) -> None:
    lock(metastore, component(READ, "db", "t", "ds=today"), component(READ, "db", "t"), component(READ, "db", "u"))
    assert [row.partition_name for row in metastore.show_locks("db.T")] == ["ds=today", None]


# -- requests that cannot be meant -------------------------------------------------------------------


def test_a_request_without_components_is_refused(metastore: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match="without components"):
        metastore.lock(LockRequest(()))


@pytest.mark.parametrize(
    ("level", "table", "partition"),
    [(LockLevel.DB, "t", None), (LockLevel.TABLE, None, None), (LockLevel.PARTITION, "t", None)],
)
def test_a_lock_level_needs_its_names(
    metastore: MetastoreClient, level: LockLevel, table: str | None, partition: str | None
) -> None:
    with pytest.raises(ConfigurationError, match=f"at {level.name} level"):
        metastore.lock(LockRequest((LockComponent(READ, level, "db", table, partition),)))


def test_a_lock_in_a_transaction_names_its_operation_type(metastore: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match="operation_type"):
        lock(metastore, component(READ, table="t", operation=DataOperationType.UNSET))
