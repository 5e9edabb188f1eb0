"""What differs between SQLite and PostgreSQL: how to connect, begin, and read an error."""

from __future__ import annotations

import enum
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.metastore_client.embedded.sql import POSTGRESQL, SQLITE, SqlDialect
from hive_ingest.metastore_client.embedded.uris import MetastoreUri

_log = logging.getLogger(__name__)

#: json_each for lists of ids, RETURNING and upserts are all there from this version on.
_MIN_SQLITE = (3, 38, 0)
_CONNECT_TIMEOUT_SECONDS = 10
#: Where a connection of the pool keeps the level that was set last.
_SYNCHRONOUS = "hive_ingest.synchronous"
#: Connections kept open while idle. Concurrent calls open as many as they need, which are closed again.
_IDLE_CONNECTIONS = 5


class Failure(enum.Enum):
    """What an error of the driver means for the call in which it occurred."""

    CONFLICT = "another session was faster; the same call can be made again"
    TIMED_OUT = "another session kept a lock, or a statement took too long"
    BROKEN = "the connection is gone"
    FOREIGN = "the file is not a database"
    UNSTORABLE = "the database cannot store a value that was passed"
    REFUSED = "the database refused"


#: Raised by the drivers as they are, for half a surrogate pair and for a number of more than 64 bits.
UNSTORABLE_ERRORS = (UnicodeEncodeError, OverflowError)


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
    #: Of the statements in the modules of this package.
    dialect: ClassVar[SqlDialect]
    #: Of CREATE TABLE and CREATE INDEX.
    ddl_dialect: ClassVar[DefaultDialect]

    driver_error: type[Exception]

    def __init__(self, uri: MetastoreUri, options: EmbeddedOptions) -> None:
        self.uri = uri
        self.options = options

    @property
    @abstractmethod
    def busy_advice(self) -> str:
        """Advice about sessions that may block others, and how to find them."""

    @abstractmethod
    def failure(self, error: BaseException) -> Failure: ...

    @abstractmethod
    def check_durability(self, rows: Sequence[Sequence[Any]]) -> None:
        """Warn of server settings under which a commit that was acknowledged can be lost."""

    def set_durability(self, connection: PoolProxiedConnection, *, is_durable: bool) -> None:  # noqa: B027
        """Set whether the next commit of a connection must be on the disk when it returns.

        Where the server may crash and its clients live on, every commit is durable.
        """

    #: A query for `check_durability`, if there is something to ask.
    durability_query: ClassVar[str | None] = None

    def create_engine(self) -> Engine:
        """An engine in autocommit mode: transactions begin with the backend's own BEGIN."""
        return self._new_engine(
            poolclass=QueuePool,
            pool_size=_IDLE_CONNECTIONS,
            max_overflow=-1,
            pool_use_lifo=True,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )

    @abstractmethod
    def _new_engine(self, **arguments: Any) -> Engine: ...


