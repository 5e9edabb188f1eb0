"""Arguments that no metastore can store, or of another type, are refused by their name before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection, TransactionState
from hive_ingest.errors import ConfigurationError, InvalidOperation, StreamingError
from hive_ingest.metastore_client import MetastoreClient
from tests.support.connections import connect
from tests.support.rows import ids, rows
from tests.support.tables import create_table

UNSTORABLE = [
    pytest.param("a\ud800b", "half a surrogate pair at position 1", id="half a surrogate pair"),
    pytest.param("a\0b", "NUL character", id="NUL"),
    pytest.param(b"a", "a bytes: give text", id="bytes"),
    pytest.param(7, "an? int: give text", id="a number"),
]


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore)
    return metastore


def read(client: MetastoreClient, agent_info: Any) -> None:
    hi.read_table(client, "web.t", agent_info=agent_info)


def append(client: MetastoreClient, source: Any) -> None:
    hi.append(client, "web.t", rows([1]), sink="orders", source=source, position=1)


@pytest.mark.parametrize(("value", "why"), UNSTORABLE)
@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda ms, value: connect(ms, agent_info=value), "agent_info"),
        (read, "agent_info"),
        (lambda ms, value: connect(ms, sink="orders", sources=["a", value]), "the name of a source"),
        (append, "the name of a source"),
    ],
    ids=["a connection's agent_info", "a reader's agent_info", "sources", "the source of an append"],
)
def test_a_text_that_no_metastore_can_store_is_refused_by_its_name(
    ms: MetastoreClient, call: Callable[[MetastoreClient, Any], None], what: str, value: Any, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{what}.*{why}"):
        call(ms, value)
    assert ids(ms) == []
    assert ms.show_locks() == []


@pytest.mark.parametrize(
    ("value", "why"), [pytest.param("a\ud800", "surrogate", id="surrogate"), pytest.param("a\0", "NUL", id="NUL")]
)
@pytest.mark.parametrize(
    "arguments",
    [
        lambda value: {"columns": {value: "int"}},
        lambda value: {"columns": [hi.Column("id", "int", value)]},
        lambda value: {"columns": {"id": "int"}, "properties": {value: "1"}},
        lambda value: {"columns": {"id": "int"}, "properties": {"a": value}},
        lambda value: {"columns": {"id": "int"}, "location": f"/nowhere/{value}"},
    ],
    ids=["column", "comment", "name of a property", "property", "location"],
)
def test_a_table_that_no_metastore_can_store_is_refused(
    ms: MetastoreClient, arguments: Callable[[str], dict[str, Any]], value: str, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        ms.create_table("web.other", **arguments(value))


@pytest.mark.only_on(["sqlite", "postgres"], because="a Thrift server has its own words for it")
def test_a_value_that_the_database_cannot_store_is_an_error_that_says_so(ms: MetastoreClient) -> None:
    """The drivers raise an exception of Python's own for it."""
    (txn_id,) = ms.open_txns(1)
    with pytest.raises(InvalidOperation, match="cannot store a value of this call"):
        ms.abort_txns([txn_id], reason="a\ud800")
    ms.abort_txns([txn_id])


@pytest.mark.only_on(["postgres"], because="SQLite stores NUL characters")
def test_a_text_that_postgresql_refuses_is_an_error_that_says_so(ms: MetastoreClient) -> None:
    (txn_id,) = ms.open_txns(1)
    with pytest.raises(InvalidOperation, match="cannot store a value of this call"):
        ms.abort_txns([txn_id], reason="a\0")
    ms.abort_txns([txn_id])


