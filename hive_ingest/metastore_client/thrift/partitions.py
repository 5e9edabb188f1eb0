"""The catalog's partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hive_ingest.acid import partition_name
from hive_ingest.errors import AlreadyExists, InvalidOperation, MetastoreError, NoSuchObject
from hive_ingest.metastore_client.ddl_locks import exclusive_lock, on_table
from hive_ingest.metastore_client.partition_filter import parse_filter
from hive_ingest.metastore_client.thrift.convert import (
    from_columns,
    from_new_partition,
    to_columns,
    to_partition,
)
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.locks import Locks
from hive_ingest.metastore_client.thrift.part import Context, Part
from hive_ingest.metastore_client.thrift.tables import Tables
from hive_ingest.model import DEFAULT_PARTITION_NAME, Partition, TableName

#: Partitions per call, to keep a response within the limits of the server and its database.
_BATCH = 1_000
#: The largest `max_parts` that fits the protocol's i16.
_MOST_PARTS = 32_767
_ALL = -1


class Partitions(Part):
    """The calls about partitions. Values are texts in the order of the keys. Null and empty are the same."""

    def __init__(self, context: Context, locks: Locks, tables: Tables) -> None:
        super().__init__(context)
        self._locks, self._tables = locks, tables

    def add_partitions(
        self,
        table: str | TableName,
        values: Sequence[Sequence[str]],
        *,
        if_not_exists: bool = False,
        allow_acid_files: bool = False,
    ) -> list[Partition]:
        """Add partitions by their text values, in key order; all or none. No server looks into their folders.

        Raises NoSuchObject, AlreadyExists, InvalidOperation (an unpartitioned table), ConfigurationError (not as many
        values as keys).
        """
        name = TableName.of(table)
        found = self._tables.get_hive_table(name)
        wanted = {_name(name, found, each): tuple(value or DEFAULT_PARTITION_NAME for value in each) for each in values}
        if len(wanted) < len(values) and not if_not_exists:
            raise AlreadyExists(f"{name}: the same partition is named twice in one call")
        if not wanted:
            return []
        parts = [
            from_new_partition(found, each, f"{found.sd.location.rstrip('/')}/{partition}")
            for partition, each in wanted.items()
        ]
        request = idl().AddPartitionsRequest(
            dbName=name.database, tblName=name.table, parts=parts, ifNotExists=if_not_exists, needResult=False
        )
        self._channel.call("add_partitions_req", request, is_repeatable=if_not_exists)
        return self.get_partitions_by_names(name, list(wanted))

    def get_partition(self, table: str | TableName, values: Sequence[str]) -> Partition:
        """Raises NoSuchObject."""
        name = TableName.of(table)
        partition = _name(name, self._tables.get_hive_table(name), values)
        found = self.get_partitions_by_names(name, [partition])
        if not found:
            raise NoSuchObject(f"{name} has no partition {partition!r}: add it first, or correct the values")
        return found[0]

    def get_partitions_by_names(self, table: str | TableName, names: Sequence[str]) -> list[Partition]:
        """The existing partitions among `names` ("k=v/…", escaped), sorted by name."""
        name = TableName.of(table)
        found: list[Any] = []
        for first in range(0, len(names), _BATCH):
            batch = list(names[first : first + _BATCH])
            where = (name.database, name.table, batch)
            found += self._channel.call("get_partitions_by_names", *where, is_repeatable=True)
        return _sorted(found)

    def list_partitions(self, table: str | TableName, *, max_parts: int = -1) -> list[Partition]:
        """All partitions, or the first `max_parts`, sorted by name."""
        name = TableName.of(table)
        if max_parts >= 0:
            return self.get_partitions_by_names(name, self.list_partition_names(name, max_parts=max_parts))
        found = self._channel.call("get_partitions", name.database, name.table, _ALL, is_repeatable=True)
        return _sorted(found)

    def list_partition_names(self, table: str | TableName, *, max_parts: int = -1) -> list[str]:
        """The names of all partitions, or of the first `max_parts`, sorted."""
        name = TableName.of(table)
        self._tables.get_hive_table(name)  # Hive 3 returns no partitions for a missing table
        most = max_parts if 0 <= max_parts <= _MOST_PARTS else _ALL
        names = sorted(self._channel.call("get_partition_names", name.database, name.table, most, is_repeatable=True))
        return names if max_parts < 0 else names[:max_parts]

    def get_partitions_by_filter(self, table: str | TableName, filter: str, *, max_parts: int = -1) -> list[Partition]:
        """List by `filter`, in the metastore's language: `country = "India" and (month > 3 or day like "1%")`.

        Raises ConfigurationError, which shows the position of a syntax error.
        """
        name = TableName.of(table)
        keys = to_columns(self._tables.get_hive_table(name).partitionKeys)
        matches = parse_filter(filter, keys)
        where = (name.database, name.table, filter, _ALL)
        try:
            found = self._channel.call("get_partitions_by_filter", *where, is_repeatable=True)
            partitions = _sorted(found)
        except MetastoreError:
            # Servers push down only some comparisons of some types, which differ between versions.
            partitions = self.list_partitions(name)
        selected = [partition for partition in partitions if matches(partition.values)]
        return selected if max_parts < 0 else selected[:max_parts]

    def alter_partition(self, table: str | TableName, partition: Partition) -> None:
        """Replace columns and properties. Raises NoSuchObject, InvalidOperation (another location)."""
        name = TableName.of(table)
        wanted = _name(name, self._tables.get_hive_table(name), partition.values)
        where = (name.database, name.table, [wanted])
        found = self._channel.call("get_partitions_by_names", *where, is_repeatable=True)
        if not found:
            raise NoSuchObject(f"{name} has no partition {wanted!r}: add it first, or correct the values")
        if partition.location != found[0].sd.location:
            raise InvalidOperation(f"{name}: partition {wanted!r} keeps its location {found[0].sd.location}")
        if partition.columns:
            found[0].sd.cols = from_columns(partition.columns)
        found[0].parameters = dict(partition.properties)
        changed = (name.database, name.table, found[:1], idl().EnvironmentContext(properties={}))
        self._channel.call("alter_partitions_with_environment_context", *changed, is_repeatable=False)

    def drop_partition(
        self,
        table: str | TableName,
        values: Sequence[str],
        *,
        delete_data: bool = True,
        if_exists: bool = False,
    ) -> None:
        """Drop under an EXCLUSIVE lock. Raises NoSuchObject, LockTimeout."""
        name = TableName.of(table)
        partition = _name(name, self._tables.get_hive_table(name), values)
        texts = [value or DEFAULT_PARTITION_NAME for value in values]
        arguments = (name.database, name.table, texts, delete_data, idl().EnvironmentContext(properties={}))
        what, wait = f"drop partition {partition} of {name}", self._channel.options.ddl_lock_wait_seconds
        try:
            with exclusive_lock(self._locks, what, on_table(name, partition), wait_seconds=wait):
                self._channel.call("drop_partition_with_environment_context", *arguments, is_repeatable=if_exists)
        except NoSuchObject as error:
            if not if_exists:
                raise NoSuchObject(f"{name} has no partition {partition!r} ({error})") from error


def _sorted(found: Sequence[Any]) -> list[Partition]:
    """Partitions by name. All have the same keys."""
    return sorted(
        map(to_partition, found), key=lambda each: partition_name(["key"] * len(each.values), list(each.values))
    )


def _name(name: TableName, table: Any, values: Sequence[str | None]) -> str:
    if not table.partitionKeys:
        raise InvalidOperation(f"{name} is not partitioned")
    return partition_name([key.name for key in table.partitionKeys], values)
