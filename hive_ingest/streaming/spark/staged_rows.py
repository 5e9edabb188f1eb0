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
from hive_ingest.storage import FileEntry, FileStore, Location, open_store
from hive_ingest.transactions import STAGING_FOLDER, list_staging

_log = logging.getLogger(__name__)

_NAME = re.compile(r"staged_(?P<seconds>\d+)_(?P<job>[0-9a-f]+)_(?P<batch>\d+)(_[0-9a-f]{32}\.arrow)?")
_BUFFER_BYTES = 1 << 20
#: Tries to remove a folder that tasks still write into; each of them can do so once.
_REMOVALS = 5


@dataclass(frozen=True, slots=True)
class Job:
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
class StagedFile:
    """A complete file. `path` is in the store of the table's location; the commit finds exactly `rows` in it."""

    path: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The staged files of one table. Can be pickled."""

    location: str

    @classmethod
    def of(cls, table: Table) -> Self:
        return cls(table.location)

    def make_folder(self, job: Job | None = None) -> None:
        """Before the first task, where the metastore is: an executor that does not find it shares no location."""
        store, folder = self._open()
        store.make_folder(f"{folder}/{job.folder}" if job and job.folder else folder)

    def write(self, job: Job, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> StagedFile | None:
        """All rows of a task; None when there are none. After an error there is no file. Raises StreamingIOFailure."""
        store, folder = self._open()
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return None
        path = f"{folder}/{job.new_name()}"
        try:
            return _write_file(store, path, schema, itertools.chain([first], rows))
        except BaseException:
            _quietly(lambda store: store.delete_file(path), self.location)
            raise

    def read(self, file: StagedFile) -> Iterator[pa.RecordBatch]:
        """Its batches, one at a time in memory. Raises StreamingIOFailure (it is gone) or CorruptFile."""
        store, _ = self._open()
        found = 0
        for batch in _read_batches(store, file.path):
            found += batch.num_rows
            yield batch
        if found != file.rows:
            raise CorruptFile(f"{file.path!r} holds {found} rows, its task wrote {file.rows}: run the job again")

    def remove(self, files: Iterable[StagedFile]) -> None:
        """Never raises: what stays goes by its age."""
        _quietly(lambda store: [store.delete_file(file.path) for file in files], self.location)

    def remove_finished(self, job: Job, retention_seconds: float) -> None:
        """What else is left of this job and its earlier batches, and whatever is older than that. Never raises."""
        _quietly(lambda store: self._remove_finished(job, retention_seconds), self.location)

    def _remove_finished(self, job: Job, retention_seconds: float) -> None:
        store, _ = self._open()
        oldest = time.time() - retention_seconds
        for entry in list_staging(Location.of(self.location)):
            name = _NAME.fullmatch(entry.name)
            if name is None:
                continue
            is_finished = name["job"] == job.id and int(name["batch"]) <= job.batch
            if is_finished or int(name["seconds"]) < oldest:
                _remove_entry(store, entry)

    def _open(self) -> tuple[FileStore, str]:
        store, root = open_store(self.location)
        return store, f"{root}/{STAGING_FOLDER}"


def _write_file(store: FileStore, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> StagedFile:
    count = 0
    # Not synced: a machine that stops before the commit repeats the job.
    with (
        store.create(path, sync=False) as file,
        pa.PythonFile(file, mode="w") as sink,
        pa.BufferedOutputStream(sink, _BUFFER_BYTES) as buffered,
    ):
        with pa.ipc.new_stream(buffered, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            for batch in batches:
                writer.write_batch(batch)
                count += batch.num_rows
        size = int(buffered.tell())
    return StagedFile(path, count, size)


def _read_batches(store: FileStore, path: str) -> Iterator[pa.RecordBatch]:
    if not store.exists(path):
        raise StreamingIOFailure(
            f"the staged rows {path!r} are not there: another run of the same job has ended and removed them, or the "
            "location is not shared by all machines. Run the job again"
        )
    try:
        with store.open_input(path) as source, pa.ipc.open_stream(source) as reader:
            yield from reader
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(f"the staged rows {path!r} cannot be read: {error}. Run the job again") from error


def _remove_entry(store: FileStore, entry: FileEntry) -> None:
    if not entry.is_folder:
        store.delete_file(entry.path)
        return
    for attempt in range(_REMOVALS):
        try:
            store.delete_folder(entry.path)
            return
        except StreamingIOFailure:  # a task has just put a file into it
            if attempt == _REMOVALS - 1:
                raise


def _quietly(action: Callable[[FileStore], object], location: str) -> None:
    try:
        action(open_store(location)[0])
    except StreamingError as error:
        _log.warning("staged rows in %s were not removed: %s", location, error)
