"""The locks of Hive's `TestTxnHandler`, on SQLite and on PostgreSQL.

Each test has the name of Hive's case in snake case; `test_txn_handler.py` lists all of them. Where the cases of Hive 3
and Hive 4 of one name differ, it is that of Hive 4. As there, the databases and tables that are locked do not exist.
"""

from __future__ import annotations

import time

import pytest

from hive_ingest.errors import NoSuchLock, TxnOpen
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockId,
    LockInfo,
    LockRequest,
    LockResponse,
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
)
from tests.support.metastores import housekeeping

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own lock manager")

NO_TXN, SELECT = DataOperationType.NO_TXN, DataOperationType.SELECT
INSERT, UPDATE, DELETE = DataOperationType.INSERT, DataOperationType.UPDATE, DataOperationType.DELETE
OUTSIDE = TxnId(0)

DATABASE = ("mydb",)
TABLE = ("mydb", "mytable")
PARTITION = ("mydb", "mytable", "mypartition=myvalue")
OTHER_PARTITION = ("mydb", "mytable", "mypartition=yourvalue")


def exclusive(ms: MetastoreClient, *place: str) -> LockResponse:
    """An EXCLUSIVE lock outside a transaction."""
    return lock(ms, component(EXCLUSIVE, *place), txn_id=OUTSIDE)


def on_partition(
    ms: MetastoreClient, type_: LockType, operation: DataOperationType, *, txn_id: TxnId | None = OUTSIDE
) -> LockState:
    """Lock the partition that most cases are about. None stands for a new transaction."""
    return lock(ms, component(type_, *PARTITION, operation=operation), txn_id=txn_id).state


def writes_partition(ms: MetastoreClient, type_: LockType, operation: DataOperationType) -> LockState:
    return on_partition(ms, type_, operation, txn_id=None)


# -- which objects overlap ---------------------------------------------------------------------------


def test_lock_different_d_bs(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *DATABASE).state is ACQUIRED
    assert exclusive(metastore, "yourdb").state is ACQUIRED


def test_lock_same_db(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *DATABASE).state is ACQUIRED
    assert exclusive(metastore, *DATABASE).state is WAITING


def test_lock_db_locks_table(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *DATABASE).state is ACQUIRED
    assert exclusive(metastore, *TABLE).state is WAITING


def test_lock_db_does_not_lock_table_in_different_db(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *DATABASE).state is ACQUIRED
    assert exclusive(metastore, "yourdb", "mytable").state is ACQUIRED


def test_lock_different_tables(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *TABLE).state is ACQUIRED
    assert exclusive(metastore, "mydb", "yourtable").state is ACQUIRED


def test_lock_same_table(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *TABLE).state is ACQUIRED
    assert exclusive(metastore, *TABLE).state is WAITING


def test_lock_table_locks_partition(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *TABLE).state is ACQUIRED
    assert exclusive(metastore, *PARTITION).state is WAITING


def test_lock_different_table_doesnt_lock_partition(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *TABLE).state is ACQUIRED
    assert exclusive(metastore, "mydb", "yourtable", "mypartition=myvalue").state is ACQUIRED


def test_lock_different_partitions(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *PARTITION).state is ACQUIRED
    assert exclusive(metastore, *OTHER_PARTITION).state is ACQUIRED


def test_lock_same_partition(metastore: MetastoreClient) -> None:
    assert exclusive(metastore, *PARTITION).state is ACQUIRED
    assert exclusive(metastore, *PARTITION).state is WAITING


# -- which types wait for which: S = shared, E = exclusive, R = read, W = write ------------------------


def test_lock_srsr(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, READ, INSERT) is ACQUIRED
    assert on_partition(metastore, READ, SELECT) is ACQUIRED


