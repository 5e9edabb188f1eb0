"""The tasks of a compaction's merge as a Spark job: one task of Spark each, on the executors.

The tasks need no metastore. Each attempt writes hidden files of its own, so that failed and speculative attempts leave
only what the driver, or the next connection to the table, removes.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hive_ingest.compaction import MergeTasks
from hive_ingest.errors import CorruptFile, StreamingError, StreamingIOFailure, UnsupportedFeature
from hive_ingest.streaming.spark.executors import check_executors
from hive_ingest.streaming.spark.session import cancel_jobs, job_thread, refuse_unshared_warehouse, tag_jobs
from hive_ingest.streaming.spark.short_errors import short_errors_of, without_java_stack
from hive_ingest.transactions import log_failure

_SCHEMA = "number bigint, answer binary"
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class _MergeOnExecutor:
    """What runs inside `mapInArrow`: a row of the input is the number of a task, a row of the output its answer."""

    tasks: MergeTasks

    @short_errors_of
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        threads = context.cpus() if context is not None else 1
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = pickle.dumps(self._answer(number, threads))
                yield pa.RecordBatch.from_pydict({"number": [number], "answer": [answer]})

    def _answer(self, number: int, threads: int) -> Any:
        try:
            return self.tasks.run(number, threads)
        except (CorruptFile, UnsupportedFeature) as error:
            return error.with_traceback(None)  # not raised: another attempt would find the same


class SparkTaskRunner:
    """A `TaskRunner` on the executors of a session, for `DistributedMerge`."""

    def __init__(self, spark: SparkSession, *, shared_filesystem: bool = False) -> None:
        """
        Args:
            spark: Classic or Spark Connect.
            shared_filesystem: As in `TargetOptions`.
        """
        self._spark = spark
        self._shared_filesystem = shared_filesystem

    def __call__(self, tasks: MergeTasks, check: Callable[[], None]) -> list[Any]:
        """See `TaskRunner`.

        Raises:
            ConfigurationError: The table is on a disk of this machine only, or the executors cannot write into it.
            StreamingIOFailure: Spark gave up on a task.
        """
        if not self._shared_filesystem:
            refuse_unshared_warehouse(self._spark, tasks.context.table)
        check_executors(self._spark, tasks.context.table)
        job = _Job(self._spark, tasks)
        try:
            while not job.has_ended(_POLL_SECONDS):
                check()
        except BaseException:
            job.cancel()
            raise
        return job.results()


class _Job:
    """A job in a thread of its own, so that the caller can check its transaction meanwhile and cancel the job."""

    def __init__(self, spark: SparkSession, tasks: MergeTasks) -> None:
        self._spark = spark
        self._tasks = tasks
        self._tag = f"hive-ingest-compaction-{uuid.uuid4().hex}"
        self._answers: dict[int, Any] = {}
        self._error: Exception | None = None
        self._thread = job_thread(spark, self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            tag_jobs(self._spark, self._tag)
            count = len(self._tasks.tasks)
            numbers = self._spark.range(0, count, 1, count)
            rows = numbers.mapInArrow(_MergeOnExecutor(self._tasks), _SCHEMA).collect()
            self._answers = {row["number"]: pickle.loads(row["answer"]) for row in rows}
        except Exception as error:  # noqa: BLE001 (raised in the thread that waits)
            self._error = error

    def has_ended(self, timeout_seconds: float) -> bool:
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Cancel the job, repeatedly until it has ended: the first call may come before Spark knows of the job."""
        while not self.has_ended(0):
            log_failure(lambda: cancel_jobs(self._spark, self._tag), "cancelling the Spark job of a compaction")
            self.has_ended(_POLL_SECONDS)

    def results(self) -> list[Any]:
        if isinstance(self._error, (PySparkException, Py4JError)):
            raise StreamingIOFailure(
                f"Spark gave up on a task of the compaction: {without_java_stack(str(self._error))}"
            ) from self._error
        if self._error is not None:
            raise self._error
        results = [self._answers[number] for number in range(len(self._tasks.tasks))]
        for result in results:
            if isinstance(result, StreamingError):
                raise result
        return results
