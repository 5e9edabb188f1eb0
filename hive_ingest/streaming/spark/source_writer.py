"""Writing through `format("hive_ingest")`: tasks stage their rows, the commit writes them.

Spark runs a task and the commit in processes of their own, which share nothing but options and messages, and none of
which lives between two calls. A transaction that was open while the tasks run could not be kept alive. So a task only
stages its rows, without a metastore; the commit, one call in one process, opens the transaction, brings the staged
rows in, commits and removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from hive_ingest.compaction import Maintenance, hook_of, maintained
from hive_ingest.connection import StreamingConnection, check_streamable, existing_table, progress_table_name
from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import ArrowWriter, RecordSchema
from hive_ingest.streaming.spark.progress import SPARK_SOURCE, MicroBatch, SparkPosition, is_new_batch
from hive_ingest.streaming.spark.running_query import read_micro_batch
from hive_ingest.streaming.spark.session import BATCH_ID, QUERY_ID
from hive_ingest.streaming.spark.short_errors import short_errors
from hive_ingest.streaming.spark.source_options import StreamOptions, WriteOptions
from hive_ingest.streaming.spark.staged_rows import StagedArrowFile, StagedRows, WriteJob
from hive_ingest.streaming.spark.types import plan_columns

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    # pyspark 4.0 gives Arrow to whatever is a DataSourceArrowWriter, also while streaming.
    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef,misc]
        """What pyspark 4.1 has under this name."""


_log = logging.getLogger(__name__)

_AGENT_INFO = "hive-ingest spark data source"


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """What a task has staged; `file` is None when it had no row. `query_id` is None in a batch write."""

    file: StagedArrowFile | None
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """What a task does. Made where the metastore is, pickled to the executors."""

    rows: StagedRows
    schema: RecordSchema
    missing_columns: Literal["fail", "null"]

    @classmethod
    def plan(cls, options: WriteOptions, schema: StructType) -> TaskWriter:
        """Check the table and the DataFrame before the first row."""
        with options.connect_metastore() as client:
            table = existing_table(client, options.table)
        check_streamable(table)
        plan_columns(schema, table, missing_columns=options.missing_columns)
        _refuse_instants_as_keys(schema)
        return cls(StagedRows.of(table), RecordSchema(table.columns, table.partition_keys), options.missing_columns)

    def stage(self, job: WriteJob, batches: Iterable[pa.RecordBatch]) -> StagedArrowFile | None:
        """Raises SerializationError for a row that the table cannot hold, StreamingIOFailure."""
        return self.rows.write(job, self.schema.arrow, self._shaped(batches))

    def _shaped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In the table's types, so that bad rows fail here, and in parallel."""
        writer = arrow_writer(self.missing_columns)
        writer.bind(self.schema)
        for batch in batches:
            for block in writer.write(batch):
                yield writer.parse(block).batch
        for block in writer.drain():
            yield writer.parse(block).batch


def arrow_writer(missing_columns: Literal["fail", "null"]) -> ArrowWriter:
    """TimestampType comes as instants in the session's time zone."""
    return ArrowWriter(
        missing_columns=missing_columns,
        missing_partition_keys=missing_columns,
        unknown_fields="fail",
        zoned_timestamps="local",
    )


