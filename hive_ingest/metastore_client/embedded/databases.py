"""The catalog's databases."""

# ruff: noqa: SIM300 - columns are written in capitals, and so taken for constants

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from sqlalchemy import bindparam, delete, insert, select, update

from hive_ingest.errors import AlreadyExists, ConfigurationError, InvalidOperation, NoSuchObject
from hive_ingest.metastore_client.embedded import tables as t
from hive_ingest.metastore_client.embedded.folders import make_folders, remove_folder
from hive_ingest.metastore_client.embedded.part import ClientPart
from hive_ingest.metastore_client.embedded.sessions import Row, Session, Sessions
from hive_ingest.metastore_client.locations import local_path, normal_location
from hive_ingest.metastore_client.table_checks import database_name
from hive_ingest.model import DEFAULT_DATABASE, Database, TableName

_DB = t.DBS.c
_GET = select(_DB.DB_NAME, _DB.DB_LOCATION_URI, _DB.DB_COMMENT, _DB.DB_PARAMS).where(
    _DB.DB_NAME == bindparam("database")
)
_NAMES = select(_DB.DB_NAME).order_by(_DB.DB_NAME)
_INSERT = insert(t.DBS).values(
    DB_NAME=bindparam("database"),
    DB_LOCATION_URI=bindparam("location"),
    DB_COMMENT=bindparam("comment"),
    DB_PARAMS=bindparam("params"),
)
_UPDATE = (
    update(t.DBS)
    .where(_DB.DB_NAME == bindparam("database"))
    .values(DB_COMMENT=bindparam("comment"), DB_PARAMS=bindparam("params"))
)
_DELETE = delete(t.DBS).where(_DB.DB_NAME == bindparam("database"))
_TABLES_OF = select(t.TBLS.c.TBL_NAME).where(t.TBLS.c.DB_NAME == bindparam("database")).order_by(t.TBLS.c.TBL_NAME)
_ALL_LOCATIONS = select(_DB.DB_LOCATION_URI).union(select(t.TBLS.c.LOCATION))


class DatabaseCalls(ClientPart):
    """The calls about databases."""

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
        where = self._own_location(location) if location else f"{self._warehouse.rstrip('/')}/{lower}.db"
        row = {"location": where, "comment": comment, "params": json.dumps(dict(properties or {}))}

        def work(session: Session) -> Database:
            found = session.row(_GET, database=lower)
            if found is not None:
                if if_not_exists:
                    return _database(found)
                raise AlreadyExists(f"database {lower!r} is there already: use it, or pass if_not_exists=True")
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
            raise InvalidOperation(f"database {old.name!r} keeps its name and location {old.location}: make a new one")
        params = json.dumps(dict(database.properties))
        self._db.run(lambda s: s.execute(_UPDATE, database=old.name, comment=database.comment, params=params))

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Raises NoSuchObject, InvalidOperation when it still has tables and `cascade` is false, or is `default`."""
        lower = database_name(name)
        if lower == DEFAULT_DATABASE:
            raise InvalidOperation("the database 'default' cannot be dropped")
        gone = self._db.run(lambda session: self._drop_database(session, lower, cascade, if_exists))
        self._remove_folders(gone)

    def _drop_database(self, session: Session, name: str, cascade: bool, if_exists: bool) -> list[str]:
        found = session.row(_GET, database=name)
        if found is None:
            if if_exists:
                return []
            raise no_such_database(name)
        tables = [row[0] for row in session.rows(_TABLES_OF, database=name)]
        if tables and not cascade:
            raise InvalidOperation(
                f"database {name!r} still has {len(tables)} tables, such as {tables[0]!r}: "
                "drop them first, or pass cascade=True"
            )
        gone = [location for table in tables for location in self._drop_table(session, TableName(name, table))]
        session.execute(_DELETE, database=name)
        return [*gone, found[1]]

    def _remove_folders(self, locations: list[str]) -> None:
        """After the commit; a folder that holds something else of the catalog stays."""
        if locations:
            keep = [self._warehouse, *(row[0] for row in self._db.query(_ALL_LOCATIONS))]
            for location in locations:
                remove_folder(location, keep=keep)

    def _own_location(self, location: str) -> str:
        """A location as Hive writes it. Raises ConfigurationError: not on this machine, under SQLite."""
        normal = normal_location(location)
        if self._db.backend.uri.is_sqlite and local_path(normal) is None:
            raise ConfigurationError(f"a SQLite metastore serves one machine, and {normal!r} is not on it")
        return normal


def default_location(sessions: Sessions) -> str:
    """Where the database `default` lies: the warehouse that the metastore was made with."""
    location: str = sessions.query(_GET, database=DEFAULT_DATABASE)[0][1]
    return location


def no_such_database(name: str) -> NoSuchObject:
    return NoSuchObject(f"there is no database {name.lower()!r}: create it first")


def matching(names: list[str], pattern: str) -> list[str]:
    """Those of `names` that match Hive's pattern without regard to case."""
    alternatives = "|".join(re.escape(part.strip()).replace(r"\*", ".*") for part in pattern.split("|"))
    wanted = re.compile(alternatives, re.IGNORECASE)
    return [name for name in names if wanted.fullmatch(name)]


def _database(row: Row) -> Database:
    return Database(row[0], row[1], row[2], json.loads(row[3]))
