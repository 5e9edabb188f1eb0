"""Hive's `TestStreamingDynamicPartitioning`, on SQLite and on PostgreSQL.

Each test has the name of Hive's case in snake case. In a string partition key Hive shows a null as
`__HIVE_DEFAULT_PARTITION__`; here it is None.
"""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.acid import bucket_ids
from hive_ingest.connection import StreamingConnection, TransactionState
from hive_ingest.errors import ConnectionMisuse, InvalidTable, InvalidTransactionState
from hive_ingest.metastore_client import MetastoreClient
from tests.acceptance.connection.hive_cases import ALERTS, connect, create_alerts, create_sales, rows, sale
from tests.support.hive_cases import check_ported
from tests.support.tables import create_table

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="each case is about the client, and these are faster")

#: The cases that are ported, in Hive's order.
CASES = (
    "test_dynamic_partitioning",
    "test_dp_stream_bucketing_matches_regular_bucketing",
    "test_dp_two_level",
    "test_dp_two_level_missing_partition_values",
    "test_dp_two_level_non_string_partition_columns",
    "test_write_before_begin",
    "test_regex_input_stream_dp",
    "test_json_input_stream_dp",
    "test_write_after_close",
    "test_write_after_abort",
    "test_table_validation",
)
#: Cases that are left out, and why.
LEFT_OUT: dict[str, str] = {}

DEFAULT = "__HIVE_DEFAULT_PARTITION__"
RECORDS = (
    *("PSFAHYLZVC,29,EPNMA,2017", "PPPRKWAYAU,96,VUTEE,2017", "MIAOFERCHI,3,WBDSI,2017", "CEGQAZOWVN,0,WCUZL,2017"),
    *("XWAKMNSVQF,28,YJVHU,2017", "XBWTSAJWME,2,KDQFO,2017", "FUVLQTAXAY,5,LDSDG,2017", "QTQMDJMGJH,6,QBOMA,2018"),
    *("EFLOTLWJWN,71,GHWPS,2018", "PEQNAOJHCM,82,CAAFI,2018", "MOEKQLGZCP,41,RUACR,2018", "QZXMCOPTID,37,LFLWE,2018"),
    *("EYALVWICRD,13,JEZLC,2018", "VYWLZAYTXX,16,DMVZX,2018", "OSALYSQIXR,47,HNZVE,2018", "JGKVHKCEGQ,25,KSCJB,2018"),
    *("WQFMMYDHET,12,DTRWA,2018", "AJOVAYZKZQ,15,YBKFO,2018", "YAQONWCUAU,31,QJNHZ,2018", "DJBXUEUOEB,35,IYCBL,2018"),
)


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    """In the partitioned table there is no partition yet."""
    create_alerts(metastore)
    metastore.drop_partition(ALERTS, ("Asia", "India"))
    return metastore


def lenient() -> hi.StrictDelimitedInputWriter:
    """As in Java, fields missing at the end are null."""
    return hi.StrictDelimitedInputWriter(field_delimiter=",", missing_fields="null")


def test_dynamic_partitioning(ms: MetastoreClient) -> None:
    create_sales(ms)
    name = "testing5.store_sales"
    with connect(ms, name) as conn, conn.transaction():
        for i in range(10):
            conn.write(sale(i, f"2018-04-{i}").encode())
    assert ms.list_partition_names(name) == ["dt=2015", *(f"dt=2018-04-{i}" for i in range(10))]
    found = hi.read_table(ms, name).to_pylist()
    assert len(found) == 10
    assert all(row["dt"].startswith("2018-04-") for row in found)


