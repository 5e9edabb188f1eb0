"""The catalog's tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hive_ingest.errors import AlreadyExists, InvalidOperation, NoSuchObject
from hive_ingest.metastore_client.ddl_locks import exclusive_lock, needs_exclusive_lock, on_table
from hive_ingest.metastore_client.table_checks import check_change, check_existing, new_table
from hive_ingest.metastore_client.table_columns import with_columns_added
from hive_ingest.metastore_client.thrift.convert import change_table, from_new_table, to_table
from hive_ingest.metastore_client.thrift.databases import Databases
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.locks import Locks
from hive_ingest.metastore_client.thrift.part import Context, Part
from hive_ingest.metastore_client.thrift.versions import PROCESSOR_CAPABILITIES
from hive_ingest.model import Column, LockId, Table, TableName, columns_of


class Tables(Part):
    """The calls about tables."""

    def __init__(self, context: Context, locks: Locks, databases: Databases) -> None:
        super().__init__(context)
        self._locks, self._databases = locks, databases

    def create_table(self, table: str | TableName, *, if_not_exists: bool = False, **definition: Any) -> Table:
        """Create a managed ORC table, transactional unless `properties` say otherwise (external with `EXTERNAL=TRUE`).

        Raises AlreadyExists (with `if_not_exists` too, where columns, partition keys or buckets differ), NoSuchObject
        (the database), InvalidOperation (a column twice, a bad type, bad buckets),
        UnsupportedFeature (a type of Hive that is not supported here).
        """
        new = new_table(table, **definition)
        if not new.owner:
            new = dataclasses.replace(new, owner=self._channel.options.effective_user)
        try:
            self._create(from_new_table(new), is_repeatable=if_not_exists)
        except AlreadyExists as error:
            if not if_not_exists:
                raise AlreadyExists(f"table {new.name} already exists: use it, or pass if_not_exists=True") from error
            existing = self.get_table(new.name)
            check_existing(existing, new)
            return existing
        except (InvalidOperation, NoSuchObject):
            self._databases.get_database(new.name.database)  # Hive 3 calls a missing database an invalid object
            raise
        return self.get_table(new.name)

    def _create(self, new: Any, *, is_repeatable: bool) -> None:
        t = idl()
        if not self._version.has_request_structures:
            context = t.EnvironmentContext(properties={})
            self._channel.call("create_table_with_environment_context", new, context, is_repeatable=is_repeatable)
            return
        request = t.CreateTableRequest(table=new, processorCapabilities=list(PROCESSOR_CAPABILITIES))
        self._channel.call("create_table_req", request, is_repeatable=is_repeatable)

    def get_table(self, table: str | TableName) -> Table:
        """Raises NoSuchObject."""
        return to_table(self.get_hive_table(TableName.of(table)), self._version)

    def get_hive_table(self, name: TableName) -> Any:
        """The table as returned by the server."""
        t = idl()
        request = t.GetTableRequest(
            dbName=name.database,
            tblName=name.table,
            capabilities=t.ClientCapabilities(values=[t.ClientCapability.INSERT_ONLY_TABLES]),
            processorCapabilities=list(PROCESSOR_CAPABILITIES),
        )
        try:
            return self._channel.call("get_table_req", request, is_repeatable=True).table
        except NoSuchObject as error:
            raise NoSuchObject(f"there is no table {name}: create it first, or correct the name") from error

    def get_tables(self, database: str, pattern: str = "*") -> list[str]:
        """Names that match Hive's pattern (`*` any text, `|` alternatives), sorted."""
        return sorted(self._channel.call("get_tables", database.lower(), pattern, is_repeatable=True))

    def alter_table(self, table: str | TableName, new: Table) -> Table:
        """Replace columns, properties, owner; rename when `new.name` differs. Returns what is stored.

        A rename, and any change of columns other than adding some at the end, takes an EXCLUSIVE lock. Fields that
        this package does not know are kept. Raises NoSuchObject, LockTimeout, AlreadyExists (the new name),
        InvalidOperation (partition keys, buckets, location, or no longer transactional).
        """
        name = TableName.of(table)
        found = self.get_hive_table(name)
        old = to_table(found, self._version)
        changed = dataclasses.replace(new, location=new.location or old.location, columns=columns_of(new.columns))
        check_change(old, changed)
        try:
            if needs_exclusive_lock(old, changed):
                with self._exclusive_lock(f"alter table {name}", name, new.name):
                    self._alter(name, change_table(found, changed))
            else:
                self._alter(name, change_table(found, changed))
        except InvalidOperation as error:
            if new.name != name and self._exists(new.name):
                raise AlreadyExists(f"table {new.name} already exists: drop it, or choose another name") from error
            raise
        return self.get_table(new.name)

    def add_column(self, table: str | TableName, name: str, type: str, *, comment: str = "") -> Table:
        """Add a column after the others. Raises NoSuchObject, InvalidOperation, LockTimeout."""
        return self.add_columns(table, [Column(name, type, comment)])

    def add_columns(
        self,
        table: str | TableName,
        columns: Mapping[str, str] | Sequence[Column],
        *,
        if_not_exists: bool = False,
    ) -> Table:
        """Add columns after the others, all or none.

        The server replaces all columns of a table in one call, so of two changes at the same time one would be lost.
        Hence a lock, on a name that nothing else locks: readers and writers of the table do not wait.

        Raises:
            NoSuchObject, InvalidOperation: As in the protocol.
            LockTimeout: Another client has added columns for too long.
        """
        name = TableName.of(table)
        self.get_hive_table(name)  # whether it exists
        with self._exclusive_lock(f"add columns to {name}", _columns_lock(name)):
            found = self.get_hive_table(name)
            old = to_table(found, self._version)
            changed = with_columns_added(old, columns, if_not_exists=if_not_exists)
            if changed != old:
                check_change(old, changed)
                self._alter(name, change_table(found, changed), cascade=True)
        return self.get_table(name)

    def _alter(self, name: TableName, changed: Any, *, cascade: bool = False) -> None:
        """Replace a table. With `cascade`, its partitions get the columns too: Hive reads them by their own."""
        t = idl()
        context = t.EnvironmentContext(properties={"CASCADE": "true"} if cascade else {})
        if not self._version.has_request_structures:
            where = (name.database, name.table, changed, context)
            self._channel.call("alter_table_with_environment_context", *where, is_repeatable=False)
            return
        request = t.AlterTableRequest(
            dbName=name.database,
            tableName=name.table,
            table=changed,
            environmentContext=context,
            processorCapabilities=list(PROCESSOR_CAPABILITIES),
        )
        self._channel.call("alter_table_req", request, is_repeatable=False)

    def drop_table(self, table: str | TableName, *, delete_data: bool = True, if_exists: bool = False) -> None:
        """Drop under an EXCLUSIVE lock. Raises NoSuchObject, LockTimeout."""
        name = TableName.of(table)
        arguments = (name.database, name.table, delete_data, idl().EnvironmentContext(properties={}))
        try:
            with self._exclusive_lock(f"drop table {name}", name):
                self._channel.call("drop_table_with_environment_context", *arguments, is_repeatable=if_exists)
        except NoSuchObject:
            if not if_exists:
                raise

    def _exclusive_lock(self, what: str, *names: TableName) -> AbstractContextManager[LockId]:
        components = [on_table(name) for name in dict.fromkeys(names)]
        return exclusive_lock(self._locks, what, *components, wait_seconds=self._channel.options.ddl_lock_wait_seconds)

    def _exists(self, name: TableName) -> bool:
        try:
            self.get_hive_table(name)
        except NoSuchObject:
            return False
        return True


def _columns_lock(name: TableName) -> TableName:
    """What clients lock while they add columns. It exists only as the name of a lock."""
    return TableName(name.database, f"{name.table}__columns")
