"""Hive's `TestStreaming`: one record writer after the other.

Each test has the name of Hive's case in snake case. `test_hive_streaming.py` lists all cases.
"""

from __future__ import annotations

import io

import pytest

import hive_ingest as hi
from hive_ingest.connection import TransactionState
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import RecordWriter
from tests.acceptance.connection.hive_cases import ALERTS, ASIA_INDIA, PLAIN, Row, connect, create_alerts, rows

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="each case is about the client, and these are faster")

OPEN, COMMITTED, INACTIVE = TransactionState.OPEN, TransactionState.COMMITTED, TransactionState.INACTIVE
HELLO, WELCOME = (1, "Hello streaming", *ASIA_INDIA), (2, "Welcome to streaming", *ASIA_INDIA)


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_alerts(metastore)
    return metastore


def check_commits(client: MetastoreClient, writer: RecordWriter, *records: bytes) -> None:
    """Two transactions in a batch. Java's state after `close` is INACTIVE; here it stays that of the last one."""
    conn = connect(client, ALERTS, *ASIA_INDIA, writer=writer, transaction_batch_size=10)
    expected: list[Row] = []
    for record, row in zip(records, (HELLO, WELCOME), strict=False):
        conn.begin_transaction()
        assert conn.state is OPEN
        conn.write(record)
        assert rows(client) == expected, "data should not be visible"
        conn.commit_transaction()
        expected.append(row)
        assert rows(client) == expected
        assert conn.state is COMMITTED
    conn.close()
    assert conn.state is COMMITTED


def check_one_commit(client: MetastoreClient, writer: RecordWriter, record: bytes) -> None:
    """To the table without partitions."""
    with connect(client, PLAIN, writer=writer) as conn:
        conn.begin_transaction()
        assert conn.state is OPEN
        conn.write(record)
        conn.commit_transaction()
        assert conn.state is COMMITTED
    assert rows(client, PLAIN) == [HELLO[:2]]


def test_transaction_batch_commit_delimited(ms: MetastoreClient) -> None:
    check_commits(
        ms, hi.StrictDelimitedInputWriter(field_delimiter=","), b"1,Hello streaming", b"2,Welcome to streaming"
    )
    check_one_commit(ms, hi.StrictDelimitedInputWriter(field_delimiter=","), b"1,Hello streaming")


def test_transaction_batch_commit_json(ms: MetastoreClient) -> None:
    check_commits(ms, hi.StrictJsonWriter(), b'{"id" : 1, "msg": "Hello streaming"}')
    assert len(rows(ms)) == 1


def test_json_input_stream(ms: MetastoreClient) -> None:
    records = (
        b'{"id" : 1, "msg": "Hello streaming"}|{"id" : 2, "msg": "Hello world"}|{"id" : 3, "msg": "Hello world!!"}'
    )
    with connect(ms, ALERTS, *ASIA_INDIA, writer=hi.StrictJsonWriter(line_delimiter="|")) as conn:
        conn.begin_transaction()
        assert conn.state is OPEN
        conn.write(io.BytesIO(records))
        conn.commit_transaction()
    assert rows(ms) == [
        (1, "Hello streaming", *ASIA_INDIA),
        (2, "Hello world", *ASIA_INDIA),
        (3, "Hello world!!", *ASIA_INDIA),
    ]
