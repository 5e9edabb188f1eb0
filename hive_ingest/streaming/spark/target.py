"""A table as the target of DataFrames, and one transaction's rows on their way into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame

from hive_ingest.config import MIB, StreamingSettings
from hive_ingest.connection import PreparedWrite, StreamingConnection
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.streaming.spark.session import refuse_unshared_warehouse
from hive_ingest.streaming.spark.spread import spread
from hive_ingest.streaming.spark.tasks import MESSAGE_SCHEMA, WriteTask, prepared_writes
from hive_ingest.streaming.spark.types import ColumnPlan, plan_columns

DEFAULT_TASK_BUFFER_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class HiveTarget:
    """Where rows go and how they are spread. Can be pickled when `metastore` is a URI."""

    metastore: str | MetastoreClient
    table: TableName
    warehouse: str | None = None
    static_partition_values: tuple[str, ...] = ()
    missing_columns: Literal["fail", "null"] = "fail"
    cluster: bool | None = None
    max_writers: int | None = None
    task_buffer_bytes: int = DEFAULT_TASK_BUFFER_BYTES
    settings: StreamingSettings = field(default_factory=StreamingSettings.load)
    metastore_options: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.max_writers is not None and self.max_writers < 1:
            raise ConfigurationError(f"max_writers={self.max_writers}: give 1 or more, or leave it out")
        if self.task_buffer_bytes < MIB:
            raise ConfigurationError(f"task_buffer_bytes={self.task_buffer_bytes} is below {MIB}")

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

    def plan(self, df: DataFrame, table: Table) -> ColumnPlan:
        """Everything that can be wrong with `df`, said before its first row."""
        refuse_unshared_warehouse(df, table)
        return plan_columns(
            df.schema,
            table,
            static_partition_values=self.static_partition_values,
            missing_columns=self.missing_columns,
        )

    def write(self, df: DataFrame, connection: StreamingConnection) -> list[PreparedWrite]:
        """Have the executors write `df` into the open transaction; it is not committed."""
        transaction = connection.share_transaction()
        rows = self.plan(df, transaction.table).select(df)
        spread_rows = spread(rows, transaction, cluster=self.cluster, max_writers=self.max_writers)
        task = WriteTask(transaction, spread_rows.ids, spread_rows.most_tasks, self.task_buffer_bytes)
        return prepared_writes(spread_rows.rows.mapInArrow(task, MESSAGE_SCHEMA).collect())


def hive_target(
    metastore: str | MetastoreClient,
    table: str | TableName,
    *,
    static_partition_values: Sequence[str] = (),
    settings: StreamingSettings | Mapping[str, Any] | None = None,
    **more: Any,
) -> HiveTarget:
    """From what a user writes. Raises ConfigurationError."""
    if not isinstance(settings, StreamingSettings):
        settings = StreamingSettings.load(settings)
    return HiveTarget(
        metastore,
        TableName.of(table),
        static_partition_values=tuple(static_partition_values),
        settings=settings,
        **more,
    )
