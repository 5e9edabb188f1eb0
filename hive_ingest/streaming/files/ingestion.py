"""The transactions of one run of `ingest_files`: which records each takes, and from which position on."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hive_ingest.connection import ConnectionStats, StreamingConnection
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient, opened_metastore
from hive_ingest.model import Column
from hive_ingest.plurals import counted
from hive_ingest.record_writer import RecordSchema
from hive_ingest.streaming.files.line_file import FilePosition, LineFile, Lines, Records
from hive_ingest.streaming.files.new_columns import NewColumns
from hive_ingest.streaming.files.sources import refuse_other_keys
from hive_ingest.streaming.files.spans import Spans
from hive_ingest.streaming.files.texts import replaced

_log = logging.getLogger(__name__)


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


class Ahead:
    """With `merge_schema`: the records of the next transaction, and their columns, which the table gets before it."""

    def __init__(
        self,
        metastore: MetastoreClient | str,
        connection: StreamingConnection,
        new_columns: NewColumns,
        static_partition_values: Sequence[str],
        *,
        dry_run: bool,
    ) -> None:
        self._metastore = metastore
        self._dry_run = dry_run
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
        if self._dry_run:
            known = {column.name for column in self.columns_added}
            self.columns_added += [column for column in new if column.name not in known]
            return False
        if not new:
            return False
        self._connection.abort_transaction()
        _log.info("adding the columns %s to %s", ", ".join(f"{each.name} {each.type}" for each in new), table.name)
        with opened_metastore(self._metastore) as client:
            client.add_columns(table.name, new, if_not_exists=True)
        self.columns_added += new
        return True


class Ingestion:
    """One call of `ingest_files`. Its positions are compared with the progress at each begin.

    Args:
        connection: It owns the files as sources, unless this is a dry run.
        files: By the names of their sources.
        spans: Names the records of a transaction by their files and lines.
        rows_per_transaction: The most records of a transaction.
        header_lines: Lines before the records of each file.
        on_progress: Called at the start and after each transaction.
        ahead: The records that are read before their transaction, with `merge_schema`.
        knows_positions: Whether the sink has positions to begin at. Otherwise each file is read from its start.
        overwrite: Whether one transaction takes all records.
        dry_run: Whether transactions are aborted instead of committed.
    """

    def __init__(
        self,
        connection: StreamingConnection,
        files: Mapping[str, LineFile],
        spans: Spans,
        rows_per_transaction: int,
        header_lines: int,
        on_progress: Callable[[IngestProgress], None] | None,
        ahead: Ahead | None,
        *,
        knows_positions: bool,
        overwrite: bool,
        dry_run: bool,
    ) -> None:
        self._ahead = ahead
        self._connection = connection
        self._files = files
        self._spans = spans
        self._rows_per_transaction = sys.maxsize if overwrite else rows_per_transaction
        #: Before any position is looked up: a pipe cannot go back to its header.
        self._beginnings = {name: file.beginning(header_lines) for name, file in files.items()}
        self._on_progress = on_progress
        self._overwrite = overwrite
        self._dry_run = dry_run
        self._begins_at_progress = knows_positions
        #: Position in every file, as of the last begin or commit, checked against the file.
        self.positions: dict[str, FilePosition] = {} if knows_positions else dict.fromkeys(files, FilePosition())
        #: What a dry run would have committed.
        self.dry_stats = ConnectionStats()

    def run(self) -> tuple[str, ...]:
        """Run transactions until every file is finished. Returns the names of files that were finished before."""
        knows_positions = self._begins_at_progress
        self._begin()
        finished_before = tuple(name for name in self._files if knows_positions and self._is_finished(name))
        self._report_progress()
        # An overwrite of nothing is refused, not left out.
        while self._next_file() is not None or self._overwrite:
            self._write_and_end()
            self._report_progress()
            if self._next_file() is None or self._overwrite:
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
        if not self._begins_at_progress:
            return
        self._begins_at_progress = not self._dry_run  # which goes on where it is
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

    def _write_and_end(self) -> None:
        spans = self._spans
        spans.clear()
        skipped = self._connection.stats.records_skipped
        with spans.named():
            after = self._write(spans)
            if self._overwrite:
                self._check_overwrite(after)
            if self._dry_run:
                self._count_and_abort()
            else:
                positions = {name: position.to_json() for name, position in after.items()}
                self._connection.commit_transaction(positions=positions)
        self.positions = after
        skipped = self._connection.stats.records_skipped - skipped
        if skipped:
            _log.warning("%s skipped in the transaction from %s on", counted(skipped, "bad record"), spans.start)

    def _count_and_abort(self) -> None:
        self._connection.flush()
        pending, would_be = self._connection.stats, self.dry_stats
        would_be.transactions_committed += 1
        would_be.records_written += pending.rows_pending
        would_be.rows_committed += pending.rows_pending
        would_be.records_skipped += pending.skipped_pending
        self._connection.abort_transaction()

    def _check_overwrite(self, after: Mapping[str, FilePosition]) -> None:
        """Refuse to replace what is there by a part of the files, or by nothing.

        Raises:
            StreamingIOFailure: A file ends inside of quotes.
            ConfigurationError: There is no row.
        """
        for name, position in after.items():
            offset = position.offset
            if offset and not self._files[name].ends_at(offset):
                next(self._files[name].records(offset, 1, self._beginnings[name].header), None)
        if not self._connection.stats.rows_pending:
            self._connection.flush()  # what is not parsed yet
        stats = self._connection.stats
        if not stats.rows_pending:
            skipped = f" ({counted(stats.skipped_pending, 'bad record')} skipped)" if stats.skipped_pending else ""
            raise ConfigurationError(
                f"the files have no row{skipped} for {self._connection.table.name}, and overwrite=True would leave "
                "nothing in place of its rows. Nothing was changed: check the files and the format"
            )

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
