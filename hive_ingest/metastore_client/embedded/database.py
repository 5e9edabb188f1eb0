"""One connection to the metastore's database: prebuilt statements, whole transactions, errors without passwords.

SQLAlchemy Core writes the statements, each compiled once; the driver runs them, because a metastore call is a
handful of statements and must cost well under a millisecond.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy.sql.base import Executable
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_random_exponential

from hive_ingest.errors import ConnectionMisuse, MetastoreError, MetastoreSchemaError, MetastoreUnavailable
from hive_ingest.metastore_client.embedded.backends import Backend, Failure
from hive_ingest.metastore_client.embedded.sql import CLOCK_OFFSET

_log = logging.getLogger(__name__)

T = TypeVar("T")
Row = tuple[Any, ...]

_MAX_ATTEMPTS = 20

# Connections of a parent process. Closing one here would harm the parent's: SQLite would drop its file locks,
# PostgreSQL its session. So they are kept from the garbage collector, and never used.
_inherited: list[Any] = []


class DriverError(Exception):
    """What the database's driver said, without passwords. The cause of a MetastoreError."""


class _Retry(Exception):
    """The call can be made again; `final` is what the caller gets when that has not helped."""

    def __init__(self, final: MetastoreError) -> None:
        super().__init__(str(final))
        self.final = final


