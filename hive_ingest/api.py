"""`append`: write Arrow data in one call."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import pyarrow as pa

from hive_ingest.compaction import CompactionPolicy, Maintenance, MaintenanceMode, hook_of, maintained
from hive_ingest.connection import BadRecordTarget, CommitInfo, StreamingConnection, StreamingSettings
from hive_ingest.errors import AlreadyExists, ConfigurationError, SinkConflict
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.record_writer import (
    ArrowWriter,
    EmptyPartitionValues,
    MissingColumns,
    MissingPartitionKeys,
    OnError,
    UnknownFields,
    ZonedTimestamps,
    schema_of_rows,
    stream_of,
)
from hive_ingest.schema import columns_of_schema, schema_of

_log = logging.getLogger(__name__)


@overload
def append(
    metastore: MetastoreClient | str,
    table: str | TableName,
    data: Any,
    *,
    static_partition_values: Sequence[str] = ...,
    missing_columns: MissingColumns = ...,
    missing_partition_keys: MissingPartitionKeys = ...,
    unknown_fields: UnknownFields = ...,
    empty_partition_values: EmptyPartitionValues = ...,
    coerce: Literal["strict", "lossless"] = ...,
    zoned_timestamps: ZonedTimestamps = ...,
    create: bool = ...,
    merge_schema: bool = ...,
    on_error: OnError = ...,
    bad_records: BadRecordTarget | None = ...,
    max_bad_records: int | None = ...,
    max_bad_record_share: float | None = ...,
    settings: StreamingSettings | Mapping[str, Any] | None = ...,
    on_commit: Callable[[CommitInfo], None] | None = ...,
    maintenance: MaintenanceMode | Maintenance = ...,
    compaction_policy: CompactionPolicy | None = ...,
) -> CommitInfo: ...
@overload
def append(
    metastore: MetastoreClient | str,
    table: str | TableName,
    data: Any,
    *,
    sink: str,
    source: str,
    position: int,
    static_partition_values: Sequence[str] = ...,
    missing_columns: MissingColumns = ...,
    missing_partition_keys: MissingPartitionKeys = ...,
    unknown_fields: UnknownFields = ...,
    empty_partition_values: EmptyPartitionValues = ...,
    coerce: Literal["strict", "lossless"] = ...,
    zoned_timestamps: ZonedTimestamps = ...,
    create: bool = ...,
    merge_schema: bool = ...,
    on_error: OnError = ...,
    bad_records: BadRecordTarget | None = ...,
    max_bad_records: int | None = ...,
    max_bad_record_share: float | None = ...,
    settings: StreamingSettings | Mapping[str, Any] | None = ...,
    on_commit: Callable[[CommitInfo], None] | None = ...,
    maintenance: MaintenanceMode | Maintenance = ...,
    compaction_policy: CompactionPolicy | None = ...,
) -> CommitInfo | None: ...
def append(
    metastore: MetastoreClient | str,
    table: str | TableName,
    data: Any,
    *,
    sink: str | None = None,
    source: str | None = None,
    position: int | None = None,
    static_partition_values: Sequence[str] = (),
    missing_columns: MissingColumns = "fail",
    missing_partition_keys: MissingPartitionKeys = "fail",
    unknown_fields: UnknownFields = "ignore",
    empty_partition_values: EmptyPartitionValues = "null",
    coerce: Literal["strict", "lossless"] = "strict",
    zoned_timestamps: ZonedTimestamps = "fail",
    create: bool = False,
    merge_schema: bool = False,
    on_error: OnError = "fail",
    bad_records: BadRecordTarget | None = None,
    max_bad_records: int | None = None,
    max_bad_record_share: float | None = None,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
    on_commit: Callable[[CommitInfo], None] | None = None,
    maintenance: MaintenanceMode | Maintenance = "off",
    compaction_policy: CompactionPolicy | None = None,
) -> CommitInfo | None:
    """Append Arrow data, or rows of Python objects, in one transaction.

    With `sink`, `source` and `position` the call is idempotent, as with Delta Lake's `txnAppId` and `txnVersion`: the
    position is committed with the rows, and a call that repeats the last committed position writes nothing.

    Args:
        metastore: A client, or the URI of a metastore.
        table: `"database.table"`.
        data: A `pyarrow.Table`, anything with the Arrow interface (data frames of pandas, polars and others), or a list
            of mappings or dataclasses, one for each row. Columns match by name, without regard to case; partition
            columns may be anywhere.
        sink: Name of the application that appends.
        source: What the application numbers, such as a job or an input.
        position: Number of this append in its source, higher than that of the last one.
        static_partition_values: Values of the leading partition keys, as text.
        missing_columns: As in `ArrowWriter`.
        missing_partition_keys: As in `ArrowWriter`.
        unknown_fields: As in `ArrowWriter`.
        empty_partition_values: As in `ArrowWriter`.
        coerce: As in `ArrowWriter`.
        zoned_timestamps: As in `ArrowWriter`.
        on_error: As in `ArrowWriter`.
        bad_records: As in `StreamingConnection.connect`: where the rows go that `on_error="skip"` leaves out.
        max_bad_records: As in `StreamingConnection.connect`.
        max_bad_record_share: As in `StreamingConnection.connect`.
        create: Create the table if it does not exist, with the columns of the data and no partition keys. For another
            layout, call `create_table(…, schema=data, if_not_exists=True)` first.
        merge_schema: Add columns that the data has and the table lacks to the table, before the first row is written,
            under a lock of their own. They stay if the append then fails. Fields inside of structs are not added, nor
            columns without any value. Of an iterator, the first table or batch must have all columns.
        settings: As in `StreamingConnection.connect`.
        on_commit: Called after the commit.
        maintenance: What to do about compaction after the commit. `"request"`: request it where the policy says so;
            `"inline"`: also carry it out, for up to half a minute; the rest is left to the next call, or to a
            compactor. Or a `Maintenance` of the caller's, which many calls can share and none waits for.
        compaction_policy: When to compact; see `CompactionPolicy`.

    Returns:
        What was committed; None if this position was committed before.

    Raises:
        SinkConflict: A higher position of this source was committed before, so that nobody can tell whether these
            rows are there.
        StreamingError: As `StreamingConnection`; nothing of `data` is visible then.
    """
    key = _idempotency_key(sink, source, position)
    writer = ArrowWriter(
        on_error=on_error,
        missing_columns=missing_columns,
        missing_partition_keys=missing_partition_keys,
        unknown_fields=unknown_fields,
        empty_partition_values=empty_partition_values,
        coerce=coerce,
        zoned_timestamps=zoned_timestamps,
    )
    with (
        opened_metastore(metastore) as client,
        maintained(client, maintenance, compaction_policy) as keeper,
    ):
        if create or merge_schema:
            data, schema, comes_once = _with_schema(data)
            if zoned_timestamps == "local":
                schema = pa.schema([field.with_type(_without_zones(field.type)) for field in schema])
            is_made_for_it = _fit_table(client, TableName.of(table), schema, create=create, merge_schema=merge_schema)
            if comes_once and is_made_for_it:
                data = _without_new_columns(data, client.get_table(table))
        with StreamingConnection.connect(
            client,
            table=table,
            static_partition_values=static_partition_values,
            record_writer=writer,
            agent_info="hive-ingest append",
            settings=settings,
            sink=sink,
            sources=key,
            on_commit=hook_of(keeper, on_commit),
            bad_records=bad_records,
            max_bad_records=max_bad_records,
            max_bad_record_share=max_bad_record_share,
        ) as connection:
            connection.begin_transaction()
            for name, number in key.items():
                if _is_committed(connection, name, number):
                    connection.abort_transaction()
                    return None
            connection.write(data)
            return connection.commit_transaction(positions=key)


def _fit_table(
    client: MetastoreClient, name: TableName, schema: pa.Schema, *, create: bool, merge_schema: bool
) -> bool:
    """Create the table or add columns, as data of the schema needs it. Returns whether it has all columns then."""
    is_new = create and _create_if_missing(client, name, schema)
    if merge_schema:
        new = columns_of_schema(pa.schema(_missing_fields(schema, client.get_table(name))))
        if new:
            _log.info("adding the columns %s to %s", ", ".join(f"{each.name} {each.type}" for each in new), name)
            client.add_columns(name, new, if_not_exists=True)
    return is_new or merge_schema


def _missing_fields(schema: pa.Schema, table: Table) -> list[pa.Field]:
    """The columns that the table lacks."""
    known = {column.name for column in (*table.columns, *table.partition_keys)}
    # A column of nulls alone has no type yet, and loses nothing when it is left out.
    return [field for field in schema if field.name.lower() not in known and field.type != pa.null()]


def _without_zones(type_: pa.DataType) -> pa.DataType:
    """The type that holds local times instead of those of a time zone."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_without_zones(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_without_zones(field.type)) for field in type_])
    return type_


