"""The SQL of the embedded metastore, and where SQLite and PostgreSQL differ.

A statement is a string constant of the module that uses it. Tables and columns have Hive's names, in capitals and
without quotes, and parameters are written as `:name`:

    _STATE = "SELECT TXN_STATE FROM TXNS WHERE TXN_ID = :txn_id FOR UPDATE"

| in a statement             | meaning                                                                          |
|----------------------------|----------------------------------------------------------------------------------|
| `NOW_MS()`                 | the database's clock, in milliseconds since the epoch                            |
| `x IN ID_LIST(:ids)`       | `:ids` is a list of numbers of any length, passed as one JSON array              |
| `x IN TEXT_LIST(:names)`   | the same for strings                                                             |
| `FOR UPDATE`               | locks the rows; left out for SQLite, which has one writer at a time              |
| `x IS NOT DISTINCT FROM y` | equal, or both null                                                              |

Everything else is SQL that both databases accept. A parameter has one type throughout its statement; where PostgreSQL
cannot infer it, write `CAST(:n AS BIGINT)`. `tests/acceptance/metastore/test_statements.py` finds every statement and
has both databases EXPLAIN it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hive_ingest.metastore_client.embedded.schema import METADATA

#: A parameter of every statement with NOW_MS(), which the session adds. It is zero except in tests.
CLOCK_OFFSET = "clock_offset_ms"

_PARAMETER = re.compile(r":([a-z_]+)")
_LIST_PARAMETER = re.compile(r"_LIST\(:([a-z_]+)\)")
_WORD_IN_CAPITALS = re.compile(r"\b[A-Z][A-Z0-9_]*\b")
_NAMES = frozenset(METADATA.tables) | {column.name for table in METADATA.tables.values() for column in table.columns}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the SQL of one database, as its driver expects it."""

    text: str
    #: Names of the parameters that the caller passes.
    parameters: frozenset[str]
    #: Names of those that are lists.
    lists: frozenset[str]
    needs_clock: bool


class SqlDialect:
    """Turns statements into the SQL of one database."""

    def __init__(self, *, substitutions: dict[str, str], parameter: str, name: str) -> None:
        """Describe the dialect.

        Args:
            substitutions: Regular expressions, and what replaces them.
            parameter: What the driver expects for `:name`, with `{}` for the name.
            name: How a table or column is written, with `{}` for its name.
        """
        self._substitutions = substitutions
        self._parameter, self._name = parameter, name
        self._statements: dict[str, Statement] = {}

    def statement(self, sql: str) -> Statement:
        """The statement in this dialect, translated once in a process: statements are constants."""
        found = self._statements.get(sql)
        if found is None:
            found = self._statements[sql] = self._translate(sql)
        return found

    def _translate(self, sql: str) -> Statement:
        lists = frozenset(_LIST_PARAMETER.findall(sql))
        for pattern, replacement in self._substitutions.items():
            sql = re.sub(pattern, replacement, sql)
        sql = _WORD_IN_CAPITALS.sub(lambda word: self._name.format(word[0]) if word[0] in _NAMES else word[0], sql)
        parameters = frozenset(_PARAMETER.findall(sql))
        text = _PARAMETER.sub(lambda parameter: self._parameter.format(parameter[1]), sql)
        return Statement(text, parameters - {CLOCK_OFFSET}, lists, CLOCK_OFFSET in parameters)


SQLITE = SqlDialect(
    substitutions={
        r"NOW_MS\(\)": f"(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + :{CLOCK_OFFSET})",
        r"(?:ID|TEXT)_LIST\((:\w+)\)": r"(SELECT value FROM json_each(\1))",
        r"FOR UPDATE": "",
        r"IS NOT DISTINCT FROM": "IS",
    },
    parameter=":{}",
    name="{}",
)

POSTGRESQL = SqlDialect(
    substitutions={
        r"%": "%%",
        # clock_timestamp, not now(): the transaction may have waited for a row lock since it began
        r"NOW_MS\(\)": f"(CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) + :{CLOCK_OFFSET})",
        r"ID_LIST\((:\w+)\)": r"(SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(\1 AS JSON)))",
        r"TEXT_LIST\((:\w+)\)": r"(SELECT value FROM json_array_elements_text(CAST(\1 AS JSON)))",
    },
    parameter="%({})s",
    name='"{}"',  # without quotes PostgreSQL would fold the names to lower case
)
