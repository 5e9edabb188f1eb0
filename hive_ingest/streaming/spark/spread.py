"""How the rows of a DataFrame are spread over the writers of one transaction.

Row ids are unique because each task owns something: in an unbucketed table a bucket number (12 bits), in a bucketed
one a statement id, of which a partition takes few (see `docs/design.md`), or, when rows are clustered, its groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from hive_ingest.acid.bucket_codec import MAX_BUCKET_ID
from hive_ingest.connection import SharedTransaction
from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.spark.session import parallelism
from hive_ingest.streaming.spark.tasks import GROUP_COLUMN, GroupTask

#: Bucket numbers of an unbucketed table, one for each writer.
MAX_WRITERS = MAX_BUCKET_ID + 1
#: Statements of one transaction in a partition of a bucketed table: Hive 3.1 compacts at most 500 deltas at once.
MAX_STATEMENTS = 100

WriterIds = Literal["bucket", "statement", "none"]


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """Rows as the tasks will write them, how many tasks there can be, and what tells those apart."""

    rows: DataFrame
    most_tasks: int
    ids: WriterIds


def spread(
    rows: DataFrame, transaction: SharedTransaction, *, cluster: bool | None, max_writers: int | None
) -> SpreadRows:
    """Cluster or coalesce `rows`, whose columns are the table's, so that no writer is without an id.

    `cluster` True brings all rows of a partition (and bucket) into one task, at the price of a shuffle; None does so
    where it makes fewer files: in partitioned and bucketed tables.
    """
    table = transaction.table
    dynamic_keys = [key.name for key in table.partition_keys[len(transaction.static_values) :]]
    is_grouped = bool(dynamic_keys) or table.is_bucketed
    must_cluster = transaction.is_overwrite and table.is_bucketed  # a base has no statements
    if cluster is False and must_cluster:
        raise ConfigurationError(f"an overwrite of {table.name}, which is bucketed, is clustered: leave out cluster")
    most = min(max_writers or MAX_WRITERS, MAX_WRITERS)
    if is_grouped and (cluster is not False):
        tasks = max(1, min(parallelism(rows), most))
        if table.is_bucketed:
            return SpreadRows(_cluster_by_group(rows, transaction, tasks), tasks, "none")
        return SpreadRows(rows.repartition(tasks, *map(_column, dynamic_keys)), tasks, "bucket")
    if table.is_bucketed:
        most = min(most, MAX_STATEMENTS)
        return SpreadRows(rows.coalesce(most), most, "statement")
    return SpreadRows(rows.coalesce(most), most, "bucket")


def _cluster_by_group(rows: DataFrame, transaction: SharedTransaction, tasks: int) -> DataFrame:
    """By the hash that Hive puts rows into buckets with, which Spark does not have."""
    if tasks == 1:
        return rows.coalesce(1)
    schema = StructType([*rows.schema.fields, StructField(GROUP_COLUMN, LongType())])
    grouped = rows.mapInArrow(GroupTask(transaction.table, transaction.static_values), schema)
    return grouped.repartition(tasks, GROUP_COLUMN).drop(GROUP_COLUMN)


def _column(name: str) -> Column:
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")