class Session:
    """Statements inside one transaction (or one statement on its own)."""

    __slots__ = ("_always", "_backend", "_cursor")

    def __init__(self, backend: Backend, cursor: Any, always: Mapping[str, Any]) -> None:
        self._backend, self._cursor, self._always = backend, cursor, always

    def rows(self, statement: Executable, **parameters: Any) -> list[Row]:
        """All rows of a SELECT, or of a RETURNING clause."""
        self._run(statement, parameters)
        found: list[Row] = self._cursor.fetchall()
        return found

    def row(self, statement: Executable, **parameters: Any) -> Row | None:
        """The first row, if there is one."""
        found = self.rows(statement, **parameters)
        return found[0] if found else None

    def scalar(self, statement: Executable, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        found = self.rows(statement, **parameters)
        return found[0][0] if found else None

    def execute(self, statement: Executable, **parameters: Any) -> int:
        """How many rows were touched."""
        self._run(statement, parameters)
        return int(self._cursor.rowcount)

    def execute_many(self, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """The same statement for each of `rows`."""
        if len(rows) == 1:
            self._run(statement, rows[0])
        elif rows:
            compiled = self._backend.compile(statement)
            self._cursor.executemany(compiled.sql, [{**compiled.constants, **self._always, **row} for row in rows])

    def execute_sql(self, sql: str) -> list[Row]:
        """A text of the backend's own, such as BEGIN."""
        self._cursor.execute(sql)
        found: list[Row] = self._cursor.fetchall() if self._cursor.description else []
        return found

    def _run(self, statement: Executable, parameters: Mapping[str, Any]) -> None:
        compiled = self._backend.compile(statement)
        self._cursor.execute(compiled.sql, {**compiled.constants, **self._always, **parameters})


class Database:
    """One lazily made connection, for one thread at a time; a forked child gets one of its own."""

    def __init__(self, backend: Backend, *, clock_offset_seconds: float = 0.0) -> None:
        self.backend = backend
        self._connection: Any = None
        self._session: Session | None = None
        self._pid = os.getpid()
        self._closed = False
        self._always: dict[str, Any] = {}
        self.clock_offset_seconds = clock_offset_seconds
        self._retrying = Retrying(
            retry=retry_if_exception_type(_Retry),
            stop=stop_after_attempt(_MAX_ATTEMPTS) | stop_after_delay(backend.busy_timeout_seconds),
            wait=wait_random_exponential(multiplier=0.005, max=0.5),
            reraise=True,
        )

    @property
    def clock_offset_seconds(self) -> float:
        """How far the database's clock is moved on, for this connection only."""
        return float(self._always[CLOCK_OFFSET]) / 1000

    @clock_offset_seconds.setter
    def clock_offset_seconds(self, seconds: float) -> None:
        self._always[CLOCK_OFFSET] = int(seconds * 1000)

    def query(self, statement: Executable, **parameters: Any) -> list[Row]:
        """One statement, committed by itself: a consistent snapshot if it reads."""
        return self._retried(lambda: self._attempt(lambda session: session.rows(statement, **parameters), whole=False))

    def execute_sql(self, sql: str) -> list[Row]:
        """A text of the backend's own, outside any transaction."""
        return self._retried(lambda: self._attempt(lambda session: session.execute_sql(sql), whole=False))

    def run(self, work: Callable[[Session], T]) -> T:
        """`work` in one write transaction, made again from the start when another process was in the way.

        Whatever `work` raises rolls back. Raises MetastoreUnavailable; when the connection breaks during COMMIT
        the outcome is unknown.
        """
        return self._retried(lambda: self._attempt(work, whole=True))

    def close(self) -> None:
        """Idempotent."""
        self._closed = True
        self._disconnect()

    def _retried(self, attempt: Callable[[], T]) -> T:
        try:
            return self._retrying(attempt)
        except _Retry as error:
            final = error.final
        raise final

    def _attempt(self, work: Callable[[Session], T], *, whole: bool) -> T:
        """Errors are raised outside `except`: as a context they would carry the driver's, and its passwords."""
        driver_error = self.backend.driver_error
        committing = done = False
        try:
            session = self._open()
            if whole:
                session.execute_sql(self.backend.begin)
            result = work(session)
            if whole:
                committing = True
                session.execute_sql("COMMIT")
            done = True
            return result
        except driver_error as error:
            failure = self._translate(error, outcome_unknown=committing)
        finally:
            if whole and not done:
                self._roll_back()
        raise failure

    def _open(self) -> Session:
        if self._closed:
            raise ConnectionMisuse("this metastore client is closed: connect again, or clone() before closing")
        if self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection = self._session = None
            self._pid = os.getpid()
        if self._session is None:
            self._connection = self.backend.connect()
            self._session = Session(self.backend, self._connection.cursor(), self._always)
        return self._session

    def _roll_back(self) -> None:
        if self._session is not None:
            try:
                self._session.execute_sql("ROLLBACK")
            except self.backend.driver_error:
                # SQLite has already rolled back after some errors; a broken connection has, by breaking.
                self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection, self._session = self._connection, None, None
        if connection is None:
            return
        if self._pid != os.getpid():
            _inherited.append(connection)
            return
        with contextlib.suppress(self.backend.driver_error):
            connection.close()

    def _translate(self, error: Exception, *, outcome_unknown: bool) -> Exception:
        kind = self.backend.failure(error)
        said = self.backend.uri.redact(f"{type(error).__name__}: {error}").strip()
        _log.debug("metastore %s: %s", self.backend.uri, said)
        final = _final_error(kind, str(self.backend.uri), said, outcome_unknown=outcome_unknown)
        final.__cause__ = DriverError(said)
        was_connected = self._session is not None
        if kind is Failure.BROKEN:
            self._disconnect()
        lost = kind is Failure.BROKEN and was_connected and self.backend.can_reconnect
        return _Retry(final) if (kind is Failure.CONFLICT or lost) and not outcome_unknown else final


def _final_error(kind: Failure, where: str, said: str, *, outcome_unknown: bool) -> MetastoreError:
    if kind is Failure.FOREIGN:
        return MetastoreSchemaError(f"{where} is no metastore ({said}): give the address of a new or an empty database")
    if outcome_unknown:
        return MetastoreUnavailable(f"{where} broke while it committed, so the outcome is unknown ({said}): call again")
    if kind is Failure.BROKEN:
        return MetastoreUnavailable(f"{where} cannot be reached ({said}): check the address and the server")
    if kind is Failure.CONFLICT:
        return MetastoreUnavailable(f"{where} is too busy ({said}): try again later, or raise busy_timeout_seconds")
    return MetastoreError(f"{where} refused a statement ({said}): please report this with the text")
