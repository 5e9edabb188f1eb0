"""A Structured Streaming sink: each micro-batch is one Hive transaction, exactly once, written by the executors.

    sink = HiveSink(metastore="sqlite:////data/metastore.db", warehouse="/data/warehouse", table="web.alerts")
    query = sink.start(df, checkpoint="/data/checkpoints/alerts", trigger="10 seconds")
    query.awaitTermination()

For each batch the driver opens a transaction, which locks the sink's progress; has the executors write their share
into hidden files; publishes those of the attempts that Spark counts, and commits them together with the batch id.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, Unpack

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from hive_ingest.compaction import CompactionPolicy, MaintenanceMode, check_mode
from hive_ingest.connection import CommitInfo, StreamingConnection
from hive_ingest.errors import ConfigurationError, SinkConflict, TxnAborted, UnsupportedFeature
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.streaming.spark.maintained import maintenance_of
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, MicroBatch, SparkPosition, is_new_batch
from hive_ingest.streaming.spark.running_query import Call, identify
from hive_ingest.streaming.spark.session import is_connect, streaming_query_id
from hive_ingest.streaming.spark.target import HiveTarget, TargetOptions
from hive_ingest.transactions import log_failure

_log = logging.getLogger(__name__)

Delivery = Literal["exactly-once", "at-least-once"]

#: The last batch that each sink of this process has finished, and in which run of its query: by metastore, progress
#: table and query id.
_finished: dict[tuple[str, TableName, str], tuple[str, int]] = {}


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

    Executors need this package, and no metastore.

    Args:
        metastore: A URI as for `connect_metastore`; or a client, of which each call takes a clone.
        table: "database.table"; it must exist.
        sink: The name under which progress is kept, in the table `<database>.<sink>__progress`; by default the table's
            name. One query at a time writes under a name.
        delivery: "exactly-once", or "at-least-once": without progress, a batch that Spark repeats is written again.
        checkpoint: The query's `checkpointLocation`, a path or a URI that this process can read. Only with Spark
            Connect, and only without `start`, which knows it: a batch cannot be identified otherwise.
        on_batch: Called with the BatchStats of each batch.
        maintenance: "inline": threads of the driver compact the table and the sink's progress while the query runs;
            "request": they only request compactions; or "off". All sinks of a process share them, until it ends.
        compaction_policy: When to compact; see `CompactionPolicy`.
        **options: See `TargetOptions`.

    Raises:
        ConfigurationError: An option is unknown or invalid.
    """

    def __init__(
        self,
        *,
        metastore: str | MetastoreClient,
        table: str | TableName,
        sink: str | None = None,
        delivery: Delivery = "exactly-once",
        checkpoint: str | None = None,
        on_batch: Callable[[BatchStats], None] | None = None,
        maintenance: MaintenanceMode = "off",
        compaction_policy: CompactionPolicy | None = None,
        **options: Unpack[TargetOptions],
    ) -> None:
        if delivery not in ("exactly-once", "at-least-once"):
            raise ConfigurationError(f"delivery={delivery!r} is unknown: use 'exactly-once' or 'at-least-once'")
        check_mode(maintenance)
        self._target = HiveTarget.of(metastore, table, **options)
        if sink is not None and delivery == "at-least-once":
            raise ConfigurationError(
                f"sink={sink!r} keeps progress, and delivery='at-least-once' has none: leave out one"
            )
        self._sink = (sink or self._target.table.table) if delivery == "exactly-once" else None
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self._maintenance: MaintenanceMode = maintenance
        self._policy = compaction_policy
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
        if output_mode != "append":
            raise UnsupportedFeature(_NO_RESULT_TABLES.format(mode=output_mode, table=self._target.table))
        self.check(df)
        sink = self._with_checkpoint(checkpoint) if is_connect(df) else self
        writer = df.writeStream.foreachBatch(sink).outputMode(output_mode).option("checkpointLocation", checkpoint)
        if trigger is not None:
            arguments = {"processingTime": trigger} if isinstance(trigger, str) else dict(trigger)
            writer = writer.trigger(**arguments)
        if query_name is not None:
            writer = writer.queryName(query_name)
        return writer.options(**dict(options or {})).start()

    def _with_checkpoint(self, checkpoint: str) -> Self:
        """A copy: Connect pickles it to the server."""
        other = copy.copy(self)
        other._checkpoint = checkpoint
        return other

    def check(self, df: DataFrame) -> None:
        """Whether rows of `df` can go into the table, and the executors can write them.

        Raises InvalidTable, StreamingConnectionError (columns that do not fit, all of them named), ConfigurationError.
        """
        with self._target.connect_metastore() as client, self._connect(client) as connection:
            self._target.plan(df, connection.table)
            self._target.check_executors(df, connection.table)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """One micro-batch, as `foreachBatch` calls it.

        Raises SinkConflict (the progress is another query's), SinkInUse, LockTimeout, TxnAborted (also when Spark
        stops the query meanwhile), CommitOutcomeUnknown, and what Spark raises when a task fails for good; the batch
        is then not committed, or, after an unknown outcome, found out when Spark repeats it.
        """
        reach("before_batch")
        try:
            call = identify(df, batch_id, self._checkpoint) if self._sink is not None else None
            with self._target.connect_metastore() as client:
                self._refuse_second_call(client, call)
                stats = self._run(client, df, batch_id, call.batch if call else None)
                self._remember(client, call)
        except Py4JJavaError as error:
            _log.warning("batch %d for %s failed", batch_id, self._target.table, exc_info=True)
            raise TxnAborted(_short_message(error, batch_id)) from None
        self._maintain(stats)
        self._last_batch = stats
        _log.info("%s", stats)
        if self._on_batch is not None:
            self._on_batch(stats)
        reach("after_batch")

    def _run(self, client: MetastoreClient, df: DataFrame, batch_id: int, batch: MicroBatch | None) -> BatchStats:
        """`batch` is None without progress."""
        query_id = batch.query_id if batch else streaming_query_id(df)
        started = time.monotonic()
        self._target.add_new_columns(df, client)
        with self._connect(client) as connection:
            self._target.check_executors(df, connection.table)
            connection.begin_transaction()
            begun = time.monotonic()
            if batch is not None and not is_new_batch(connection, batch, self._sink or ""):
                connection.abort_transaction()
                return BatchStats(query_id, batch_id, None, 0, begun - started, 0.0, 0.0)
            prepared = self._target.write(df, connection)
            reach("after_tasks")
            written = time.monotonic()
            positions = {SPARK_SOURCE: SparkPosition.after(batch).to_json()} if batch is not None else {}
            commit = connection.commit_transaction(prepared=prepared, positions=positions)
        done = time.monotonic()
        return BatchStats(query_id, batch_id, commit, len(prepared), begun - started, written - begun, done - written)

    def _connect(self, client: MetastoreClient) -> StreamingConnection:
        sources = (SPARK_SOURCE,) if self._sink is not None else ()
        return self._target.connect(client, agent_info="hive-ingest spark", sink=self._sink, sources=sources)

    def _maintain(self, stats: BatchStats) -> None:
        """After the commit, so that no trouble of it is the batch's."""
        if self._maintenance == "off" or (info := stats.commit) is None:
            return
        target, mode, policy = self._target, self._maintenance, self._policy
        log_failure(lambda: maintenance_of(target, mode, policy).on_commit(info), "the maintenance of a sink")

    # -- a batch is one call -----------------------------------------------------------------------

    def _refuse_second_call(self, client: MetastoreClient, call: Call | None) -> None:
        """Spark calls once for a batch in each run of the query, so a second call brings other rows under its number.

        A call that failed may be repeated: what it has committed is recognised, and skipped.
        """
        if call is None or call.run is None:
            return
        if _finished.get(self._key(client, call)) == (call.run, call.batch.batch_id):
            raise SinkConflict(
                f"sink {self._sink!r} was called twice for batch {call.batch.batch_id} of query {call.batch.query_id}: "
                "a sink takes one DataFrame a batch, and the rows of this call would be taken for a repetition. Write "
                "the union of the DataFrames, or give each HiveSink of the foreachBatch function a name of its own "
                "by sink=…"
            )

    def _remember(self, client: MetastoreClient, call: Call | None) -> None:
        if call is not None and call.run is not None:
            _finished[self._key(client, call)] = (call.run, call.batch.batch_id)

    def _key(self, client: MetastoreClient, call: Call) -> tuple[str, TableName, str]:
        return client.uri, TableName(self._target.table.database, self._sink or ""), call.batch.query_id


_NO_RESULT_TABLES = (
    "output mode {mode!r} would append each new state of the results to {table}, beside the old ones: use 'append' "
    "with a watermark; or, to replace the table with each batch, foreachBatch with write_dataframe(mode='overwrite') "
    "and output mode 'complete'"
)


def _short_message(error: Py4JJavaError, batch_id: int) -> str:
    """Without Java's stack trace.

    Spark looks for interruptions (SPARK-39218) in the text of what a `foreachBatch` function raises, by a regular
    expression that overflows the stack of the query's thread when much text follows py4j's own words: the query
    would then seem to have ended well. Spark 3.5 looks for the line break between py4j's words and Java's, too.
    """
    words = f"{error.errmsg.rstrip()}\n: {error.java_exception.toString()}"
    return (
        f"batch {batch_id} is not committed, its transaction is aborted: the query was stopped or Java failed "
        f"(py4j.protocol.Py4JJavaError: {words}). The next start of the query writes it again"
    )
