"""Batch jobs: a DataFrame into a table, in one transaction."""

from __future__ import annotations

from typing import Literal, Unpack

from pyspark.sql import DataFrame

from hive_ingest.compaction import CompactionPolicy, Maintenance, MaintenanceMode, hook_of, maintained
from hive_ingest.connection import CommitInfo
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.streaming.spark.target import HiveTarget, TargetOptions


def write_dataframe(
    df: DataFrame,
    table: str | TableName,
    mode: Literal["append", "overwrite"] = "append",
    *,
    metastore: str | MetastoreClient,
    maintenance: MaintenanceMode | Maintenance = "off",
    compaction_policy: CompactionPolicy | None = None,
    **options: Unpack[TargetOptions],
) -> CommitInfo:
    """Write all rows of `df` in one transaction.

    A job that fails leaves nothing, and one that is run again appends again: for exactly once use `HiveSink`.

    Args:
        df: Classic or Spark Connect.
        table: "database.table"; it must exist.
        mode: "overwrite" is Hive's INSERT OVERWRITE: a new base of the table, or of each partition that `df` has rows
            for; all other writers wait meanwhile.
        metastore: A URI as for `connect_metastore`; or a client, of which the call takes a clone.
        maintenance: What to do about compaction after the commit. "request": request it where the policy says so;
            "inline": also carry it out in threads of the driver, for up to half a minute; the rest is left to the next
            call, or to a compactor. Or a `Maintenance` of the caller's, for which the call does not wait.
        compaction_policy: When to compact; see `CompactionPolicy`.
        **options: See `TargetOptions`.

    Returns:
        What was committed.

    Raises:
        InvalidTable: The table does not exist, or cannot be written.
        StreamingConnectionError: Columns do not fit; all of them are named.
        ConfigurationError: An option.
        LockTimeout, TxnAborted, CommitOutcomeUnknown: As a connection raises them.
        PySparkException, Py4JJavaError: A task has failed for good.
        StreamingIOFailure: Executors were lost again and again.
    """
    if mode not in ("append", "overwrite"):
        raise ConfigurationError(f"mode={mode!r} is unknown: use 'append' or 'overwrite'")
    target = HiveTarget.of(metastore, table, **options)
    with (
        target.connect_metastore() as client,
        maintained(client, maintenance, compaction_policy) as keeper,
    ):
        target.add_new_columns(df, client)
        with target.connect(
            client, agent_info="hive-ingest spark", overwrite=mode == "overwrite", on_commit=hook_of(keeper)
        ) as connection:
            target.plan(df, connection.table)
            target.check_executors(df, connection.table)
            connection.begin_transaction()
            return connection.commit_transaction(prepared=target.write(df, connection))
