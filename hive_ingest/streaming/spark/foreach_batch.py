"""A Structured Streaming sink: each micro-batch is one Hive transaction, exactly once, written by the executors.

    sink = HiveSink(metastore="sqlite:////data/metastore.db", warehouse="/data/warehouse", table="web.alerts")
    query = sink.start(df, checkpoint="/data/checkpoints/alerts", trigger="10 seconds")
    query.awaitTermination()

For each batch the driver opens a transaction, which locks the sink's progress; has the executors write their share
into hidden files; publishes those of the attempts that Spark counts, and commits them together with the batch id.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from hive_ingest.config import StreamingSettings
from hive_ingest.connection import CommitInfo, StreamingConnection
from hive_ingest.errors import ConfigurationError, TxnAborted
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, is_new_batch, position_of
from hive_ingest.streaming.spark.session import streaming_query_id
from hive_ingest.streaming.spark.target import DEFAULT_TASK_BUFFER_BYTES, hive_target

_log = logging.getLogger(__name__)

Delivery = Literal["exactly-once", "at-least-once"]


@dataclass(frozen=True, slots=True)
class BatchStats:
    """One call of the sink. `commit` is None when the batch was skipped: an earlier call has committed it.

    Seconds are wall-clock: until the locks are held, of the executors' work, and of publish and commit.
    """

    query_id: str | None
    batch_id: int
    commit: CommitInfo | None
    tasks: int
    begin_seconds: float
    write_seconds: float
    commit_seconds: float

    @property
    def is_skipped(self) -> bool:
        return self.commit is None

    @property
    def rows(self) -> int:
        return self.commit.rows if self.commit else 0


class HiveSink:
    """Writes micro-batches into one table: `df.writeStream.foreachBatch(sink)`, or `sink.start(df, …)`.

    - `metastore`, `warehouse`: as for `connect_metastore`; or a client, of which each call takes a clone.
    - `table`: "database.table"; it must exist.
    - `sink`: the name under which progress is kept, in the table `<database>.<sink>__progress`; default the table's
      name. One query at a time writes under a name.
    - `delivery`: "exactly-once", or "at-least-once": without progress, a batch that Spark repeats is written again.
    - `query_id`: of the streaming query, where Spark does not tell it (Spark Connect).
    - `static_partition_values`: of the leading partition keys, as text; the other keys are dynamic columns.
    - `missing_columns`: "fail" or "null", for columns of the table that the DataFrame lacks.
    - `cluster`: bring all rows of a partition and bucket into one task first (a shuffle, fewer files); None: where it
      makes fewer files, in partitioned and bucketed tables.
    - `max_writers`: tasks that write at most; never more than there are ids for.
    - `task_buffer_bytes`: memory for the rows of one task before they are spilled.
    - `settings`: of the connection (`StreamingSettings`); `metastore_options` go to `connect_metastore`.
    - `on_batch`: called with the BatchStats of each batch.

    Executors need this package, and no metastore. Raises ConfigurationError for what cannot be meant.
    """

    def __init__(
        self,
        *,
        metastore: str | MetastoreClient,
        table: str | TableName,
        warehouse: str | None = None,
        sink: str | None = None,
        delivery: Delivery = "exactly-once",
        query_id: str | None = None,
        static_partition_values: Sequence[str] = (),
        missing_columns: Literal["fail", "null"] = "fail",
        cluster: bool | None = None,
        max_writers: int | None = None,
        task_buffer_bytes: int = DEFAULT_TASK_BUFFER_BYTES,
        settings: StreamingSettings | Mapping[str, Any] | None = None,
        metastore_options: Mapping[str, object] | None = None,
        on_batch: Callable[[BatchStats], None] | None = None,
    ) -> None:
        if delivery not in ("exactly-once", "at-least-once"):
            raise ConfigurationError(f"delivery={delivery!r} is unknown: use 'exactly-once' or 'at-least-once'")
        self._target = hive_target(
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
        if sink is not None and delivery == "at-least-once":
            raise ConfigurationError(
                f"sink={sink!r} keeps progress, and delivery='at-least-once' has none: leave out one"
            )
        self._sink = (sink or self._target.table.table) if delivery == "exactly-once" else None
        self._query_id = query_id
        self._on_batch = on_batch
        self._last_batch: BatchStats | None = None

    @property
    def last_batch(self) -> BatchStats | None:
        """Of the latest call in this process."""
        return self._last_batch

    def start(
        self,
        df: DataFrame,
        *,
        checkpoint: str,
        trigger: str | Mapping[str, Any] | None = None,
        query_name: str | None = None,
        output_mode: str = "append",
        options: Mapping[str, str] | None = None,
    ) -> StreamingQuery:
        """Check `df` against the table, then start the streaming query.

        `trigger` is a processing time such as "10 seconds", or the arguments of `DataStreamWriter.trigger`, as in
        `{"availableNow": True}`. Raises what `check` raises.
        """
        self.check(df)
        writer = df.writeStream.foreachBatch(self).outputMode(output_mode).option("checkpointLocation", checkpoint)
        if trigger is not None:
            arguments = {"processingTime": trigger} if isinstance(trigger, str) else dict(trigger)
            writer = writer.trigger(**arguments)
        if query_name is not None:
            writer = writer.queryName(query_name)
        return writer.options(**dict(options or {})).start()

    def check(self, df: DataFrame) -> None:
        """Whether rows of `df` can go into the table.

        Raises InvalidTable, StreamingConnectionError (columns that do not fit, all of them named), ConfigurationError.
        """
        with self._target.connect_metastore() as client, self._connect(client) as connection:
            self._target.plan(df, connection.table)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """One micro-batch, as `foreachBatch` calls it.

        Raises SinkConflict (the progress is another query's), SinkInUse, LockTimeout, TxnAborted (also when Spark
        stops the query meanwhile), CommitOutcomeUnknown, and what Spark raises when a task fails for good; the batch
        is then not committed, or, after an unknown outcome, found out when Spark repeats it.
        """
        reach("before_batch")
        query_id = self._query_id or streaming_query_id(df)
        if query_id is None and self._sink is not None:
            raise ConfigurationError(
                f"batch {batch_id} for {self._target.table} has no query id: call the sink from foreachBatch of a "
                "streaming query, or give query_id=… (with Spark Connect, where it cannot be asked for)"
            )
        try:
            with self._target.connect_metastore() as client:
                stats = self._run(client, df, query_id, batch_id)
        except Py4JJavaError as error:
            _log.warning("batch %d for %s failed", batch_id, self._target.table, exc_info=True)
            raise TxnAborted(_told_in_short(error, batch_id)) from None
        self._last_batch = stats
        _log.info("%s", stats)
        if self._on_batch is not None:
            self._on_batch(stats)
        reach("after_batch")

    def _run(self, client: MetastoreClient, df: DataFrame, query_id: str | None, batch_id: int) -> BatchStats:
        committed: list[CommitInfo] = []
        started = time.monotonic()
        with self._connect(client, on_commit=committed.append) as connection:
            connection.begin_transaction()
            begun = time.monotonic()
            if not self._is_new(connection, query_id, batch_id):
                connection.abort_transaction()
                return BatchStats(query_id, batch_id, None, 0, begun - started, 0.0, 0.0)
            prepared = self._target.write(df, connection)
            reach("after_tasks")
            written = time.monotonic()
            connection.commit_transaction(prepared=prepared, positions=self._positions(query_id, batch_id))
        done = time.monotonic()
        return BatchStats(
            query_id, batch_id, committed[0], len(prepared), begun - started, written - begun, done - written
        )

    def _connect(self, client: MetastoreClient, **more: Any) -> StreamingConnection:
        sources = (SPARK_SOURCE,) if self._sink is not None else ()
        return self._target.connect(client, agent_info="hive-ingest spark", sink=self._sink, sources=sources, **more)

    def _is_new(self, connection: StreamingConnection, query_id: str | None, batch_id: int) -> bool:
        if self._sink is None or query_id is None:
            return True
        return is_new_batch(connection, query_id, batch_id, self._sink)

    def _positions(self, query_id: str | None, batch_id: int) -> dict[str, Any]:
        if self._sink is None or query_id is None:
            return {}
        return {SPARK_SOURCE: position_of(query_id, batch_id)}


def _told_in_short(error: Py4JJavaError, batch_id: int) -> str:
    """Without Java's stack trace.

    Spark looks for interruptions (SPARK-39218) in the text of what a `foreachBatch` function raises, by a regular
    expression that overflows the stack of the query's thread when much text follows py4j's own words: the query
    would then seem to have ended well.
    """
    words = f"{error.errmsg.strip().rstrip('.')}: {error.java_exception.toString()}"
    return (
        f"batch {batch_id} is not committed, its transaction is aborted: the query was stopped or Java failed "
        f"(py4j.protocol.Py4JJavaError: {words}). The next start of the query writes it again"
    )
