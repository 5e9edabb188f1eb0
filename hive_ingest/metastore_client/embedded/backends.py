"""What differs between SQLite and PostgreSQL: how to connect, begin, and read an error."""

from __future__ import annotations

import enum
import sqlite3
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.ddl import ExecutableDDLElement

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.embedded.uris import MetastoreUri

#: json_each for lists of ids, RETURNING and upserts are all there from this version on.
_MIN_SQLITE = (3, 38, 0)
_CONNECT_TIMEOUT_SECONDS = 10


class Failure(enum.Enum):
    """What an error of the driver means for the call that met it."""

    CONFLICT = "another process was faster; the same call can be made again"
    BROKEN = "the connection is gone"
    FOREIGN = "the file is no database"
    REFUSED = "the database refused"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement as text, with the values of its constants."""

    sql: str
    constants: dict[str, Any]


class Backend(ABC):
    """One database product. Knows an address; holds no connection."""

    begin: ClassVar[str]
    #: Names of all tables that are there, one a row.
    list_tables: ClassVar[str]
    #: Held to the end of the transaction, so that two first connections do not both create the tables.
    lock_schema: ClassVar[str | None] = None
    #: Run once, outside any transaction, before the tables are made.
    prepare_empty: ClassVar[str | None] = None
    #: A new connection may help when one is lost.
    can_reconnect: ClassVar[bool] = False
    _compiled: ClassVar[dict[Executable, Compiled]]

    dialect: DefaultDialect
    driver_error: type[Exception]

    def __init__(self, uri: MetastoreUri, busy_timeout_seconds: float) -> None:
        self.uri = uri
        self.busy_timeout_seconds = busy_timeout_seconds

    @abstractmethod
    def connect(self) -> Any:
        """A DBAPI connection in autocommit mode, safe to use from any one thread at a time."""

    @abstractmethod
    def failure(self, error: Exception) -> Failure: ...

    def compile(self, statement: Executable) -> Compiled:
        """Compiled once for each process: statements are constants of their modules."""
        found = self._compiled.get(statement)
        if found is None:
            compiled = statement.compile(dialect=self.dialect)  # type: ignore[attr-defined]
            binds = {} if isinstance(statement, ExecutableDDLElement) else compiled.binds
            constants = {name: bind.value for name, bind in binds.items() if not bind.required}
            found = self._compiled[statement] = Compiled(str(compiled), constants)
        return found


class SqliteBackend(Backend):
    """One file in WAL mode; a commit is on the disk when it answers."""

    # IMMEDIATE: taking the write lock at the first write would fail when another process wrote since the first read.
    begin = "BEGIN IMMEDIATE"
    list_tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    prepare_empty = "PRAGMA journal_mode=WAL"  # stays with the file
    _compiled: ClassVar[dict[Executable, Compiled]] = {}
    driver_error = sqlite3.Error

    def __init__(self, uri: MetastoreUri, busy_timeout_seconds: float) -> None:
        super().__init__(uri, busy_timeout_seconds)
        if sqlite3.sqlite_version_info < _MIN_SQLITE:
            raise ConfigurationError(
                f"this Python has SQLite {sqlite3.sqlite_version}, and a metastore needs 3.38: "
                "use a newer Python, or a PostgreSQL metastore"
            )
        self.dialect = SQLiteDialect_pysqlite(paramstyle="named")

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.uri.path, timeout=self.busy_timeout_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def failure(self, error: Exception) -> Failure:
        if isinstance(error, sqlite3.IntegrityError):
            return Failure.CONFLICT
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code, without its extension
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Failure.CONFLICT
        if code == sqlite3.SQLITE_NOTADB:
            return Failure.FOREIGN
        unusable = (
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_READONLY,
        )
        return Failure.BROKEN if code in unusable else Failure.REFUSED


class PostgresBackend(Backend):
    """A PostgreSQL server through psycopg 3, at READ COMMITTED with row locks, as Hive uses it."""

    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    list_tables = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
    lock_schema = "SELECT pg_advisory_xact_lock(7166543121)"  # any number, the same for every version of ours
    can_reconnect = True
    _compiled: ClassVar[dict[Executable, Compiled]] = {}

    def __init__(self, uri: MetastoreUri, busy_timeout_seconds: float) -> None:
        super().__init__(uri, busy_timeout_seconds)
        self._psycopg = _import_psycopg()
        self.driver_error = self._psycopg.Error
        self.dialect = PGDialect_psycopg(dbapi=self._psycopg)  # type: ignore[no-untyped-call]

    def connect(self) -> Any:
        _, arguments = self.dialect.create_connect_args(self.uri.url)
        arguments.setdefault("connect_timeout", _CONNECT_TIMEOUT_SECONDS)
        arguments.setdefault("application_name", "hive-ingest")
        return self._psycopg.connect(**arguments, autocommit=True)

    def failure(self, error: Exception) -> Failure:
        state = getattr(error, "sqlstate", None) or ""
        # serialization_failure, deadlock_detected, unique_violation
        if state in ("40001", "40P01", "23505"):
            return Failure.CONFLICT
        # class 08 is connections, 57P an administrator's shutdown; without a state libpq could not ask the server
        lost = (self._psycopg.OperationalError, self._psycopg.InterfaceError)
        if state.startswith(("08", "57P")) or (isinstance(error, lost) and not state):
            return Failure.BROKEN
        if state.startswith(("28", "3D", "53")):  # who are you, no such database, too many connections
            return Failure.BROKEN
        return Failure.REFUSED


def _import_psycopg() -> ModuleType:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigurationError("a PostgreSQL metastore needs psycopg: install 'hive-ingest[postgres]'") from error
    return psycopg


def backend_for(uri: MetastoreUri, busy_timeout_seconds: float) -> Backend:
    return (SqliteBackend if uri.is_sqlite else PostgresBackend)(uri, busy_timeout_seconds)