@pytest.mark.parametrize("wrong", [["a"], "a", b"a", 5, (("a", 1),)], ids=repr)
def test_positions_that_are_not_a_dict_are_refused_and_the_transaction_stays_open(
    ms: MetastoreClient, wrong: Any
) -> None:
    with connect(ms, sink="orders", sources=["a"]) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        with pytest.raises(ConfigurationError, match=r"positions is an? \w+: pass a dict .*'a'"):
            conn.commit_transaction(positions=wrong)
        assert conn.state is TransactionState.OPEN
        conn.commit_transaction(positions={"a": 1})
    assert ids(ms) == [1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prepared": 5}, "prepared"),
        ({"prepared": [None]}, "prepared"),
        ({"partitions": 5}, "partitions"),
        ({"partitions": "p=1"}, "partitions"),
        ({"partitions": [None]}, "partition"),
        ({"positions": ["a"]}, "positions"),
    ],
    ids=repr,
)
def test_arguments_of_a_commit_of_another_type_leave_the_transaction_open(
    ms: MetastoreClient, wrong: dict[str, Any], message: str
) -> None:
    create_table(ms, "p", partition_keys={"p": "int"})
    with connect(ms, "p") as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1, "p": 1}')
        with pytest.raises(StreamingError, match=message):
            conn.commit_transaction(**wrong)
        assert conn.state is TransactionState.OPEN
        conn.commit_transaction()
    assert ids(ms, "p") == [1]


@pytest.mark.parametrize("sources", [None, 5, b"ab", "ab"], ids=repr)
def test_sources_that_are_not_a_list_are_refused(ms: MetastoreClient, sources: Any) -> None:
    with pytest.raises(ConfigurationError, match="give a list of names"):
        connect(ms, sink="orders", sources=sources)


POSITIONS = [
    pytest.param((1, (2, 3)), [1, [2, 3]], id="tuples"),
    pytest.param({1: "a"}, {"1": "a"}, id="numbers as keys"),
]


@pytest.mark.parametrize(("position", "stored"), POSITIONS)
def test_a_position_reads_the_same_after_its_commit_and_later(ms: MetastoreClient, position: Any, stored: Any) -> None:
    with connect(ms, sink="orders", sources=["a"]) as conn:
        conn.begin_transaction()
        conn.commit_transaction(positions={"a": position})
        assert position_of(conn, "a") == stored
    with connect(ms, sink="orders", sources=["a"]) as conn:
        conn.begin_transaction()
        assert position_of(conn, "a") == stored


def position_of(conn: StreamingConnection, source: str) -> Any:
    row = conn.progress[source]
    assert row is not None
    return row.position


def test_a_position_that_the_caller_changes_after_its_commit_stays_as_it_was_committed(ms: MetastoreClient) -> None:
    """The next commit writes the positions of all sources again, so it would have skipped rows of the other one."""
    with connect(ms, sink="orders", sources=["a", "b"]) as conn:
        position = {"offset": 1}
        conn.begin_transaction()
        conn.commit_transaction(positions={"a": position})
        position["offset"] = 2
        conn.begin_transaction()
        conn.commit_transaction(positions={"b": 1})
        read = position_of(conn, "a")
        read["offset"] = 3
        conn.begin_transaction()
        conn.commit_transaction(positions={"b": 2})
    with connect(ms, sink="orders", sources=["a"]) as conn:
        conn.begin_transaction()
        assert position_of(conn, "a") == {"offset": 1}


@pytest.mark.parametrize("argument", ["partitions", "prepared"])
def test_an_iterable_that_ends_the_transaction_it_is_passed_to_is_an_error(ms: MetastoreClient, argument: str) -> None:
    with connect(ms) as conn:
        conn.begin_transaction()
        conn.write(b'{"id": 1}')
        ending = (conn.abort_transaction() for _ in range(1))
        with pytest.raises(StreamingError):
            conn.commit_transaction(**{argument: (x for x in ending if x)})  # type: ignore[arg-type]
        assert conn.state is TransactionState.ABORTED
    assert ids(ms) == []


@pytest.mark.parametrize(
    ("values", "message"), [({"p": "1"}, "are a dict"), ([1], "1 is a int: pass values as text"), ("1", "single text")]
)
def test_values_of_a_partition_are_texts_in_a_list(ms: MetastoreClient, values: Any, message: str) -> None:
    """A dict was taken for the list of its keys, and made a partition of that name."""
    create_table(ms, "p", partition_keys={"p": "int"})
    with pytest.raises(ConfigurationError, match=message):
        ms.add_partitions("web.p", [values])
    assert ms.list_partition_names("web.p") == []
