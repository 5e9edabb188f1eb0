"""What a connection requires of its table: at connect, and when its schema changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import (
    InvalidTable,
    StreamingConnectionError,
    UnsupportedFeature,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import StrictJsonWriter
from tests.acceptance.connection.web_tables import connect, create_web_tables, record
from tests.support.rows import ids


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_web_tables(metastore)
    return metastore


@pytest.fixture
def conn(ms: MetastoreClient) -> Iterator[StreamingConnection]:
    with connect(ms) as connection:
        yield connection


# -- what is refused at connect --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"transactional": "false"}, InvalidTable, "is not transactional|is EXTERNAL_TABLE"),
        ({"transactional": "true", "transactional_properties": "insert_only"}, UnsupportedFeature, "insert-only"),
        pytest.param(
            *(
                {"transactional": "true", "transactional_properties": "odd"},
                InvalidTable,
                "transactional_properties='odd'",
            ),
            marks=pytest.mark.only_on(["sqlite", "postgres"], because="Hive refuses to make such a table"),
        ),
        ({"orc.compress": "BROTLI"}, UnsupportedFeature, "orc.compress='BROTLI'"),
    ],
)
def test_a_table_that_cannot_be_streamed_into_is_refused_at_connect(
    ms: MetastoreClient, properties: dict[str, str], error: type[Exception], message: str
) -> None:
    ms.create_table("web.bad", columns={"id": "int"}, properties=properties)
    with pytest.raises(error, match=message):
        connect(ms, "bad")


def test_types_that_cannot_place_a_row_are_refused_at_connect(
    ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as as_hive:
        as_hive.setattr("hive_ingest.metastore_client.table_checks.check_bucket_type", lambda type_: type_)
        ms.create_table("web.b", columns={"id": "binary"}, bucket_columns=["id"], num_buckets=2)
    ms.create_table("web.f", columns={"id": "int"}, partition_keys={"p": "float"})
    with pytest.raises(UnsupportedFeature, match="bucket column of type binary"):
        connect(ms, "b")
    with pytest.raises(UnsupportedFeature, match="partition key 'p' is of type float"):
        connect(ms, "f")


def test_invalid_partition_values_and_names_are_refused_at_connect(ms: MetastoreClient) -> None:
    with pytest.raises(StreamingConnectionError, match="is not partitioned"):
        connect(ms, "plain", static_partition_values=["Asia"])
    with pytest.raises(StreamingConnectionError, match="3 static partition values for the 2"):
        connect(ms, "alerts", static_partition_values=["a", "b", "c"])
    with pytest.raises(StreamingConnectionError, match="is a mapping: give a list of the values alone"):
        connect(ms, "alerts", static_partition_values={"continent": "Asia"})
    with pytest.raises(InvalidTable, match=r"no table web\.nowhere"):
        connect(ms, "nowhere")
    with pytest.raises(StreamingConnectionError, match="is not a record writer"):
        connect(ms, record_writer=object())


def test_a_record_writer_serves_one_connection_at_a_time(ms: MetastoreClient) -> None:
    writer = StrictJsonWriter()
    with connect(ms, record_writer=writer) as conn:
        with pytest.raises(StreamingConnectionError, match="give each connection one of its own"):
            connect(ms, "alerts", record_writer=writer)
        with conn.transaction():
            conn.write(record(1))
    with connect(ms, record_writer=writer) as conn, conn.transaction():
        conn.write(record(2))
    assert ids(ms, "web.plain") == [1, 2]


# -- changed schemas -------------------------------------------------------------------------------------


def with_columns(client: MetastoreClient, table: str, columns: dict[str, str]) -> None:
    import dataclasses

    from hive_ingest.model import columns_of

    found = client.get_table(table)
    client.alter_table(table, dataclasses.replace(found, columns=columns_of(columns)))


def test_an_added_column_is_picked_up_by_the_next_transaction(ms: MetastoreClient, conn: StreamingConnection) -> None:
    with conn.transaction():
        conn.write(record(1))
    with_columns(ms, "web.plain", {"id": "int", "msg": "string", "extra": "double"})
    with conn.transaction():
        conn.write(b'{"id": 2, "msg": "m", "extra": 2.5}')
    rows = hi.read_table(ms, "web.plain").sort_by("id").to_pylist()
    assert [(r["id"], r["extra"]) for r in rows] == [(1, None), (2, 2.5)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [({"id": "int"}, "'msg' of web.plain was dropped"), ({"id": "bigint", "msg": "string"}, "'id'")],
)
def test_a_dropped_or_retyped_column_stops_the_connection(
    ms: MetastoreClient, conn: StreamingConnection, columns: dict[str, str], message: str
) -> None:
    with_columns(ms, "web.plain", columns)
    with pytest.raises(InvalidTable, match=message):
        conn.begin_transaction()
    assert ms.show_locks() == []


@pytest.mark.only_on(
    ["sqlite", "postgres", "hive401"], because="Hive 3 has no table ids: the second table is of the same second"
)
def test_a_table_dropped_and_created_again_stops_the_connection(ms: MetastoreClient, conn: StreamingConnection) -> None:
    ms.drop_table("web.plain")
    ms.create_table("web.plain", columns={"id": "int", "msg": "string"})
    with pytest.raises(InvalidTable, match="dropped and created again"):
        conn.begin_transaction()
