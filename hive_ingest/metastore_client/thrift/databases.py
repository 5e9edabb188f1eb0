"""The catalog's databases."""

from __future__ import annotations

from collections.abc import Mapping

from hive_ingest.errors import AlreadyExists, InvalidOperation, NoSuchObject
from hive_ingest.metastore_client.thrift.convert import to_database
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.part import ClientPart
from hive_ingest.model import DEFAULT_DATABASE, Database, TableName


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
        """Raises AlreadyExists, ConfigurationError. Without `location` it lies where the server puts it."""
        lower = _database_name(name)
        where = location or (f"{self._warehouse.rstrip('/')}/{lower}.db" if self._warehouse else None)
        new = idl().Database(name=lower, description=comment, locationUri=where, parameters=dict(properties or {}))
        if self._version.has_managed_locations:
            new.managedLocationUri = where
        try:
            self._channel.call("create_database", new, is_repeatable=if_not_exists)
        except AlreadyExists:
            if not if_not_exists:
                raise
        return self.get_database(lower)

    def get_database(self, name: str) -> Database:
        """Raises NoSuchObject."""
        return to_database(self._channel.call("get_database", name.lower(), is_repeatable=True))

    def get_databases(self, pattern: str = "*") -> list[str]:
        """Names that match Hive's pattern (`*` any text, `|` alternatives), sorted."""
        return sorted(self._channel.call("get_databases", pattern, is_repeatable=True))

    def alter_database(self, name: str, database: Database) -> None:
        """Replace comment and properties. Raises NoSuchObject, InvalidOperation (another name or location)."""
        found = self._channel.call("get_database", name.lower(), is_repeatable=True)
        old = to_database(found)
        if (database.name.lower(), database.location.rstrip("/")) != (old.name, old.location.rstrip("/")):
            raise InvalidOperation(f"database {old.name!r} keeps its name and location {old.location}: make a new one")
        found.description, found.parameters = database.comment, dict(database.properties)
        self._channel.call("alter_database", old.name, found, is_repeatable=False)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Raises NoSuchObject, InvalidOperation when it still has tables and `cascade` is false, or is `default`."""
        lower = _database_name(name)
        if lower == DEFAULT_DATABASE:
            raise InvalidOperation("the database 'default' cannot be dropped")
        try:
            self._channel.call("drop_database", lower, True, cascade, is_repeatable=if_exists)
        except NoSuchObject:
            if not if_exists:
                raise


def _database_name(name: str) -> str:
    """In lower case. Raises ConfigurationError."""
    return TableName(name, "t").database
