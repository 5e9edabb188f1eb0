"""Overwrites and appends of one table each get their turn, whatever the others do."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import LockTimeout
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import LockState, TableName, WriteId
from hive_ingest.testing import faults

OVERWRITES = 5
LIMIT_SECONDS = 60.0
TABLES = pytest.mark.parametrize("table", ["plain", "parts"])


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.plain", columns={"id": "int"})
    metastore.create_table("web.parts", columns={"id": "int"}, partition_keys={"part": "string"})
    return metastore


def rows(table: str, *ids: int) -> pa.Table:
    columns: dict[str, Any] = {"id": pa.array(ids, pa.int32())}
    return pa.table(columns | ({"part": ["a"] * len(ids)} if table == "parts" else {}))


def connect(client: MetastoreClient, table: str, **more: Any) -> StreamingConnection:
    more.setdefault("settings", {"lock_wait_seconds": LIMIT_SECONDS})
    return StreamingConnection.connect(client, database="web", table=table, record_writer=hi.ArrowWriter(), **more)


def ids(ms: MetastoreClient, table: str) -> list[int]:
    return sorted(hi.read_table(ms, f"web.{table}")["id"].to_pylist())


@contextmanager
def busy(ms: MetastoreClient, count: int, work: Callable[[MetastoreClient, int], None]) -> Iterator[list[Counter[str]]]:
    """`count` threads that do nothing else but `work`, until the block ends; their errors are raised."""
    done = [Counter[str]() for _ in range(count)]
    stop = threading.Event()

    def loop(number: int) -> None:
        with ms.clone() as client:
            while not stop.is_set():
                work(client, number)
                done[number]["done"] += 1

    with ThreadPoolExecutor(count) as pool:
        tasks: list[Future[None]] = [pool.submit(loop, number) for number in range(count)]
        try:
            wait_until(lambda: all(each["done"] for each in done) or any(task.done() for task in tasks))
            yield done
        finally:
            stop.set()
        for task in tasks:
            task.result()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@TABLES
def test_an_overwrite_is_not_starved_by_appenders_that_commit_without_pause(ms: MetastoreClient, table: str) -> None:
    """It starved: each of its attempts met a higher write id, and it gave up after about a second."""

    def append(client: MetastoreClient, number: int) -> None:
        with connect(client, table) as conn:
            for _ in range(5):
                with conn.transaction():
                    conn.write(rows(table, number))

    append(ms, 0)  # makes the partition: what happens when several make it at once is not the question here
    with busy(ms, 3, append) as appended:
        before = [each["done"] for each in appended]
        with connect(ms, table, overwrite=True) as conn:
            for i in range(OVERWRITES):
                with conn.transaction():
                    conn.write(rows(table, 100 + i))
        wait_until(lambda: all(each["done"] > count for each, count in zip(appended, before, strict=True)))
    found = Counter(ids(ms, table))
    assert {value: count for value, count in found.items() if value >= 100} == {100 + OVERWRITES - 1: 1}
    assert set(found) - {0, 1, 2} == {100 + OVERWRITES - 1}


def test_an_append_is_not_starved_by_overwriters_that_commit_without_pause(ms: MetastoreClient) -> None:
    def overwrite(client: MetastoreClient, number: int) -> None:
        with connect(client, "plain", overwrite=True) as conn, conn.transaction():
            conn.write(rows("plain", number))

    with busy(ms, 2, overwrite), connect(ms, "plain") as conn:
        for i in range(5):
            with conn.transaction():
                conn.write(rows("plain", 100 + i))
    assert len(ids(ms, "plain")) == 1 or ids(ms, "plain")[-1] >= 100


@TABLES
def test_overwriters_get_the_lock_in_the_order_of_their_requests_among_waiting_appenders(
    ms: MetastoreClient, table: str
) -> None:
    """None of them may wait for one that waits for it."""
    kinds = [True, False, True, True, False, False, True, False]
    order: list[int] = []

    def write(number: int) -> None:
        with ms.clone() as client, connect(client, table, overwrite=kinds[number]) as conn, conn.transaction():
            conn.write(rows(table, number))
            order.append(number)

    with connect(ms, table) as first, ThreadPoolExecutor(len(kinds)) as pool:
        first.begin_transaction()
        first.write(rows(table, -1))
        tasks = []
        for number in range(len(kinds)):
            tasks.append(pool.submit(write, number))
            wait_until(lambda: waiting(ms) == len(tasks))
        first.commit_transaction()
        for task in tasks:
            task.result(LIMIT_SECONDS)
    assert [number for number in order if kinds[number]] == [0, 2, 3, 6]
    assert sorted(order) == list(range(len(kinds)))
    assert ids(ms, table) == sorted(order[order.index(6) :])
    assert ms.show_locks() == []


def waiting(ms: MetastoreClient) -> int:
    return len({lock.txn_id for lock in ms.show_locks() if lock.state is LockState.WAITING})


def test_an_overwrite_waits_for_readers(ms: MetastoreClient) -> None:
    hi.append(ms, "web.plain", rows("plain", 1, 2))
    with ThreadPoolExecutor(1) as pool, ms.clone() as other:
        with hi.scan(ms, "web.plain", batch_rows=1) as reader:
            next(reader)
            conn_rows = rows("plain", 7)

            def overwrite() -> None:
                with connect(other, "plain", overwrite=True) as conn, conn.transaction():
                    conn.write(conn_rows)

            task = pool.submit(overwrite)
            wait_until(lambda: waiting(ms) == 1)
            assert reader.read_all().num_rows == 1
        task.result(LIMIT_SECONDS)
    assert ids(ms, "plain") == [7]


def test_an_overwrite_registers_its_writes_with_its_write_id(ms: MetastoreClient) -> None:
    """Its lock comes before its write id, so a second request registers it: else a commit would leave no trace."""
    with connect(ms, "plain", overwrite=True) as conn:
        conn.begin_transaction()
        conn.write(rows("plain", 1))
        assert conn.txn_id is not None
        txn_id = conn.txn_id
        conn.commit_transaction()
    with connect(ms, "plain", overwrite=True) as conn:
        conn.begin_transaction()
        conn.abort_transaction()
    snapshot = ms.get_valid_write_ids([TableName("web", "plain")])[0]
    assert snapshot.aborted == (WriteId(2),)
    ms.commit_txn(txn_id)  # remembered, so not an error


def test_the_error_says_how_often_a_transaction_was_begun_again_and_why(ms: MetastoreClient) -> None:
    """The error was "no lock within lock_wait_seconds=180" after one second, and blamed overwrites."""
    settings = {"begin_retries": 3, "lock_wait_seconds": 60.0}
    message = r"web\.plain could begin: it was begun again 3 times.*higher write id.*begin_retries=3"
    with ms.clone() as other, connect(ms, "plain", overwrite=True, settings=settings) as conn:

        def take_a_higher_write_id(point: str) -> None:
            """Acts as a writer that ignores locks."""
            if point == "after_write_id":
                (txn_id,) = other.open_txns(1)
                other.allocate_table_write_ids("web.plain", [txn_id])
                other.commit_txn(txn_id)

        with faults(observe=take_a_higher_write_id), pytest.raises(LockTimeout, match=message):
            conn.begin_transaction()
    assert ms.get_valid_txns().open == ()
