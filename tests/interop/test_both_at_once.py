"""Hive and we write one table at once: whole transactions, nothing lost, and no overwrite takes what was committed."""

from __future__ import annotations

import abc
import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.acid.names import BaseName
from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import TxnAborted
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockRequest, LockState, LockType, TableName
from hive_ingest.orc.writer.acid_writer import write_acid_version
from hive_ingest.storage import Location
from hive_ingest.testing import faults
from tests.interop.agreement import BOTH_MODES, assert_agreement
from tests.interop.hive import RealHive
from tests.interop.tables import orc_properties
from tests.support import connections
from tests.support.tables import table_folder
from tests.support.waiting import wait_until

EACH = 10
#: Of the batch of a row that was there before.
FIRST = -1


def create(hive: RealHive, client: MetastoreClient, name: str, **layout: object) -> str:
    columns = {"batch": "int", "number": "int"}
    client.create_table(name, columns=columns, properties=orc_properties(hive), **layout)  # type: ignore[arg-type]
    return name


def connect(client: MetastoreClient, name: str, *, shared_write: bool = False) -> StreamingConnection:
    return connections.connect(client, name, record_writer=hi.ArrowWriter(), settings={"shared_write": shared_write})


def rows(batch: int, **constant: str) -> pa.Table:
    numbers = pa.array(range(EACH), pa.int32())
    columns = {"batch": pa.array([batch] * EACH, pa.int32()), "number": numbers}
    return pa.table(columns | {key: [value] * EACH for key, value in constant.items()})


def batches(client: MetastoreClient, name: str) -> Counter[int]:
    """How many rows of each batch a snapshot of ours has."""
    return Counter(hi.read_table(client, name, columns=["batch"])["batch"].to_pylist())


# -- at once -------------------------------------------------------------------------------------------


class InBackground(abc.ABC):
    """Runs in a separate thread until it is stopped."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    @abc.abstractmethod
    def run(self) -> None: ...

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(self.run)
            try:
                yield
            finally:
                self._stop.set()
            task.result(60)


class Streamer(InBackground):
    """Streams small transactions; remembers what was committed."""

    def __init__(self, client: MetastoreClient, name: str) -> None:
        super().__init__()
        self.committed: list[int] = []
        self._client, self._name = client, name

    def run(self) -> None:
        with self._client.clone() as client, connect(client, self._name) as conn:
            batch = 0
            while not self._stop.is_set():
                with conn.transaction():
                    conn.write(rows(batch))
                self.committed.append(batch)
                batch += 1
                time.sleep(0.05)


class Watcher(InBackground):
    """Reads snapshot after snapshot, and keeps those that do not hold whole transactions or lack a committed one."""

    def __init__(self, client: MetastoreClient, name: str, streamer: Streamer) -> None:
        super().__init__()
        self.snapshots = 0
        self._client, self._name, self._streamer = client, name, streamer

    def run(self) -> None:
        with self._client.clone() as client:
            while not self._stop.is_set():
                reported = list(self._streamer.committed)
                found = batches(client, self._name)
                assert set(found.values()) <= {EACH}, f"a snapshot has a part of a transaction: {found}"
                assert set(reported) <= set(found), "a snapshot lacks what had been committed"
                self.snapshots += 1


def test_streaming_while_hive_inserts_updates_deletes_and_compacts_loses_nothing(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    name = create(hive, client, f"{database}.t")
    hi.append(client, name, rows(FIRST))
    streamer = Streamer(client, name)
    watcher = Watcher(client, name, streamer)
    values = ", ".join(f"({-10 - batch}, {number})" for batch in range(2) for number in range(EACH))
    with streamer.running(), watcher.running():
        hive.sql(f"insert into {name} values {values}")
        hive.sql(f"update {name} set number = number + 100 where batch < 0 or batch % 3 = 0")
        hive.compact_uncleaned(name, "minor")
        hive.sql(f"delete from {name} where batch = -11")
        assert_consistent(hive, name)
        hive.compact_uncleaned(name, "major")
        hive.sql(f"update {name} set number = number + 100 where batch < 0 or batch % 3 = 1")
        assert_consistent(hive, name)
    assert watcher.snapshots > 3
    assert len(streamer.committed) > 3

    assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert batches(client, name) == dict.fromkeys((FIRST, -10, *streamer.committed), EACH)


def assert_consistent(hive: RealHive, name: str) -> None:
    """A snapshot of Hive's."""
    found = hive.sql(f"select batch, number from {name}")
    assert set(Counter(batch for batch, _ in found).values()) == {EACH}


# -- overwrites ----------------------------------------------------------------------------------------

OVERWRITES = {"insert_overwrite": "insert overwrite table {name} values (50, 0)", "truncate": "truncate table {name}"}
BEFORE_LOCK = ("after_open_txns", "after_write_id")
UNDER_LOCK = ("after_lock_acquired", "after_spill", "after_commit_heartbeat", "after_publish")


