"""The catalog's databases."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hive_ingest.errors import AlreadyExists, InvalidOperation
from hive_ingest.metastore_client.ddl_locks import exclusive_lock, on_database
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.folder_tasks import plan_removal_if_empty
from hive_ingest.metastore_client.embedded.folders import make_folders
from hive_ingest.metastore_client.embedded.locks import Locks, require_lock
from hive_ingest.metastore_client.embedded.lookups import matching, no_such_database
from hive_ingest.metastore_client.embedded.sessions import Row, Session, Sessions
from hive_ingest.metastore_client.embedded.tables import drop_table_in
from hive_ingest.metastore_client.locations import normal_location
from hive_ingest.metastore_client.table_checks import database_name
from hive_ingest.model import DEFAULT_DATABASE, Database, LockId, TableName
from hive_ingest.plurals import counted

_GET = "SELECT DB_NAME, DB_LOCATION_URI, DB_COMMENT, DB_PARAMS FROM DBS WHERE DB_NAME = :database"
_NAMES = "SELECT DB_NAME FROM DBS ORDER BY DB_NAME"
_INSERT = """
    INSERT INTO DBS (DB_NAME, DB_LOCATION_URI, DB_COMMENT, DB_PARAMS)
    VALUES (:database, :location, :comment, :params)
"""
_UPDATE = "UPDATE DBS SET DB_COMMENT = :comment, DB_PARAMS = :params WHERE DB_NAME = :database"
_DELETE = "DELETE FROM DBS WHERE DB_NAME = :database"
_TABLES_OF = "SELECT TBL_NAME FROM TBLS WHERE DB_NAME = :database ORDER BY TBL_NAME"


class Databases:
    """The calls about databases."""

    def __init__(self, context: Context, locks: Locks) -> None:
        self._context, self._locks = context, locks
        self._db = context.sessions

    def create_database(
        self,
        name: str,
        *,
        location: str | None = None,
        comment: str = "",
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Database:
        """Raises AlreadyExists, ConfigurationError. Without `location` it lies at `<warehouse>/<name>.db`."""
        lower = database_name(name)
        where = normal_location(location) if location else f"{self._context.warehouse.rstrip('/')}/{lower}.db"
        row = {"location": where, "comment": comment, "params": json.dumps(dict(properties or {}))}

        def work(session: Session) -> Database:
            found = session.row(_GET, database=lower)
            if found is not None:
                if if_not_exists:
                    return _database(found)
                raise AlreadyExists(f"database {lower!r} already exists: use it, or pass if_not_exists=True")
            make_folders([where])
            session.execute(_INSERT, database=lower, **row)
            return Database(lower, where, comment, dict(properties or {}))

        return self._db.run(work)

    def get_database(self, name: str) -> Database:
        """Raises NoSuchObject."""
        rows = self._db.query(_GET, database=name.lower())
        if not rows:
            raise no_such_database(name)
        return _database(rows[0])

    def get_databases(self, pattern: str = "*") -> list[str]:
        """Names that match Hive's pattern (`*` any text, `|` alternatives), sorted."""
        return matching([row[0] for row in self._db.query(_NAMES)], pattern)

    def alter_database(self, name: str, database: Database) -> None:
        """Replace comment and properties. Raises NoSuchObject, InvalidOperation (another name or location)."""
        old = self.get_database(name)
        if (database.name.lower(), normal_location(database.location)) != (old.name, old.location):
            raise InvalidOperation(
                f"database {old.name!r} keeps its name and location {old.location}: create a new one"
            )
        params = json.dumps(dict(database.properties))
        self._db.run(lambda s: s.execute(_UPDATE, database=old.name, comment=database.comment, params=params))

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop under an EXCLUSIVE lock; its folder goes too, if nothing else is left in it.

        Raises NoSuchObject, LockTimeout, InvalidOperation (`default`, or it has tables and `cascade` is false).
        """
        lower = database_name(name)
        if lower == DEFAULT_DATABASE:
            raise InvalidOperation("the database 'default' cannot be dropped")
        what, wait = f"drop database {lower}", self._context.options.ddl_lock_wait_seconds
        with exclusive_lock(self._locks, what, on_database(lower), wait_seconds=wait) as lock_id:
            self._db.run(lambda session: _drop(session, lower, cascade, if_exists, lock_id))
        self._context.folder_tasks.finish()


def _drop(session: Session, name: str, cascade: bool, if_exists: bool, lock_id: LockId) -> None:
    require_lock(session, lock_id)
    found = session.row(_GET, database=name)
    if found is None:
        if if_exists:
            return
        raise no_such_database(name)
    tables = [row[0] for row in session.rows(_TABLES_OF, database=name)]
    if tables and not cascade:
        raise InvalidOperation(
            f"database {name!r} still has {counted(len(tables), 'table')}, such as {tables[0]!r}: "
            "drop them first, or pass cascade=True"
        )
    for table in tables:
        drop_table_in(session, TableName(name, table))
    session.execute(_DELETE, database=name)
    plan_removal_if_empty(session, found[1])


def default_location(sessions: Sessions) -> str:
    """The location of the database `default`: the warehouse with which the metastore was created."""
    location: str = sessions.query(_GET, database=DEFAULT_DATABASE)[0][1]
    return location


def _database(row: Row) -> Database:
    return Database(row[0], row[1], row[2], json.loads(row[3]))
