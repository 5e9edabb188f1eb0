"""Hive's `TestStreaming`: transactions, visibility, errors. On SQLite and on PostgreSQL.

Each test has the name of Hive's case in snake case. The cases of files, buckets and types are in
`test_hive_streaming_files.py`, those of record writers in `test_hive_streaming_writers.py`, those of several writers
in one transaction in `test_hive_streaming_joined.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.connection import TransactionState
from hive_ingest.errors import (
    ConfigurationError,
    ConnectionMisuse,
    InvalidTable,
    InvalidTransactionState,
    StreamingConnectionError,
    StreamingIOFailure,
    TxnAborted,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import LockState, LockType, TxnState
from hive_ingest.record_writer.text.blocks import TextBlock
from tests.acceptance.connection.hive_cases import ALERTS, ASIA_INDIA, PLAIN, connect, create_alerts, rows
from tests.support.hive_cases import check_ported
from tests.support.metastores import connect_in, housekeeping
from tests.support.tables import create_table, files_of, table_folder
from tests.support.waiting import wait_until

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="each case is about the client, and these are faster")

#: The cases that are ported, in Hive's order.
CASES = (
    "test_bucketing_where_bucket_col_is_not_first_col",
    "test_no_buckets",
    "test_get_delta_path",
    "test_commit_with_key_value",
    "test_connection_with_write_id",
    "test_all_types_delimited_writer",
    "test_all_types_delimited_writer_input_stream",
    "test_auto_roll_transaction_batch",
    "test_stream_bucketing_matches_regular_bucketing",
    "test_table_validation",
    "test_endpoint_connection",
    "test_add_partition",
    "test_add_partition_with_write_id",
    "test_add_dynamic_partition_with_write_id",
    "test_transaction_batch_empty_commit",
    "test_transaction_batch_size_validation",
    "test_time_out_reaper",
    "test_heartbeat",
    "test_transaction_batch_empty_abort",
    "test_transaction_batch_commit_delimited",
    "test_transaction_batch_commit_regex",
    "test_regex_input_stream",
    "test_transaction_batch_commit_json",
    "test_json_input_stream",
    "test_remaining_transactions",
    "test_transaction_batch_abort",
    "test_file_system_error",
    "test_transaction_batch_abort_and_commit",
    "test_multiple_transaction_batch_commits",
    "test_interleaved_transaction_batch_commits",
    "test_concurrent_transaction_batch_commits",
    "test_bucketing",
    "test_file_dump_delta_files_with_streaming_optimizations",
    "test_file_dump_delta_files_without_streaming_optimizations",
    "test_file_dump_corrupt_data_files",
    "test_error_handling",
)
#: Cases that are left out, and why.
LEFT_OUT = {
    "test_file_dump": "it runs ORC's own tool on a healthy file; the tests of the format read every file",
    "test_file_dump_corrupt_side_files": "no _flush_length files are written, so none can be damaged",
}

OPEN, COMMITTED, ABORTED = TransactionState.OPEN, TransactionState.COMMITTED, TransactionState.ABORTED
HELLO, WELCOME = (1, "Hello streaming"), (2, "Welcome to streaming")


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_alerts(metastore)
    return metastore


def seen(client: MetastoreClient) -> list[tuple[Any, ...]]:
    """The rows of Asia/India, without their partition keys."""
    return rows(client, columns=["id", "msg"])


# -- connecting --------------------------------------------------------------------------------------


def test_table_validation(ms: MetastoreClient) -> None:
    ms.create_database("testbucketing3")
    for table in ("validation1", "validation2"):
        name = f"testbucketing3.{table}"
        ms.create_table(
            name,
            columns={"key1": "string", "data": "string"},
            bucket_columns=["key1"],
            num_buckets=100,
            properties={"transactional": "false"},
        )
        with pytest.raises(InvalidTable):
            connect(ms, name)


def test_endpoint_connection(ms: MetastoreClient) -> None:
    connect(ms, ALERTS, *ASIA_INDIA).close()
    connect(ms, PLAIN).close()
    with pytest.raises(StreamingConnectionError, match="is not partitioned"):
        connect(ms, PLAIN, *ASIA_INDIA)


def test_file_system_error(ms: MetastoreClient) -> None:
    """In Java a file system of the wrong class, here a file in place of the table's folder."""
    folder = table_folder(ms, PLAIN)
    folder.rmdir()
    folder.write_text("no folder")
    with pytest.raises(StreamingIOFailure), connect(ms, PLAIN) as conn:
        conn.begin_transaction()


def test_transaction_batch_size_validation(ms: MetastoreClient) -> None:
    """In Java a batch shares a file, which object stores cannot flush. Here each transaction has its own everywhere."""
    with connect(ms, transaction_batch_size=2) as conn:
        for number in (1, 2):
            with conn.transaction():
                conn.write(f"{number},m,Asia,India")
    assert len([name for name in files_of(ms, ALERTS) if "bucket_" in name]) == 2
    with pytest.raises(ConfigurationError, match="transaction_batch_size"):
        connect(ms, transaction_batch_size=0)