@pytest.mark.parametrize("statement", OVERWRITES.values(), ids=OVERWRITES)
def test_an_overwrite_that_ends_before_our_lock_loses_no_row_of_ours(
    hive: RealHive, client: MetastoreClient, database: str, statement: str
) -> None:
    for point in BEFORE_LOCK:
        name = create(hive, client, f"{database}.{point}")
        hi.append(client, name, rows(FIRST))
        overwrite = functools.partial(hive.sql, statement.format(name=name))
        with connect(client, name) as conn, at(point, overwrite), conn.transaction():
            conn.write(rows(1))
        found = batches(client, name)
        assert (found[1], found[FIRST]) == (EACH, 0), point
        assert_agreement(hive, client, name)


@pytest.mark.parametrize("statement", OVERWRITES.values(), ids=OVERWRITES)
def test_an_overwrite_waits_for_our_lock_until_we_have_committed(
    hive: RealHive, client: MetastoreClient, database: str, statement: str
) -> None:
    """It replaces what was committed before it; what is committed after it is there.

    TRUNCATE of Hive 4 takes an EXCL_WRITE lock, which waits for SHARED_WRITE and not for SHARED_READ.
    """
    name = create(hive, client, f"{database}.t")
    shared_write = statement.startswith("truncate")
    with (
        ThreadPoolExecutor(1) as pool,
        client.clone() as other,
        connect(client, name, shared_write=shared_write) as conn,
    ):
        for batch, point in enumerate(UNDER_LOCK):
            started: list[Future[object]] = []

            def overwrite(started: list[Future[object]] = started) -> None:
                started.append(pool.submit(hive.sql, statement.format(name=name)))
                wait_until_blocked(other, name)

            with at(point, overwrite), conn.transaction():
                conn.write(rows(batch))
                conn.flush()
                assert not any(task.done() for task in started)
            started[0].result(120)
            assert batches(client, name)[batch] == 0, f"{point}: it came after us, and replaces what we wrote"
            with conn.transaction():
                conn.write(rows(100 + batch))
            assert batches(client, name)[100 + batch] == EACH
    assert_agreement(hive, client, name)


def test_a_truncate_of_hive_4_that_does_not_wait_is_noticed_before_our_commit(hive401: RealHive) -> None:
    with hi.connect_metastore(hive401.metastore.uri) as client:
        client.create_database("truncated")
        for point in UNDER_LOCK[1:]:  # the transaction is begun again until the first one
            name = create(hive401, client, f"truncated.{point}")
            hi.append(client, name, rows(FIRST))
            truncate = functools.partial(hive401.sql, f"truncate table {name}")
            with connect(client, name) as conn:
                with pytest.raises(TxnAborted, match="was overwritten with write id"), at(point, truncate):
                    write(conn, 1)
                assert batches(client, name) == {}, point
                write(conn, 2)
            assert_agreement(hive401, client, name)
            assert batches(client, name) == {2: EACH}, point


def write(conn: hi.StreamingConnection, batch: int) -> None:
    with conn.transaction():
        conn.write(rows(batch))
        conn.flush()


@contextmanager
def at(point: str, act: Callable[[], object]) -> Iterator[None]:
    """Once, when our writer comes to `point`."""
    done: list[str] = []

    def observe(passed: str) -> None:
        if passed == point and not done:
            done.append(passed)
            act()

    with faults(observe=observe):
        yield
    assert done, f"{point} was never reached: the test tests nothing"


def wait_until_blocked(client: MetastoreClient, name: str) -> None:
    wait_until(
        lambda: any(lock.state is LockState.WAITING for lock in client.show_locks(name)),
        "the overwrite does not wait for our lock",
    )


def test_an_overwrite_that_the_metastore_has_forgotten_is_seen_in_the_folder(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    """It began before us, took its write id after us, and its row is pruned: so do servers without MIN_HISTORY_LEVEL.

    3.1.3 always has that, so there the row stays.
    """
    name = create(hive, client, f"{database}.t")
    hi.append(client, name, rows(FIRST))
    (older,) = client.open_txns(1, agent_info="older than ours")

    def overwrite_and_be_forgotten() -> None:
        empty_by_overwrite(client, TableName.of(name), older)
        if hive.version != "3.1.3":
            hive.metastore.query(f'DELETE FROM "TXN_TO_WRITE_ID" WHERE "T2W_TXNID" = {older} RETURNING "T2W_TXNID"')

    with connect(client, name) as conn, at("after_write_id", overwrite_and_be_forgotten), conn.transaction():
        conn.write(rows(1))
    assert batches(client, name) == {1: EACH}
    assert_agreement(hive, client, name)


def empty_by_overwrite(client: MetastoreClient, name: TableName, txn_id: int) -> None:
    """TRUNCATE as Hive 4 does it, in a transaction that is open already: an exclusive lock, then an empty `base_N`."""
    [allocated] = client.allocate_table_write_ids(name, [txn_id])  # type: ignore[list-item]
    lock = LockComponent(
        *(LockType.EXCLUSIVE, LockLevel.TABLE, name.database, name.table), operation_type=DataOperationType.INSERT
    )
    assert client.lock(LockRequest((lock,), allocated.txn_id)).state is LockState.ACQUIRED
    folder = Location.of(str(table_folder(client, name))) / str(BaseName(allocated.write_id))
    folder.make_folder()
    write_acid_version(folder.store, [folder.path], sync=False)
    client.commit_txn(allocated.txn_id)
