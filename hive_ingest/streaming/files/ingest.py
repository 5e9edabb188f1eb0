"""Stream files with one record per line into a table, exactly once.

Each file is a source of a sink, and the position in it commits together with its records. A run that was stopped, in
whatever way, can be started again: it continues after the last committed record.
"""

from __future__ import annotations

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
from hive_ingest.record_writer import BadRecord, RecordWriter, check_choice
from hive_ingest.streaming.files.bad_records import located_bad_records
from hive_ingest.streaming.files.ingestion import Ahead, Ingestion, IngestProgress
from hive_ingest.streaming.files.line_file import FilePosition, LineFile
from hive_ingest.streaming.files.new_columns import NewColumns
from hive_ingest.streaming.files.sources import SourceKey, UnfinishedLine, sources_of
from hive_ingest.streaming.files.spans import Spans
from hive_ingest.streaming.sinks import sink_exists

DEFAULT_ROWS_PER_TRANSACTION = 100_000


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
    #: Whether nothing was written, and all this is what would have been.
    is_dry_run: bool = False


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
    overwrite: bool = False,
    dry_run: bool = False,
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
        overwrite: Read all records of the files, whatever was committed before, and replace the table by them, or in a
            partitioned table the partitions that they are for. This is one transaction, whatever
            `rows_per_transaction` is; the positions are at the end of the files afterwards. Files without any row are
            refused.
        dry_run: Read and convert the records that would be written, and abort the transactions instead of committing
            them. No table, column or position is made or changed, nothing is kept in `bad_records`, and the limits of
            bad records do not hold.

    Raises:
        SerializationError: A record is bad; the error names its file and line.
        ConfigurationError: An option is not valid; with `overwrite`, there is no row to write; or with `merge_schema`
            no column can have a name of the records, or no type holds the values of one.
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
    if overwrite and too_short:
        raise ConfigurationError(
            f"{', '.join(map(repr, too_short))}: too short to be recognised by its content, and overwrite=True would "
            "leave its records out: use source_key='path'"
        )
    if not files:
        return IngestResult(ConnectionStats(), {}, (), too_short, seconds=0.0, is_dry_run=dry_run)
    started = time.monotonic()
    spans = Spans()
    owned = _owned(metastore, TableName.of(table), sink, files, overwrite=overwrite, dry_run=dry_run)
    if dry_run:
        maintenance, on_commit, max_bad_records, max_bad_record_share = "off", None, None, None
        bad_records = None if bad_records is None else _leave
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
            on_commit=hook_of(keeper, on_commit),
            bad_records=located,
            max_bad_records=max_bad_records,
            max_bad_record_share=max_bad_record_share,
            **owned,
        ) as connection,
    ):
        ahead = None
        if new_columns is not None:
            ahead = Ahead(metastore, connection, new_columns, static_partition_values, dry_run=dry_run)
        ingestion = Ingestion(
            connection,
            files,
            spans,
            rows_per_transaction,
            header_lines,
            on_progress,
            ahead,
            knows_positions="sink" in owned and not overwrite,
            overwrite=overwrite,
            dry_run=dry_run,
        )
        finished_before = ingestion.run()
        return IngestResult(
            ingestion.dry_stats if dry_run else connection.stats,
            ingestion.positions,
            finished_before,
            too_short,
            time.monotonic() - started,
            () if ahead is None else tuple(ahead.columns_added),
            is_dry_run=dry_run,
        )


def _owned(
    metastore: MetastoreClient | str,
    table: TableName,
    sink: str | None,
    sources: Iterable[str],
    *,
    overwrite: bool,
    dry_run: bool,
) -> dict[str, Any]:
    """What the connection locks. A dry run excludes no reader or writer of the table, and makes no sink."""
    name = sink or table.table
    if not dry_run:
        return {"sink": name, "sources": sources, "overwrite": overwrite}
    with opened_metastore(metastore) as client:
        knows_files = not overwrite and sink_exists(client, table.database, name)
    return {"sink": name, "sources": sources} if knows_files else {}


def _leave(record: BadRecord) -> None:
    """Keep no bad record."""


@contextmanager
def _closed(files: Iterable[LineFile]) -> Iterator[None]:
    try:
        yield
    finally:
        for file in files:
            file.close()