class SqliteBackend(Backend):
    """One file in WAL mode; a durable commit is on the disk when it returns, with all commits before it.

    Only processes of one machine share the file, so the crash that undoes a commit also ends the transaction's owner.
    """

    # IMMEDIATE: taking the write lock at the first write would fail when another process wrote since the first read.
    begin = "BEGIN IMMEDIATE"
    list_tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    prepare_empty = "PRAGMA journal_mode=WAL"  # stays with the file
    dialect = SQLITE
    ddl_dialect = SQLiteDialect_pysqlite()
    driver_error = sqlite3.Error

    def __init__(self, uri: MetastoreUri, options: EmbeddedOptions) -> None:
        super().__init__(uri, options)
        if sqlite3.sqlite_version_info < _MIN_SQLITE:
            raise ConfigurationError(
                f"this Python has SQLite {sqlite3.sqlite_version}, and a metastore needs 3.38: "
                "use a newer Python, or a PostgreSQL metastore"
            )

    @property
    def busy_advice(self) -> str:
        return (
            f"Another process kept the file's write lock for {self.options.busy_timeout_seconds:g} s "
            "(busy_timeout_seconds). A healthy one keeps it for milliseconds, so look for one that is stopped or "
            f"suspended within a call, or a sqlite3 shell with an open transaction: `fuser -v '{self.uri.path}'` "
            "lists the processes that have the file open, and `ps -o pid,stat,cmd -p PID` shows a stopped one as T"
        )

    def check_durability(self, rows: Sequence[Sequence[Any]]) -> None:
        """Nothing to check: `set_durability` sets the level."""

    def set_durability(self, connection: PoolProxiedConnection, *, is_durable: bool) -> None:
        level = "FULL" if is_durable else "NORMAL"
        if connection.info.get(_SYNCHRONOUS, "FULL") != level:
            connection.cursor().execute(f"PRAGMA synchronous={level}")
            connection.info[_SYNCHRONOUS] = level

    def _new_engine(self, **arguments: Any) -> Engine:
        return create_engine("sqlite://", creator=self._connect, **arguments)

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: a missing file is an error and never becomes an empty metastore.
        connection = sqlite3.connect(
            f"file:{quote(str(self.uri.path))}?mode=rw",
            uri=True,
            timeout=self.options.busy_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,  # the pool gives a connection to one thread at a time
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def failure(self, error: BaseException) -> Failure:
        if isinstance(error, UNSTORABLE_ERRORS):
            return Failure.UNSTORABLE
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


#: One round trip for each new connection. `off` alone would lose commits that were acknowledged: the other values
#: say how many machines must have one.
_PREPARE_SESSION = """
SELECT set_config('lock_timeout', %(lock)s, false),
       set_config('statement_timeout', %(statement)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle)s, false),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit')
                       WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""


class PostgresBackend(Backend):
    """A PostgreSQL server through psycopg 3, at READ COMMITTED with row locks, as Hive uses it."""

    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    list_tables = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
    lock_schema = "SELECT pg_advisory_xact_lock(7166543121)"  # any number, the same for every version of ours
    durability_query = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes')"
    can_reconnect = True
    dialect = POSTGRESQL
    ddl_dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]

    def __init__(self, uri: MetastoreUri, options: EmbeddedOptions) -> None:
        super().__init__(uri, options)
        self._psycopg = _import_psycopg()
        self.driver_error = self._psycopg.Error

    @property
    def busy_advice(self) -> str:
        return (
            f"Another session kept a row lock for {self.options.busy_timeout_seconds:g} s (busy_timeout_seconds), or "
            f"a statement took longer than {self.options.statement_timeout_seconds:g} s (statement_timeout_seconds). "
            "As an administrator of the server ask SELECT pid, state, xact_start, client_addr, query FROM "
            "pg_stat_activity WHERE application_name = 'hive-ingest' AND state <> 'idle', and pg_blocking_pids(pid)"
        )

    def check_durability(self, rows: Sequence[Sequence[Any]]) -> None:
        off = sorted(name for name, setting in rows if setting == "off")
        if off:
            _log.warning(
                "%s: the server runs with %s off, so a crash of its machine can lose or damage what was committed: "
                "turn it on in postgresql.conf",
                self.uri,
                " and ".join(off),
            )

    def _new_engine(self, **arguments: Any) -> Engine:
        connect = {"connect_timeout": _CONNECT_TIMEOUT_SECONDS, "application_name": "hive-ingest"}
        given = {key: value for key, value in connect.items() if key not in self.uri.url.query}
        engine = create_engine(self.uri.url, connect_args=given, use_native_hstore=False, **arguments)
        event.listen(engine, "connect", self._prepare_session)
        return engine

    def _prepare_session(self, connection: Any, _: object) -> None:
        options = self.options
        limits = {
            "lock": _milliseconds(options.busy_timeout_seconds),
            "statement": _milliseconds(options.statement_timeout_seconds),
            "idle": _milliseconds(options.idle_in_transaction_timeout_seconds),
        }
        try:
            with connection.cursor() as cursor:
                cursor.execute(_PREPARE_SESSION, limits)
        except BaseException:
            connection.close()  # the pool forgets a connection that it could not prepare
            raise

    def failure(self, error: BaseException) -> Failure:
        state = getattr(error, "sqlstate", None) or ""
        # class 22 is data exceptions; psycopg itself refuses NUL characters, without a state
        if isinstance(error, (*UNSTORABLE_ERRORS, self._psycopg.DataError)) or state.startswith("22"):
            return Failure.UNSTORABLE
        # serialization_failure, deadlock_detected, unique_violation
        if state in ("40001", "40P01", "23505"):
            return Failure.CONFLICT
        # lock_not_available, query_canceled: the limits that `_prepare_session` sets
        if state in ("55P03", "57014"):
            return Failure.TIMED_OUT
        # class 08 is connections, 57P an administrator's shutdown, 25P03 a transaction that was idle for too long;
        # without a state libpq could not ask the server
        lost = (self._psycopg.OperationalError, self._psycopg.InterfaceError)
        if state.startswith(("08", "57P", "25P03")) or (isinstance(error, lost) and not state):
            return Failure.BROKEN
        if state.startswith(("28", "3D", "53")):  # who are you, no such database, too many connections
            return Failure.BROKEN
        return Failure.REFUSED


def _milliseconds(seconds: float) -> str:
    return f"{max(1, int(seconds * 1000))}ms"  # 0 would mean no limit


def _import_psycopg() -> ModuleType:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigurationError("a PostgreSQL metastore needs psycopg: install 'hive-ingest[postgres]'") from error
    return psycopg


def backend_for(uri: MetastoreUri, options: EmbeddedOptions) -> Backend:
    return (SqliteBackend if uri.is_sqlite else PostgresBackend)(uri, options)
