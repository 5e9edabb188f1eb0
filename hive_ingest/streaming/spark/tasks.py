"""What runs inside `mapInArrow` on the executors: one Spark partition to prepared files, without a metastore.

The instances are pickled to the executors, where this package must be installed too. A failed or speculative attempt
leaves hidden files alone: only what the driver receives becomes visible.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row

from hive_ingest.connection import JoinedTransaction, PreparedWrite, SharedTransaction
from hive_ingest.delta import Router
from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Table
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.schema import arrow_schema
from hive_ingest.streaming.spark.short_errors import short_errors_of

#: Of the DataFrame that the tasks return: one row for each, with the stage that it belongs to.
MESSAGE_SCHEMA = "message binary, stage int"
#: The column by which rows are clustered, never written.
GROUP_COLUMN = "__hive_ingest_group"


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes one Spark partition; yields one message.

    `ids` says what distinguishes the tasks of one transaction: "bucket" (an unbucketed table: each owns the bucket
    number that its partition has), "statement" (a bucketed one), or "none" (no two tasks share a group).
    """

    transaction: SharedTransaction
    ids: str
    most_tasks: int
    buffer_bytes: int

    @short_errors_of
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = _task_context()
        number = self._number(context)
        settings = replace(self.transaction.settings, max_buffer_bytes=self.buffer_bytes, writer_threads=1)
        writer = JoinedTransaction(
            self.transaction,
            ArrowWriter(unknown_fields="fail"),
            statement_id=number if self.ids == "statement" else 0,
            writer_bucket=number if self.ids == "bucket" else 0,
            settings=settings,
        )
        with writer:
            for batch in batches:
                writer.write(batch)
            prepared = writer.prepare()
        message = {"message": [pickle.dumps(prepared)], "stage": pa.array([context.stageId()], pa.int32())}
        yield pa.RecordBatch.from_pydict(message)

    def _number(self, context: TaskContext) -> int:
        number = context.partitionId()
        if number >= self.most_tasks:
            raise ConfigurationError(
                f"task {number} of a transaction that has room for {self.most_tasks} writers: raise target_file_bytes, "
                "or write the rows in several transactions"
            )
        return number


def _task_context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise ConfigurationError("a WriteTask runs inside a Spark task: pass it to DataFrame.mapInArrow")
    return context


def prepared_writes(messages: Iterable[Row]) -> list[PreparedWrite]:
    """What the tasks have sent, on the driver."""
    return [pickle.loads(message["message"]) for message in messages]


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Adds to each row the hash of its partition and bucket as Hive computes them."""

    table: Table
    static_values: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = Router(self.table, self.static_values)
        keys = self.table.partition_keys[len(self.static_values) :]
        types = arrow_schema((*self.table.columns, *keys)).types
        needed = {*self.table.bucket_columns, *(key.name for key in keys)}
        names = [column.name for column in (*self.table.columns, *keys)]
        for batch in batches:
            columns = [
                column.cast(type_) if name in needed else column
                for name, type_, column in zip(names, types, batch.columns, strict=True)
            ]
            hashes = router.group_hashes(pa.RecordBatch.from_arrays(columns, names))
            yield pa.RecordBatch.from_arrays([*batch.columns, hashes], [*batch.schema.names, GROUP_COLUMN])
