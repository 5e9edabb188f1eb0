"""Compaction on the executors of a Spark cluster, for tables whose partitions are too large for one machine.

    with SparkCompactor(metastore="sqlite:////data/metastore.db", warehouse="/data/warehouse") as compactor:
        compactor.compact("web.alerts", kind="major")     # one table, now
        compactor.run()                                   # or: whatever is requested, until stop()

The driver takes a compaction from the metastore's queue, holds its transaction, its lock and its heartbeats, and
publishes and commits the result, all as `hive-ingest compactor` does. Only the merging of files is a Spark job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession

from hive_ingest.compaction import (
    DEFAULT_SPLIT_BUCKET_BYTES,
    CompactionOutcome,
    Compactor,
    CompactorResult,
    CompactorSettings,
    DistributedMerge,
    compact,
)
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import TableName
from hive_ingest.streaming.spark.merge_job import SparkTaskRunner


class SparkCompactor:
    """Initiator, workers and cleaner of one metastore, as a `Compactor`; the workers merge on Spark's executors.

    A task merges one bucket file of a partition; a bucket larger than `split_bucket_bytes` is cut into ranges of row
    ids, each the work of a task. Executors need this package, the tables' file system, and no metastore.
    """

    def __init__(
        self,
        *,
        metastore: str | MetastoreClient,
        spark: SparkSession | None = None,
        warehouse: str | None = None,
        metastore_options: Mapping[str, Any] | None = None,
        roles: Sequence[str] | None = None,
        workers: int = 1,
        settings: CompactorSettings | None = None,
        split_bucket_bytes: int = DEFAULT_SPLIT_BUCKET_BYTES,
        shared_filesystem: bool = False,
        version: str = "",
    ) -> None:
        """Connect to the metastore, without starting anything.

        Args:
            metastore: A URI as for `connect_metastore`; or a client, of which this takes a clone.
            spark: Classic or Spark Connect. None: the active session.
            warehouse: As for `connect_metastore`.
            metastore_options: Further options of `connect_metastore`.
            roles: As for `Compactor`.
            workers: How many tables or partitions are compacted at the same time, each by Spark jobs of its own.
            settings: As for `Compactor`. `job.merge.threads` does not count: a task has as many threads as Spark gives
                it cores (`spark.task.cpus`).
            split_bucket_bytes: A bucket whose files have more bytes is cut into ranges of row ids of about this size.
            shared_filesystem: Whether the warehouse, a local path, is the same folder on all machines.
            version: Shown by SHOW COMPACTIONS.

        Raises:
            ConfigurationError: There is no active session, or an argument is not valid.
            UnsupportedFeature: The metastore does not let others have one of the roles.
            MetastoreError: The metastore cannot be reached.
        """
        merger = DistributedMerge(
            SparkTaskRunner(spark or _active_session(), shared_filesystem=shared_filesystem),
            split_bucket_bytes=split_bucket_bytes,
        )
        settings = settings or CompactorSettings()
        self._settings = replace(settings, job=replace(settings.job, merger=merger))
        self._client = _connect(metastore, warehouse, metastore_options or {})
        try:
            self._compactor = Compactor(
                self._client, roles=roles, workers=workers, settings=self._settings, version=version
            )
        except BaseException:
            self._client.close()
            raise

    def run(self) -> None:
        """Run all roles until `stop` is called, from another thread or by a signal handler."""
        self._compactor.run()

    def run_once(self) -> CompactorResult:
        """Initiate, compact until the queue is empty, clean.

        Raises:
            MetastoreError: The metastore cannot be asked.
        """
        return self._compactor.run_once()

    def stop(self) -> None:
        """Make `run` return soon. A compaction under way goes back into the queue, and nothing of it is visible."""
        self._compactor.stop()

    def compact(
        self,
        table: str | TableName,
        *,
        partition: str | None = None,
        kind: str = "major",
        properties: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> list[CompactionOutcome]:
        """Compact one table now, whatever the thresholds say, and wait for it.

        The request goes through the metastore's queue, so other compactions that wait there may be carried out first,
        here or by other workers.

        Args:
            table: `"database.table"`.
            partition: `"k=v/…"`; with leading keys only, all partitions below. None: every partition.
            kind: `"minor"` merges deltas, `"major"` writes a new base without deleted rows.
            properties: As for `hive_ingest.compact`.
            timeout_seconds: The longest wait. None: no limit.

        Returns:
            One for each partition, by name; for a table without partitions one.

        Raises:
            NoSuchObject: There is no such table or partition.
            ConfigurationError: `kind`, `partition` or a property is not valid for the table.
            MetastoreError: The metastore refused.
        """
        return compact(
            self._client,
            table,
            partition=partition,
            kind=kind,
            properties=properties,
            wait=True,
            timeout_seconds=timeout_seconds,
            settings=self._settings.job,
            as_worker=True,
        )

    def close(self) -> None:
        """Stop, and disconnect from the metastore. The Spark session stays."""
        self.stop()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _active_session() -> SparkSession:
    session = SparkSession.getActiveSession()
    if session is None:
        raise ConfigurationError("there is no active Spark session: pass one, as in SparkCompactor(spark=…)")
    return session


def _connect(
    metastore: str | MetastoreClient, warehouse: str | None, metastore_options: Mapping[str, Any]
) -> MetastoreClient:
    if not isinstance(metastore, str):
        return metastore.clone()
    options = dict(metastore_options)
    if warehouse is not None:
        options["warehouse"] = warehouse
    return connect_metastore(metastore, **options)
