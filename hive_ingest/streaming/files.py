"""Stream files with one record per line into a table, exactly once.

Each file is a source of a sink, and the position in it commits together with its records. A run that was stopped, in
whatever way, can be started again: it continues after the last committed record.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from hive_ingest.compaction import CompactionPolicy, Maintenance, MaintenanceMode, hook_of, maintained
from hive_ingest.connection import (
    BadRecordHandler,
    BadRecordTarget,
    CommitInfo,
    ConnectionStats,
    StreamingConnection,
    StreamingSettings,
    bad_record_handler,
)
from hive_ingest.errors import ConfigurationError, SerializationError, StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.plurals import counted
from hive_ingest.record_writer import BadRecord, RecordWriter, named_records
from hive_ingest.streaming.bad_record_file import BadRecordFile
from hive_ingest.streaming.file_patterns import matching_files
from hive_ingest.streaming.line_file import MAX_LINE_BYTES, FilePosition, LineFile, Lines

_log = logging.getLogger(__name__)

DEFAULT_ROWS_PER_TRANSACTION = 100_000
#: Each file of a call has a lock and a progress row in every transaction.
MAX_FILES = 1_000


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """Reported at the start of a run and after each commit. Bytes and records include those of earlier runs.

    Bytes are those of the files as they are stored; of a compressed one, about as many as were read.
    """

    bytes_committed: int
    bytes_total: int
    records_committed: int
    transactions_committed: int
    #: Name of the file whose records come next; None when all are committed.
    file: str | None


@dataclass(frozen=True, slots=True)
class IngestResult:
    """Statistics of one run (`stats`, `seconds`), and how far each file is committed."""

    stats: ConnectionStats
    positions: Mapping[str, FilePosition]
    #: Names of the files that earlier runs had committed to their end.
    finished_before: tuple[str, ...]
    seconds: float


def ingest_files(
    metastore: MetastoreClient | str,
    table: str | TableName,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    record_writer: RecordWriter,
    sink: str | None = None,
    rows_per_transaction: int = DEFAULT_ROWS_PER_TRANSACTION,
    header_lines: int = 0,
    static_partition_values: Sequence[str] = (),
    agent_info: str = "hive-ingest ingest",
    settings: StreamingSettings | Mapping[str, Any] | None = None,
    on_progress: Callable[[IngestProgress], None] | None = None,
    on_commit: Callable[[CommitInfo], None] | None = None,
    maintenance: MaintenanceMode | Maintenance = "off",
    compaction_policy: CompactionPolicy | None = None,
    bad_records: BadRecordTarget | str | os.PathLike[str] | None = None,
    max_bad_records: int | None = None,
    max_bad_record_share: float | None = None,
) -> IngestResult:
    """Commit every line of `paths` as a record of `table`, once, however often this is called.

    A path may be a file, a folder, which stands for the files in it, or a pattern such as `logs/*.json.gz`. Files that
    are compressed by gzip, zstd or bzip2 are recognised by their first bytes. `-` is the standard input, whose name is
    `stdin`; from it, as from any pipe, the text must come again from its beginning when a run is repeated.

    A file is identified by its *name*, without the folder, and by a fingerprint of its committed part: it may be moved,
    and it may grow by whole lines, which a later call commits. A last line without a newline is a record. Two files of
    the same name, or more than MAX_FILES, are an error; so is a file that was truncated, edited or replaced by another
    of the same name (SinkConflict). Each transaction takes up to `rows_per_transaction` lines, of several files if
    they are small, in the given order. The first `header_lines` lines of each file are not records. Positions are kept
    under the name of the sink, by default the table's name.

    With `maintenance="inline"` threads of this process compact the table and the sink's progress while rows come in,
    and for up to half a minute after the last commit; with `"request"` compactions are only requested, by
    `compaction_policy`. See `Maintenance`.

    The bad records that a `record_writer` with `on_error="skip"` skips, each with its file and line, go to
    `bad_records`: a file to append JSON lines to (see `BadRecordFile`), a handler or a function. More than
    `max_bad_records` in this call, or a larger share of one transaction than `max_bad_record_share`, end the run with
    TooManyBadRecords.

    Raises SerializationError, which names the file and line of a bad record, StreamingIOFailure for a file that
    cannot be read, and whatever `StreamingConnection` raises; all that was committed before stays.
    """
    if rows_per_transaction < 1 or header_lines < 0:
        raise ConfigurationError(
            f"rows_per_transaction={rows_per_transaction}, header_lines={header_lines}: give 1 or more, and 0 or more"
        )
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    files = _by_name(paths, getattr(record_writer, "max_record_bytes", MAX_LINE_BYTES))
    started = time.monotonic()
    spans = _Spans()
    with (
        _closed(files.values()),
        _located(bad_records, spans) as located,
        maintained(metastore, maintenance, compaction_policy) as keeper,
        StreamingConnection.connect(
            metastore,
            table=table,
            record_writer=record_writer,
            static_partition_values=static_partition_values,
            agent_info=agent_info,
            settings=settings,
            sink=sink or TableName.of(table).table,
            sources=files,
            on_commit=hook_of(keeper, on_commit),
            bad_records=located,
            max_bad_records=max_bad_records,
            max_bad_record_share=max_bad_record_share,
        ) as connection,
    ):
        ingestion = _Ingestion(connection, files, spans, rows_per_transaction, header_lines, on_progress)
        finished_before = ingestion.run()
        return IngestResult(connection.stats, ingestion.positions, finished_before, seconds=time.monotonic() - started)


@contextmanager
def _closed(files: Iterable[LineFile]) -> Iterator[None]:
    try:
        yield
    finally:
        for file in files:
            file.close()


def _by_name(paths: Iterable[str | os.PathLike[str]], max_line_bytes: int) -> dict[str, LineFile]:
    files: dict[str, LineFile] = {}
    for path in matching_files(paths):
        file = LineFile(path, max_line_bytes=max_line_bytes)
        if file.name in files:
            raise ConfigurationError(
                f"{files[file.name].location!r} and {file.location!r} have the same name, which identifies a file: "
                "rename one of them"
            )
        files[file.name] = file
    if not 1 <= len(files) <= MAX_FILES:
        raise ConfigurationError(f"{len(files)} files: give 1 to {MAX_FILES} in one call")
    return files


@dataclass(frozen=True, slots=True)
class _Span:
    """Records of one file in a transaction: the first one's number and byte there, its line and byte in the file."""

    file: LineFile
    record: int
    byte: int
    line: int
    offset: int


