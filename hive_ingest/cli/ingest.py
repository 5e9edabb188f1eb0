"""`hive-ingest ingest`."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli.logs import confirm, say, shows_progress
from hive_ingest.cli.options import MetastoreOption, TableArgument, WarehouseOption, connected
from hive_ingest.cli.record_options import (
    BadRecordsOption,
    BadRecordsTableOption,
    BlankLines,
    BlankLinesOption,
    CaseInsensitiveOption,
    Coerce,
    CoerceOption,
    CollectionDelimiterOption,
    ColumnsOption,
    DateFormatsOption,
    DecimalPoint,
    DecimalPointOption,
    EmptyPartitionValues,
    EmptyPartitionValuesOption,
    EscapeOption,
    FieldDelimiterOption,
    Format,
    FormatOption,
    HeaderOption,
    MapKeyDelimiterOption,
    MaxBadRecordShareOption,
    MaxBadRecordsOption,
    MaxRecordBytesOption,
    MissingColumnsOption,
    MissingFields,
    MissingFieldsOption,
    MissingPartitionKeysOption,
    NullFormatOption,
    NullValuesOption,
    OnError,
    OnErrorOption,
    QuoteOption,
    RegexOption,
    TimestampFormatsOption,
    TimezoneOption,
    UnknownFields,
    UnknownFieldsOption,
    refuse_options_of_other_formats,
    writer_from_options,
)
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from hive_ingest.metastore_client import MetastoreClient
    from hive_ingest.model import TableName
    from hive_ingest.streaming import IngestProgress, IngestResult

INTERRUPTED = 130
#: All is committed, but bad records were skipped.
RECORDS_SKIPPED = 3


class SourceKey(enum.StrEnum):
    """What a file is."""

    PATH = "path"
    NAME = "name"
    CONTENT = "content"


class UnfinishedLine(enum.StrEnum):
    """What becomes of a last line without its newline."""

    COMMIT = "commit"
    WAIT = "wait"


class MaintenanceMode(enum.StrEnum):
    """Who compacts what is written."""

    OFF = "off"
    REQUEST = "request"
    INLINE = "inline"


def ingest(
    context: typer.Context,
    table: TableArgument,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="Files with one record per line, plain or compressed by gzip, zstd or bzip2; folders; patterns; -.",
            show_default=False,
        ),
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    format: FormatOption = Format.JSON,
    sink: Annotated[
        str | None,
        typer.Option(
            "--sink",
            metavar="NAME",
            help="Name under which positions are kept. Default: the table's name.",
        ),
    ] = None,
    rows_per_transaction: Annotated[
        int, typer.Option("--rows-per-transaction", metavar="N", min=1, help="Lines to commit in one transaction.")
    ] = 100_000,
    header_lines: Annotated[
        int, typer.Option("--header-lines", metavar="N", min=0, help="Header lines of each file to skip.")
    ] = 0,
    on_error: OnErrorOption = OnError.FAIL,
    unknown_fields: UnknownFieldsOption = UnknownFields.IGNORE,
    missing_partition_keys: MissingPartitionKeysOption = MissingFields.FAIL,
    empty_partition_values: EmptyPartitionValuesOption = EmptyPartitionValues.NULL,
    field_delimiter: FieldDelimiterOption = ",",
    collection_delimiter: CollectionDelimiterOption = "\x02",
    map_key_delimiter: MapKeyDelimiterOption = "\x03",
    null_format: NullFormatOption = "\\N",
    escape: EscapeOption = None,
    columns: ColumnsOption = None,
    missing_fields: MissingFieldsOption = MissingFields.FAIL,
    header: HeaderOption = True,
    quote: QuoteOption = '"',
    null_values: NullValuesOption = None,
    blank_lines: BlankLinesOption = BlankLines.FAIL,
    missing_columns: MissingColumnsOption = MissingFields.FAIL,
    regex: RegexOption = None,
    case_insensitive: CaseInsensitiveOption = False,
    coerce: CoerceOption = Coerce.STRICT,
    timestamp_formats: TimestampFormatsOption = None,
    timezone: TimezoneOption = None,
    date_formats: DateFormatsOption = None,
    decimal_point: DecimalPointOption = DecimalPoint.POINT,
    max_record_bytes: MaxRecordBytesOption = 16 << 20,
    maintenance: Annotated[
        MaintenanceMode,
        typer.Option("--maintenance", help="Compact meanwhile: not at all, by requests only, or in this process."),
    ] = MaintenanceMode.OFF,
    bad_records: BadRecordsOption = None,
    bad_records_table: BadRecordsTableOption = None,
    max_bad_records: MaxBadRecordsOption = None,
    max_bad_record_share: MaxBadRecordShareOption = None,
    source_key: Annotated[
        SourceKey,
        typer.Option(
            "--source-key",
            help="What a file is: its path; its name, so that it may be moved; or its first 1,024 bytes, so that "
            "it may be renamed. With --follow: content.",
        ),
    ] = SourceKey.PATH,
    unfinished_line: Annotated[
        UnfinishedLine,
        typer.Option(
            "--unfinished-line",
            help="A last line without its newline is a record, or waits for the next run. With --follow: wait.",
        ),
    ] = UnfinishedLine.COMMIT,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            metavar="K=V/…",
            help="The partition of all records, which then need not have its keys; or only its first keys.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the table, or the partitions that the records are for, by all records of the files, in one "
            "transaction; read them from their beginning, whatever was committed before.",
        ),
    ] = False,
    merge_schema: Annotated[
        bool,
        typer.Option(
            "--merge-schema",
            help="JSON, CSV with header: add columns that the table lacks, before the first row that has them.",
        ),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is appended, through rotation, until Ctrl-C or SIGTERM.")
    ] = False,
    poll_seconds: Annotated[
        float, typer.Option("--poll-seconds", metavar="N", min=0.01, help="With --follow: how often to look.")
    ] = 1.0,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Read and convert the records that would be written, and write nothing."),
    ] = False,
) -> None:
    """Stream files into a table, exactly once.

    After a crash, run the same command again: it resumes after the last committed record. Lines that were appended to
    a file are ingested by the next run, or with --follow as they come.

    The exit code is 3 if everything is committed, but bad records were skipped.
    """
    from hive_ingest.connection import BadRecordTable
    from hive_ingest.model import TableName
    from hive_ingest.streaming import follow_files, ingest_files

    refuse_options_of_other_formats(context, format)
    if bad_records is not None and bad_records_table is not None:
        raise typer.BadParameter("give one of --bad-records and --bad-records-table", param_hint="--bad-records")
    _refuse_without_effect(context, overwrite=overwrite, follow=follow, dry_run=dry_run)
    name = TableName.of(table)
    with _report_interruption(), connected(metastore, warehouse) as client, _progress_bar() as on_progress:
        options: dict[str, Any] = {
            "sink": sink,
            "record_writer": writer_from_options(context.params),
            "rows_per_transaction": rows_per_transaction,
            "header_lines": header_lines,
            "on_progress": on_progress,
            "maintenance": maintenance.value,
            "bad_records": BadRecordTable(bad_records_table) if bad_records_table else bad_records,
            "max_bad_records": max_bad_records,
            "max_bad_record_share": max_bad_record_share,
            "source_key": source_key.value,
            "unfinished_line": unfinished_line.value,
            "merge_schema": merge_schema,
            "static_partition_values": _static_values(client, name, partition),
        }
        if follow:
            options |= _chosen_for_following(context)
            for result in follow_files(client, name, files, poll_seconds=poll_seconds, **options):
                if result.stats.transactions_committed:
                    confirm(f"{name}: {_summary(result)}")
            return
        with _default_format_named(context):
            result = ingest_files(client, name, files, overwrite=overwrite, dry_run=dry_run, **options)
    text = f"{name}: {_summary(result, is_overwrite=overwrite)}"
    if dry_run:
        typer.echo(text)
    else:
        confirm(text)
    if result.stats.records_skipped:
        raise typer.Exit(RECORDS_SKIPPED)


def _refuse_without_effect(context: typer.Context, *, overwrite: bool, follow: bool, dry_run: bool) -> None:
    """Refuse options that have no meaning together."""
    if follow and (overwrite or dry_run):
        option = "--overwrite" if overwrite else "--dry-run"
        raise typer.BadParameter("cannot be used with --follow, whose rounds would all begin anew", param_hint=option)
    for name, has_effect, why in (
        ("poll_seconds", follow, "has no effect without --follow"),
        ("rows_per_transaction", not overwrite, "has no effect with --overwrite, which is one transaction"),
    ):
        if not has_effect and _is_given(context, name):
            raise typer.BadParameter(why, param_hint=f"--{name.replace('_', '-')}")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _static_values(client: MetastoreClient, name: TableName, partition: str | None) -> list[str]:
    """The values that `--partition` gives to the leading partition keys. Raises a usage error for other keys."""
    from hive_ingest.acid import parse_partition_name

    if partition is None:
        return []
    keys = [key.name for key in client.get_table(name).partition_keys]
    found = parse_partition_name(partition)
    if not keys or [key.lower() for key in found] != keys[: len(found)]:
        wanted = f"give its partition keys in order, or the first ones: {'/'.join(f'{key}=…' for key in keys)}"
        raise typer.BadParameter(
            f"{partition!r} does not fit {name}: {wanted if keys else 'it has no partition keys'}",
            param_hint="--partition",
        )
    return list(found.values())


@contextmanager
def _default_format_named(context: typer.Context) -> Iterator[None]:
    """The first record of a CSV file is a bad one for the default format, which the error names."""
    from hive_ingest.errors import SerializationError

    try:
        yield
    except SerializationError as error:
        if _is_given(context, "format") or "not a JSON object" not in str(error):
            raise
        raise SerializationError(f"{error}. Without --format the records are read as JSON") from error


def _chosen_for_following(context: typer.Context) -> dict[str, str]:
    """The defaults of `--follow`, for options that were not given."""
    defaults = {"source_key": SourceKey.CONTENT.value, "unfinished_line": UnfinishedLine.WAIT.value}
    return {name: value for name, value in defaults.items() if not _is_given(context, name)}


@contextmanager
def _report_interruption() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        say("interrupted: what was committed is kept; run the same command again to continue")
        raise SystemExit(INTERRUPTED) from error


@contextmanager
def _progress_bar() -> Iterator[Callable[[IngestProgress], None]]:
    """On stderr, and only if it is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from hive_ingest.cli.failures import printable
    from hive_ingest.cli.live_line import RowRate

    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    is_shown = console.is_terminal and shows_progress()
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as bar:
        task = bar.add_task("", total=None)
        rate = RowRate()

        def show(progress: IngestProgress) -> None:
            text = f"{counted(progress.records_committed, 'row')}, "
            text += counted(progress.transactions_committed, "transaction")
            text += f", {rate.per_second(progress.records_committed, time.monotonic()):,.0f} rows/s"
            where = f", {printable(progress.file)}" if progress.file else ""
            bar.update(task, completed=progress.bytes_committed, total=progress.bytes_total, description=text + where)

        yield show


