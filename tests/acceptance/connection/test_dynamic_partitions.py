"""Partitions and buckets of the rows of a connection, dynamic and static."""

from __future__ import annotations

import pytest

import hive_ingest as hi
from hive_ingest.errors import (
    PartitionCreationFailed,
    StreamingConnectionError,
)
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import StrictDelimitedInputWriter
from tests.acceptance.connection.web_tables import connect, create_web_tables, record
from tests.support.tables import files_of


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_web_tables(metastore)
    return metastore


def test_dynamic_partitions_are_created_with_the_commit(ms: MetastoreClient) -> None:
    with connect(ms, "alerts") as conn:
        conn.begin_transaction()
        conn.write([record(1, continent="Asia", country="India"), record(2, continent="Europe", country="France")])
        conn.flush()
        assert ms.list_partition_names("web.alerts") == []
        conn.commit_transaction()
        assert conn.stats.partitions_created == 2
        assert sorted(conn.partitions) == ["continent=Asia/country=India", "continent=Europe/country=France"]
        with conn.transaction():
            conn.write(record(3, continent="Asia", country="India"))
        assert conn.stats.partitions_created == 2
    rows = hi.read_table(ms, "web.alerts").sort_by("id").to_pylist()
    assert [(r["id"], r["continent"], r["country"]) for r in rows] == [
        (1, "Asia", "India"),
        (2, "Europe", "France"),
        (3, "Asia", "India"),
    ]


def test_partition_values_are_escaped_as_hive_does_and_null_has_its_own_name(ms: MetastoreClient) -> None:
    values = ["a/b=c:d%", "ü 東京", "", None, "__HIVE_DEFAULT_PARTITION__", " x "]
    with connect(ms, "alerts") as conn, conn.transaction():
        conn.write([record(i, continent="c", country=v) for i, v in enumerate(values)])
    names = {name.split("/")[1] for name in ms.list_partition_names("web.alerts")}
    assert names == {"country=a%2Fb%3Dc%3Ad%25", "country=ü 東京", "country=__HIVE_DEFAULT_PARTITION__", "country= x "}
    found = {r["id"]: r["country"] for r in hi.read_table(ms, "web.alerts").to_pylist()}
    assert found == {0: values[0], 1: values[1], 2: None, 3: None, 4: None, 5: " x "}


def test_static_values_leave_the_other_keys_dynamic(ms: MetastoreClient) -> None:
    with connect(ms, "alerts", static_partition_values=["Asia"]) as conn, conn.transaction():
        conn.write(record(1, country="India"))
    with connect(ms, "alerts", static_partition_values=["Asia", "Nepal"]) as conn, conn.transaction():
        conn.write(record(2))
    assert ms.list_partition_names("web.alerts") == ["continent=Asia/country=India", "continent=Asia/country=Nepal"]


def test_a_char_names_the_same_partition_static_or_dynamic(ms: MetastoreClient) -> None:
    ms.create_table("web.chars", columns={"id": "int"}, partition_keys={"c": "char(4)"})
    with connect(ms, "chars", static_partition_values=["ab"]) as conn, conn.transaction():
        conn.write({"id": 1})
    with connect(ms, "chars") as conn, conn.transaction():
        conn.write([{"id": 2, "c": "ab"}, {"id": 3, "c": "ab  "}])
    assert ms.list_partition_names("web.chars") == ["c=ab  "]
    assert sorted(hi.read_table(ms, "web.chars").to_pydict()["id"]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("type_", "given", "name", "value"),
    [
        ("int", "01", "1", 1),
        ("decimal(5,2)", "1.50", "1.5", "1.50"),
        ("boolean", "TRUE", "true", True),
        ("date", "2024-02-29", "2024-02-29", "2024-02-29"),
        ("char(3)", "a", "a  ", "a  "),
    ],
)
def test_a_static_value_names_the_partition_that_its_value_has(
    ms: MetastoreClient, type_: str, given: str, name: str, value: object
) -> None:
    """`"01"` once made a second folder beside `1`."""
    ms.create_table("web.typed", columns={"id": "int"}, partition_keys={"k": type_})
    with connect(ms, "typed", static_partition_values=[given]) as conn, conn.transaction():
        conn.write({"id": 1})
    with connect(ms, "typed") as conn, conn.transaction():
        conn.write({"id": 2, "k": value})
    assert ms.list_partition_names("web.typed") == [f"k={name}"]
    assert sorted(hi.read_table(ms, "web.typed").to_pydict()["id"]) == [1, 2]


def test_a_static_value_that_is_not_of_its_keys_type_is_refused_at_connect(ms: MetastoreClient) -> None:
    """It was once committed, and every read of the table failed."""
    ms.create_table("web.typed", columns={"id": "int"}, partition_keys={"year": "int"})
    for values in (["20x"], [2024], "2024"):
        with pytest.raises(StreamingConnectionError, match="static"):
            connect(ms, "typed", static_partition_values=values)
    assert hi.read_table(ms, "web.typed").num_rows == 0


def test_the_last_fields_of_delimited_text_are_the_dynamic_partitions(ms: MetastoreClient) -> None:
    writer = StrictDelimitedInputWriter(field_delimiter=",")
    with connect(ms, "alerts", record_writer=writer) as conn, conn.transaction():
        conn.write(b"1,hello,Asia,India\n2,\\N,Europe,\\N\n")
    rows = hi.read_table(ms, "web.alerts").sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "hello", "Asia", "India"), (2, None, "Europe", None)]


def test_partitions_named_at_the_commit_are_created_too(ms: MetastoreClient) -> None:
    with connect(ms, "alerts") as conn:
        conn.begin_transaction()
        conn.commit_transaction(partitions=["continent=Asia/country=Japan"])
    assert ms.list_partition_names("web.alerts") == ["continent=Asia/country=Japan"]


def test_more_partitions_than_the_limit_are_refused_and_nothing_is_left(ms: MetastoreClient) -> None:
    with connect(ms, "alerts", settings={"max_partitions_per_transaction": 3}) as conn:
        conn.begin_transaction()
        conn.write([record(i, continent="c", country=str(i)) for i in range(4)])
        with pytest.raises(PartitionCreationFailed, match="max_partitions_per_transaction=3"):
            conn.commit_transaction()
        conn.abort_transaction()
    assert files_of(ms, "web.alerts") == []


@pytest.mark.only_on(["sqlite", "postgres", "hive401"], because="Hive 3 knows no key and value")
def test_a_table_parameter_changes_with_the_commit(ms: MetastoreClient) -> None:
    ms.create_table("web.kv", columns={"id": "int", "msg": "string"}, properties={"_meta.offset": "0"})
    with connect(ms, "kv") as conn:
        conn.begin_transaction()
        conn.commit_transaction(key="_meta.offset", value="42")
        conn.begin_transaction()
        conn.abort_transaction()
    assert ms.get_table("web.kv").properties["_meta.offset"] == "42"
