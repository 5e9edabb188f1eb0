"""The catalog's databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_ingest.errors import AlreadyExists, InvalidOperation, NoSuchObject
from hive_ingest.metastore_client.ddl_locks import exclusive_lock, on_database
from hive_ingest.metastore_client.table_checks import database_name
from hive_ingest.metastore_client.thrift.convert import to_database
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.locks import Locks
from hive_ingest.metastore_client.thrift.part import Context, Part
from hive_ingest.model import DEFAULT_DATABASE, Database


class Databases(Part):
    """The calls about databases."""

    def __init__(self, context: Context, locks: Locks) -> None:
        super().__init__(context)
        self._locks = locks

    def create_database(
        self,
        name: str,
        *,
        location: str | None = None,
        comment: str = "",
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Database:
        """Create a database, by default where the server places it. Raises AlreadyExists, ConfigurationError."""
        lower = database_name(name)
        where = location or (f"{self._context.warehouse.rstrip('/')}/{lower}.db" if self._context.warehouse else None)
        new = idl().Database(name=lower, description=comment, locationUri=where, parameters=dict(properties or {}))
        if self._version.has_managed_locations:
            new.managedLocationUri = where
        try:
            self._channel.call("create_database", new, is_repeatable=if_not_exists)
        except AlreadyExists as error:
            if not if_not_exists:
                raise AlreadyExists(f"database {lower!r} already exists: use it, or pass if_not_exists=True") from error
        return self.get_database(lower)

    def get_database(self, name: str) -> Database:
        """Raises NoSuchObject."""
        return to_database(self._get_database(name.lower()))

    def _get_database(self, name: str) -> Any:
        """The database as returned by the server."""
        try:
            return self._channel.call("get_database", name, is_repeatable=True)
        except NoSuchObject as error:
            raise NoSuchObject(f"there is no database {name!r}: create it first, with create_database") from error

    def get_databases(self, pattern: str = "*") -> list[str]:
        """Names that match Hive's pattern (`*` any text, `|` alternatives), sorted."""
        return sorted(self._channel.call("get_databases", pattern, is_repeatable=True))

    def alter_database(self, name: str, database: Database) -> None:
        """Replace comment and properties. Raises NoSuchObject, InvalidOperation (another name or location)."""
        found = self._get_database(name.lower())
        old = to_database(found)
        if (database.name.lower(), database.location.rstrip("/")) != (old.name, old.location.rstrip("/")):
            raise InvalidOperation(
                f"database {old.name!r} keeps its name and location {old.location}: create a new one"
            )
        found.description, found.parameters = database.comment, dict(database.properties)
        self._channel.call("alter_database", old.name, found, is_repeatable=False)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop under an EXCLUSIVE lock.

        Raises NoSuchObject, LockTimeout, InvalidOperation (`default`, or it has tables and `cascade` is false).
        """
        lower = database_name(name)
        if lower == DEFAULT_DATABASE:
            raise InvalidOperation("the database 'default' cannot be dropped")
        what, wait = f"drop database {lower}", self._channel.options.ddl_lock_wait_seconds
        try:
            self._get_database(lower)  # Hive 3 fails with an internal error if it does not exist
            with exclusive_lock(self._locks, what, on_database(lower), wait_seconds=wait):
                self._channel.call("drop_database", lower, True, cascade, is_repeatable=if_exists)
        except NoSuchObject:
            if not if_exists:
                raise
        except InvalidOperation as error:
            raise InvalidOperation(f"{error}: drop its tables first, or pass cascade=True") from error
