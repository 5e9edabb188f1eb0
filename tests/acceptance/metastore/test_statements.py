"""The SQL of the embedded metastore: both databases accept every statement, with its tables, columns and types."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

from hive_ingest.metastore_client import MetastoreClient, embedded
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.metastore_client.embedded.sql import POSTGRESQL, SQLITE
from hive_ingest.model import TxnState

_IS_STATEMENT = re.compile(r"\s*(WITH|SELECT|INSERT INTO|UPDATE|DELETE FROM)\s").match


def statements_of(module: str) -> Iterator[tuple[str, str]]:
    """The names and texts of a module's statements, which are constants or tuples of constants."""
    for name, value in vars(importlib.import_module(module)).items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and _IS_STATEMENT(text):
                yield name, text


#: All but that of the backends, whose SQL is one database's own.
MODULES = [f"{embedded.__name__}.{m.name}" for m in pkgutil.iter_modules(embedded.__path__) if m.name != "backends"]
STATEMENTS = sorted({(name, text) for module in MODULES for name, text in statements_of(module)})


@pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has SQL of its own")
def test_the_database_accepts_every_statement(metastore: MetastoreClient) -> None:
    """EXPLAIN resolves names and infers the types of parameters, and runs nothing."""
    assert isinstance(metastore, EmbeddedMetastoreClient)
    sessions = metastore._context.sessions
    assert len(STATEMENTS) > 80
    for name, text in STATEMENTS:
        statement = sessions.backend.dialect.statement(text)
        parameters = {name: () if name in statement.lists else None for name in statement.parameters}
        assert sessions.query(f"EXPLAIN {text}", **parameters), name


@pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has SQL of its own")
def test_a_statement_gets_its_parameters_and_no_others(metastore: MetastoreClient) -> None:
    assert isinstance(metastore, EmbeddedMetastoreClient)
    query = metastore._context.sessions.query
    assert query("SELECT DB_NAME FROM DBS WHERE DB_NAME = :name", name="default") == [("default",)]
    for wrong in ({}, {"name": "default", "comment": ""}, {"nmae": "default"}):
        with pytest.raises(TypeError, match=r"instead of \['name'\]: SELECT"):
            query("SELECT DB_NAME FROM DBS WHERE DB_NAME = :name", **wrong)


@pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has SQL of its own")
def test_a_list_of_any_length_is_one_parameter(metastore: MetastoreClient) -> None:
    assert isinstance(metastore, EmbeddedMetastoreClient)
    query = metastore._context.sessions.query
    ids = metastore.open_txns(3)
    for wanted in ([], ids[:1], range(ids[0], ids[-1] + 1)):
        rows = query("SELECT TXN_ID FROM TXNS WHERE TXN_ID IN ID_LIST(:ids) ORDER BY TXN_ID", ids=wanted)
        assert [txn_id for (txn_id,) in rows] == list(wanted)
    names = ("default", "it's")
    assert query("SELECT DB_NAME FROM DBS WHERE DB_NAME IN TEXT_LIST(:names)", names=names) == [("default",)]
    with pytest.raises(TypeError, match="a string instead of a list: 'default'"):
        query("SELECT DB_NAME FROM DBS WHERE DB_NAME IN TEXT_LIST(:names)", names="default")


def test_a_statement_is_translated_into_the_sql_of_each_database() -> None:
    sql = "SELECT TXN_ID FROM TXNS WHERE TXN_USER LIKE 'a%' AND TXN_ID IN ID_LIST(:ids) FOR UPDATE"
    sqlite, postgresql = SQLITE.statement(sql), POSTGRESQL.statement(sql)
    assert sqlite.text == (
        "SELECT TXN_ID FROM TXNS WHERE TXN_USER LIKE 'a%' AND TXN_ID IN (SELECT value FROM json_each(:ids)) "
    )
    assert postgresql.text == (
        'SELECT "TXN_ID" FROM "TXNS" WHERE "TXN_USER" LIKE \'a%%\' AND "TXN_ID" IN '
        "(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(%(ids)s AS JSON))) FOR UPDATE"
    )
    assert sqlite.parameters == sqlite.lists == postgresql.parameters == postgresql.lists == {"ids"}
    assert not sqlite.needs_clock
    assert SQLITE.statement("SELECT NOW_MS()").needs_clock


def test_the_states_of_transactions_in_statements_are_those_of_the_model() -> None:
    states = {state for _, text in STATEMENTS for state in re.findall(r"TXN_STATE = '(\w)'", text)}
    assert states == {state.value for state in TxnState}