def test_lock_esrsr(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is ACQUIRED
    assert on_partition(metastore, READ, INSERT) is WAITING
    assert on_partition(metastore, READ, SELECT) is WAITING


def test_lock_srsw(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, READ, INSERT) is ACQUIRED
    assert writes_partition(metastore, WRITE, DELETE) is ACQUIRED


def test_lock_esrsw(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is ACQUIRED
    assert on_partition(metastore, READ, SELECT) is WAITING
    assert writes_partition(metastore, WRITE, UPDATE) is WAITING


def test_lock_sre(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, READ, SELECT) is ACQUIRED
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is WAITING


def test_lock_esre(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is ACQUIRED
    assert on_partition(metastore, READ, SELECT) is WAITING
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is WAITING


def test_lock_swsr(metastore: MetastoreClient) -> None:
    assert writes_partition(metastore, WRITE, UPDATE) is ACQUIRED
    assert on_partition(metastore, READ, SELECT) is ACQUIRED


def test_lock_swswsr(metastore: MetastoreClient) -> None:
    """Hive 3 alone has this case, where the second writer waits. As in Hive 4, it does not here."""
    assert writes_partition(metastore, WRITE, UPDATE) is ACQUIRED
    assert writes_partition(metastore, WRITE, DELETE) is ACQUIRED
    assert on_partition(metastore, READ, INSERT) is ACQUIRED


def test_lock_swswsw(metastore: MetastoreClient) -> None:
    assert writes_partition(metastore, WRITE, UPDATE) is ACQUIRED
    assert writes_partition(metastore, WRITE, DELETE) is ACQUIRED
    assert on_partition(metastore, WRITE, INSERT) is ACQUIRED


def test_lock_ewewsr(metastore: MetastoreClient) -> None:
    assert writes_partition(metastore, EXCL_WRITE, UPDATE) is ACQUIRED
    assert writes_partition(metastore, EXCL_WRITE, DELETE) is WAITING
    assert on_partition(metastore, READ, INSERT) is ACQUIRED


def test_lock_ewewew(metastore: MetastoreClient) -> None:
    assert writes_partition(metastore, EXCL_WRITE, DELETE) is ACQUIRED
    assert writes_partition(metastore, EXCL_WRITE, DELETE) is WAITING
    assert writes_partition(metastore, EXCL_WRITE, DELETE) is WAITING


def test_lock_eesw(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is ACQUIRED
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is WAITING
    assert writes_partition(metastore, WRITE, DELETE) is WAITING


def test_lock_eesr(metastore: MetastoreClient) -> None:
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is ACQUIRED
    assert on_partition(metastore, EXCLUSIVE, NO_TXN) is WAITING
    assert on_partition(metastore, READ, SELECT) is WAITING


# -- waiting -----------------------------------------------------------------------------------------


def test_check_lock_acquire_after_waiting(metastore: MetastoreClient) -> None:
    (holder,) = metastore.open_txns()
    assert on_partition(metastore, EXCL_WRITE, UPDATE, txn_id=holder) is ACQUIRED
    waiting = lock(metastore, component(WRITE, *PARTITION, operation=INSERT))
    assert waiting.state is WAITING
    metastore.abort_txn(holder)
    assert metastore.check_lock(waiting.lock_id).state is ACQUIRED


def test_check_lock_no_such_lock(metastore: MetastoreClient) -> None:
    with pytest.raises(NoSuchLock):
        metastore.check_lock(LockId(23))


def test_check_lock_txn_aborted(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    lock_id = lock(metastore, component(WRITE, *PARTITION, operation=DELETE), txn_id=txn_id).lock_id
    metastore.abort_txn(txn_id)
    with pytest.raises(NoSuchLock):
        metastore.check_lock(lock_id)


def test_multiple_lock(metastore: MetastoreClient) -> None:
    components = (component(EXCLUSIVE, *PARTITION), component(EXCLUSIVE, *OTHER_PARTITION))
    both = lock(metastore, *components, txn_id=OUTSIDE)
    assert both.state is ACQUIRED
    assert metastore.check_lock(both.lock_id).state is ACQUIRED
    metastore.unlock(both.lock_id)
    assert metastore.show_locks() == []


def test_multiple_lock_wait(metastore: MetastoreClient) -> None:
    components = (component(EXCLUSIVE, *PARTITION), component(EXCLUSIVE, *OTHER_PARTITION))
    both = lock(metastore, *components, txn_id=OUTSIDE)
    assert both.state is ACQUIRED
    one = exclusive(metastore, *PARTITION)
    assert one.state is WAITING
    metastore.unlock(both.lock_id)
    assert metastore.check_lock(one.lock_id).state is ACQUIRED


# -- the end of a lock -------------------------------------------------------------------------------


def test_unlock_on_commit(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    assert lock(metastore, component(WRITE, *TABLE, operation=DELETE), txn_id=txn_id).state is ACQUIRED
    metastore.commit_txn(txn_id)
    assert metastore.show_locks() == []


def test_unlock_on_abort(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    assert lock(metastore, component(WRITE, *DATABASE, operation=UPDATE), txn_id=txn_id).state is ACQUIRED
    metastore.abort_txn(txn_id)
    assert metastore.show_locks() == []


def test_unlock_with_txn(metastore: MetastoreClient) -> None:
    lock_id = lock(metastore, component(WRITE, *PARTITION, operation=DELETE)).lock_id
    with pytest.raises(TxnOpen):
        metastore.unlock(lock_id)


def test_heartbeat_lock(metastore: EmbeddedMetastoreClient) -> None:
    """Thirty beats of one lock. Here each comes shortly before the lock's timeout."""
    held = exclusive(metastore, *PARTITION)
    assert held.state is ACQUIRED
    for beat in range(1, 31):
        metastore.clock_offset_seconds = beat * 290
        metastore.heartbeat(lock_id=held.lock_id)
        assert housekeeping(metastore).timed_out_lock_rows == 0
    assert metastore.check_lock(held.lock_id).state is ACQUIRED


def test_heartbeat_no_lock(metastore: MetastoreClient) -> None:
    with pytest.raises(NoSuchLock):
        metastore.heartbeat(lock_id=LockId(29389839))


def test_lock_timeout(metastore: EmbeddedMetastoreClient) -> None:
    held = exclusive(metastore, *PARTITION)
    assert held.state is ACQUIRED
    metastore.clock_offset_seconds = 301
    assert housekeeping(metastore).timed_out_lock_rows == 1
    with pytest.raises(NoSuchLock):
        metastore.check_lock(held.lock_id)


# -- SHOW LOCKS --------------------------------------------------------------------------------------


def ask_as(ms: MetastoreClient, who: LockComponent, user: str, hostname: str, txn_id: TxnId = OUTSIDE) -> LockId:
    return ms.lock(LockRequest((who,), txn_id, user=user, hostname=hostname)).lock_id


def test_show_locks(metastore: MetastoreClient) -> None:
    beginning = round(time.time() * 1000) - 1_000  # the clock is the database's
    first = ask_as(metastore, component(EXCLUSIVE, *DATABASE), "me", "localhost")
    (txn_id,) = metastore.open_txns()
    second = ask_as(metastore, component(READ, *TABLE, operation=SELECT), "me", "localhost", txn_id)
    insert = component(READ, "yourdb", "yourtable", "yourpartition=yourvalue", operation=INSERT)
    third = ask_as(metastore, insert, "you", "remotehost")

    shown = {info.lock_id: info for info in metastore.show_locks()}
    assert shown.keys() == {first, second, third}

    def fields(info: LockInfo) -> tuple[object, ...]:
        where = (info.database, info.table, info.partition_name)
        return (info.txn_id, *where, info.state, info.type, info.user, info.hostname)

    assert fields(shown[first]) == (0, "mydb", None, None, ACQUIRED, EXCLUSIVE, "me", "localhost")
    assert fields(shown[second]) == (txn_id, "mydb", "mytable", None, WAITING, READ, "me", "localhost")
    assert fields(shown[third]) == (
        *(0, "yourdb", "yourtable", "yourpartition=yourvalue", ACQUIRED, READ, "you", "remotehost"),
    )
    end = round(time.time() * 1000) + 1_000
    for held in (shown[first], shown[third]):
        assert held.acquired_at_ms is not None
        assert beginning <= held.acquired_at_ms <= end
        assert beginning <= held.last_heartbeat_ms <= end
    assert shown[second].acquired_at_ms is None
    (transaction,) = metastore.get_open_txns_info().transactions
    assert shown[second].last_heartbeat_ms == transaction.last_heartbeat_ms, "Hive shows 0"
