"""Transactions of a connection, its locks and ids, and who may use it."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Iterator

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.acid.write_ids import ValidWriteIdList
from hive_ingest.connection import StreamingConnection, TransactionState
from hive_ingest.delta.transaction_writer import TransactionWriter
from hive_ingest.errors import (
    ConnectionMisuse,
    InvalidTransactionState,
    SerializationError,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import LockState, LockType, TxnId
from hive_ingest.record_writer import StrictJsonWriter
from tests.acceptance.connection.web_tables import connect, create_web_tables, record
from tests.support.rows import ids
from tests.support.tables import files_of
from tests.support.waiting import wait_until


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_web_tables(metastore)
    return metastore


@pytest.fixture
def conn(ms: MetastoreClient) -> Iterator[StreamingConnection]:
    with connect(ms) as connection:
        yield connection


# -- transactions ----------------------------------------------------------------------------------------


def test_a_late_clean_up_of_one_transaction_loses_no_record_of_the_next(
    ms: MetastoreClient, conn: StreamingConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_written, is_clean, discard = threading.Event(), threading.Event(), TransactionWriter.discard

    def late(writer: TransactionWriter) -> None:
        assert is_written.wait(60)
        discard(writer)
        is_clean.set()

    with conn.transaction():
        conn.write(record(1))
        monkeypatch.setattr(TransactionWriter, "discard", late)
    with conn.transaction():
        conn.write(record(2))
        is_written.set()
        assert is_clean.wait(60)
        conn.write(record(3))

    assert ids(ms, "web.plain") == [1, 2, 3]


def test_rows_are_visible_after_the_commit_and_not_before(ms: MetastoreClient, conn: StreamingConnection) -> None:
    conn.begin_transaction()
    conn.write(record(1))
    conn.flush()
    assert ids(ms, "web.plain") == []
    conn.commit_transaction()
    assert ids(ms, "web.plain") == [1]
    with conn.transaction():
        conn.write([record(2), record(3)])
    assert ids(ms, "web.plain") == [1, 2, 3]
    assert conn.state is TransactionState.COMMITTED
    assert conn.stats.transactions_committed == 2
    assert conn.stats.rows_committed == 3


def test_each_transaction_is_one_delta_with_one_file_a_bucket(ms: MetastoreClient, conn: StreamingConnection) -> None:
    for i in range(2):
        with conn.transaction():
            conn.write(record(i))
    assert files_of(ms, "web.plain") == [
        "delta_0000001_0000001_0000/_orc_acid_version",
        "delta_0000001_0000001_0000/bucket_00000",
        "delta_0000002_0000002_0000/_orc_acid_version",
        "delta_0000002_0000002_0000/bucket_00000",
    ]


def test_an_aborted_transaction_leaves_neither_row_nor_file(ms: MetastoreClient, conn: StreamingConnection) -> None:
    conn.begin_transaction()
    conn.write(record(1))
    conn.flush()
    conn.abort_transaction()
    assert conn.state is TransactionState.ABORTED
    assert files_of(ms, "web.plain") == []
    with conn.transaction():
        conn.write(record(2))
    assert ids(ms, "web.plain") == [2]


def test_empty_transactions_may_commit_and_abort(ms: MetastoreClient) -> None:
    for table in ("plain", "alerts"):
        with connect(ms, table) as conn:
            with conn.transaction():
                pass
            conn.begin_transaction()
            conn.abort_transaction()
            with conn.transaction():
                conn.write([])
                conn.write(io.BytesIO())
        assert ids(ms, f"web.{table}") == []


@pytest.mark.parametrize("empty", [b"", "", b"\n"])
def test_an_empty_record_does_not_vanish(ms: MetastoreClient, empty: object) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        conn.write(empty)
        with pytest.raises(SerializationError, match="record 0"):
            conn.commit_transaction()
    skipping = StrictJsonWriter(on_error="skip")
    with connect(ms, "plain", record_writer=skipping) as conn, conn.transaction():
        conn.write([record(1), empty])
        conn.write(empty)
    assert conn.stats.records_skipped == 2
    assert ids(ms, "web.plain") == [1]


def test_an_error_in_the_with_block_aborts(ms: MetastoreClient, conn: StreamingConnection) -> None:
    def use() -> None:
        with conn.transaction():
            conn.write(record(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert conn.state is TransactionState.ABORTED
    assert ids(ms, "web.plain") == []
    assert ms.get_valid_txns().open == ()


def test_a_bad_record_fails_the_transaction_and_only_abort_is_legal(
    ms: MetastoreClient, conn: StreamingConnection
) -> None:
    conn.begin_transaction()
    conn.write([record(1), b'{"id": "one"}', record(3)])
    with pytest.raises(SerializationError, match="record 1") as caught:
        conn.commit_transaction()
    assert caught.value.record == 1
    assert conn.state is TransactionState.FAILED
    with pytest.raises(InvalidTransactionState, match="abort_transaction"):
        conn.write(record(4))
    conn.abort_transaction()
    assert files_of(ms, "web.plain") == []
    with conn.transaction():
        conn.write(record(5))
    assert ids(ms, "web.plain") == [5]


def test_skipped_records_are_counted_and_the_others_committed(ms: MetastoreClient) -> None:
    with connect(ms, record_writer=StrictJsonWriter(on_error="skip")) as conn:
        with conn.transaction():
            conn.write([record(1), b"junk", record(3)])
        assert conn.stats.records_skipped == 1
        assert conn.stats.records_written == 2
    assert ids(ms, "web.plain") == [1, 3]


def test_calls_in_the_wrong_state_name_the_state_and_the_remedy(conn: StreamingConnection) -> None:
    for call in (lambda: conn.write(record(1)), conn.flush, conn.commit_transaction, conn.abort_transaction):
        with pytest.raises(InvalidTransactionState, match=r"INACTIVE: call begin_transaction\(\) first"):
            call()
    conn.begin_transaction()
    with pytest.raises(InvalidTransactionState, match="OPEN: commit or abort"):
        conn.begin_transaction()


def test_every_call_after_close_reports_that_it_is_closed(ms: MetastoreClient) -> None:
    conn = connect(ms)
    conn.close()
    conn.close()
    for call in (conn.begin_transaction, lambda: conn.write(b""), conn.commit_transaction, conn.abort_transaction):
        with pytest.raises(ConnectionMisuse, match="is closed"):
            call()


def test_close_aborts_what_is_open(ms: MetastoreClient) -> None:
    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(record(1))
    assert ids(ms, "web.plain") == []
    assert files_of(ms, "web.plain") == []
    assert ms.show_locks() == []


def test_a_batch_of_transactions_is_opened_in_one_call_and_released(ms: MetastoreClient) -> None:
    with connect(ms, transaction_batch_size=3) as conn:
        conn.begin_transaction()
        first = conn.txn_id
        assert conn.remaining_transactions == 2
        conn.commit_transaction()
        conn.begin_transaction()
        assert first is not None
        assert conn.txn_id == first + 1
        conn.abort_transaction()
        assert conn.remaining_transactions == 1
    assert ms.get_valid_txns().open == ()


def test_prefetched_transactions_are_released_after_a_while(ms: MetastoreClient) -> None:
    with connect(ms, transaction_batch_size=5, settings={"max_idle_seconds": 0.2}) as conn:
        with conn.transaction():
            conn.write(record(1))
        wait_until(lambda: ms.get_valid_txns().open == ())
        assert conn.remaining_transactions == 0
        with conn.transaction():
            conn.write(record(2))
    assert ids(ms, "web.plain") == [1, 2]


def test_a_prefetched_transaction_that_an_operator_aborted_is_skipped(ms: MetastoreClient) -> None:
    with connect(ms, transaction_batch_size=3) as conn:
        with conn.transaction():
            conn.write(record(1))
            assert conn.txn_id is not None
            ms.abort_txn(TxnId(conn.txn_id + 1))
            first = conn.txn_id
        conn.begin_transaction()
        assert conn.txn_id == first + 2
        conn.write(record(2))
        conn.commit_transaction()
    assert ids(ms, "web.plain") == [1, 2]


def test_interleaved_connections_see_only_what_is_committed(ms: MetastoreClient) -> None:
    with connect(ms) as one, connect(ms) as two:
        one.begin_transaction()
        two.begin_transaction()
        one.write(record(1))
        two.write(record(2))
        two.commit_transaction()
        assert ids(ms, "web.plain") == [2]
        one.write(record(3))
        one.commit_transaction()
    assert ids(ms, "web.plain") == [1, 2, 3]


def test_threads_with_a_connection_each_lose_and_duplicate_nothing(ms: MetastoreClient) -> None:
    errors: list[BaseException] = []

    def work(start: int) -> None:
        try:
            with ms.clone() as client, connect(client) as conn:
                for i in range(10):
                    with conn.transaction():
                        conn.write([record(start + i * 10 + k) for k in range(10)])
        except BaseException as error:  # noqa: BLE001 (told to the test's own thread)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n * 100,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert ids(ms, "web.plain") == list(range(300))


# -- locks and ids ---------------------------------------------------------------------------------------


def test_the_lock_is_shared_read_on_the_table_and_carries_the_agent_info(
    ms: MetastoreClient, conn: StreamingConnection
) -> None:
    conn.begin_transaction()
    (lock,) = ms.show_locks("web.plain")
    assert (lock.state, lock.type, lock.partition_name) == (LockState.ACQUIRED, LockType.SHARED_READ, None)
    assert (lock.txn_id, lock.agent_info) == (conn.txn_id, "test")
    conn.commit_transaction()
    assert ms.show_locks("web.plain") == []


def test_shared_write_locks_are_available_for_servers_that_need_them(ms: MetastoreClient) -> None:
    with connect(ms, settings={"shared_write": True}) as conn:
        conn.begin_transaction()
        assert [lock.type for lock in ms.show_locks("web.plain")] == [LockType.SHARED_WRITE]


def test_write_ids_grow_by_one_a_transaction(ms: MetastoreClient, conn: StreamingConnection) -> None:
    seen = []
    for _ in range(3):
        with conn.transaction():
            assert conn.write_id is not None
            seen.append(conn.write_id)
    assert seen == [1, 2, 3]
    assert ms.get_valid_write_ids(["web.plain"]) == [ValidWriteIdList(conn.table.name, seen[-1])]


# -- one owner -------------------------------------------------------------------------------------------


def test_use_from_another_thread_is_refused(conn: StreamingConnection) -> None:
    conn.begin_transaction()
    caught: list[BaseException] = []

    def use() -> None:
        try:
            conn.write(record(1))
        except ConnectionMisuse as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "another thread" in str(caught[0])
    conn.write(record(2))
    conn.commit_transaction()


def test_use_after_a_fork_is_refused_and_the_child_harms_nothing(
    ms: MetastoreClient, conn: StreamingConnection
) -> None:
    conn.begin_transaction()
    conn.write(record(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
        pid = os.fork()
    if pid == 0:
        try:
            conn.write(record(2))
        except ConnectionMisuse:
            os._exit(17)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
    conn.commit_transaction()
    assert ids(ms, "web.plain") == [1]


def test_an_unclosed_connection_warns_and_aborts(ms: MetastoreClient) -> None:
    conn = connect(ms)
    conn.begin_transaction()
    conn.write(record(1))
    with pytest.warns(ResourceWarning, match=r"web\.plain was not closed"):
        del conn
    wait_until(lambda: ms.get_valid_txns().open == () and files_of(ms, "web.plain") == [])


# -- big and small ---------------------------------------------------------------------------------------


def test_spills_are_joined_into_one_file_and_no_row_is_lost(ms: MetastoreClient) -> None:
    settings = {"max_buffer_bytes": 1 << 20, "spill_chunk_bytes": 1 << 18, "min_spill_bytes": 1 << 16}
    with connect(ms, record_writer=StrictJsonWriter(block_bytes=1 << 16), settings=settings) as conn:
        with conn.transaction():
            for start in range(0, 60_000, 1000):
                conn.write(b"\n".join(record(i, "x" * 40) for i in range(start, start + 1000)))
        assert conn.stats.spills >= 3
        assert conn.stats.files_committed == 1
    rows = hi.read_table(ms, "web.plain", columns=["id"], row_ids=True)
    assert rows.column("id").to_pylist() == list(range(60_000))
    assert pa.compute.struct_field(rows.column("row__id"), "rowid").to_pylist() == list(range(60_000))


def test_many_small_partitions_share_their_spills_and_get_one_file_each(ms: MetastoreClient) -> None:
    settings = {"max_buffer_bytes": 1 << 20}
    with connect(ms, "alerts", record_writer=StrictJsonWriter(block_bytes=1 << 16), settings=settings) as conn:
        with conn.transaction():
            for start in range(0, 80_000, 1000):
                conn.write(
                    b"\n".join(
                        record(i, "x" * 40, continent="c", country=str(i % 30)) for i in range(start, start + 1000)
                    )
                )
        assert conn.stats.spills >= 3
    assert ids(ms, "web.alerts") == list(range(80_000))
    data = [name for name in files_of(ms, "web.alerts") if "bucket_" in name]
    assert len(data) == len(set(data))
    assert {name.split("/")[1] for name in data} == {f"country={i}" for i in range(30)}
