"""Batch jobs: a DataFrame into a table, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pyspark.sql import DataFrame

from hive_ingest.config import StreamingSettings
from hive_ingest.connection import CommitInfo
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.streaming.spark.target import DEFAULT_TASK_BUFFER_BYTES, hive_target


def write_dataframe(
    df: DataFrame,
    table: str | TableName,
    mode: Literal["append", "overwrite"] = "append",
    *,
    metastore: str | MetastoreClient,
    warehouse: str | None = None,
    static_partition_values: Sequence[str] = (),
    missing_columns: Literal["fail", "null"] = "fail",
    cluster: bool | None = None,
    max_writers: int | None = None,
    task_buffer_bytes: int = DEFAULT_TASK_BUFFER_BYTES,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
    metastore_options: Mapping[str, object] | None = None,
) -> CommitInfo:
    """Write all rows of `df` in one transaction; returns what was committed.

    "overwrite" is Hive's INSERT OVERWRITE: a new base of the table, or of each partition that `df` has rows for; all
    other writers wait meanwhile. A job that fails leaves nothing, and one that is run again appends again: for exactly
    once use `HiveSink`. The other arguments are those of `HiveSink`.

    Raises InvalidTable, StreamingConnectionError (columns that do not fit, all of them named), ConfigurationError,
    LockTimeout, TxnAborted, CommitOutcomeUnknown, and what Spark raises when a task fails for good.
    """
    if mode not in ("append", "overwrite"):
        raise ConfigurationError(f"mode={mode!r} is unknown: use 'append' or 'overwrite'")
    target = hive_target(
        metastore,
        table,
        warehouse=warehouse,
        static_partition_values=static_partition_values,
        missing_columns=missing_columns,
        cluster=cluster,
        max_writers=max_writers,
        task_buffer_bytes=task_buffer_bytes,
        settings=settings,
        metastore_options=metastore_options or {},
    )
    committed: list[CommitInfo] = []
    with (
        target.connect_metastore() as client,
        target.connect(
            client, agent_info="hive-ingest spark", overwrite=mode == "overwrite", on_commit=committed.append
        ) as connection,
    ):
        target.plan(df, connection.table)
        connection.begin_transaction()
        connection.commit_transaction(prepared=target.write(df, connection))
    return committed[0]