def test_dp_stream_bucketing_matches_regular_bucketing(ms: MetastoreClient) -> None:
    columns = {"key1": "string", "key2": "int", "data": "string"}
    layout = {"partition_keys": {"year": "int"}, "bucket_columns": ["key1", "key2"], "num_buckets": 100}
    for table in ("streamedtable", "finaltable"):
        create_table(ms, f"testbucketing3.{table}", columns, **layout)
    with connect(ms, "testbucketing3.streamedtable") as conn, conn.transaction():
        for record in RECORDS:
            conn.write(record.encode())
    streamed = hi.read_table(ms, "testbucketing3.streamedtable")
    assert set(streamed["year"].to_pylist()) == {2017, 2018}
    hi.append(ms, "testbucketing3.finaltable", streamed)

    def buckets(table: str) -> dict[str, int]:
        found = hi.read_table(ms, f"testbucketing3.{table}", row_ids=True).to_pylist()
        assert len(found) == len(RECORDS)
        return {row["key1"]: row["row__id"]["bucketid"] >> 16 & 0xFFF for row in found}

    texts, numbers, _, _ = zip(*(record.split(",") for record in RECORDS), strict=True)
    keys = [pa.array(texts), pa.array(map(int, numbers), pa.int32())]
    assert buckets("streamedtable") == dict(zip(texts, bucket_ids(keys, ("string", "int"), 100), strict=True))
    assert buckets("finaltable") == buckets("streamedtable")
    assert hi.read_table(ms, "testbucketing3.finaltable", where="year = 2018")["year"].to_pylist() == [2018] * 13
    assert ms.list_partition_names("testbucketing3.finaltable") == ["year=2017", "year=2018"]


def check_two_levels(ms: MetastoreClient) -> None:
    """Hive has the same case under two names."""
    transactions = (
        (b"1,foo,Asia,India", b"2,bar,Europe,Germany"),
        (b"3,foo,Asia,India", b"4,bar,Europe,Germany"),
        (b"5,foo,Asia,China", b"6,bar,Europe,France"),
        (b"7,foo,Asia,China", b"8,bar,Europe,France"),
    )
    expected = []
    with connect(ms) as conn:
        for records in transactions:
            conn.begin_transaction()
            for record in records:
                conn.write(record)
                id_, *rest = record.decode().split(",")
                expected.append((int(id_), *rest))
            conn.commit_transaction()
            assert rows(ms) == expected
    assert set(ms.list_partition_names(ALERTS)) == {
        "continent=Asia/country=India",
        "continent=Asia/country=China",
        "continent=Europe/country=Germany",
        "continent=Europe/country=France",
    }


def test_dp_two_level(ms: MetastoreClient) -> None:
    check_two_levels(ms)


def test_dp_two_level_missing_partition_values(ms: MetastoreClient) -> None:
    """And, as its name says, with values that are missing."""
    check_two_levels(ms)
    with connect(ms, writer=lenient()) as conn, conn.transaction():
        conn.write([b"9,baz,Asia", b"10,baz"])
    assert rows(ms)[8:] == [(9, "baz", "Asia", None), (10, "baz", None, None)]
    assert {f"continent=Asia/country={DEFAULT}", f"continent={DEFAULT}/country={DEFAULT}"} < set(
        ms.list_partition_names(ALERTS)
    )


def test_dp_two_level_non_string_partition_columns(ms: MetastoreClient) -> None:
    """In Java an empty value of a number is null; here only the text of `null_format` is."""
    name = "testing.alerts2"
    create_table(
        ms,
        name,
        {"id": "int", "msg": "string"},
        partition_keys={"year": "int", "month": "int"},
        bucket_columns=["id"],
        num_buckets=2,
    )
    with connect(ms, name, writer=lenient()) as conn:
        for records in (
            (b"1,foo,2018,2", b"2,bar,2019"),
            (b"3,foo,2018", b"4,bar,2019"),
            (b"5,foo,2018", b"6,bar,2019"),
            (b"7,foo,\\N,\\N", b"8,bar,\\N,12"),
        ):
            conn.begin_transaction()
            for record in records:
                conn.write(record)
            conn.commit_transaction()
    assert rows(ms, name) == [
        (1, "foo", 2018, 2),
        (2, "bar", 2019, None),
        (3, "foo", 2018, None),
        (4, "bar", 2019, None),
        (5, "foo", 2018, None),
        (6, "bar", 2019, None),
        (7, "foo", None, None),
        (8, "bar", None, 12),
    ]
    assert set(ms.list_partition_names(name)) == {
        "year=2018/month=2",
        f"year=2018/month={DEFAULT}",
        f"year=2019/month={DEFAULT}",
        f"year={DEFAULT}/month={DEFAULT}",
        f"year={DEFAULT}/month=12",
    }


