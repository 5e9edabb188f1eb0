"""Checks of a table before it is stored.

Sources: Hive's `MetaStoreUtils` and `TransactionalValidationListener`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hive_ingest.errors import ConfigurationError, InvalidOperation
from hive_ingest.model import Column, Table, TableName, columns_of
from hive_ingest.schema import parse_type

#: Hive gives these to a new managed table; `bucketing_version` 2 is the hash of Hive 3 and later.
_TRANSACTIONAL = {"transactional": "true", "transactional_properties": "default"}
_BUCKETING_VERSION = {"bucketing_version": "2"}
#: Hive's DDL refuses them in column names (HIVE-10120), or uses them to divide names.
_NOT_IN_COLUMN_NAMES = frozenset(".:,`")
#: Of databases and tables (Hive: DBS.NAME, TBLS.TBL_NAME).
MAX_NAME_LENGTH = 128
#: What has a text form that a folder name can carry.
_NO_PARTITION_KEY = ("array", "map", "struct", "binary")


MANAGED, EXTERNAL = "MANAGED_TABLE", "EXTERNAL_TABLE"


def new_table(
    table: str | TableName,
    *,
    columns: Mapping[str, str] | Sequence[Column],
    partition_keys: Mapping[str, str] | Sequence[Column] | None = None,
    bucket_columns: Sequence[str] = (),
    num_buckets: int = -1,
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
    owner: str = "",
) -> Table:
    """The table that `create_table` is to create, checked; its arguments but `if_not_exists` are passed on to here.

    Raises what `check_table` raises, also for a name that is too long.
    """
    new = Table(
        TableName.of(table),
        columns_of(columns),
        columns_of(partition_keys),
        tuple(column.lower() for column in bucket_columns),
        num_buckets,
        location=location or "",
        properties=with_default_properties(properties),
        table_type=EXTERNAL if is_external(properties or {}) else MANAGED,
        owner=owner,
    )
    check_length(new.name.table)
    check_table(new)
    return new


def with_default_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """Transactional unless `properties` say otherwise. Values are texts."""
    given = dict(properties or {})
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"property {key!r}={value!r}: both must be text, as in {{'transactional': 'true'}}"
            )
    if given.get("transactional", "false" if is_external(given) else "true").lower() != "true":
        return {**_BUCKETING_VERSION, **given}
    return {**_BUCKETING_VERSION, **_TRANSACTIONAL, **given}


def is_external(properties: Mapping[str, str]) -> bool:
    """Its files belong to somebody else: dropping the table leaves them."""
    return properties.get("EXTERNAL", "").lower() == "true"


def check_table(table: Table) -> None:
    """Raises InvalidOperation (columns, types, buckets, external and transactional), UnsupportedFeature (a type)."""
    if table.is_transactional and is_external(table.properties):
        raise InvalidOperation(f"{table.name}: an external table cannot be transactional: leave EXTERNAL out")
    if not table.columns:
        raise InvalidOperation(f"{table.name}: a table needs at least one column besides its partition keys")
    _check_columns(table, [*table.columns, *table.partition_keys])
    _check_partition_keys(table)
    _check_buckets(table)


def _check_columns(table: Table, columns: Sequence[Column]) -> None:
    for column in columns:
        _check_column_name(table, column.name)
        _check_type(table, column)
    for name, count in Counter(column.name.lower() for column in columns).items():
        if count > 1:
            raise InvalidOperation(
                f"{table.name}: column {name!r} is there {count} times (names differ by more than case, "
                "and a partition key cannot be a column too)"
            )


def _check_column_name(table: Table, name: str) -> None:
    if not name or name != name.strip() or _NOT_IN_COLUMN_NAMES & set(name):
        raise InvalidOperation(
            f"{table.name}: {name!r} is not a valid column name: no spaces around it, and no . : , `"
        )


def _check_type(table: Table, column: Column) -> None:
    try:
        parse_type(column.type)
    except ConfigurationError as error:
        raise InvalidOperation(f"{table.name}: column {column.name!r}: {error}") from error


def _check_partition_keys(table: Table) -> None:
    for key in table.partition_keys:
        if parse_type(key.type).kind in _NO_PARTITION_KEY:
            raise InvalidOperation(f"{table.name}: partition key {key.name!r} cannot be of type {key.type}")


def _check_buckets(table: Table) -> None:
    if bool(table.bucket_columns) != (table.num_buckets > 0):
        raise InvalidOperation(
            f"{table.name}: bucket columns {list(table.bucket_columns)} with num_buckets={table.num_buckets}: "
            "give both, or neither"
        )
    known = {column.name for column in table.columns}
    missing = [name for name in (*table.bucket_columns, *table.sort_columns) if name not in known]
    if missing:
        raise InvalidOperation(f"{table.name}: bucket column {missing[0]!r} is not a column of the table")


def check_change(old: Table, new: Table) -> None:
    """Raises InvalidOperation for a change of a property that an existing table keeps."""
    kept = {
        "partition keys": (old.partition_keys, new.partition_keys),
        "buckets": ((old.bucket_columns, old.num_buckets), (new.bucket_columns, new.num_buckets)),
        "table type": (old.table_type, new.table_type),
        "location": (old.location, new.location),
    }
    for what, (before, after) in kept.items():
        if before != after:
            raise InvalidOperation(f"{old.name}: {what} cannot be changed ({before!r} to {after!r}): make a new table")
    if old.is_transactional and not new.is_transactional:
        raise InvalidOperation(f"{old.name} is transactional and stays so: readers of its deltas depend on it")
    check_table(new)


def database_name(name: str) -> str:
    """In lower case. Raises ConfigurationError."""
    checked = TableName(name, "t").database
    check_length(checked)
    return checked


def check_length(name: str) -> None:
    """Raises ConfigurationError for a name that Hive's columns cannot hold."""
    if len(name) > MAX_NAME_LENGTH:
        raise ConfigurationError(f"{name!r} has {len(name)} characters: a name has {MAX_NAME_LENGTH} at most")