def _summary(result: IngestResult, *, is_overwrite: bool = False) -> str:
    stats = result.stats
    too_short = f"{counted(len(result.too_short), 'file')} too short to be recognised by content"
    if not stats.transactions_committed:
        done = f"everything is committed already: {counted(len(result.positions), 'file')}"
        known = [text for text, has_files in ((done, result.positions), (too_short, result.too_short)) if has_files]
        return f"nothing to do, {'; '.join(known)}"
    written = f"{counted(stats.rows_committed, 'row')} in {counted(stats.transactions_committed, 'transaction')}"
    if result.is_dry_run:
        parts = [("would be overwritten by " if is_overwrite else "would get ") + written]
    else:
        files = counted(stats.files_committed, "ORC file")
        parts = [f"{'overwritten by ' if is_overwrite else ''}{written} and {files}, {result.seconds:.1f} s"]
    if stats.records_skipped:
        parts.append(f"{counted(stats.records_skipped, 'bad record')} skipped")
    if result.finished_before:
        parts.append(f"{counted(len(result.finished_before), 'file')} finished before")
    if result.too_short:
        parts.append(too_short)
    if result.columns_added:
        added = ", ".join(f"{column.name} {column.type}" for column in result.columns_added)
        parts.append(f"{'would add' if result.is_dry_run else 'added'} {added}")
    return "; ".join(parts)