class _Spans:
    """Maps records of the current transaction to lines of files."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """A transaction begins."""
        self._spans: list[_Span] = []
        self._records = self._bytes = 0

    def enter(self, file: LineFile, line: int, offset: int) -> None:
        """The records that follow are those of `file`, from line `line` (counted from 1) at byte `offset`."""
        self._spans.append(_Span(file, self._records, self._bytes, line, offset))

    def wrote(self, lines: Lines) -> None:
        """Record writers count a newline after each record, also where there is none."""
        self._records += lines.count
        self._bytes += len(lines.text) + (not lines.text.endswith(b"\n"))

    @property
    def start(self) -> str:
        return f"line {self._spans[0].line} of {self._spans[0].file.location!r}"

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name records by their file and line, in a SerializationError and in logs."""
        try:
            with named_records(self._name):
                yield
        except SerializationError as error:
            if error.record is None:
                raise
            raise self._located(error, error.record) from error

    def _located(self, error: SerializationError, record: int) -> SerializationError:
        file, line, offset = self.place(record, error.byte_offset)
        why = str(error)
        if offset is None:
            return type(error)(f"{file!r}, line {line}: {why}", record=record)
        why = why.removeprefix(f"record {record} (at byte {error.byte_offset}): ")
        return type(error)(f"{file!r}, line {line} (at byte {offset}): {why}", record=record, byte_offset=offset)

    def _name(self, record: int) -> str:
        file, line, _ = self.place(record, None)
        return f"line {line} of {file!r}"

    def place(self, record: int, byte_offset: int | None) -> tuple[str, int, int | None]:
        """The file, line and byte of a record, by its number and byte in the transaction."""
        span = next(span for span in reversed(self._spans) if span.record <= record)
        offset = None if byte_offset is None else span.offset + byte_offset - span.byte
        return span.file.location, span.line + record - span.record, offset


@contextmanager
def _located(
    target: BadRecordTarget | str | os.PathLike[str] | None, spans: _Spans
) -> Iterator[BadRecordHandler | None]:
    """A handler that passes on bad records with their files and lines."""
    with ExitStack() as stack:
        if isinstance(target, str | os.PathLike):
            target = stack.enter_context(BadRecordFile(target))
        yield None if target is None else _LocatedBadRecords(bad_record_handler(target), spans)


