"""Stream files with one record per line into a table, exactly once.

Each file is a source of a sink, and the position in it commits together with its records. A run that was stopped, in
whatever way, can be started again: it continues after the last committed record.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

from hive_ingest.compaction import CompactionPolicy, Maintenance, MaintenanceMode, hook_of, maintained
from hive_ingest.connection import (
    BadRecordTarget,
    CommitInfo,
    ConnectionStats,
    StreamingConnection,
    StreamingSettings,
)
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import Column, TableName
from hive_ingest.plurals import counted
from hive_ingest.record_writer import RecordSchema, RecordWriter, check_choice
from hive_ingest.streaming.files.bad_records import located_bad_records
from hive_ingest.streaming.files.line_file import FilePosition, LineFile, Lines, Records
from hive_ingest.streaming.files.new_columns import NewColumns
from hive_ingest.streaming.files.sources import SourceKey, UnfinishedLine, refuse_other_keys, sources_of
from hive_ingest.streaming.files.spans import Spans
from hive_ingest.streaming.files.texts import replaced

_log = logging.getLogger(__name__)

DEFAULT_ROWS_PER_TRANSACTION = 100_000


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """Reported at the start of a run and after each commit. Bytes and records include those of earlier runs.

    Bytes are those of the files as they are stored; of a compressed one, about as many as were read.
    """

    bytes_committed: int
    bytes_total: int
    records_committed: int
    transactions_committed: int
    #: Key of the file whose records come next; None when all are committed.
    file: str | None


@dataclass(frozen=True, slots=True)
class IngestResult:
    """Statistics of one run (`stats`, `seconds`), and how far each file is committed, by its key."""

    stats: ConnectionStats
    positions: Mapping[str, FilePosition]
    #: Keys of the files that earlier runs had committed to their end.
    finished_before: tuple[str, ...]
    #: Paths of files that are too short to be recognised by their content.
    too_short: tuple[str, ...]
    seconds: float
    #: Columns that `merge_schema` has added to the table.
    columns_added: tuple[Column, ...] = ()


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
    source_key: SourceKey = "path",
    unfinished_line: UnfinishedLine = "commit",
    merge_schema: bool = False,
) -> IngestResult:
    """Commit every record of `paths` to `table`, once, however often this is called.

    A record is a line, or with a `CsvWriter` a record of CSV, whose fields may contain newlines. Each file of CSV has a
    header of its own, after the first `header_lines` lines, unless the writer has `header=False`.

    Whole lines may be added to a file, and a later call commits them. Two files that are the same by `source_key`, or
    more than 1,000, are an error; so is a file whose committed part was truncated, edited or replaced (SinkConflict;
    see `seek_file`).

    Args:
        metastore: A client, or the URI of a metastore.
        table: `"database.table"`.
        paths: Files, folders, which stand for the files in them, and patterns such as `logs/*.json.gz`. Files that are
            compressed by gzip, zstd or bzip2 are recognised by their first bytes. `-` is the standard input, whose name
            is `stdin`; from it, as from any pipe, the text must come again from its beginning when a run is repeated.
        record_writer: What converts the records.
        sink: The name under which positions are kept. Default: the table's name.
        rows_per_transaction: The most lines of a transaction; if files are small, it takes several, in the given order.
        header_lines: Lines at the beginning of each file that are not records.
        static_partition_values: Values of the leading partition keys, as text.
        agent_info: Who writes, as shown beside the locks.
        settings: As in `StreamingConnection.connect`.
        on_progress: Called after each transaction.
        on_commit: Called after each commit.
        maintenance: With `"inline"` threads of this process compact the table and the sink's progress while rows come
            in, and for up to half a minute after the last commit; with `"request"` compactions are only requested.
        compaction_policy: When to compact; see `CompactionPolicy`.
        bad_records: Where the records go that a `record_writer` with `on_error="skip"` skips, each with its file and
            line: a file for JSON lines (see `BadRecordFile`), a `BadRecordTable`, a handler or a function.
        max_bad_records: More bad records than this in the call end the run with TooManyBadRecords.
        max_bad_record_share: The same as a share of the records of one transaction.
        source_key: What a file is. "path": its absolute path without symbolic links, so that equal names in two
            folders are two files. "name": its name without the folder, so that it may be moved. "content": its first
            1,024 bytes, so that it may be renamed, as logs are when they are rotated; a shorter file is left for a
            later call, and of a log and its copy the longer one is read.
        unfinished_line: What happens to a last line without a newline: "commit" takes it as a record, "wait" leaves it
            for a later call.
        merge_schema: Add columns that the records have and the table lacks to the table, before the first row of their
            transaction is written, under a lock of their own. They stay if the transaction then fails. Their types
            hold the values of that transaction, as in `infer_columns`, and round no whole number; for another type, add
            the column beforehand. Fields inside of structs that the table has are not added, nor columns without any
            value. Only for JSON and CSV with a header; CSV files that lack a column need `missing_columns="null"`. The
            text of a transaction is held in memory, and records with fields that the table lacks are parsed twice.

    Raises:
        SerializationError: A record is bad; the error names its file and line.
        ConfigurationError: An option is not valid; or with `merge_schema` no column can have a name of the records, or
            no type holds the values of one.
        StreamingIOFailure: A file cannot be read, or was replaced, edited or truncated while it was read.
        StreamingError: As `StreamingConnection`; all that was committed before stays.
    """
    if rows_per_transaction < 1 or header_lines < 0:
        raise ConfigurationError(
            f"rows_per_transaction={rows_per_transaction}, header_lines={header_lines}: give 1 or more, and 0 or more"
        )
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    check_choice("unfinished_line", unfinished_line, get_args(UnfinishedLine))
    new_columns = NewColumns(record_writer) if merge_schema else None
    files, too_short = sources_of(
        paths, record_writer, source_key=source_key, waits_for_newline=unfinished_line == "wait"
    )
    if not files:
        return IngestResult(ConnectionStats(), {}, (), too_short, seconds=0.0)
    started = time.monotonic()
    spans = Spans()
    with (
        _closed(files.values()),
        located_bad_records(bad_records, spans) as located,
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
        ahead = None
        if new_columns is not None:
            ahead = _Ahead(metastore, connection, new_columns, static_partition_values)
        ingestion = _Ingestion(connection, files, spans, rows_per_transaction, header_lines, on_progress, ahead)
        finished_before = ingestion.run()
        seconds = time.monotonic() - started
        added = () if ahead is None else tuple(ahead.columns_added)
        return IngestResult(connection.stats, ingestion.positions, finished_before, too_short, seconds, added)


@contextmanager
def _closed(files: Iterable[LineFile]) -> Iterator[None]:
    try:
        yield
    finally:
        for file in files:
            file.close()


class _Ahead:
    """With `merge_schema`: the records of the next transaction, and their columns, which the table gets before it."""

    def __init__(
        self,
        metastore: MetastoreClient | str,
        connection: StreamingConnection,
        new_columns: NewColumns,
        static_partition_values: Sequence[str],
    ) -> None:
        self._metastore = metastore
        self._connection = connection
        self._new_columns = new_columns
        self._static_partition_values = static_partition_values
        #: By the name of their file.
        self.records: dict[str, list[Records]] = {}
        self.columns_added: list[Column] = []

    def add_columns(self) -> bool:
        """End the open transaction and add the columns of its records, if there are new ones."""
        table = self._connection.table
        new = self._new_columns.of(self.records, RecordSchema.of(table, self._static_partition_values))
        if not new:
            return False
        self._connection.abort_transaction()
        _log.info("adding the columns %s to %s", ", ".join(f"{each.name} {each.type}" for each in new), table.name)
        with opened_metastore(self._metastore) as client:
            client.add_columns(table.name, new, if_not_exists=True)
        self.columns_added += new
        return True


class _Ingestion:
    """One call of `ingest_files`. Its positions are compared with the progress at each begin."""

    def __init__(
        self,
        connection: StreamingConnection,
        files: Mapping[str, LineFile],
        spans: Spans,
        rows_per_transaction: int,
        header_lines: int,
        on_progress: Callable[[IngestProgress], None] | None,
        ahead: _Ahead | None,
    ) -> None:
        self._ahead = ahead
        self._connection = connection
        self._files = files
        self._spans = spans
        self._rows_per_transaction = rows_per_transaction
        #: Before any position is looked up: a pipe cannot go back to its header.
        self._beginnings = {name: file.beginning(header_lines) for name, file in files.items()}
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
        self._begin_at_progress()
        while self._ahead is not None and not self._ahead.records:
            self._ahead.records = self._read_ahead()
            if not self._ahead.add_columns():
                return
            self._begin_at_progress()

    def _begin_at_progress(self) -> None:
        self._connection.begin_transaction()
        refuse_other_keys(self._files, self._connection)
        for name, progress in self._connection.progress.items():
            position = FilePosition.from_json(name, progress.position) if progress else FilePosition()
            if self.positions.get(name) != position:
                self._files[name].check(position)
                self.positions[name] = position
                if self._ahead is not None:
                    self._ahead.records = {}

    def _read_ahead(self) -> dict[str, list[Records]]:
        """The records of this transaction, by the name of their file."""
        held: dict[str, list[Records]] = {}
        left = self._rows_per_transaction
        for name, file in self._files.items():
            if left and not self._is_finished(name):
                held[name] = list(self._records(name, file, left))
                left -= sum(found.count for found in held[name])
        return held

    def _is_finished(self, name: str) -> bool:
        if self._ahead is not None and self._ahead.records.get(name):
            return False  # of a pipe, these have been taken out
        offset = self.positions[name].offset
        return (not offset and self._beginnings[name].is_empty) or self._files[name].ends_at(offset)

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

    def _write(self, spans: Spans) -> dict[str, FilePosition]:
        """Write as many lines as a transaction takes. Returns the position in every file after them.

        Files that are not begun yet are included, so that a reader needs only the newest delta of the progress table.
        """
        after = dict(self.positions)
        left = self._rows_per_transaction
        for name, file in self._files.items():
            if self._ahead is not None:
                if name in self._ahead.records:
                    after[name] = self._write_file(name, file, self._ahead.records.pop(name), spans)
            elif left and not self._is_finished(name):
                after[name] = self._write_file(name, file, self._records(name, file, left), spans)
                left -= after[name].records - self.positions[name].records
        return after

    def _records(self, name: str, file: LineFile, most: int) -> Iterator[Records]:
        beginning = self._beginnings[name]
        return file.records(self.positions[name].offset or beginning.offset, most, beginning.header)

    def _write_file(self, name: str, file: LineFile, blocks: Iterable[Records], spans: Spans) -> FilePosition:
        beginning, start = self._beginnings[name], self.positions[name]
        offset, records, inner = start.offset or beginning.offset, start.records, start.inner_newlines
        last = b""
        for found in blocks:
            line = 1 + beginning.lines + records + inner
            inner_newlines = found.inner_newlines()
            spans.write(file.location, found, inner_newlines, line, offset)
            self._connection.write(found.text if isinstance(found, Lines) else found)
            offset += len(found.text)
            records += found.count
            inner += int(inner_newlines[-1]) if inner_newlines is not None else 0
            last = found.text
        if not last:
            raise replaced(file.location)
        return file.position(offset, records, inner, last=last)

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
