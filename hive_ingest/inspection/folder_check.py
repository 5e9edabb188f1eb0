"""Checks the folder of one partition, or of a table without partitions."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from hive_ingest.acid import (
    ACID_VERSION_FILE,
    AcidDirectory,
    BaseName,
    BucketFileName,
    DeleteDeltaName,
    DeltaName,
    FlushLengthName,
    OriginalFileName,
    is_hidden,
    parse_file_name,
    parse_folder_name,
)
from hive_ingest.errors import CorruptFile, PathNotFound, StreamingError, UnsupportedFeature
from hive_ingest.inspection.findings import Finding, Severity
from hive_ingest.model import Table
from hive_ingest.orc import (
    ACID_VERSION_CONTENT,
    AcidFileReader,
    ExpectedRows,
    FileToRead,
    KeyRun,
    check_acid_file,
    row_ids_of,
)
from hive_ingest.plurals import counted
from hive_ingest.reader import FolderToRead, Snapshot, column_sources
from hive_ingest.storage import FileEntry, Location

_REMEDY = "move it out of the table's folder"


class FolderCheck:
    """The check of one folder. `files`, `bytes` and `rows` are what a reader opens, after `findings` has ended."""

    def __init__(self, table: Table, location: str, snapshot: Snapshot, *, decode_rows: bool) -> None:
        self.files = self.bytes = self.rows = 0
        self._table = table
        self._location = Location.of(location)
        self._snapshot = snapshot
        self._decode_rows = decode_rows
        self._runs: list[tuple[FileToRead, KeyRun]] = []

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong, folder by folder."""
        try:
            entries = self._location.list()
        except PathNotFound:
            why = "the folder is missing: mount its file system, restore it, or drop the table or partition"
            yield _error("folders", str(self._location), why)
            return
        yield from self._name_findings(entries)
        try:
            folder = FolderToRead.of(self._location, self._snapshot.valid_write_ids, self._snapshot.valid_txns)
        except StreamingError as error:
            yield _error("names", str(self._location), str(error))
            return
        yield from self._leftover_findings(folder.directory)
        yield from self._overlap_findings(folder.directory)
        yield from self._file_findings(folder)
        yield from self._uniqueness_findings()

    # -- names -------------------------------------------------------------------------------------

    def _name_findings(self, entries: Sequence[FileEntry]) -> Iterator[Finding]:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            if not entry.is_folder:
                if entry.size_bytes and not OriginalFileName.matches(entry.name):
                    yield _error("names", entry.path, f"Hive gives no file of a table such a name: {_REMEDY}")
                continue
            try:
                name = parse_folder_name(entry.name)
            except CorruptFile as error:
                yield _error("names", entry.path, str(error))
                continue
            if name is not None:
                yield from self._folder_findings(self._location / entry.name, name)

    def _folder_findings(self, folder: Location, name: BaseName | DeltaName) -> Iterator[Finding]:
        files = {entry.name: entry for entry in folder.list(missing_ok=True)}
        if ACID_VERSION_FILE not in files:
            why = f"it has no {ACID_VERSION_FILE}, by which Hive knows the version of the format"
            if any(file.startswith("bucket_") for file in files):
                yield Finding(Severity.WARNING, "version file", str(folder), why)
        elif (content := _content_of(folder / ACID_VERSION_FILE)) != ACID_VERSION_CONTENT:
            why = f"it holds {content[:20]!r}, expected {ACID_VERSION_CONTENT!r}"
            yield _error("version file", files[ACID_VERSION_FILE].path, why)
        for file, entry in files.items():
            if entry.is_folder:
                if not is_hidden(file):
                    yield _error("names", entry.path, f"a folder inside {folder.name} is read by nobody: {_REMEDY}")
                continue
            try:
                parsed = parse_file_name(file)
            except CorruptFile as error:
                yield _error("names", entry.path, str(error))
                continue
            yield from self._bucket_findings(entry, parsed, name)

    def _bucket_findings(self, entry: FileEntry, file: object, folder: BaseName | DeltaName) -> Iterator[Finding]:
        if isinstance(file, FlushLengthName) and (isinstance(folder, BaseName) or folder.visibility_txn_id):
            yield _error("names", entry.path, "a compaction writes no side file: remove it")
        if not isinstance(file, BucketFileName):
            return
        if self._table.is_bucketed and file.bucket >= self._table.num_buckets:
            why = f"bucket {file.bucket} of a table with {counted(self._table.num_buckets, 'bucket')}"
            yield _error("bucket", entry.path, why)

    # -- folders -----------------------------------------------------------------------------------

    def _leftover_findings(self, directory: AcidDirectory) -> Iterator[Finding]:
        for names, why in (
            (directory.aborted, "its transactions are aborted: a cleaner removes it"),
            (directory.obsolete, "other folders have replaced it: a cleaner removes it when no reader needs it"),
        ):
            for name in names:
                yield Finding(Severity.NOTE, "leftovers", str(self._location / name), why)

    def _overlap_findings(self, directory: AcidDirectory) -> Iterator[Finding]:
        """Deltas that are read and share write ids, and are not statements of one transaction."""
        for deltas in (directory.deltas, directory.delete_deltas):
            before: DeltaName | None = None
            for delta in sorted(deltas, key=lambda each: (each.min_write_id, each.max_write_id)):
                is_statement = before is not None and (
                    (before.min_write_id, before.max_write_id) == (delta.min_write_id, delta.max_write_id)
                    and before.statement_id != delta.statement_id
                )
                if before is not None and delta.min_write_id <= before.max_write_id and not is_statement:
                    why = f"it shares write ids with {before}, so that rows may be read twice"
                    yield _error("overlap", str(self._location / str(delta)), why)
                if before is None or delta.max_write_id >= before.max_write_id:
                    before = delta

    # -- files -------------------------------------------------------------------------------------

    def _file_findings(self, folder: FolderToRead) -> Iterator[Finding]:
        for is_delete, files in ((False, folder.data_files), (True, folder.delete_event_files)):
            found = files()
            while True:
                try:
                    file = next(found, None)
                except StreamingError as error:
                    yield _error("names", str(self._location), str(error))
                    break
                if file is None:
                    break
                yield from self._check_file(file, is_delete=is_delete)

    def _check_file(self, file: FileToRead, *, is_delete: bool) -> Iterator[Finding]:
        store = self._location.store
        expected = _expected_rows(file, is_delete=is_delete)
        columns = None if is_delete else self._column_problem(file)
        check = check_acid_file(
            store,
            file,
            expected,
            decode_keys=self._decode_rows,
            decode_values=self._decode_rows and columns is None and not is_delete,
        )
        self.files += 1
        self.bytes += file.size_bytes
        for rule, message in check.problems:
            # Hive 3.1's minor compaction puts the delete events of all buckets into each file.
            is_harmless = rule == "bucket" and is_delete
            yield Finding(Severity.WARNING if is_harmless else Severity.ERROR, rule, file.path, message)
        if is_delete:
            return
        self.rows += check.rows
        self._runs += [(file, run) for run in check.runs]
        if columns is not None:
            yield columns

    def _column_problem(self, file: FileToRead) -> Finding | None:
        """Why the table's columns cannot be read from the file's. What else is wrong with the file is found later."""
        columns = self._table.columns
        try:
            with AcidFileReader(self._location.store, file) as reader:
                column_sources(
                    columns,
                    frozenset(column.name for column in columns),
                    reader.row,
                    reader.row_type,
                    calendar=reader.calendar,
                    path=file.path,
                )
        except UnsupportedFeature as error:
            return _error("columns", file.path, str(error))
        except StreamingError:
            return None
        return None

    def _uniqueness_findings(self) -> Iterator[Finding]:
        """Row ids that two files have: one of the rows is hidden or deleted with the other."""
        by_key: dict[tuple[int, int], list[tuple[FileToRead, KeyRun]]] = defaultdict(list)
        for file, run in self._runs:
            by_key[run.write_id, run.bucket_property].append((file, run))
        for runs in by_key.values():
            runs.sort(key=lambda pair: pair[1].first)
            for (one, first), (other, second) in itertools.pairwise(runs):
                if second.first <= first.last and (shared := self._shared_rows(one, other, first)):
                    why = f"{counted(shared, 'row')} have the same ids as rows of {one.path!r}"
                    yield _error("row ids", other.path, why)

    def _shared_rows(self, one: FileToRead, other: FileToRead, run: KeyRun) -> int:
        found = []
        for file in (one, other):
            ids = row_ids_of(self._location.store, file)
            found.append(ids.row_ids[(ids.write_ids == run.write_id) & (ids.buckets == run.bucket_property)])
        return int(np.isin(found[0], found[1]).sum())


def _expected_rows(file: FileToRead, *, is_delete: bool) -> ExpectedRows:
    location = file.path.rpartition("/")
    name = parse_file_name(location[2])
    folder = None if file.original is not None else parse_folder_name(location[0].rpartition("/")[2])
    bucket = name.bucket if isinstance(name, BucketFileName | OriginalFileName) else 0
    if not isinstance(folder, DeltaName):
        return ExpectedRows(bucket, None, is_delete, are_consecutive=False)
    is_written_once = folder.visibility_txn_id is None and folder.min_write_id == folder.max_write_id
    is_statement = is_written_once and folder.statement_id is not None
    return ExpectedRows(
        bucket,
        folder.statement_id if is_statement else None,
        is_delete,
        are_consecutive=is_statement and not isinstance(folder, DeleteDeltaName),
    )


def _content_of(file: Location) -> bytes:
    with file.open_input() as source:
        content: bytes = source.read()
    return content


def _error(rule: str, place: str, message: str) -> Finding:
    return Finding(Severity.ERROR, rule, place, message)