class _LocatedBadRecords:
    """Adds the file and the line to bad records."""

    def __init__(self, handler: BadRecordHandler, spans: _Spans) -> None:
        self._handler = handler
        self._spans = spans

    def handle(self, records: Sequence[BadRecord]) -> None:
        self._handler.handle([self._located(record) for record in records])

    def _located(self, bad: BadRecord) -> BadRecord:
        file, line, offset = self._spans.place(bad.record, bad.byte_offset)
        return replace(bad, file=file, line=line, byte_offset=offset)

    def flush(self) -> None:
        self._handler.flush()


class _Ingestion:
    """One call of `ingest_files`. Its positions are compared with the progress at each begin."""

    def __init__(
        self,
        connection: StreamingConnection,
        files: Mapping[str, LineFile],
        spans: _Spans,
        rows_per_transaction: int,
        header_lines: int,
        on_progress: Callable[[IngestProgress], None] | None,
    ) -> None:
        self._connection = connection
        self._files = files
        self._spans = spans
        self._rows_per_transaction = rows_per_transaction
        self._header_lines = header_lines
        self._on_progress = on_progress
        #: Position in every file, as of the last begin or commit, checked against the file.
        self.positions: dict[str, FilePosition] = {}

    def run(self) -> tuple[str, ...]:
        """Run transactions until every file is finished. Returns the names of files that were finished before."""
        self._begin()
        finished_before = tuple(name for name in self._files if self._is_finished(name))
        self._report_progress()
        while self._next_file() is not None:
            self._write_and_commit()
            self._report_progress()
            if self._next_file() is None:
                return finished_before
            self._begin()
        self._connection.abort_transaction()  # nothing was left for it
        return finished_before

    def _begin(self) -> None:
        """Take the positions from the progress: another owner may have continued since our last commit."""
        self._connection.begin_transaction()
        for name, progress in self._connection.progress.items():
            position = FilePosition.from_json(name, progress.position) if progress else FilePosition()
            if self.positions.get(name) != position:
                self._files[name].check(position)
                self.positions[name] = position

    def _is_finished(self, name: str) -> bool:
        return self._files[name].ends_at(self.positions[name].offset)

    def _next_file(self) -> str | None:
        return next((name for name in self._files if not self._is_finished(name)), None)

    def _write_and_commit(self) -> None:
        spans = self._spans
        spans.clear()
        skipped = self._connection.stats.records_skipped
        with spans.named():
            after = self._write(spans)
            positions = {name: position.to_json() for name, position in after.items()}
            self._connection.commit_transaction(positions=positions)
        self.positions = after
        skipped = self._connection.stats.records_skipped - skipped
        if skipped:
            _log.warning("%s skipped in the transaction from %s on", counted(skipped, "bad record"), spans.start)

    def _write(self, spans: _Spans) -> dict[str, FilePosition]:
        """Write as many lines as a transaction takes. Returns the position in every file after them.

        Files that are not begun yet are included, so that a reader needs only the newest delta of the progress table.
        """
        after = dict(self.positions)
        left = self._rows_per_transaction
        for name, file in self._files.items():
            if left and not self._is_finished(name):
                after[name] = self._write_file(file, self.positions[name], left, spans)
                left -= after[name].records - self.positions[name].records
        return after

    def _write_file(self, file: LineFile, start: FilePosition, most: int, spans: _Spans) -> FilePosition:
        offset = start.offset or file.offset_of_line(self._header_lines)
        records = start.records
        spans.enter(file, 1 + self._header_lines + records, offset)
        for lines in file.lines(offset, most):
            spans.wrote(lines)
            self._connection.write(lines.text)
            offset += len(lines.text)
            records += lines.count
        if offset == start.offset:
            raise StreamingIOFailure(f"{file.location!r} became shorter while it was read: do not change it")
        return file.position(offset, records)

    def _report_progress(self) -> None:
        if self._on_progress is None:
            return
        self._on_progress(
            IngestProgress(
                bytes_committed=sum(self._files[name].stored_bytes(at.offset) for name, at in self.positions.items()),
                bytes_total=sum(file.size_bytes for file in self._files.values()),
                records_committed=sum(position.records for position in self.positions.values()),
                transactions_committed=self._connection.stats.transactions_committed,
                file=self._next_file(),
            )
        )
