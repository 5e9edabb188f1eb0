"""A table as the target of DataFrames, and one transaction's rows on their way into it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from hive_ingest.config import MIB, StreamingSettings
from hive_ingest.connection import PreparedWrite, StreamingConnection
from hive_ingest.errors import ConfigurationError, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.model import columns_of as model_columns
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.streaming.spark.executors import check_executors
from hive_ingest.streaming.spark.session import refuse_unshared_warehouse
from hive_ingest.streaming.spark.spread import session_settings, spread
from hive_ingest.streaming.spark.stage_attempts import may_mix_versions
from hive_ingest.streaming.spark.tasks import MESSAGE_SCHEMA, WriteTask, prepared_writes
from hive_ingest.streaming.spark.types import ColumnPlan, columns_of, plan_columns

_log = logging.getLogger(__name__)

DEFAULT_TASK_BUFFER_BYTES = 64 * MIB
DEFAULT_TARGET_FILE_BYTES = 64 * MIB
#: Each is a job of Spark, which repeats stages by itself.
_MOST_WRITES = 3


class TargetOptions(TypedDict, total=False):
    """Options of `HiveSink` and `write_dataframe` alike.

    Attributes:
        warehouse: As for `connect_metastore`.
        metastore_options: Further options of `connect_metastore`.
        static_partition_values: Values of the leading partition keys, as text; the other keys are columns.
        missing_columns: "fail" or "null", for columns of the table that the DataFrame lacks.
        merge_schema: Add columns that the DataFrame has and the table lacks to the table, before the transaction
            begins, under a lock of their own. Fields inside of structs are not added.
        cluster: True brings all rows of a partition (and bucket) into one task; False leaves rows where they are; None
            chooses what gives files of a good size (see docs/spark.md).
        target_file_bytes: The target size of a file, in tables without buckets. Spark measures rows before they are
            encoded, so files are smaller, and a task with few rows is a small file in any case.
        task_buffer_bytes: Memory for the rows of one task before they are spilled.
        shared_filesystem: True says that the warehouse, a local path, is the same folder on all machines.
        settings: Of the connection (`StreamingSettings`, or its options by name).
    """

    warehouse: str | None
    metastore_options: Mapping[str, object]
    static_partition_values: Sequence[str]
    missing_columns: Literal["fail", "null"]
    merge_schema: bool
    cluster: bool | None
    target_file_bytes: int
    task_buffer_bytes: int
    shared_filesystem: bool
    settings: StreamingSettings | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class HiveTarget:
    """Where rows go and how they are spread: `TargetOptions`, checked. Can be pickled when `metastore` is a URI."""

    # May hold passwords.
    metastore: str | MetastoreClient = field(repr=False)
    table: TableName
    warehouse: str | None = None
    metastore_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    static_partition_values: Sequence[str] = ()
    missing_columns: Literal["fail", "null"] = "fail"
    merge_schema: bool = False
    cluster: bool | None = None
    target_file_bytes: int = DEFAULT_TARGET_FILE_BYTES
    task_buffer_bytes: int = DEFAULT_TASK_BUFFER_BYTES
    shared_filesystem: bool = False
    settings: StreamingSettings = field(default_factory=StreamingSettings.load)

    @classmethod
    def of(
        cls, metastore: str | MetastoreClient, table: str | TableName, **options: Unpack[TargetOptions]
    ) -> HiveTarget:
        """From what a user writes.

        Raises:
            ConfigurationError: An option is unknown, or its value invalid.
        """
        unknown = sorted(options.keys() - TargetOptions.__optional_keys__)
        if unknown:
            known = ", ".join(sorted(TargetOptions.__optional_keys__))
            raise ConfigurationError(f"unknown option {unknown[0]!r}: known are {known}")
        given: dict[str, Any] = dict(options)
        if not isinstance(given.get("settings"), StreamingSettings):
            given["settings"] = StreamingSettings.load(given.get("settings"))
        given["metastore_options"] = dict(given.get("metastore_options") or {})
        given["static_partition_values"] = tuple(given.get("static_partition_values", ()))
        return cls(metastore, TableName.of(table), **given)

    def __post_init__(self) -> None:
        for name in ("target_file_bytes", "task_buffer_bytes"):
            if getattr(self, name) < MIB:
                raise ConfigurationError(f"{name}={getattr(self, name)} is below {MIB}")

    def connect_metastore(self) -> MetastoreClient:
        """A client for one thread, to be closed by it."""
        if not isinstance(self.metastore, str):
            return self.metastore.clone()
        options: dict[str, Any] = dict(self.metastore_options)
        if self.warehouse is not None:
            options["warehouse"] = self.warehouse
        return connect_metastore(self.metastore, **options)

    def connect(self, client: MetastoreClient, **more: Any) -> StreamingConnection:
        """A connection whose rows come from writers that join its transactions."""
        return StreamingConnection.connect(
            client,
            database=self.table.database,
            table=self.table.table,
            record_writer=ArrowWriter(),
            static_partition_values=self.static_partition_values,
            settings=self.settings,
            **more,
        )

    def add_new_columns(self, df: DataFrame, client: MetastoreClient) -> None:
        """With `merge_schema`, add the columns that the table lacks. Raises UnsupportedFeature for their types."""
        if self.merge_schema and (new := _new_columns(df, client.get_table(self.table))):
            _log.info("adding the columns %s to %s", ", ".join(map(" ".join, new.items())), self.table)
            client.add_columns(self.table, new, if_not_exists=True)

    def plan(self, df: DataFrame, table: Table) -> ColumnPlan:
        """Check `df` against the table, before its first row; with `merge_schema`, as if new columns were added."""
        if self.merge_schema:
            table = replace(table, columns=(*table.columns, *model_columns(_new_columns(df, table))))
        return plan_columns(
            df.schema,
            table,
            static_partition_values=self.static_partition_values,
            missing_columns=self.missing_columns,
        )

    def check_executors(self, df: DataFrame, table: Table) -> None:
        """Check that executors can write into the table, before a transaction is open. Raises ConfigurationError."""
        if not self.shared_filesystem:
            refuse_unshared_warehouse(df.sparkSession, table)
        check_executors(df.sparkSession, table)

    def write(self, df: DataFrame, connection: StreamingConnection) -> list[PreparedWrite]:
        """Have the executors write `df` into the open transaction; it is not committed.

        Raises StreamingIOFailure when executors are lost again and again.
        """
        transaction = connection.share_transaction()
        rows = self.plan(df, transaction.table).select(df)
        spread_rows = spread(rows, transaction, cluster=self.cluster, target_file_bytes=self.target_file_bytes)
        task = WriteTask(transaction, spread_rows.ids, spread_rows.most_tasks, self.task_buffer_bytes)
        with session_settings(df, spread_rows.settings):
            for _ in range(_MOST_WRITES):
                messages = spread_rows.rows.mapInArrow(task, MESSAGE_SCHEMA).collect()
                if len(messages) < 2 or not may_mix_versions(df.sparkSession, messages[0]["stage"]):
                    return prepared_writes(messages)
                # What has been written stays hidden, and is removed with the transaction.
                _log.warning("an executor was lost while rows for %s were written: they are written again", self.table)
        raise StreamingIOFailure(
            f"executors were lost {_MOST_WRITES} times while rows for {self.table} were written, each time after some "
            "tasks had written theirs: the transaction is aborted. Repeat the write when the cluster is stable"
        )


def _new_columns(df: DataFrame, table: Table) -> dict[str, str]:
    known = {column.name for column in (*table.columns, *table.partition_keys)}
    return columns_of(T.StructType([field for field in df.schema if field.name.lower() not in known]))
