"""Rows that a task has finished and a commit will write: compressed Arrow files, hidden in the table's own folder.

    <table location>/.hive_ingest/staged_<seconds>_<job>_0/<uuid>.arrow                of a batch write
    <table location>/.hive_ingest/staged_<seconds>_<query>_<batch>_<uuid>.arrow       of a micro-batch

They belong to no transaction yet, so `remove_leftovers` leaves them alone. A batch write's folder is made before its
first task and removed at its end: an attempt that comes later finds no place. A streaming query does not know before
its tasks which batch it runs; what lost attempts leave goes with the next commit of the query. All goes by its age.
"""

from __future__ import annotations

import itertools
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from hive_ingest.errors import CorruptFile, StreamingError, StreamingIOFailure
from hive_ingest.model import Table
from hive_ingest.storage import Location
from hive_ingest.transactions import STAGING_FOLDER, list_staging

_log = logging.getLogger(__name__)

_NAME = re.compile(r"staged_(?P<seconds>\d+)_(?P<job>[0-9a-f]+)_(?P<batch>\d+)(_[0-9a-f]{32}\.arrow)?")
_BUFFER_BYTES = 1 << 20
#: Attempts to remove a folder that tasks still write into; each task can do so once.
_REMOVALS = 5


@dataclass(frozen=True, slots=True)
class WriteJob:
    """Whose rows they are: a batch write's (`batch` 0, in a `folder` of its own), or those of one micro-batch."""

    id: str
    batch: int
    folder: str | None = None

    @classmethod
    def new(cls) -> Self:
        """A batch write, never repeated."""
        job_id = uuid.uuid4().hex
        return cls(job_id, 0, f"staged_{int(time.time())}_{job_id}_0")

    @classmethod
    def of_query(cls, query_id: str, batch_id: int) -> Self:
        """All attempts at a micro-batch are one job."""
        return cls(query_id.replace("-", ""), batch_id)

    def new_name(self) -> str:
        """Of a file, below the staging folder."""
        name = f"{uuid.uuid4().hex}.arrow"
        return f"{self.folder}/{name}" if self.folder else f"staged_{int(time.time())}_{self.id}_{self.batch}_{name}"


@dataclass(frozen=True, slots=True)
class StagedArrowFile:
    """A complete file, in which the commit finds exactly `rows`. Can be pickled."""

    location: Location
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The staged files of one table, whose folder is `location`. Can be pickled."""

    location: Location

    @classmethod
    def of(cls, table: Table) -> Self:
        return cls(Location.of(table.location))

    def make_folder(self, job: WriteJob | None = None) -> None:
        """Before the first task, where the metastore is: an executor that does not find it shares no location."""
        (self._folder / job.folder if job and job.folder else self._folder).make_folder()

    def write(self, job: WriteJob, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> StagedArrowFile | None:
        """All rows of a task; None when there are none. After an error there is no file. Raises StreamingIOFailure."""
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return None
        file = self._folder / job.new_name()
        try:
            return _write_file(file, schema, itertools.chain([first], rows))
        except BaseException:
            _quietly(file.delete_file, self.location)
            raise

    def read(self, file: StagedArrowFile) -> Iterator[pa.RecordBatch]:
        """Its batches, one at a time in memory. Raises StreamingIOFailure (it is gone) or CorruptFile."""
        found = 0
        for batch in _read_batches(file.location):
            found += batch.num_rows
            yield batch
        if found != file.rows:
            raise CorruptFile(
                f"{str(file.location)!r} holds {found} rows, its task wrote {file.rows}: run the job again"
            )

    def remove(self, files: Iterable[StagedArrowFile]) -> None:
        """Never raises: files that stay are removed later, by their age."""
        _quietly(lambda: _delete_files(files), self.location)

    def remove_finished(self, job: WriteJob, retention_seconds: float) -> None:
        """What else is left of this job and its earlier batches, and whatever is older than that. Never raises."""
        _quietly(lambda: self._remove_finished(job, retention_seconds), self.location)

    def _remove_finished(self, job: WriteJob, retention_seconds: float) -> None:
        oldest = time.time() - retention_seconds
        for entry in list_staging(self.location):
            name = _NAME.fullmatch(entry.name)
            if name is None:
                continue
            is_finished = name["job"] == job.id and int(name["batch"]) <= job.batch
            if is_finished or int(name["seconds"]) < oldest:
                _remove_entry(self._folder / entry.name, is_folder=entry.is_folder)

    @property
    def _folder(self) -> Location:
        return self.location / STAGING_FOLDER


def _write_file(location: Location, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> StagedArrowFile:
    count = 0
    # Not synced: a machine that stops before the commit repeats the job.
    with (
        location.create(sync=False) as file,
        pa.PythonFile(file, mode="w") as sink,
        pa.BufferedOutputStream(sink, _BUFFER_BYTES) as buffered,
    ):
        with pa.ipc.new_stream(buffered, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            for batch in batches:
                writer.write_batch(batch)
                count += batch.num_rows
        size = int(buffered.tell())
    return StagedArrowFile(location, count, size)


def _read_batches(file: Location) -> Iterator[pa.RecordBatch]:
    if not file.exists():
        raise StreamingIOFailure(
            f"the staged rows {str(file)!r} are not there: another run of the same job has ended and removed them, or "
            "the location is not shared by all machines. Run the job again"
        )
    try:
        with file.open_input() as source, pa.ipc.open_stream(source) as reader:
            yield from reader
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(f"the staged rows {str(file)!r} cannot be read: {error}. Run the job again") from error


def _delete_files(files: Iterable[StagedArrowFile]) -> None:
    for file in files:
        file.location.delete_file()


def _remove_entry(entry: Location, *, is_folder: bool) -> None:
    if not is_folder:
        entry.delete_file()
        return
    for attempt in range(_REMOVALS):
        try:
            entry.delete_folder()
            return
        except StreamingIOFailure:  # a task has just put a file into it
            if attempt == _REMOVALS - 1:
                raise


def _quietly(action: Callable[[], None], location: Location) -> None:
    try:
        action()
    except StreamingError as error:
        _log.warning("staged rows in %s were not removed: %s", location, error)
