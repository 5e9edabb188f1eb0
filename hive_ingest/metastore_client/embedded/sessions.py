"""Sessions of the metastore's database: whole transactions from a pool of connections, errors without passwords.

Any thread may call at any time: each call checks a connection out of SQLAlchemy's pool and gives it back. A forked
child never uses a connection of its parent.

SQLAlchemy has the pool. Statements are plain SQL (`sql.py`), run by the driver's own cursor: through SQLAlchemy's
`Connection.execute` the calls of one streaming transaction took three times the processor time.
"""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql.ddl import ExecutableDDLElement
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_random_exponential

from hive_ingest.errors import (
    ConnectionMisuse,
    InvalidOperation,
    MetastoreError,
    MetastoreSchemaError,
    MetastoreUnavailable,
)
from hive_ingest.metastore_client.embedded.backends import UNSTORABLE_ERRORS, Backend, Failure
from hive_ingest.metastore_client.embedded.sql import CLOCK_OFFSET, Statement

_log = logging.getLogger(__name__)

T = TypeVar("T")
Row = Sequence[Any]

_MAX_ATTEMPTS = 20
#: What SQLite, and PostgreSQL with the error of its system, say.
_DISK_IS_FULL = ("disk is full", "No space left on device")


class DriverError(Exception):
    """What the database's driver said, without passwords. The cause of a MetastoreError."""


class _Retry(Exception):
    """The call can be made again; `final` is the caller's error if that does not help."""

    def __init__(self, final: MetastoreError) -> None:
        super().__init__(str(final))
        self.final = final


