"""How the rows of a DataFrame are distributed over the writers of one transaction.

Row ids are unique because each task owns something: in an unbucketed table a bucket number (12 bits), in a bucketed
one a statement id, of which a partition takes few (see `docs/design.md`), or, when rows are clustered, its groups.

By default the tasks of an unbucketed table get their rows by size: Spark's adaptive execution measures a shuffle, joins
what is small, and splits what is large (its REBALANCE hint). Only the writers are affected: the tasks that
read and compute the rows are not changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from hive_ingest.acid import MAX_BUCKET_ID
from hive_ingest.connection import SharedTransaction
from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.spark.session import IS_SPARK_4, input_tasks, is_connect, known_bytes, parallelism
from hive_ingest.streaming.spark.tasks import GROUP_COLUMN, GroupTask

#: Bucket numbers of an unbucketed table, one for each writer.
MAX_WRITERS = MAX_BUCKET_ID + 1
#: Statements of one transaction in a partition of a bucketed table: Hive 3.1 compacts at most 500 deltas at once.
MAX_STATEMENTS = 100
#: Groups below this share of the target are joined even if cores are idle meanwhile.
_SMALL_FILE = 8
#: Groups that a shuffle makes before it has measured: enough that a small partition rarely shares one with a large.
_GROUPS_PER_TASK, _MIN_GROUPS = 4, 64

WriterIds = Literal["bucket", "statement", "none"]


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """Rows as the tasks will write them.

    Attributes:
        rows: In the table's columns.
        most_tasks: How many tasks there can be.
        ids: What distinguishes them.
        settings: Of the session, while the tasks run.
    """

    rows: DataFrame
    most_tasks: int
    ids: WriterIds
    settings: Mapping[str, str] = field(default_factory=dict)


def spread(
    rows: DataFrame, transaction: SharedTransaction, *, cluster: bool | None, target_file_bytes: int
) -> SpreadRows:
    """Spread `rows`, whose columns are the table's, so that files are neither many nor huge, and each writer has an id.

    Args:
        rows: What to write.
        transaction: Into which table, and whether it overwrites.
        cluster: True brings all rows of a partition (and bucket) into one task. None does so in bucketed tables; in
            others rows go by size, those of a partition together. False leaves rows where they are.
        target_file_bytes: What a file should have, as far as Spark can tell before it is written.

    Raises:
        ConfigurationError: An overwrite of a bucketed table is always clustered.
    """
    table = transaction.table
    keys = [key.name for key in table.partition_keys[len(transaction.static_values) :]]
    if not table.is_bucketed:
        return _unbucketed(rows, keys, cluster, target_file_bytes)
    if cluster is not False:
        tasks = max(1, min(parallelism(rows), MAX_WRITERS))
        return SpreadRows(_cluster_by_group(rows, transaction, tasks), tasks, "none")
    if transaction.is_overwrite:  # a base has no statements
        raise ConfigurationError(f"an overwrite of {table.name}, which is bucketed, is clustered: leave out cluster")
    tasks_now = input_tasks(rows)
    if tasks_now is None or tasks_now > MAX_STATEMENTS:
        rows = rows.repartition(MAX_STATEMENTS)  # not coalesce: that would read and compute in as few tasks
    return SpreadRows(rows, MAX_STATEMENTS, "statement")


def _unbucketed(rows: DataFrame, keys: list[str], cluster: bool | None, target_file_bytes: int) -> SpreadRows:
    if cluster and keys:
        tasks = max(1, min(parallelism(rows), MAX_WRITERS))
        return SpreadRows(rows.repartition(tasks, *map(_quoted, keys)), tasks, "bucket")
    if cluster is None and (keys or _makes_small_files(rows, target_file_bytes)):
        groups = min(max(_MIN_GROUPS, _GROUPS_PER_TASK * parallelism(rows)), MAX_WRITERS)
        settings = _settings(rows, target_file_bytes)
        with session_settings(rows, settings):  # without adaptive execution Spark drops the hint as it analyses it
            return SpreadRows(_rebalanced(rows, groups, keys), MAX_WRITERS, "bucket", settings)
    return SpreadRows(rows.coalesce(MAX_WRITERS), MAX_WRITERS, "bucket")


def _rebalanced(rows: DataFrame, groups: int, keys: list[str]) -> DataFrame:
    names = [*map(_quoted, keys)]
    if is_connect(rows) or IS_SPARK_4:
        return rows.hint("rebalance", groups, *names)
    # Spark 3.5 does not take a text for the name of a column, and its Python takes nothing else.
    classic: Any = rows
    as_columns: list[Any] = [F.col(name) for name in names]
    columns = [each._jc.expr() for each in as_columns]
    return DataFrame(classic._jdf.hint("rebalance", classic._jseq([groups, *columns])), rows.sparkSession)


def _makes_small_files(rows: DataFrame, target_file_bytes: int) -> bool:
    """Whether to shuffle a table without partitions: not where every core writes one file, or each task has enough."""
    tasks = input_tasks(rows)
    if tasks is None:
        return True
    total = known_bytes(rows)
    return tasks > parallelism(rows) and (total is None or total < tasks * target_file_bytes / 2)


def _settings(rows: DataFrame, target_file_bytes: int) -> dict[str, str]:
    """Of adaptive execution, which Spark switches off for micro-batches, as these may keep state; writing does not."""
    smallest = max(1, target_file_bytes // _SMALL_FILE)
    total = known_bytes(rows)
    # Spark shares groups among all cores when it joins them, but not when it splits one: a batch of one partition
    # would be one task up to the target.
    share = target_file_bytes if total is None else total // parallelism(rows)
    return {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": str(smallest),
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(max(smallest, min(share, target_file_bytes))),
    }


def _cluster_by_group(rows: DataFrame, transaction: SharedTransaction, tasks: int) -> DataFrame:
    """By the hash that Hive puts rows into buckets with, which Spark does not have."""
    if tasks == 1:
        return rows.coalesce(1)
    schema = StructType([*rows.schema.fields, StructField(GROUP_COLUMN, LongType())])
    grouped = rows.mapInArrow(GroupTask(transaction.table, transaction.static_values), schema)
    return grouped.repartition(tasks, GROUP_COLUMN).drop(GROUP_COLUMN)


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


# -- settings of a session -------------------------------------------------------------------------

_lock = threading.Lock()
#: By session: how many writes are under way, and the values to go back to.
_changed: dict[object, tuple[int, dict[str, str | None]]] = {}


@contextmanager
def session_settings(df: DataFrame, settings: Mapping[str, str]) -> Iterator[None]:
    """Spark takes these from the session alone. They are put back when the last write of the session is done."""
    if not settings:
        yield
        return
    session: Any = df.sparkSession
    # Several objects of Python may stand for one session of the JVM.
    key = session.session_id if is_connect(df) else session._jsparkSession.hashCode()
    with _lock:
        writes, before = _changed.get(key, (0, {}))
        if not writes:
            before = {name: session.conf.get(name, None) for name in settings}
        _changed[key] = (writes + 1, before)
        _set(session, settings)
    try:
        yield
    finally:
        with _lock:
            writes, before = _changed.pop(key)
            if writes > 1:
                _changed[key] = (writes - 1, before)
            else:
                _set(session, before)


def _set(session: Any, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)