def _create_if_missing(client: MetastoreClient, name: TableName, schema: pa.Schema) -> bool:
    """Whether it was missing. One that exists is taken as it is: the rows are checked against it."""
    if client.get_tables(name.database, name.table):
        return False
    try:
        client.create_table(name, schema=schema)
    except AlreadyExists:
        _log.info("another writer has created %s meanwhile", name)
        return False
    return True


def _with_schema(data: Any) -> tuple[Any, pa.Schema, bool]:
    """The data, of which nothing was consumed, its schema, and whether that is only known of the first part.

    A stream that can be read only once is read through a reader from now on.
    """
    if (schema := schema_of_rows(data)) is not None:
        return data, schema, False
    if not isinstance(getattr(data, "schema", None), pa.Schema) and hasattr(data, "__arrow_c_stream__"):
        data = stream_of(data)
    elif isinstance(data, list | tuple) and data:
        parts = [_with_schema(part) for part in data]
        schema = _united([schema for _, schema, _ in parts])
        return [part for part, _, _ in parts], schema, any(comes_once for _, _, comes_once in parts)
    elif isinstance(data, Iterable) and not hasattr(data, "schema"):
        batches = iter(data)
        first = next(batches, None)
        if first is None:
            raise ConfigurationError("the data has no batch, and so no columns: give a table or a reader")
        if schema_of_rows(first) is not None:
            raise ConfigurationError(
                "create and merge_schema infer the columns from all rows, which an iterator gives only once: give a "
                "list"
            )
        first, schema, _ = _with_schema(first)
        return itertools.chain([first], batches), schema, True
    return data, schema_of(data), False


