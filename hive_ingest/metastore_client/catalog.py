"""Databases, tables and partitions: the catalog's half of `IMetaStoreClient`, in snake case.

Every `table` argument is `"database.table"` or a `TableName`. Errors are those of `hive_ingest.errors`; each method
names the ones that a caller must expect. Threads may share a client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hive_ingest.model import Column, Database, Partition, Table, TableName


class DatabaseCalls(Protocol):
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
        """Raises AlreadyExists. Without `location` it lies at `<warehouse>/<name>.db`."""
        ...

    def get_database(self, name: str) -> Database:
        """Raises NoSuchObject."""
        ...

    def get_databases(self, pattern: str = "*") -> list[str]:
        """Names that match Hive's pattern (`*` any text, `|` alternatives), sorted."""
        ...

    def alter_database(self, name: str, database: Database) -> None:
        """Replace comment and properties. Raises NoSuchObject, InvalidOperation (another name or location)."""
        ...

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Raises InvalidOperation when it still has tables and `cascade` is false."""
        ...


class TableCalls(Protocol):
    """The calls about tables."""

    def create_table(
        self,
        table: str | TableName,
        *,
        columns: Mapping[str, str] | Sequence[Column] | None = None,
        schema: object | None = None,
        partition_keys: Mapping[str, str] | Sequence[Column] | Sequence[str] | None = None,
        bucket_columns: Sequence[str] = (),
        num_buckets: int = -1,
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        owner: str = "",
        if_not_exists: bool = False,
    ) -> Table:
        """Create a managed ORC table, transactional unless `properties` say otherwise.

        Args:
            columns: Names and Hive types. With `schema`: types that replace the derived ones of some columns.
            schema: Data for which the table is made: a `pyarrow.Schema`, a table, or a data frame of pandas or polars.
                Its columns become those of the table, partition keys included, with types that hold all their values.
            partition_keys: Names and Hive types; with `schema`, the names of some of its columns are enough.
            if_not_exists: Return a table that is there already as it is. Columns that it has besides those asked for
                are logged.

        Raises:
            AlreadyExists: There is such a table; with `if_not_exists`, its columns, partition keys or buckets differ.
            NoSuchObject: There is no such database.
            InvalidOperation: A column twice, or a type that does not exist.
            UnsupportedFeature: A type that is not supported, or a column of `schema` whose values no Hive type holds.
        """
        ...

    def get_table(self, table: str | TableName) -> Table:
        """Raises NoSuchObject."""
        ...

    def get_tables(self, database: str, pattern: str = "*") -> list[str]:
        """Names that match Hive's pattern (`*` any text, `|` alternatives), sorted."""
        ...

    def alter_table(self, table: str | TableName, new: Table) -> Table:
        """Replace columns, properties, owner; rename when `new.name` differs. Returns what is stored."""
        ...

    def add_column(self, table: str | TableName, name: str, type: str, *, comment: str = "") -> Table:
        """Add a column after the others; rows written before read as null in it. Waits for no reader or writer.

        Args:
            type: A Hive type such as `decimal(10,2)`.

        Returns:
            The table as it is stored.

        Raises:
            NoSuchObject: There is no such table.
            InvalidOperation: It has a column or partition key of that name, or the type or name is not possible.
        """
        ...

    def add_columns(
        self,
        table: str | TableName,
        columns: Mapping[str, str] | Sequence[Column],
        *,
        if_not_exists: bool = False,
    ) -> Table:
        """Add columns after the others, to the table and its partitions, all or none. Waits for no reader or writer.

        Args:
            columns: Names and Hive types.
            if_not_exists: Leave out columns that the table has already, with the same type.

        Returns:
            The table as it is stored.

        Raises:
            NoSuchObject: There is no such table.
            InvalidOperation: It has a column or partition key of that name, or the type or name is not possible.
        """
        ...

    def drop_table(self, table: str | TableName, *, delete_data: bool = True, if_exists: bool = False) -> None:
        """Drop under an EXCLUSIVE lock; the folder goes after the commit. Raises NoSuchObject, LockTimeout."""
        ...


class PartitionCalls(Protocol):
    """The calls about partitions. Values are texts in the order of the keys; null and empty ones are the same."""

    def add_partitions(
        self,
        table: str | TableName,
        values: Sequence[Sequence[str]],
        *,
        if_not_exists: bool = False,
        allow_acid_files: bool = False,
    ) -> list[Partition]:
        """Register partitions by their text values, in key order; all or none.

        Args:
            allow_acid_files: Whether a folder may hold delta and base folders already, whose rows then appear in its
                partition. A real metastore does not look into the folders.

        Raises:
            AlreadyExists, InvalidOperation: A partition, or ACID files in its folder.
        """
        ...

    def get_partition(self, table: str | TableName, values: Sequence[str]) -> Partition:
        """Raises NoSuchObject."""
        ...

    def get_partitions_by_names(self, table: str | TableName, names: Sequence[str]) -> list[Partition]:
        """Those of `names` ("k=v/…", escaped) that exist."""
        ...

    def list_partitions(self, table: str | TableName, *, max_parts: int = -1) -> list[Partition]:
        """All, or the first `max_parts`, sorted by name."""
        ...

    def list_partition_names(self, table: str | TableName, *, max_parts: int = -1) -> list[str]:
        """All, or the first `max_parts`, sorted."""
        ...

    def get_partitions_by_filter(self, table: str | TableName, filter: str, *, max_parts: int = -1) -> list[Partition]:
        """`filter` in the metastore's language: `country = "India" and (month > 3 or day like "1%")`."""
        ...

    def alter_partition(self, table: str | TableName, partition: Partition) -> None:
        """Replace columns and properties. Raises NoSuchObject, InvalidOperation (another location)."""
        ...

    def drop_partition(
        self,
        table: str | TableName,
        values: Sequence[str],
        *,
        delete_data: bool = True,
        if_exists: bool = False,
    ) -> None:
        """Drop under an EXCLUSIVE lock; the folder goes after the commit. Raises NoSuchObject, LockTimeout."""
        ...


class Catalog(DatabaseCalls, TableCalls, PartitionCalls, Protocol):
    """What there is, and where it lies. DROP and ALTER wait for those who read or write the object."""
