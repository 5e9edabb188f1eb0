"""`append`: write Arrow data in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from hive_ingest.compaction import CompactionPolicy, Maintenance, MaintenanceMode, hook_of, maintained
from hive_ingest.connection import CommitInfo, StreamingConnection, StreamingSettings
from hive_ingest.errors import ConfigurationError, SinkConflict
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.record_writer import (
    ArrowWriter,
    EmptyPartitionValues,
    MissingColumns,
    MissingPartitionKeys,
    OnError,
    UnknownFields,
    ZonedTimestamps,
)


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
    on_error: OnError = ...,
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
    on_error: OnError = ...,
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
    on_error: OnError = "fail",
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
        missing_columns, missing_partition_keys, unknown_fields, empty_partition_values, coerce, zoned_timestamps,
            on_error: As in `ArrowWriter`.
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
        maintained(metastore, maintenance, compaction_policy) as keeper,
        StreamingConnection.connect(
            metastore,
            table=table,
            static_partition_values=static_partition_values,
            record_writer=writer,
            agent_info="hive-ingest append",
            settings=settings,
            sink=sink,
            sources=key,
            on_commit=hook_of(keeper, on_commit),
        ) as connection,
    ):
        connection.begin_transaction()
        for name, number in key.items():
            if _is_committed(connection, name, number):
                connection.abort_transaction()
                return None
        connection.write(data)
        return connection.commit_transaction(positions=key)


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