def _united(schemas: list[pa.Schema]) -> pa.Schema:
    """The columns of all parts of the data, each of a type for its values in all of them."""
    lower = [pa.schema([field.with_name(field.name.lower()) for field in schema]) for schema in schemas]
    try:
        return pa.unify_schemas(lower, promote_options="permissive")
    except pa.ArrowException as error:
        raise ConfigurationError(f"the columns of the parts of the data do not fit together: {error}") from error


def _without_new_columns(data: Iterable[Any], table: Table) -> Iterator[Any]:
    """The parts of data that come once. Raises ConfigurationError at one with a column that the table lacks."""
    for each in data:
        part, schema, _ = _with_schema(each)
        if missing := _missing_fields(schema, table):
            raise ConfigurationError(
                f"{table.name} has no column {missing[0].name!r}, which is not in the first part of the data: create "
                "and merge_schema know no other part of data that can be read only once. Give a list"
            )
        yield part


def _idempotency_key(sink: str | None, source: str | None, position: int | None) -> dict[str, int]:
    if sink is None and source is None and position is None:
        return {}
    if sink is None or source is None or not isinstance(position, int) or isinstance(position, bool):
        raise ConfigurationError(
            f"sink={sink!r}, source={source!r}, position={position!r}: give all three, the position as a whole number"
        )
    return {source: position}


def _is_committed(connection: StreamingConnection, source: str, position: int) -> bool:
    last = connection.progress[source]
    if last is None:
        return False
    if not isinstance(last.position, int):
        raise SinkConflict(
            f"source {source!r} of this sink is at {last.position!r}, which is not a number that append() committed: "
            "use another name for the sink or the source"
        )
    if last.position > position:
        raise SinkConflict(
            f"source {source!r} of this sink is at position {last.position}, and {position} is lower: whether these "
            "rows are in the table is not known. Use increasing positions, or set the position back with seek()"
        )
    return last.position == position
