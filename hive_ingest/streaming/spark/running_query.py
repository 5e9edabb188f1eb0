"""Which micro-batch a `foreachBatch` function is called for: from Spark's driver, or from the checkpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame

from hive_ingest.errors import ConfigurationError
from hive_ingest.streaming.spark.checkpoint import BatchPlan, read_checkpoint
from hive_ingest.streaming.spark.progress import MicroBatch
from hive_ingest.streaming.spark.session import is_connect, streaming_query_id


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a sink.

    Attributes:
        batch: What it is called for.
        run: Of the query: it changes with each start. None outside of a streaming query.
    """

    batch: MicroBatch
    run: str | None


def identify(df: DataFrame, batch_id: int, checkpoint: str | None) -> Call:
    """The micro-batch that `df` is.

    Args:
        df: As `foreachBatch` passes it.
        batch_id: The same.
        checkpoint: The query's `checkpointLocation`, where the driver's JVM is out of reach (Spark Connect).

    Raises:
        ConfigurationError: Neither Spark nor the checkpoint has it, so a repeated batch could not be recognised.
        StreamingIOFailure: The checkpoint cannot be read.
    """
    query_id = streaming_query_id(df)
    if query_id is not None:
        call = _call_of_driver(df, query_id, batch_id)
        if call is not None:
            return call
    if checkpoint is None:
        raise ConfigurationError(
            f"batch {batch_id} cannot be identified, so exactly once is not possible: neither the query's id nor the "
            "offsets of the batch can be had here. Call the sink from foreachBatch of a streaming query; with Spark "
            "Connect use HiveSink.start(…), or give checkpoint=…, the query's checkpointLocation; or choose "
            "delivery='at-least-once'"
        )
    # Connect runs each start of a query in a Python process of its own.
    return Call(read_micro_batch(checkpoint, batch_id), f"process {os.getpid()}" if is_connect(df) else None)


def read_micro_batch(checkpoint: str, batch_id: int, query_id: str | None = None) -> MicroBatch:
    """A batch from the query's checkpoint.

    Args:
        checkpoint: The query's `checkpointLocation`, as a path or a URI that this process can read.
        batch_id: Of the batch that is being run.
        query_id: Of the query that runs it, where it is known.

    Raises:
        ConfigurationError: It is not a checkpoint, or one of another query.
        StreamingIOFailure: It cannot be read.
    """
    found = read_checkpoint(checkpoint)
    plan = found.plan(batch_id)
    if plan is None or query_id not in (None, found.query_id):
        raise ConfigurationError(
            f"the checkpoint {checkpoint!r} of query {found.query_id} does not have batch {batch_id} of query "
            f"{query_id or found.query_id}: give the checkpointLocation of the query that runs, as a path or a URI "
            "that this process can read"
        )
    return MicroBatch(found.query_id, batch_id, plan)


def _call_of_driver(df: DataFrame, query_id: str, batch_id: int) -> Call | None:
    """From the query's offset log, as Spark itself reads it; None where this Spark has another interior."""
    session: Any = df.sparkSession
    jvm = session.sparkContext._jvm
    try:
        # Of all sessions together: that of `df` is a clone which knows no query.
        running = session._jsparkSession.sharedState().activeStreamingQueries()
        query = running.get(jvm.java.util.UUID.fromString(query_id))
        log = query.offsetLog()
        entry = log.get(batch_id).get()
        text = jvm.java.io.ByteArrayOutputStream()
        log.serialize(entry, text)
        plan = BatchPlan.parse(str(text.toString("UTF-8")))
        # Not the job group, which is the same at first: a user's function may set another.
        return Call(MicroBatch(query_id, batch_id, plan), str(query.runId().toString()))
    except Py4JJavaError:
        raise  # the query is being stopped, or its log cannot be read
    except (Py4JError, AttributeError, TypeError):
        return None