# -- commit and abort --------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "partition"), [(ALERTS, ASIA_INDIA), (PLAIN, ())])
def test_transaction_batch_empty_commit(ms: MetastoreClient, table: str, partition: tuple[str, ...]) -> None:
    with connect(ms, table, *partition) as conn:
        conn.begin_transaction()
        conn.commit_transaction()
        assert conn.state is COMMITTED


@pytest.mark.parametrize(("table", "partition"), [(ALERTS, ASIA_INDIA), (PLAIN, ())])
def test_transaction_batch_empty_abort(ms: MetastoreClient, table: str, partition: tuple[str, ...]) -> None:
    with connect(ms, table, *partition) as conn:
        conn.begin_transaction()
        conn.abort_transaction()
        assert conn.state is ABORTED


def test_transaction_batch_abort(ms: MetastoreClient) -> None:
    conn = connect(ms, ALERTS, *ASIA_INDIA)
    conn.begin_transaction()
    conn.write(b"1,Hello streaming")
    conn.write(b"2,Welcome to streaming")
    conn.abort_transaction()
    assert files_of(ms, ALERTS) == []
    assert conn.state is ABORTED
    conn.close()
    assert files_of(ms, ALERTS) == []


def test_transaction_batch_abort_and_commit(ms: MetastoreClient) -> None:
    with connect(ms, ALERTS, *ASIA_INDIA, agent_info="UT_agent", transaction_batch_size=10) as conn:
        conn.begin_transaction()
        conn.write([b"1,Hello streaming", b"2,Welcome to streaming"])
        (lock,) = ms.show_locks()
        assert (lock.type, lock.state, lock.agent_info) == (LockType.SHARED_READ, LockState.ACQUIRED, "UT_agent")
        conn.abort_transaction()
        assert files_of(ms, ALERTS) == []
        assert conn.state is ABORTED

        conn.begin_transaction()
        conn.write([b"1,Hello streaming", b"2,Welcome to streaming"])
        conn.commit_transaction()
        assert seen(ms) == [HELLO, WELCOME]


def test_multiple_transaction_batch_commits(ms: MetastoreClient) -> None:
    """In Java read with every split strategy of Hive, and vectorised: see the tests on real Hive."""
    expected = []
    for batch in (((1, "Hello streaming"), (2, "Welcome to streaming")), ((3, "once again"), (4, "and again"))):
        conn = connect(ms, ALERTS, *ASIA_INDIA, transaction_batch_size=10)
        for id_, msg in batch:
            conn.begin_transaction()
            conn.write(f"{id_},{msg}".encode())
            conn.commit_transaction()
            expected.append((id_, msg))
            assert seen(ms) == expected
        assert conn.state is COMMITTED
        conn.close()


def test_remaining_transactions(ms: MetastoreClient) -> None:
    for end, state in (("commit_transaction", COMMITTED), ("abort_transaction", ABORTED)):
        conn = connect(ms, ALERTS, *ASIA_INDIA, transaction_batch_size=10)
        conn.begin_transaction()
        getattr(conn, end)()
        remaining = conn.remaining_transactions
        assert remaining == 9
        while conn.remaining_transactions > 0:
            conn.begin_transaction()
            remaining -= 1
            assert conn.remaining_transactions == remaining
            for number in range(2):
                assert conn.state is OPEN
                conn.write(f"{number},Hello streaming".encode())
            getattr(conn, end)()
            assert conn.state is state
        assert remaining == 0
        conn.close()


# -- several connections -----------------------------------------------------------------------------


def test_interleaved_transaction_batch_commits(ms: MetastoreClient) -> None:
    """Without the checks of Java's side files, which are not needed here."""
    again, welcome_again = (3, "Hello streaming - once again"), (4, "Welcome to streaming - once again")

    def text(row: tuple[int, str]) -> bytes:
        return f"{row[0]},{row[1]}".encode()

    with (
        connect(ms, ALERTS, *ASIA_INDIA, transaction_batch_size=10) as one,
        connect(ms, ALERTS, *ASIA_INDIA, transaction_batch_size=10) as two,
    ):
        one.begin_transaction()
        two.begin_transaction()
        one.write(text(HELLO))
        two.write(text(again))
        assert seen(ms) == []
        two.commit_transaction()
        assert seen(ms) == [again]
        one.commit_transaction()
        assert seen(ms) == [HELLO, again]

        one.begin_transaction()
        one.write(text(WELCOME))
        two.begin_transaction()
        two.write(text(welcome_again))
        assert seen(ms) == [HELLO, again]
        one.commit_transaction()
        assert seen(ms) == [HELLO, WELCOME, again]
        two.commit_transaction()
        assert seen(ms) == [HELLO, WELCOME, again, welcome_again]
        assert one.state is two.state is COMMITTED


