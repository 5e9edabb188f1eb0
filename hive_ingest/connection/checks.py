"""Checks of a table before anything is streamed into it: at connect, not at the first commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_ingest.acid import MAX_BUCKET_ID, check_bucket_type, normalised_text, parse_partition_name, partition_name
from hive_ingest.delta import check_partition_type, compression_of
from hive_ingest.errors import (
    ConfigurationError,
    InvalidTable,
    NoSuchObject,
    StreamingConnectionError,
    StreamingError,
    UnsupportedFeature,
)
from hive_ingest.metastore_client import MetastoreClient, check_text
from hive_ingest.model import ORC_OUTPUT_FORMAT, Column, Table, TableName
from hive_ingest.orc import COMPRESSIONS
from hive_ingest.schema import arrow_schema, parse_type
from hive_ingest.storage import Location


def existing_table(client: MetastoreClient, name: TableName) -> Table:
    """Raises InvalidTable, which says whether the table or its database is missing."""
    try:
        return client.get_table(name)
    except NoSuchObject as error:
        missing = f"table {name}" if _has_database(client, name.database) else f"database {name.database!r}"
        raise InvalidTable(f"there is no {missing} in {client.uri}: create it first, or correct the name") from error


def _has_database(client: MetastoreClient, name: str) -> bool:
    try:
        client.get_database(name)
    except NoSuchObject:
        return False
    return True


def check_streamable(table: Table) -> None:
    """Raises InvalidTable (Hive would not stream into it either) or UnsupportedFeature (it would)."""
    name = table.name
    if table.table_type != "MANAGED_TABLE" or table.properties.get("EXTERNAL", "").lower() == "true":
        raise InvalidTable(f"{name} is {table.table_type}: only managed tables are transactional; create it as one")
    if not table.is_transactional:
        raise InvalidTable(
            f"{name} is not transactional: create it with properties {{'transactional': 'true'}} "
            "(ALTER TABLE … SET TBLPROPERTIES in Hive)"
        )
    flavour = table.properties.get("transactional_properties", "default").lower()
    if flavour == "insert_only":
        raise UnsupportedFeature(f"{name} is insert-only: only full ACID tables can be streamed into yet")
    if flavour != "default":
        raise InvalidTable(f"{name} has the unknown transactional_properties={flavour!r}: expected 'default'")
    if table.output_format != ORC_OUTPUT_FORMAT:
        raise InvalidTable(f"{name} is stored as {table.output_format}: a full ACID table is stored as ORC")
    if table.sort_columns:
        raise InvalidTable(
            f"{name} is sorted by {list(table.sort_columns)}: a transactional table cannot be; recreate it"
        )
    if table.num_buckets > MAX_BUCKET_ID + 1:
        raise InvalidTable(f"{name} has {table.num_buckets} buckets: at most {MAX_BUCKET_ID + 1} are possible")
    Location.of(table.location).store.require_atomic_rename("stream into", table.location)
    _check_buckets(table)
    _check_compression(table)
    arrow_schema((*table.columns, *table.partition_keys))


def _check_buckets(table: Table) -> None:
    if not table.is_bucketed:
        return
    version = table.properties.get("bucketing_version")  # Hive takes its absence for 1: Utilities.getBucketingVersion
    if version != "2":
        found = f"bucketing_version {version}" if version else "no bucketing_version, which means 1"
        raise UnsupportedFeature(f"{table.name} has {found} (made by Hive 1 or 2): recreate it in Hive 3 or later")
    types = {column.name: column.type for column in table.columns}
    for name in table.bucket_columns:
        check_bucket_type(types[name])


def _check_compression(table: Table) -> None:
    compression = compression_of(table)
    if compression not in COMPRESSIONS:
        raise UnsupportedFeature(f"{table.name} has orc.compress={compression!r}: use one of {', '.join(COMPRESSIONS)}")


def static_texts(table: Table, values: Sequence[str]) -> tuple[str, ...]:
    """The values of the leading partition keys, as Hive writes them in partition names.

    Raises:
        StreamingConnectionError: A value is not of its key's type, or there are more values than keys.
        UnsupportedFeature: The type of one of the other keys cannot be written dynamically.
    """
    if isinstance(values, Mapping):
        raise StreamingConnectionError(
            f"static_partition_values={values!r} is a mapping: give a list of the values alone, in the order of the "
            f"partition keys ({', '.join(key.name for key in table.partition_keys)})"
        )
    if isinstance(values, str):
        raise StreamingConnectionError(f"static_partition_values={values!r} is a string: give a list of values")
    if values and not table.is_partitioned:
        raise StreamingConnectionError(f"{table.name} is not partitioned: leave out the static partition values")
    if len(values) > len(table.partition_keys):
        raise StreamingConnectionError(
            f"{len(values)} static partition values for the {len(table.partition_keys)} partition keys of {table.name}"
        )
    for key in table.partition_keys[len(values) :]:
        check_partition_type(key.name, parse_type(key.type))
    keys = table.partition_keys[: len(values)]
    return tuple(_static_text(table, key, value) for key, value in zip(keys, values, strict=True))


def _static_text(table: Table, key: Column, value: object) -> str:
    if not isinstance(value, str):
        raise StreamingConnectionError(
            f"static partition value {value!r} for {key.name!r} of {table.name} is of type {type(value).__name__}: "
            f"give text, {str(value)!r} for example"
        )
    try:
        return normalised_text(value, parse_type(key.type))
    except ConfigurationError as error:
        raise StreamingConnectionError(f"static partition value for {key.name!r} of {table.name}: {error}") from error


def checked_partition_name(table: Table, static_values: Sequence[str], name: str) -> str:
    """A partition name given by the user, with its keys in lower case and its values as Hive names them.

    Raises:
        ConfigurationError: It has other keys than the table, or in another order; a value that its key cannot hold;
            or values other than the connection's static ones.
    """
    check_text("the name of a partition", name)
    keys = [key.name for key in table.partition_keys]
    example = "/".join(f"{key}=…" for key in keys)
    if not keys:
        raise ConfigurationError(f"{table.name} is not partitioned: leave out the partition {name!r}")
    try:
        found = {key.lower(): value for key, value in parse_partition_name(name).items()}
    except StreamingError as error:
        raise ConfigurationError(f"{name!r} is not a name of a partition of {table.name}: write {example!r}") from error
    if list(found) != keys:
        raise ConfigurationError(f"{name!r} is not a name of a partition of {table.name}: write {example!r}")
    try:
        values = static_texts(table, tuple(found.values()))
    except StreamingError as error:
        raise ConfigurationError(f"{name!r} is not a partition of {table.name}: {error}") from error
    if values[: len(static_values)] != tuple(static_values):
        raise ConfigurationError(
            f"{name!r} lies outside {list(static_values)}, the static partition values of this connection"
        )
    return partition_name(keys, values)


def check_still_fits(bound: Table, now: Table) -> None:
    """Check a table that was read again. Raises InvalidTable for any change but added columns."""
    if now.id != bound.id:
        raise InvalidTable(f"{bound.name} was dropped and created again since connect: open a new connection")
    if now.location != bound.location:
        raise InvalidTable(f"{bound.name} was moved to {now.location} since connect: open a new connection")
    _check_columns(bound, bound.columns, now.columns)
    same = (now.partition_keys, now.bucket_columns, now.num_buckets) == (
        bound.partition_keys,
        bound.bucket_columns,
        bound.num_buckets,
    )
    if not same:
        raise InvalidTable(f"{bound.name} is partitioned or bucketed differently since connect: open a new connection")


def _check_columns(table: Table, before: Sequence[Column], after: Sequence[Column]) -> None:
    types = {column.name: parse_type(column.type) for column in after}
    for column in before:
        if column.name not in types:
            raise InvalidTable(
                f"column {column.name!r} of {table.name} was dropped since connect: open a new connection"
            )
        if types[column.name] != parse_type(column.type):
            raise InvalidTable(
                f"column {column.name!r} of {table.name} was {column.type} at connect and is now "
                f"{types[column.name]}: open a new connection"
            )
    if [column.name for column in after[: len(before)]] != [column.name for column in before]:
        raise InvalidTable(f"the columns of {table.name} are in another order than at connect: open a new connection")