class Session:
    """Statements inside one transaction (or one statement on its own)."""

    __slots__ = ("_backend", "_clock_offset_ms", "_cursor")

    def __init__(self, backend: Backend, cursor: DBAPICursor, clock_offset_ms: int) -> None:
        self._backend, self._cursor, self._clock_offset_ms = backend, cursor, clock_offset_ms

    def rows(self, sql: str, /, **parameters: Any) -> Sequence[Row]:
        """All rows of a SELECT, or of a RETURNING clause."""
        self._run(sql, parameters)
        return self._cursor.fetchall()

    def row(self, sql: str, /, **parameters: Any) -> Row | None:
        """The first row, if there is one."""
        found = self.rows(sql, **parameters)
        return found[0] if found else None

    def scalar(self, sql: str, /, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        found = self.rows(sql, **parameters)
        return found[0][0] if found else None

    def execute(self, sql: str, /, **parameters: Any) -> int:
        """Run an INSERT, UPDATE or DELETE; gives how many rows it changed."""
        self._run(sql, parameters)
        return self._cursor.rowcount

    def execute_many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """The same statement for each of `rows`."""
        if len(rows) == 1:
            self._run(sql, rows[0])
        elif rows:
            statement = self._backend.dialect.statement(sql)
            self._cursor.executemany(statement.text, [self._bound(statement, row) for row in rows])

    def execute_sql(self, sql: str) -> Sequence[Row]:
        """Run SQL that is the backend's own, such as BEGIN."""
        self._cursor.execute(sql)
        return self._cursor.fetchall() if self._cursor.description else []

    def execute_ddl(self, ddl: ExecutableDDLElement) -> None:
        """Run CREATE TABLE or CREATE INDEX."""
        self._cursor.execute(str(ddl.compile(dialect=self._backend.ddl_dialect)))

    def _run(self, sql: str, parameters: Mapping[str, Any]) -> None:
        statement = self._backend.dialect.statement(sql)
        self._cursor.execute(statement.text, self._bound(statement, parameters))

    def _bound(self, statement: Statement, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters as the driver expects them. Raises TypeError for a missing or an unknown one."""
        if parameters.keys() != statement.parameters:
            passed, expected = sorted(parameters), sorted(statement.parameters)
            raise TypeError(f"a statement got the parameters {passed} instead of {expected}: {statement.text}")
        if not (statement.lists or statement.needs_clock):
            return parameters
        bound = {**parameters, **{name: _json_array(parameters[name]) for name in statement.lists}}
        if statement.needs_clock:
            bound[CLOCK_OFFSET] = self._clock_offset_ms
        return bound


def _json_array(values: Iterable[int | str]) -> str:
    if isinstance(values, str):  # it would become a list of its characters
        raise TypeError(f"a statement got a string instead of a list: {values!r}")
    return json.dumps(list(values))


class _Pool:
    """The engine that a client and its clones share; disposed of when the last of them is closed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Weak: one that is garbage-collected without having been closed must not keep the connections open.
        self._users: weakref.WeakSet[Sessions] = weakref.WeakSet()
        _pools.add(self)

    def attach(self, user: Sessions) -> None:
        self._users.add(user)

    def detach(self, user: Sessions) -> None:
        self._users.discard(user)
        if not self._users:
            self.engine.dispose()

    def after_fork(self) -> None:
        # Closing an inherited connection would harm the parent's: SQLite would drop its file locks, PostgreSQL its
        # session. So the parent's pool is kept from the garbage collector, and never used.
        _inherited.append(self.engine.pool)
        self.engine.dispose(close=False)


_pools: weakref.WeakSet[_Pool] = weakref.WeakSet()
_inherited: list[Any] = []


def _after_fork() -> None:
    for pool in list(_pools):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class Sessions:
    """Sessions of one metastore client; may be used from several threads at once."""

    def __init__(self, backend: Backend, *, clock_offset_seconds: float = 0.0, pool: _Pool | None = None) -> None:
        self.backend = backend
        self._pool = pool or _Pool(backend.create_engine())
        self._pool.attach(self)
        self._is_closed = False
        self.clock_offset_seconds = clock_offset_seconds
        self._retrying = Retrying(
            retry=retry_if_exception_type(_Retry),
            stop=stop_after_attempt(_MAX_ATTEMPTS) | stop_after_delay(backend.options.busy_timeout_seconds),
            wait=wait_random_exponential(multiplier=0.005, max=0.5),
            reraise=True,
        )

    @property
    def clock_offset_seconds(self) -> float:
        """How far the database's clock is moved on, for this client only."""
        return self._clock_offset_ms / 1000

    @clock_offset_seconds.setter
    def clock_offset_seconds(self, seconds: float) -> None:
        self._clock_offset_ms = int(seconds * 1000)

    def query(self, sql: str, /, **parameters: Any) -> Sequence[Row]:
        """One statement, committed by itself: a consistent snapshot if it reads."""
        return self._retried(lambda: self._attempt(lambda session: session.rows(sql, **parameters), whole=False))

    def execute_sql(self, sql: str) -> Sequence[Row]:
        """A text of the backend's own, outside any transaction."""
        return self._retried(lambda: self._attempt(lambda session: session.execute_sql(sql), whole=False))

    def run(self, work: Callable[[Session], T], *, is_durable: bool = True) -> T:
        """`work` in one write transaction, made again from the start when another process was in the way.

        If it is not durable, a crash of the machine may undo it unless a durable one has been committed since then.

        Whatever `work` raises rolls back. Raises MetastoreUnavailable; when the connection breaks during COMMIT
        the outcome is unknown.
        """
        return self._retried(lambda: self._attempt(work, whole=True, is_durable=is_durable))

    def clone(self) -> Sessions:
        """Another handle on the same pool, which is closed separately."""
        self._refuse_if_closed()
        return Sessions(self.backend, clock_offset_seconds=self.clock_offset_seconds, pool=self._pool)

    def close(self) -> None:
        """Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            self._pool.detach(self)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise ConnectionMisuse("this metastore client is closed: connect again, or clone() before closing")

    def _retried(self, attempt: Callable[[], T]) -> T:
        self._refuse_if_closed()
        try:
            return attempt()  # nearly always the only one, and tenacity costs as much as a statement
        except _Retry:
            pass
        try:
            return self._retrying(attempt)
        except _Retry as error:
            final = error.final
        raise final

    def _attempt(self, work: Callable[[Session], T], *, whole: bool, is_durable: bool = True) -> T:
        """Errors are raised outside `except`: as a context they would carry the driver's, and its passwords."""
        connection: PoolProxiedConnection | None = None
        is_committing = False
        try:
            connection = self._pool.engine.raw_connection()
            self.backend.set_durability(connection, is_durable=is_durable)
            session = Session(self.backend, connection.cursor(), self._clock_offset_ms)
            if whole:
                session.execute_sql(self.backend.begin)
            result = work(session)
            if whole:
                is_committing = True
                session.execute_sql("COMMIT")
            return result
        # SQLAlchemy wraps those of its own calls.
        except (self.backend.driver_error, DBAPIError, *UNSTORABLE_ERRORS) as error:
            failure = self._translate(error, connection, outcome_unknown=is_committing)
        finally:
            if connection is not None:
                connection.close()  # back into the pool, which rolls back what is not committed
        raise failure

    def _translate(
        self, error: Exception, connection: PoolProxiedConnection | None, *, outcome_unknown: bool
    ) -> Exception:
        backend = self.backend
        reported = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        kind = backend.failure(reported)
        text = " ".join(backend.uri.redact(f"{type(reported).__name__}: {reported}").split())
        _log.debug("metastore %s: %s", backend.uri, text)
        final = _final_error(kind, backend, text, outcome_unknown=outcome_unknown)
        final.__cause__ = DriverError(text)
        if kind is Failure.BROKEN and connection is not None:
            connection.invalidate()  # the pool opens another one
        was_lost = kind is Failure.BROKEN and connection is not None and backend.can_reconnect
        return _Retry(final) if (kind is Failure.CONFLICT or was_lost) and not outcome_unknown else final


def _final_error(kind: Failure, backend: Backend, said: str, *, outcome_unknown: bool) -> MetastoreError:
    where = str(backend.uri)
    if kind is Failure.FOREIGN:
        return MetastoreSchemaError(
            f"{where} is not a metastore ({said}): give the address of a new or an empty database"
        )
    if kind is Failure.UNSTORABLE:
        return InvalidOperation(
            f"{where} cannot store a value of this call ({said}): remove NUL characters and halves of surrogate pairs "
            "from its texts, and pass numbers of 64 bits"
        )
    is_full = any(text in said for text in _DISK_IS_FULL)
    if outcome_unknown:
        advice = "free some space on its disk, and call again" if is_full else "call again"
        return MetastoreUnavailable(f"{where} broke while it committed, so the outcome is unknown ({said}): {advice}")
    if is_full:
        return MetastoreUnavailable(f"{where} cannot be written ({said}): free some space on its disk")
    if kind is Failure.BROKEN:
        return MetastoreUnavailable(f"{where} cannot be reached ({said}): check the address and the server")
    if kind in (Failure.CONFLICT, Failure.TIMED_OUT):
        return MetastoreUnavailable(f"{where} is too busy ({said}). {backend.busy_advice}")
    return MetastoreError(f"{where} refused a statement ({said}): please report this with the text")
