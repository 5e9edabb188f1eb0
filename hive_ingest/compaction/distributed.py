"""Carries out a merge plan by tasks, which an engine such as Spark runs on any machine, each once or more.

A task writes one file of the plan. A file with more input than `split_bucket_bytes` is cut into ranges of row ids, each
merged by a task of its own; a last task copies the stripes of all ranges into the one file that a bucket may have. Each
attempt of a task writes under a hidden name of its own, and only names that the caller receives are published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from hive_ingest.compaction.file_merger import FileMerger, MergeContext, MergeSettings
from hive_ingest.compaction.merge import MergeProgress, MergeResult, ProgressCounter, staged_file
from hive_ingest.compaction.plan import MergePlan, PlannedFile
from hive_ingest.config import MIB
from hive_ingest.errors import ConfigurationError, StreamingError
from hive_ingest.faults import reach
from hive_ingest.model import Table
from hive_ingest.orc import RowPart
from hive_ingest.storage import Location
from hive_ingest.transactions import StagedFile, log_failure, new_attempt, remove_attempts

DEFAULT_SPLIT_BUCKET_BYTES = 512 * MIB


@dataclass(frozen=True, slots=True)
class WriteOutput:
    """Writes a whole file of the plan: a StagedFile, or None without rows."""

    output: PlannedFile

    @property
    def size_bytes(self) -> int:
        return self.output.input_bytes

    def run(self, merger: FileMerger, target: Location) -> StagedFile | None:
        file = merger.write(self.output, target)
        return None if file is None else merger.staged(file, self.output, target)


@dataclass(frozen=True, slots=True)
class SplitOutput:
    """Cuts a file of the plan into parts of about `part_bytes`: a list of `RowPart`, empty if none are needed."""

    output: PlannedFile
    part_bytes: int

    @property
    def size_bytes(self) -> int:
        return 0

    def run(self, merger: FileMerger, target: Location) -> list[RowPart]:
        return merger.split(self.output, self.part_bytes)


@dataclass(frozen=True, slots=True)
class WritePart:
    """Writes the rows of a part into a file of its own: a `RowPart` that can be copied, or None without rows."""

    part: RowPart

    @property
    def size_bytes(self) -> int:
        return self.part.size_bytes

    def run(self, merger: FileMerger, target: Location) -> RowPart | None:
        file = merger.write_part(self.part, target)
        return None if file is None else RowPart.of_file(target, file.size_bytes)


@dataclass(frozen=True, slots=True)
class JoinParts:
    """Copies parts into a file of the plan: a StagedFile, or None without rows."""

    output: PlannedFile
    parts: tuple[RowPart, ...]

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    def run(self, merger: FileMerger, target: Location) -> StagedFile | None:
        file = merger.join(self.output, self.parts, target)
        return None if file is None else merger.staged(file, self.output, target)


MergeTask: TypeAlias = WriteOutput | SplitOutput | WritePart | JoinParts


@dataclass(frozen=True, slots=True)
class MergeTasks:
    """Tasks that may run at the same time. Can be pickled.

    Attributes:
        context: Of the plan.
        staging: How hidden names of the transaction begin.
        tasks: The largest first.
    """

    context: MergeContext
    staging: Location
    tasks: tuple[MergeTask, ...]

    def run(self, number: int, threads: int) -> Any:
        """One attempt of one task; several may run at the same time, anywhere.

        Args:
            number: Of the task.
            threads: That it may use.

        Returns:
            The result of the task, which can be pickled.

        Raises:
            CorruptFile, UnsupportedFeature: As in any other attempt.
            StreamingIOFailure: A file cannot be read or written. Nothing is left of the attempt.
        """
        reach("before_merge_task")
        target = staged_file(new_attempt(self.staging), 0)
        with ThreadPoolExecutor(threads, "merge") as workers:
            result = self.tasks[number].run(FileMerger(self.context, workers), target)
        reach("after_merge_task")
        return result


class TaskRunner(Protocol):
    """Runs tasks and returns their results, in the order of the tasks.

    It calls `check` regularly while it waits. An error of `check` ends the tasks. It is raised, as is a task's error.
    """

    def __call__(self, tasks: MergeTasks, check: Callable[[], None]) -> Sequence[Any]: ...


class DistributedMerge:
    """A `Merger` whose work is done by a `TaskRunner`."""

    def __init__(self, run: TaskRunner, *, split_bucket_bytes: int = DEFAULT_SPLIT_BUCKET_BYTES) -> None:
        """
        Args:
            run: Runs the tasks.
            split_bucket_bytes: A bucket whose files have more bytes is cut into ranges of row ids of about this size.

        Raises:
            ConfigurationError: `split_bucket_bytes` is below 1.
        """
        if split_bucket_bytes < 1:
            raise ConfigurationError(f"split_bucket_bytes={split_bucket_bytes} is below 1")
        self._run = run
        self._split_bucket_bytes = split_bucket_bytes

    def __call__(
        self,
        plan: MergePlan,
        table: Table,
        *,
        partition: tuple[str | None, ...] = (),
        staging: Location,
        settings: MergeSettings | None = None,
        progress: Callable[[MergeProgress], None] | None = None,
    ) -> MergeResult:
        """See `merge`."""
        context = MergeContext.of(plan, table, partition, settings or MergeSettings())
        # Not its parents: a table whose folder is missing is on a file system that is not mounted.
        staging.parent.make_folder(parents=False)
        stages = _Stages(self._run, context, staging, ProgressCounter(progress))
        try:
            files = stages.run(plan.files, self._split_bucket_bytes)
        except BaseException as error:
            _remove_after(error, staging)
            raise
        # Parts, and files of attempts that were not needed. One that still runs is removed with the transaction.
        log_failure(lambda: remove_attempts(staging, [file.location for file in files]), "removing parts of a merge")
        return MergeResult(tuple(files), plan.folders)


def _remove_after(error: BaseException, staging: Location) -> None:
    try:
        remove_attempts(staging, [])
    except StreamingError as failure:
        error.add_note(f"and, while cleaning up: {failure}")


class _Stages:
    """One merge: each call of the runner needs the results of the one before."""

    def __init__(self, run: TaskRunner, context: MergeContext, staging: Location, counter: ProgressCounter) -> None:
        self._runner = run
        self._context = context
        self._staging = staging
        self._counter = counter

    def run(self, outputs: Sequence[PlannedFile], split_bucket_bytes: int) -> list[StagedFile]:
        """The files of the plan, in its order."""
        is_large = [not each.is_delete_events and each.input_bytes > split_bucket_bytes for each in outputs]
        small = [each for each, large in zip(outputs, is_large, strict=True) if not large]
        large = [each for each, large in zip(outputs, is_large, strict=True) if large]
        tasks: list[MergeTask] = [SplitOutput(each, split_bucket_bytes) for each in large]
        results = self._tasks([*tasks, *map(WriteOutput, small)])
        files = [*results[len(large) :], *self._in_parts(dict(zip(large, results, strict=False)))]
        found = {(file.folder_name, file.file_name): file for file in files if file is not None}
        names = [(output.folder_name, output.file_name) for output in outputs]
        return [found[name] for name in names if name in found]

    def _in_parts(self, parts: dict[PlannedFile, list[RowPart]]) -> list[StagedFile | None]:
        whole = [output for output, found in parts.items() if not found]
        to_write = [part for found in parts.values() for part in found if not part.is_copied]
        results = self._tasks([*map(WriteOutput, whole), *map(WritePart, to_write)])
        written = dict(zip(to_write, results[len(whole) :], strict=True))
        joins = []
        for output, found in parts.items():
            ready = [part if part.is_copied else written[part] for part in found]
            if found:
                joins.append(JoinParts(output, tuple(part for part in ready if part is not None)))
        return [*results[: len(whole)], *self._tasks(joins)]

    def _tasks(self, tasks: Sequence[MergeTask]) -> list[Any]:
        """The results, in the order of `tasks`."""
        if not tasks:
            return []
        order = sorted(range(len(tasks)), key=lambda i: -tasks[i].size_bytes)
        ordered = MergeTasks(self._context, self._staging, tuple(tasks[i] for i in order))
        found = dict(zip(order, self._runner(ordered, self._counter.check), strict=True))
        for result in found.values():
            if isinstance(result, StagedFile):
                self._counter.wrote(result)
        return [found[i] for i in range(len(tasks))]