class HiveBatchWriter(DataSourceArrowWriter):
    """One job, one transaction."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """Raises InvalidTable, UnsupportedFeature, StreamingConnectionError, ConfigurationError."""
        self._options = options
        self._overwrite = overwrite
        self._task = TaskWriter.plan(options, schema)
        self._job = WriteJob.new()
        self._task.rows.make_folder(self._job)

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return TaskMessage(self._task.stage(self._job, iterator))

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raises TxnAborted, LockTimeout (nothing is visible), CommitOutcomeUnknown."""
        files = _files(messages)
        with (
            self._options.connect_metastore() as client,
            maintained(client, self._options.maintenance) as keeper,
        ):
            with (
                _connect(client, self._options, keeper, overwrite=self._overwrite) as connection,
                connection.transaction(),
            ):
                _write_staged(connection, self._task.rows, files)
            self._clean_up()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove staged rows only: this is also called after a commit whose response was lost."""
        self._clean_up()

    def _clean_up(self) -> None:
        self._task.rows.remove_finished(self._job, self._options.staged_retention_seconds)


class HiveStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch, one transaction, with the progress of the sink in it.

    Spark makes one instance for the tasks of a batch, and another for its commit or abort.
    """

    def __init__(self, options: StreamOptions, schema: StructType, *, overwrite: bool) -> None:
        """Raises InvalidTable, UnsupportedFeature, StreamingConnectionError, ConfigurationError."""
        if overwrite:
            raise UnsupportedFeature(
                f"output mode 'complete' would overwrite {options.table} with each micro-batch: use 'append', or "
                "foreachBatch with write_dataframe(mode='overwrite')"
            )
        self._options = options
        if options.sink is not None:
            progress_table_name(options.table.database, options.sink)
        self._task = TaskWriter.plan(options, schema)
        self._task.rows.make_folder()

    def __getstate__(self) -> dict[str, Any]:
        """For tasks, which need no metastore, and so no password of one. Spark makes another instance to commit."""
        return {"_task": self._task}

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        query_id, batch_id = _micro_batch()
        return TaskMessage(self._task.stage(WriteJob.of_query(query_id, batch_id), iterator), query_id)

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Raises SinkConflict, SinkInUse, TxnAborted, LockTimeout, CommitOutcomeUnknown."""
        query_id = _query_id(messages)
        options = self._options
        with options.connect_metastore() as client, maintained(client, options.maintenance) as keeper:
            if options.sink is None or options.checkpoint is None:
                self._commit_at_least_once(client, keeper, _files(messages))
            else:
                batch = read_micro_batch(options.checkpoint, batchId, query_id)
                self._commit_once(client, keeper, options.sink, batch, _files(messages))
        # Not before the commit: until then, another driver may be running this batch too.
        self._task.rows.remove_finished(WriteJob.of_query(query_id, batchId), self._options.staged_retention_seconds)

    def _commit_once(
        self,
        client: MetastoreClient,
        keeper: Maintenance | None,
        sink: str,
        batch: MicroBatch,
        files: Sequence[StagedArrowFile],
    ) -> None:
        with _connect(client, self._options, keeper, sink=sink, sources=(SPARK_SOURCE,)) as connection:
            connection.begin_transaction()
            if not is_new_batch(connection, batch, sink):
                connection.abort_transaction()
                return
            _write_staged(connection, self._task.rows, files)
            connection.commit_transaction(positions={SPARK_SOURCE: SparkPosition.after(batch).to_json()})

    def _commit_at_least_once(
        self, client: MetastoreClient, keeper: Maintenance | None, files: Sequence[StagedArrowFile]
    ) -> None:
        with _connect(client, self._options, keeper) as connection, connection.transaction():
            _write_staged(connection, self._task.rows, files)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Only what these tasks have staged: another driver may run the same batch, and commit it."""
        self._task.rows.remove(_files(messages))


def _refuse_instants_as_keys(type_: DataType, path: str = "") -> None:
    """Two instants may be one wall clock, and a key would be in its map twice, unseen."""
    match type_:
        case StructType():
            for field in type_:
                _refuse_instants_as_keys(field.dataType, f"{path}.{field.name}".lstrip("."))
        case ArrayType():
            _refuse_instants_as_keys(type_.elementType, path)
        case MapType():
            if "timestamp" in type_.keyType.simpleString().replace("timestamp_ntz", ""):
                raise UnsupportedFeature(
                    f"column {path!r} has instants as keys of a map, and two of them may be one wall clock: cast the "
                    "keys to timestamp_ntz or string"
                )
            _refuse_instants_as_keys(type_.valueType, path)


# -- the commit ------------------------------------------------------------------------------------


def _connect(
    client: MetastoreClient,
    options: WriteOptions,
    keeper: Maintenance | None,
    *,
    sink: str | None = None,
    sources: Sequence[str] = (),
    overwrite: bool = False,
) -> StreamingConnection:
    return StreamingConnection.connect(
        client,
        database=options.table.database,
        table=options.table.table,
        record_writer=arrow_writer(options.missing_columns),
        agent_info=_AGENT_INFO,
        settings=options.settings,
        sink=sink,
        sources=sources,
        overwrite=overwrite,
        on_commit=hook_of(keeper),
    )


def _write_staged(connection: StreamingConnection, rows: StagedRows, files: Iterable[StagedArrowFile]) -> None:
    """In the order of the tasks; what is in memory is bounded by `max_buffer_bytes`."""
    for file in files:
        for batch in rows.read(file):
            connection.write(batch)


def _messages(messages: Iterable[WriterCommitMessage | None]) -> Iterator[TaskMessage]:
    """Messages of the tasks; None stands for a task that failed."""
    return (message for message in messages if isinstance(message, TaskMessage))


def _files(messages: Iterable[WriterCommitMessage | None]) -> list[StagedArrowFile]:
    return [message.file for message in _messages(messages) if message.file is not None]


def _query_id(messages: Iterable[WriterCommitMessage | None]) -> str:
    ids = {message.query_id for message in _messages(messages)}
    if len(ids) != 1 or None in ids:
        raise ConfigurationError(
            f"the tasks of one micro-batch name {len(ids)} queries: write with df.writeStream, or use HiveSink"
        )
    return str(ids.pop())


def _micro_batch() -> tuple[str, int]:
    """Query and batch of the task that asks."""
    context = TaskContext.get()
    values: list[str | None] = [context.getLocalProperty(key) if context else None for key in (QUERY_ID, BATCH_ID)]
    query_id, batch_id = values
    if not query_id or not batch_id:
        raise ConfigurationError(
            f"this task has no query id ({QUERY_ID}) or no batch id ({BATCH_ID}): write with "
            "df.writeStream in micro-batches (no continuous trigger), or use HiveSink"
        )
    return query_id, int(batch_id)
