"""Checks of a table before it is stored.

Sources: Hive's `MetaStoreUtils` and `TransactionalValidationListener`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from hive_ingest.acid import check_bucket_type
from hive_ingest.errors import AlreadyExists, ConfigurationError, InvalidOperation, StreamingError, UnsupportedFeature
from hive_ingest.metastore_client.table_columns import table_columns
from hive_ingest.metastore_client.text_checks import check_text
from hive_ingest.model import VIRTUAL_COLUMNS, Column, Table, TableName
from hive_ingest.schema import MAX_LENGTH, HiveType, arrow_type, is_same_type, is_widening, parse_type, type_text

_log = logging.getLogger(__name__)

#: Hive gives these to a new managed table; `bucketing_version` 2 is the hash of Hive 3 and later.
_TRANSACTIONAL = {"transactional": "true", "transactional_properties": "default"}
_BUCKETING_VERSION = {"bucketing_version": "2"}
#: What the files of a transactional table depend on, with what its absence stands for.
_KEPT_PROPERTIES = {"bucketing_version": "1", "transactional_properties": "default"}
#: Hive's DDL refuses them in column names (HIVE-10120), or uses them to divide names.
_NOT_IN_COLUMN_NAMES = frozenset(".:,`")
#: Of databases and tables (Hive: DBS.NAME, TBLS.TBL_NAME).
MAX_NAME_LENGTH = 128
#: What has a text form that a folder name can carry.
_NO_PARTITION_KEY = ("array", "map", "struct", "binary")


_POSSIBLE_CHANGES = (
    "columns can be added at the end, renamed, dropped from the end, and given a wider type (tinyint to smallint, int "
    "or bigint, int to double, float to double, a decimal with more digits, string to varchar or char and back). For "
    "anything else create a new table and copy the rows"
)

MANAGED, EXTERNAL = "MANAGED_TABLE", "EXTERNAL_TABLE"


def new_table(
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
) -> Table:
    """The table that `create_table` is to create, checked; its arguments but `if_not_exists` are passed on to here.

    Raises what `check_table` raises, also for a name that is too long.
    """
    data_columns, keys = table_columns(columns, schema, partition_keys)
    new = Table(
        TableName.of(table),
        data_columns,
        keys,
        tuple(column.lower() for column in bucket_columns),
        num_buckets,
        location=location or "",
        properties=with_default_properties(properties),
        table_type=EXTERNAL if is_external(properties or {}) else MANAGED,
        owner=owner,
    )
    check_length(new.name.table)
    check_table(new)
    _check_not_virtual(new, new.columns, new.partition_keys)
    _check_bucket_types(new)
    return new


def with_default_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """Transactional unless `properties` say otherwise. Values are texts."""
    given = dict(properties or {})
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"property {key!r}={value!r}: both must be text, as in {{'transactional': 'true'}}"
            )
        check_text("the name of a property", key)
        check_text(f"property {key!r}", value)
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
        check_text(f"the comment of column {column.name!r} of {table.name}", column.comment)
        _check_type(table, column)
    for name, count in Counter(column.name.lower() for column in columns).items():
        if count > 1:
            raise InvalidOperation(
                f"{table.name}: there would be {count} columns named {name!r}: choose another name (case does "
                "not count, and a partition key cannot be a column too)"
            )


def _check_column_name(table: Table, name: str) -> None:
    check_text(f"a column name of {table.name}", name)
    if not name or name != name.strip() or _NOT_IN_COLUMN_NAMES & set(name):
        raise InvalidOperation(
            f"{table.name}: {name!r} is not a valid column name: no spaces around it, and no . : , `"
        )


def _check_not_virtual(table: Table, *columns: Iterable[Column]) -> None:
    """Refuse new columns that nobody could read."""
    for column in chain(*columns):
        if column.name in VIRTUAL_COLUMNS:
            raise InvalidOperation(
                f"{table.name}: {column.name!r} is a virtual column of Hive, so a column of the table cannot have this "
                "name: choose another one"
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
    types = {column.name: column.type for column in table.columns}
    missing = [name for name in (*table.bucket_columns, *table.sort_columns) if name not in types]
    if missing:
        raise InvalidOperation(f"{table.name}: bucket column {missing[0]!r} is not a column of the table")


def _check_bucket_types(table: Table) -> None:
    """Refuse a new table that could not be written to. Tables that Hive has bucketed by other types can be altered."""
    types = {column.name: column.type for column in table.columns}
    for name in table.bucket_columns:
        try:
            check_bucket_type(types[name])
        except UnsupportedFeature as error:
            raise UnsupportedFeature(f"{table.name}: column {name!r}: {error}") from error


def check_existing(found: Table, wanted: Table) -> None:
    """Check a table that `create_table` found: it must have what was asked for; more columns at the end are logged.

    Raises:
        AlreadyExists: It lacks a column, or a column's type, the partition keys or the buckets differ.
    """
    differences = [
        *_column_differences(found.columns, wanted.columns),
        *_differences("partition keys", _signature(found.partition_keys), _signature(wanted.partition_keys)),
        *_differences("bucket columns", ", ".join(found.bucket_columns), ", ".join(wanted.bucket_columns)),
        *_differences("number of buckets", str(max(found.num_buckets, 0)), str(max(wanted.num_buckets, 0))),
    ]
    if differences:
        raise AlreadyExists(
            f"table {found.name} already exists and differs from the one to be created with if_not_exists=True: "
            f"{'; '.join(differences)}. Ask for the table as it is, alter it, or choose another name"
        )
    if added := [column.name for column in found.columns[len(wanted.columns) :]]:
        _log.warning(
            "table %s already exists with the further columns %s, and is left as it is", found.name, ", ".join(added)
        )


def _column_differences(found: Sequence[Column], wanted: Sequence[Column]) -> Iterator[str]:
    types = {column.name: column.type for column in found}
    missing = [column.name for column in wanted if column.name not in types]
    for column in wanted:
        if column.name in missing:
            yield f"it has no column {column.name!r}"
        elif not is_same_type(types[column.name], column.type):
            yield f"its column {column.name!r} is {types[column.name]}, not {column.type}"
    names = [column.name for column in wanted]
    if not missing and [column.name for column in found[: len(names)]] != names:
        yield f"the order of its columns is {', '.join(types)}"


def _differences(what: str, found: str, wanted: str) -> list[str]:
    return [] if found == wanted else [f"its {what}: {found or 'none'}, not {wanted or 'none'}"]


def _signature(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {type_text(column.type)}" for column in columns)


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
    names = {column.name for column in old.columns}
    _check_not_virtual(new, [column for column in new.columns if column.name not in names])
    if old.is_transactional:
        _check_kept_properties(old, new)
        _check_readable_after(old, new)
        _check_bucket_columns_kept(old, new)


def _check_kept_properties(old: Table, new: Table) -> None:
    """Raises InvalidOperation for a property by which the files there were written."""
    for key, default in _KEPT_PROPERTIES.items():
        before, after = (table.properties.get(key, default).lower() for table in (old, new))
        if before != after:
            raise InvalidOperation(
                f"{old.name}: property {key!r} cannot change from {before!r} to {after!r}, because the files there "
                "were written by it: create a new table and copy the rows"
            )


def _check_bucket_columns_kept(old: Table, new: Table) -> None:
    """Raises InvalidOperation for a type whose values have other hashes: rows of before would be in wrong buckets."""
    after = {column.name: column.type for column in new.columns}
    for column in old.columns:
        if column.name in old.bucket_columns and not _same_hash(column.type, after[column.name]):
            raise InvalidOperation(
                f"{old.name}: bucket column {column.name!r} cannot change from {column.type} to {after[column.name]}, "
                "because Hive's hash of its values, and so the bucket of the rows, would be another: create a new "
                "table and copy the rows"
            )


def _same_hash(before: str, after: str) -> bool:
    """A text that is cut has another hash, too."""
    if is_same_type(before, after):
        return True
    old, new = parse_type(before), parse_type(after)
    return {old.kind, new.kind} <= {"string", "varchar"} and not _cuts(old, new)


def _check_readable_after(old: Table, new: Table) -> None:
    """Raises InvalidOperation for columns by which the files there are, which have the old ones, cannot be read."""
    places = {column.name: place for place, column in enumerate(new.columns)}
    for place, column in enumerate(old.columns):
        if places.get(column.name, place) != place:
            raise InvalidOperation(
                f"{old.name}: column {column.name!r} would be column {places[column.name] + 1} instead of {place + 1}, "
                f"and files are read by position: {_POSSIBLE_CHANGES}"
            )
    for before, after in zip(old.columns, new.columns, strict=False):
        if not _may_become(before.type, after.type):
            raise InvalidOperation(
                f"{old.name}: column {before.name!r} cannot change from {before.type} to {after.type}, because not "
                f"every value in its files would fit: {_POSSIBLE_CHANGES}"
            )


def _may_become(before: str, after: str) -> bool:
    if is_same_type(before, after):
        return True
    try:
        return is_widening(arrow_type(before), parse_type(after)) and not _cuts_nested(
            parse_type(before), parse_type(after)
        )
    except StreamingError:
        return False


def _cuts_nested(before: HiveType, after: HiveType) -> bool:
    """Whether a text inside of the values would have to be cut, which readers do with whole columns only."""
    fields = dict(before.children)
    return any(
        _cuts(fields[name], child) or _cuts_nested(fields[name], child)
        for name, child in after.children
        if name in fields
    )


def _cuts(before: HiveType, after: HiveType) -> bool:
    return after.kind in MAX_LENGTH and (before.kind == "string" or before.parameters > after.parameters)


def database_name(name: str) -> str:
    """In lower case. Raises ConfigurationError."""
    checked = TableName(name, "t").database
    check_length(checked)
    return checked


def check_length(name: str) -> None:
    """Raises ConfigurationError for a name that Hive's columns cannot hold."""
    if len(name) > MAX_NAME_LENGTH:
        raise ConfigurationError(f"{name!r} has {len(name)} characters: a name has {MAX_NAME_LENGTH} at most")