def test_regex_input_stream_dp(ms: MetastoreClient) -> None:
    records = b"1,foo,Asia,India\r2,bar,Europe,Germany\r3,baz,Asia,China\r4,cat,Australia,"
    with connect(ms, writer=hi.StrictRegexWriter(regex="([^,]*),(.*),(.*),(.*)", line_delimiter="\r")) as conn:
        conn.begin_transaction()
        conn.write(io.BytesIO(records))
        conn.commit_transaction()
    check_four_countries(ms, ("foo", "bar", "baz", "cat"))


def test_json_input_stream_dp(ms: MetastoreClient) -> None:
    records = (
        b'{"id" : 1, "msg": "Hello streaming", "continent": "Asia", "Country": "India"}|'
        b'{"id" : 2, "msg": "Hello world", "continent": "Europe", "Country": "Germany"}|'
        b'{"id" : 3, "msg": "Hello world!!", "continent": "Asia", "Country": "China"}|'
        b'{"id" : 4, "msg": "Hmm..", "continent": "Australia", "Unknown-field": "whatever"}|'
    )
    writer = hi.StrictJsonWriter(line_delimiter="|", missing_partition_keys="null")
    with connect(ms, writer=writer) as conn:
        conn.begin_transaction()
        assert conn.state is TransactionState.OPEN
        conn.write(io.BytesIO(records))
        conn.commit_transaction()
    check_four_countries(ms, ("Hello streaming", "Hello world", "Hello world!!", "Hmm.."))


def check_four_countries(ms: MetastoreClient, messages: tuple[str, str, str, str]) -> None:
    places = (("Asia", "India"), ("Europe", "Germany"), ("Asia", "China"), ("Australia", None))
    expected = [
        (number, message, *place) for number, (message, place) in enumerate(zip(messages, places, strict=True), 1)
    ]
    assert rows(ms) == expected
    assert set(ms.list_partition_names(ALERTS)) == {
        "continent=Asia/country=India",
        "continent=Asia/country=China",
        "continent=Europe/country=Germany",
        f"continent=Australia/country={DEFAULT}",
    }


# -- calls in the wrong state ------------------------------------------------------------------------


def commit_two_rows(conn: StreamingConnection) -> None:
    conn.begin_transaction()
    conn.write(b"1,foo,Asia")
    conn.write(b"2,bar,Europe")
    conn.commit_transaction()


TWO_ROWS = [(1, "foo", "Asia", None), (2, "bar", "Europe", None)]


def test_write_before_begin(ms: MetastoreClient) -> None:
    with connect(ms, writer=lenient()) as conn:
        commit_two_rows(conn)
        for call in (lambda: conn.write(b"3,SHOULD FAIL!"), conn.commit_transaction, conn.abort_transaction):
            with pytest.raises(InvalidTransactionState, match=r"COMMITTED: call begin_transaction\(\)"):
                call()
    assert rows(ms) == TWO_ROWS


def test_write_after_close(ms: MetastoreClient) -> None:
    conn = connect(ms, writer=lenient())
    commit_two_rows(conn)
    conn.close()
    for call in (lambda: conn.write(b"3,SHOULD FAIL!"), conn.commit_transaction, conn.abort_transaction):
        with pytest.raises(ConnectionMisuse, match="is closed"):
            call()
    assert rows(ms) == TWO_ROWS


def test_write_after_abort(ms: MetastoreClient) -> None:
    conn = connect(ms, writer=lenient())
    commit_two_rows(conn)
    for record in (b"3,oops!", b"4,I did it again!"):
        conn.begin_transaction()
        conn.write(record)
        conn.abort_transaction()
    conn.begin_transaction()
    conn.write(b"5,Not now!,Europe")
    conn.commit_transaction()
    conn.close()
    with pytest.raises(ConnectionMisuse, match="is closed"):
        conn.write(b"6,SHOULD FAIL!")
    assert rows(ms) == [*TWO_ROWS, (5, "Not now!", "Europe", None)]


def test_table_validation(ms: MetastoreClient) -> None:
    layout = {"bucket_columns": ["key1"], "num_buckets": 100, "properties": {"transactional": "false"}}
    for table in ("validation1", "validation2"):
        create_table(ms, f"testbucketing3.{table}", {"key1": "string", "data": "string"}, **layout)
        with pytest.raises(InvalidTable):
            connect(ms, f"testbucketing3.{table}")


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported_or_left_out_with_a_reason() -> None:
    check_ported("TestStreamingDynamicPartitioning", CASES, LEFT_OUT, [Path(__file__)])
