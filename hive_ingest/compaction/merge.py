"""Carries out a merge plan: each output is written under a hidden name, complete and synced, for a publisher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

from hive_ingest.compaction.conversion import conversion_to
from hive_ingest.compaction.plan import MergePlan, PlannedFile
from hive_ingest.delta import compression_of
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.model import Table
from hive_ingest.orc import (
    AcidFile,
    DeleteEvents,
    FileToRead,
    MergeOptions,
    StripeEncoder,
    merge_delete_events,
    merge_rows,
    read_delete_events,
)
from hive_ingest.schema import arrow_schema
from hive_ingest.storage import Location
from hive_ingest.transactions import StagedFile

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """How files are merged.

    Attributes:
        stripe_bytes: Rows of one stripe that is written, as Arrow holds them in memory.
        threads: Threads that read, decode and encode; as many buckets are merged at once.
        fsync: Whether outputs are on the device when they are finished.
    """

    stripe_bytes: int = 64 * MIB
    threads: int = 2
    fsync: bool = True


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
        self._partition = partition
        self._staging = staging
        self._settings = settings
        self._compression = compression_of(table)
        self._options = MergeOptions(
            StripeEncoder(arrow_schema(table.columns), self._compression),
            conversion_to(table.columns),
            stripe_bytes=settings.stripe_bytes,
            sync=settings.fsync,
        )
        self._counter = _Counter(progress)

    def run(self) -> MergeResult:
        # Not its parents: a table whose folder is missing is on a file system that is not mounted.
        self._staging.parent.make_folder(parents=False)
        threads = self._settings.threads
        targets = [self._target(number) for number in range(len(self._plan.files))]
        try:
            with ThreadPoolExecutor(threads, "merge") as workers, ThreadPoolExecutor(threads, "bucket") as buckets:
                deletes = self._deletes(workers)
                write = partial(self._write, workers, deletes)
                futures = [buckets.submit(write, *job) for job in zip(self._plan.files, targets, strict=True)]
                written = _all_results(futures)
        except BaseException as error:
            _remove(targets, error)
            raise
        return MergeResult(tuple(file for file in written if file is not None), self._plan.folders)

    def _target(self, number: int) -> Location:
        return self._staging.parent / f"{self._staging.name}.{number}.orc"

    def _deletes(self, workers: Executor) -> DeleteEvents | None:
        plan = self._plan
        if not plan.delete_events:
            return None
        count = self._counter
        return read_delete_events(
            plan.location.store, plan.delete_events, plan.valid_write_ids, workers, count.read, count.check
        )

    def _write(
        self, workers: Executor, deletes: DeleteEvents | None, output: PlannedFile, target: Location
    ) -> StagedFile | None:
        write = self._write_events if output.is_delete_events else partial(self._write_rows, deletes)
        file = write(workers, output, target)
        if file is None:
            return None
        self._counter.wrote(file)
        return StagedFile(
            location=target,
            partition=self._partition,
            folder_name=output.folder_name,
            file_name=output.file_name,
            rows=file.rows,
            size_bytes=file.size_bytes,
        )

    def _write_rows(
        self, deletes: DeleteEvents | None, workers: Executor, output: PlannedFile, target: Location
    ) -> AcidFile | None:
        return merge_rows(
            self._plan.location.store,
            output.inputs,
            target,
            self._options,
            valid_write_ids=self._plan.valid_write_ids,
            deletes=deletes,
            executor=workers,
            threads=self._settings.threads,
            done=self._counter.read,
            check=self._counter.check,
        )

    def _write_events(self, workers: Executor, output: PlannedFile, target: Location) -> AcidFile | None:
        return merge_delete_events(
            self._plan.location.store,
            output.inputs,
            target,
            schema=self._options.encoder.schema,
            valid_write_ids=self._plan.valid_write_ids,
            executor=workers,
            done=self._counter.read,
            check=self._counter.check,
            compression=self._compression,
            stripe_size_bytes=self._settings.stripe_bytes,
            sync=self._settings.fsync,
        )


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


class _Counter:
    """Adds up what several threads do, and reports it."""

    def __init__(self, report: Callable[[MergeProgress], None] | None) -> None:
        self._report = report
        self._lock = Lock()
        self._progress = MergeProgress(0, 0, 0, 0)

    def check(self) -> None:
        """Report what is known already, so that a large file can be given up in its middle."""
        self._add()

    def read(self, file: FileToRead) -> None:
        self._add(files_read=1, bytes_read=file.size_bytes)

    def wrote(self, file: AcidFile) -> None:
        self._add(rows_written=file.rows, bytes_written=file.size_bytes)

    def _add(self, **more: int) -> None:
        with self._lock:
            now = self._progress
            self._progress = replace(now, **{name: getattr(now, name) + number for name, number in more.items()})
            if self._report is not None:
                self._report(self._progress)
