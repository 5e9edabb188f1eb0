"""Carries out a merge plan: each output is written under a hidden name, complete and synced, for a publisher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Protocol

from hive_ingest.compaction.file_merger import FileMerger, MergeContext, MergeSettings
from hive_ingest.compaction.plan import MergePlan, PlannedFile
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.model import Table
from hive_ingest.orc import AcidFile, FileToRead
from hive_ingest.storage import Location
from hive_ingest.transactions import StagedFile


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """What has been done so far: input files and their bytes, and the rows and bytes written."""

    files_read: int
    bytes_read: int
    rows_written: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class MergeResult:
    """Files under their hidden names, and all folders that have to be published, also those without a file."""

    files: tuple[StagedFile, ...]
    folders: tuple[str, ...]


class Merger(Protocol):
    """Carries out a plan: `merge`, or a function with the same arguments and result that uses other machines."""

    def __call__(
        self,
        plan: MergePlan,
        table: Table,
        *,
        partition: tuple[str | None, ...] = (),
        staging: Location,
        settings: MergeSettings | None = None,
        progress: Callable[[MergeProgress], None] | None = None,
    ) -> MergeResult: ...


def merge(
    plan: MergePlan,
    table: Table,
    *,
    partition: tuple[str | None, ...] = (),
    staging: Location,
    settings: MergeSettings | None = None,
    progress: Callable[[MergeProgress], None] | None = None,
) -> MergeResult:
    """Write the files of a plan.

    Args:
        plan: From `plan_minor` or `plan_major`.
        table: Its columns are those of the output.
        partition: The values of the partition keys, as in `StagedFile`.
        staging: How the hidden names begin (see `transactions.new_staging`).
        settings: Sizes and threads.
        progress: Called after each file, and within files before each stripe, by one thread at a time. What it raises
            ends the merge.

    Raises:
        CorruptFile: An input is damaged; the message names it.
        UnsupportedFeature: An input holds what cannot be written without a change.
        StreamingIOFailure: A file cannot be read or written.

    After an error no output is left.
    """
    settings = settings or MergeSettings()
    return _Merge(plan, table, partition, staging, settings, progress).run()


class _Merge:
    """One call of `merge`."""

    def __init__(
        self,
        plan: MergePlan,
        table: Table,
        partition: tuple[str | None, ...],
        staging: Location,
        settings: MergeSettings,
        progress: Callable[[MergeProgress], None] | None,
    ) -> None:
        self._plan = plan
        self._context = MergeContext.of(plan, table, partition, settings)
        self._staging = staging
        self._threads = settings.threads
        self._counter = ProgressCounter(progress)

    def run(self) -> MergeResult:
        # Not its parents: a table whose folder is missing is on a file system that is not mounted.
        self._staging.parent.make_folder(parents=False)
        threads = self._threads
        targets = [staged_file(self._staging, number) for number in range(len(self._plan.files))]
        try:
            with ThreadPoolExecutor(threads, "merge") as workers, ThreadPoolExecutor(threads, "bucket") as buckets:
                merger = FileMerger(self._context, workers, self._counter.read, self._counter.check)
                _ = merger.deletes  # before several threads ask for it
                write = partial(self._write, merger)
                futures = [buckets.submit(write, *job) for job in zip(self._plan.files, targets, strict=True)]
                written = _all_results(futures)
        except BaseException as error:
            _remove(targets, error)
            raise
        return MergeResult(tuple(file for file in written if file is not None), self._plan.folders)

    def _write(self, merger: FileMerger, output: PlannedFile, target: Location) -> StagedFile | None:
        file = merger.write(output, target)
        if file is None:
            return None
        self._counter.wrote(file)
        return merger.staged(file, output, target)


def staged_file(staging: Location, number: int) -> Location:
    """The hidden name of one output file."""
    return staging.parent / f"{staging.name}.{number}.orc"


def _all_results(futures: Sequence[Future[StagedFile | None]]) -> list[StagedFile | None]:
    """The results, once all have ended; the first error cancels those that have not begun."""
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def _remove(targets: Sequence[Location], error: BaseException) -> None:
    try:
        for target in targets:
            target.delete_file()
    except StreamingIOFailure as failure:
        error.add_note(f"and, while cleaning up: {failure}")


class ProgressCounter:
    """Adds up the progress of several threads, and reports it."""

    def __init__(self, report: Callable[[MergeProgress], None] | None) -> None:
        self._report = report
        self._lock = Lock()
        self._progress = MergeProgress(0, 0, 0, 0)

    def check(self) -> None:
        """Report the progress so far, so that a merge can be ended in the middle of a large file."""
        self._add()

    def read(self, file: FileToRead) -> None:
        self._add(files_read=1, bytes_read=file.size_bytes)

    def wrote(self, file: AcidFile | StagedFile) -> None:
        self._add(rows_written=file.rows, bytes_written=file.size_bytes)

    def _add(self, **more: int) -> None:
        with self._lock:
            now = self._progress
            self._progress = replace(now, **{name: getattr(now, name) + number for name, number in more.items()})
            if self._report is not None:
                self._report(self._progress)
