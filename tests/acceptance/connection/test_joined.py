"""Writers that join somebody else's transaction: their rows become visible with its commit, or never."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.connection import JoinedTransaction, PreparedWrite, StreamingConnection, TransactionState
from hive_ingest.errors import (
    ConfigurationError,
    ConnectionMisuse,
    CorruptFile,
    InvalidTransactionState,
    PartitionCreationFailed,
    SerializationError,
    StreamingIOFailure,
)
from hive_ingest.metastore_client import MetastoreClient
from tests.support import connections
from tests.support.rows import ids, rows
from tests.support.tables import create_table, files_of
from tests.support.warehouses import store_path


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore, "plain")
    create_table(metastore, "parts", partition_keys={"part": "string"})
    create_table(metastore, "buckets", bucket_columns=["id"], num_buckets=3)
    return metastore


def connect(client: MetastoreClient, table: str, **more: Any) -> StreamingConnection:
    return connections.connect(client, table, record_writer=hi.ArrowWriter(), **more)


def prepared(conn: StreamingConnection, data: pa.Table, **ids: Any) -> PreparedWrite:
    """Write as another process would: everything passes through pickle."""
    shared = pickle.loads(pickle.dumps(conn.share_transaction()))
    with JoinedTransaction(shared, hi.ArrowWriter(), **ids) as writer:
        writer.write(data)
        answer = writer.prepare()
        assert writer.state is TransactionState.PREPARED_FOR_COMMIT
    made = pickle.loads(pickle.dumps(answer))
    assert isinstance(made, PreparedWrite)
    return made


def test_rows_of_joined_writers_are_visible_with_the_owners_commit_and_not_before(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        made = [prepared(conn, rows([i, i + 100]), writer_bucket=i) for i in (1, 2)]
        conn.write(rows([0]))
        assert ids(ms, "plain") == []
        conn.commit_transaction(prepared=made)
        assert conn.stats.rows_committed == 5
    assert ids(ms, "plain") == [0, 1, 2, 101, 102]
    unique = hi.read_table(ms, "web.plain", row_ids=True)["row__id"].to_pylist()
    assert len({tuple(row.values()) for row in unique}) == 5


def test_writers_of_a_bucketed_table_differ_by_statement(ms: MetastoreClient) -> None:
    with connect(ms, "buckets") as conn:
        conn.begin_transaction()
        made = [prepared(conn, rows(range(i * 10, i * 10 + 10)), statement_id=i) for i in range(3)]
        conn.commit_transaction(prepared=made)
    assert ids(ms, "buckets") == list(range(30))
    assert {name.split("/")[0] for name in files_of(ms, "buckets")} == {
        f"delta_0000001_0000001_000{i}" for i in range(3)
    }
    unique = hi.read_table(ms, "web.buckets", row_ids=True)["row__id"].to_pylist()
    assert len({tuple(row.values()) for row in unique}) == 30


def test_an_aborted_transaction_takes_the_files_of_all_its_writers_with_it(ms: MetastoreClient) -> None:
    with connect(ms, "parts") as conn:
        conn.begin_transaction()
        prepared(conn, rows([1, 2], part="a"), writer_bucket=1)
        assert files_of(ms, "parts") != []
        conn.abort_transaction()
    assert files_of(ms, "parts") == []


def test_staged_files_that_no_task_reports_are_removed_with_the_commit(ms: MetastoreClient) -> None:
    with connect(ms, "parts") as conn:
        conn.begin_transaction()
        wanted = prepared(conn, rows([1], part="a"), writer_bucket=1)
        prepared(conn, rows([1], part="a"), writer_bucket=1)  # a second attempt of the same share
        conn.commit_transaction(prepared=[wanted])
    assert ids(ms, "parts") == [1]
    assert [name for name in files_of(ms, "parts") if ".hive_ingest" in name] == []


def test_a_late_writer_of_an_ended_transaction_leaves_nothing_after_the_next_connect(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        shared = conn.share_transaction()
        conn.commit_transaction()
    with JoinedTransaction(shared, hi.ArrowWriter(), writer_bucket=1) as zombie:
        zombie.write(rows([1]))
        zombie.prepare()
    assert files_of(ms, "plain") != []
    with connect(ms, "plain"):
        assert files_of(ms, "plain") == []
    assert ids(ms, "plain") == []


@pytest.mark.parametrize("table", ["plain", "buckets"])
def test_two_writers_with_the_same_place_are_refused(ms: MetastoreClient, table: str) -> None:
    with connect(ms, table) as conn:
        conn.begin_transaction()
        made = [prepared(conn, rows([7])) for _ in range(2)]
        with pytest.raises(ConnectionMisuse, match="its own statement_id or writer_bucket"):
            conn.commit_transaction(prepared=made)
        assert conn.state is TransactionState.FAILED
        conn.abort_transaction()
    assert files_of(ms, table) == []


def test_files_prepared_in_another_transaction_are_refused(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        old = prepared(conn, rows([1]))
        conn.abort_transaction()
        conn.begin_transaction()
        with pytest.raises(ConnectionMisuse, match="cannot be committed by transaction"):
            conn.commit_transaction(prepared=[old])


def test_a_prepared_file_that_has_vanished_fails_the_commit(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        made = prepared(conn, rows([1]), writer_bucket=1)
        made.files[0].location.delete_file()
        with pytest.raises(StreamingIOFailure, match=r"no such file"):
            conn.commit_transaction(prepared=[made])
        conn.abort_transaction()
    assert ids(ms, "plain") == []


@pytest.mark.not_on("s3", because="an upload that is not completed cannot be read or changed")
def test_a_prepared_file_that_was_cut_off_fails_the_commit(ms: MetastoreClient) -> None:
    """It was committed, and then the table could not be read."""
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        made = prepared(conn, rows([1]), writer_bucket=1)
        file = store_path(made.files[0].location.uri)
        file.write_bytes(file.read_bytes()[:10])
        with pytest.raises(CorruptFile, match=r"has 10 bytes"):
            conn.commit_transaction(prepared=[made])
        conn.abort_transaction()
    assert ids(ms, "plain") == []


def test_the_limit_of_partitions_holds_for_all_writers_together(ms: MetastoreClient) -> None:
    with connect(ms, "parts", settings={"max_partitions_per_transaction": 2}) as conn:
        conn.begin_transaction()
        made = [prepared(conn, rows([1], part=part)) for part in "abc"]
        with pytest.raises(PartitionCreationFailed, match="max_partitions_per_transaction=2"):
            conn.commit_transaction(prepared=made)


@pytest.mark.parametrize("number", [{"statement_id": 4096}, {"writer_bucket": 4096}, {"writer_bucket": -1}])
def test_a_writer_number_out_of_range_is_refused_before_the_first_row(
    ms: MetastoreClient, number: dict[str, Any]
) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        with pytest.raises(ConfigurationError, match="out of range"):
            JoinedTransaction(conn.share_transaction(), hi.ArrowWriter(), **number)


def test_a_joined_writer_that_fails_leaves_no_file_and_the_owner_can_still_commit(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        shared = conn.share_transaction()
        writer = JoinedTransaction(shared, hi.ArrowWriter(), writer_bucket=1)
        with pytest.raises(SerializationError), writer:
            writer.write(pa.table({"id": ["no number"]}))
        assert writer.state is TransactionState.ABORTED
        conn.write(rows([1]))
        conn.commit_transaction()
    assert ids(ms, "plain") == [1]


def test_a_prepared_writer_takes_no_more_rows(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn:
        conn.begin_transaction()
        with JoinedTransaction(conn.share_transaction(), hi.ArrowWriter(), writer_bucket=1) as writer:
            writer.prepare()
            with pytest.raises(InvalidTransactionState, match="PREPARED_FOR_COMMIT"):
                writer.write(rows([1]))
        conn.abort_transaction()


def test_a_transaction_can_only_be_shared_while_it_is_open(ms: MetastoreClient) -> None:
    with connect(ms, "plain") as conn, pytest.raises(InvalidTransactionState):
        conn.share_transaction()