def test_concurrent_transaction_batch_commits(ms: MetastoreClient) -> None:
    errors: list[BaseException] = []

    def stream(record: bytes) -> None:
        try:
            with ms.clone() as client, connect(client, ALERTS, *ASIA_INDIA) as conn:
                for _ in range(10):
                    with conn.transaction():
                        conn.write(record)
                        conn.write(record)
        except BaseException as error:  # noqa: BLE001 (reported by the test's own thread)
            errors.append(error)

    threads = [threading.Thread(target=stream, args=(each,)) for each in (b"1,Matrix", b"2,Gandhi", b"3,Silence")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert seen(ms) == [(1, "Matrix")] * 20 + [(2, "Gandhi")] * 20 + [(3, "Silence")] * 20


# -- heartbeats --------------------------------------------------------------------------------------


def test_time_out_reaper(ms: EmbeddedMetastoreClient) -> None:
    def time_out() -> None:
        ms.clock_offset_seconds += 301
        assert len(housekeeping(ms).timed_out_txns) == 1

    with connect(ms, PLAIN) as conn:
        conn.begin_transaction()
        time_out()
        with pytest.raises(TxnAborted):
            conn.commit_transaction()
    with connect(ms, PLAIN) as conn:
        conn.begin_transaction()
        conn.commit_transaction()
        conn.begin_transaction()
        time_out()
        with pytest.raises(TxnAborted):
            conn.commit_transaction()


def test_heartbeat(metastore_uri: str, tmp_path: Path) -> None:
    """In Java with a timeout of 200 ms, which a busy machine may exceed; here the heart is seen to beat as well."""
    with connect_in(tmp_path, metastore_uri, txn_timeout_seconds=6) as client:
        create_alerts(client)
        with connect(client, PLAIN, transaction_batch_size=20) as conn:
            conn.begin_transaction()
            (lock,) = client.show_locks(PLAIN)
            (again,) = client.show_locks(PLAIN)
            assert again.acquired_at_ms == lock.acquired_at_ms
            assert again.last_heartbeat_ms == lock.last_heartbeat_ms
            wait_until(lambda: client.show_locks(PLAIN)[0].last_heartbeat_ms > lock.last_heartbeat_ms)
            conn.commit_transaction()
            for number in range(60):
                conn.begin_transaction()
                if number % 10 == 0:
                    conn.abort_transaction()
                else:
                    conn.commit_transaction()
            assert conn.stats.transactions_committed == 55


# -- errors ------------------------------------------------------------------------------------------


class FaultyWriter(hi.StrictDelimitedInputWriter):
    """Fails on request, after it has taken a record."""

    fails = False

    def write(self, records: object) -> Iterator[TextBlock]:
        yield from super().write(records)
        self._fault()

    def drain(self) -> Iterator[TextBlock]:
        yield from super().drain()
        self._fault()

    def _fault(self) -> None:
        if self.fails:
            raise StreamingIOFailure("Simulated fault occurred")


def test_error_handling(ms: MetastoreClient) -> None:
    """Java aborts all transactions of the batch at the fault. Here the others are aborted by `close`."""
    create_table(ms, "testerrors.t", {"a": "int", "b": "int"}, bucket_columns=["b"], num_buckets=2)

    def states() -> list[TxnState]:
        return [info.state for info in ms.get_open_txns_info().transactions]

    conn = connect(ms, "testerrors.t", transaction_batch_size=2)
    conn.begin_transaction()
    conn.close()
    assert states() == [TxnState.ABORTED] * 2
    with pytest.raises(ConnectionMisuse, match="is closed"):
        conn.begin_transaction()

    with connect(ms, "testerrors.t", transaction_batch_size=2) as conn:
        for call in (lambda: conn.write(b"1,1"), conn.commit_transaction):
            with pytest.raises(InvalidTransactionState, match=r"call begin_transaction\(\) first"):
                call()

    writer = FaultyWriter()
    with connect(ms, "testerrors.t", writer=writer, transaction_batch_size=2) as conn:
        conn.begin_transaction()
        conn.write([b"2,2", b"4,2", b"5,2"])
        conn.commit_transaction()
        assert "COMMITTED" in repr(conn)
        conn.begin_transaction()
        assert f"txn={conn.txn_id}" in repr(conn)
        writer.fails = True
        with pytest.raises(StreamingIOFailure, match="Simulated fault occurred"):
            conn.write(b"6,2")
        with pytest.raises(InvalidTransactionState, match="abort_transaction"):
            conn.commit_transaction()
        assert "FAILED" in repr(conn)
        conn.abort_transaction()
        assert states() == [TxnState.ABORTED] * 3

    writer.fails = False
    with connect(ms, "testerrors.t", writer=writer, transaction_batch_size=2) as conn:
        conn.begin_transaction()
        conn.write(b"2,2")
        writer.fails = True
        with pytest.raises(StreamingIOFailure, match="Simulated fault occurred"):
            conn.commit_transaction()
    assert states() == [TxnState.ABORTED] * 5
    assert [row[0] for row in rows(ms, "testerrors.t")] == [2, 4, 5]


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported_or_left_out_with_a_reason() -> None:
    check_ported("TestStreaming", CASES, LEFT_OUT, Path(__file__).parent.glob("test_hive_streaming*.py"))
