"""Hive's `TestStreaming`: one record writer after the other.

Each test has the name of Hive's case in snake case. `test_hive_streaming.py` lists all cases.
"""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal

import pytest

import hive_ingest as hi
from hive_ingest.connection import TransactionState
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import RecordWriter
from tests.acceptance.connection.hive_cases import (
    ALERTS,
    ASIA_INDIA,
    PLAIN,
    Row,
    connect,
    create_alerts,
    rows,
    rows_by_id,
)
from tests.support.tables import create_table, files_of

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


def test_transaction_batch_commit_regex(ms: MetastoreClient) -> None:
    writer = hi.StrictRegexWriter(regex="([^,]*),(.*)")
    check_commits(ms, writer, b"1,Hello streaming", b"2,Welcome to streaming")
    check_one_commit(ms, hi.StrictRegexWriter(regex="([^:]*):(.*)"), b"1:Hello streaming")


def test_regex_input_stream(ms: MetastoreClient) -> None:
    """Java's writer splits at any line break by default; here the delimiter is named."""
    writer = hi.StrictRegexWriter(regex="([^,]*),(.*)", line_delimiter="\r")
    with connect(ms, ALERTS, *ASIA_INDIA, writer=writer) as conn, conn.transaction():
        conn.write(io.BytesIO(b"1,foo\r2,bar\r3,baz"))
    assert rows(ms) == [(1, "foo", *ASIA_INDIA), (2, "bar", *ASIA_INDIA), (3, "baz", *ASIA_INDIA)]


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


# -- all types ---------------------------------------------------------------------------------------

ALL_TYPES = {
    "bo": "boolean",
    "ti": "tinyint",
    "si": "smallint",
    "i": "int",
    "bi": "bigint",
    "f": "float",
    "d": "double",
    "de": "decimal(10,3)",
    "ts": "timestamp",
    "da": "date",
    "s": "string",
    "c": "char(5)",
    "vc": "varchar(5)",
    "m": "map<string,string>",
    "l": "array<int>",
    "st": "struct<c1:int,c2:string>",
}
RECORD_1 = (
    b"true|10|100|1000|10000|4.0|20.0|4.2222|1969-12-31 15:59:58.174|1970-01-01|string|hello|hello|k1:v1|100,200|10,foo"
)
RECORD_2 = (
    b"false|20|200|2000|20000|8.0|40.0|2.2222|1970-12-31 15:59:58.174|1971-01-01|abcd|world|world|k4:v4|200,300|20,bar"
)


def check_all_types(client: MetastoreClient, records: object) -> None:
    """With the conversions of Hive's SerDe, which rounds a decimal."""
    name = "default.alltypes"
    create_table(client, name, ALL_TYPES)
    writer = hi.StrictDelimitedInputWriter(
        field_delimiter="|", collection_delimiter=",", map_key_delimiter=":", coerce="hive"
    )
    with connect(client, name, writer=writer, transaction_batch_size=2) as conn:
        conn.begin_transaction()
        conn.write(records)
        conn.commit_transaction()
    (one, two) = rows_by_id(client, name)
    assert one == (
        *(1, 536870912, 0, True, 10, 100, 1000, 10000, 4.0, 20.0, Decimal("4.222")),
        *(datetime(1969, 12, 31, 15, 59, 58, 174_000), date(1970, 1, 1), "string", "hello", "hello"),
        *([("k1", "v1")], [100, 200], {"c1": 10, "c2": "foo"}),
    )
    assert two == (
        *(1, 536870912, 1, False, 20, 200, 2000, 20000, 8.0, 40.0, Decimal("2.222")),
        *(datetime(1970, 12, 31, 15, 59, 58, 174_000), date(1971, 1, 1), "abcd", "world", "world"),
        *([("k4", "v4")], [200, 300], {"c1": 20, "c2": "bar"}),
    )
    assert "delta_0000001_0000001_0000/bucket_00000" in files_of(client, name)


def test_all_types_delimited_writer(ms: MetastoreClient) -> None:
    check_all_types(ms, [RECORD_1, RECORD_2])


def test_all_types_delimited_writer_input_stream(ms: MetastoreClient) -> None:
    check_all_types(ms, io.BytesIO(RECORD_1 + b"\n" + RECORD_2 + b"\n"))
