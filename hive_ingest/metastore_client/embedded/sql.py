"""The expressions that SQLite and PostgreSQL write differently."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

#: Filled in by `Database` at every execution; moved on only by tests.
CLOCK_OFFSET = "clock_offset_ms"


class _NowMs(FunctionElement[int]):
    type = BigInteger()
    inherit_cache = True


class _JsonIds(FunctionElement[int]):
    type = BigInteger()
    inherit_cache = True


class _JsonTexts(FunctionElement[str]):
    type = Text()
    inherit_cache = True


@compiles(_NowMs, "sqlite")
def _now_ms_sqlite(element: _NowMs, compiler: Any, **options: Any) -> str:
    offset = compiler.process(element.clauses, **options)
    return f"(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + {offset})"


@compiles(_NowMs, "postgresql")
def _now_ms_postgresql(element: _NowMs, compiler: Any, **options: Any) -> str:
    # clock_timestamp, not now(): the transaction may have waited for a row lock since it began
    offset = compiler.process(element.clauses, **options)
    return f"(CAST(extract(epoch from clock_timestamp()) * 1000 AS BIGINT) + {offset})"


@compiles(_JsonIds, "sqlite")
@compiles(_JsonTexts, "sqlite")
def _json_list_sqlite(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    return f"(SELECT value FROM json_each({compiler.process(element.clauses, **options)}))"


@compiles(_JsonIds, "postgresql")
@compiles(_JsonTexts, "postgresql")
def _json_list_postgresql(element: FunctionElement[Any], compiler: Any, **options: Any) -> str:
    values = compiler.process(element.clauses, **options)
    kind = "BIGINT" if isinstance(element, _JsonIds) else "TEXT"
    return f"(SELECT CAST(value AS {kind}) FROM json_array_elements_text(CAST({values} AS JSON)))"


def now_ms() -> ColumnElement[int]:
    """The database's clock, in milliseconds since the epoch."""
    return _NowMs(bindparam(CLOCK_OFFSET, type_=BigInteger()))


def id_in(column: ColumnElement[int], name: str) -> ColumnElement[bool]:
    """`column IN (…)` over the parameter `name`, a JSON array of ids, so that one compiled text fits any number."""
    return column.op("IN", is_comparison=True)(_JsonIds(bindparam(name, type_=Text())))


def text_in(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """The same for a JSON array of texts."""
    return column.op("IN", is_comparison=True)(_JsonTexts(bindparam(name, type_=Text())))


def one_of(column: ColumnElement[str], *values: str) -> ColumnElement[bool]:
    """`column IN (…)` over constants; SQLAlchemy's own IN is expanded again at each execution."""
    return or_(*(column == value for value in values))
