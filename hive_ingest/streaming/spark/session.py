"""Queries to a Spark session, classic or Connect."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyspark
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Table

#: Local properties that Spark sets around each call of a `foreachBatch` function, and in every task of a query.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


#: Spark 3.5 lacks some arguments of Spark 4.
IS_SPARK_4 = int(pyspark.__version__.split(".")[0]) >= 4


def is_connect(df: DataFrame | SparkSession) -> bool:
    """Of a Spark Connect session: the driver is another process, and `sparkContext` is out of reach."""
    return type(df).__module__.startswith("pyspark.sql.connect.")


def tag_jobs(session: SparkSession, tag: str) -> None:
    """Tag what this thread starts from now on."""
    if is_connect(session):
        session.addTag(tag)
    else:
        session.sparkContext.addJobTag(tag)  # `interruptTag` of a classic session does not find a collect()


def cancel_jobs(session: SparkSession, tag: str) -> None:
    """Cancel what is running with a tag."""
    if is_connect(session):
        session.interruptTag(tag)
    else:
        session.sparkContext.cancelJobsWithTag(tag)


def job_thread(session: SparkSession, target: Callable[[], None]) -> InheritableThread:
    """A daemon thread, not started, for a job of the session: Spark hands the tags of its starter on to it."""
    # The thread of Spark 3.5 takes no session: its context has the tags.
    options: dict[str, Any] = {"session": session} if IS_SPARK_4 else {}
    return InheritableThread(target=target, name="hive-ingest-spark-job", daemon=True, **options)


def parallelism(df: DataFrame) -> int:
    """Tasks that run at once, as far as the session knows."""
    session = df.sparkSession
    if not is_connect(df):
        return int(session.sparkContext.defaultParallelism)
    local = re.match(r"local(?:-cluster)?\[(\d+)(?:,(\d+),\d+\])?", session.conf.get("spark.master", "") or "")
    if local:
        return int(local[1]) * int(local[2] or 1)
    known = session.conf.get("spark.default.parallelism", "") or session.conf.get("spark.sql.shuffle.partitions", "")
    return int(known or 1)


def streaming_query_id(df: DataFrame) -> str | None:
    """Of the streaming query whose micro-batch `df` is; None where that cannot be known."""
    if is_connect(df):
        return None
    return df.sparkSession.sparkContext.getLocalProperty(QUERY_ID) or None


def refuse_unshared_warehouse(session: SparkSession, table: Table) -> None:
    """Executors on other machines would write into folders of their own. Raises ConfigurationError."""
    if not table.location.startswith(("file:", "/")):
        return
    master = session.conf.get("spark.master", "") or ""
    if master.startswith("local"):
        return
    raise ConfigurationError(
        f"{table.name} lies at {table.location}, on this machine's own disk, and Spark's master is {master!r}: its "
        "executors would write elsewhere. If the folder is the same on all machines (NFS, a mounted volume), pass "
        "shared_filesystem=True; else use a warehouse on HDFS, or master local[…] or local-cluster[…]"
    )


def input_tasks(df: DataFrame) -> int | None:
    """How many tasks compute `df`; None where only a run shows it (Spark Connect, a plan that adapts)."""
    if is_connect(df):
        return None
    plan: Any = df
    execution = plan._jdf.queryExecution()
    if execution.executedPlan().getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        return None
    return int(execution.toRdd().getNumPartitions())


def known_bytes(df: DataFrame) -> int | None:
    """What Spark estimates of the size of `df`; None where it gives a huge number, or cannot be asked (Connect)."""
    if is_connect(df):
        return None
    plan: Any = df
    estimate = int(str(plan._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return estimate if estimate < _NO_IDEA else None


_NO_IDEA = 1 << 60
