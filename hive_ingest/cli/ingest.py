"""`hive-ingest ingest`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hive_ingest.cli.logs import is_for_people, say
from hive_ingest.cli.options import MetastoreOption, TableArgument, WarehouseOption, connected

if TYPE_CHECKING:
    from hive_ingest.record_writer import RecordWriter
    from hive_ingest.streaming import IngestProgress, IngestResult

INTERRUPTED = 130
#: All is committed, but bad records were skipped.
RECORDS_SKIPPED = 3


class Format(enum.StrEnum):
    """Format of the lines of a file."""

    JSON = "json"
    DELIMITED = "delimited"


class OnError(enum.StrEnum):
    """What happens to a bad record."""

    FAIL = "fail"
    SKIP = "skip"


class UnknownFields(enum.StrEnum):
    """What happens to a key of a JSON object that matches no column."""

    IGNORE = "ignore"
    FAIL = "fail"


class MissingFields(enum.StrEnum):
    """What happens to a record that lacks fields."""

    FAIL = "fail"
    NULL = "null"


class MaintenanceMode(enum.StrEnum):
    """Who compacts what is written."""

    OFF = "off"
    REQUEST = "request"
    INLINE = "inline"


def ingest(
    table: TableArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Files with one record per line.", show_default=False)
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    format: Annotated[Format, typer.Option("--format", help="Format of the lines.")] = Format.JSON,
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
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="Stop at a bad record, or skip and count it.")
    ] = OnError.FAIL,
    unknown_fields: Annotated[
        UnknownFields, typer.Option("--unknown-fields", help="JSON: keys that match no column.")
    ] = UnknownFields.IGNORE,
    missing_partition_keys: Annotated[
        MissingFields,
        typer.Option(
            "--missing-partition-keys",
            help="JSON: a record without a partition key is bad, or goes to the default partition.",
        ),
    ] = MissingFields.FAIL,
    field_delimiter: Annotated[
        str,
        typer.Option(
            "--field-delimiter", metavar="CHAR", help="Delimited: the character between fields; \\t is a tab."
        ),
    ] = ",",
    null_format: Annotated[
        str, typer.Option("--null-format", metavar="TEXT", help="Delimited: the text of a null field.")
    ] = "\\N",
    escape: Annotated[
        str | None,
        typer.Option("--escape", metavar="CHAR", help="Delimited: escapes a delimiter that is data."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="NAME,…", help="Delimited: the columns in the order of the fields."),
    ] = None,
    missing_fields: Annotated[
        MissingFields,
        typer.Option("--missing-fields", help="Delimited: a line with fewer fields is bad, or has nulls at its end."),
    ] = MissingFields.FAIL,
    max_record_bytes: Annotated[
        int, typer.Option("--max-record-bytes", metavar="N", min=1, help="Size of the longest record.")
    ] = 16 << 20,
    maintenance: Annotated[
        MaintenanceMode,
        typer.Option("--maintenance", help="Compact meanwhile: not at all, by requests only, or in this process."),
    ] = MaintenanceMode.OFF,
    bad_records: Annotated[
        Path | None,
        typer.Option(
            "--bad-records", metavar="FILE", help="With --on-error skip: append the bad records to it, as JSON lines."
        ),
    ] = None,
    max_bad_records: Annotated[
        int | None,
        typer.Option("--max-bad-records", metavar="N", min=0, help="With --on-error skip: stop after more than these."),
    ] = None,
    max_bad_record_share: Annotated[
        float | None,
        typer.Option(
            "--max-bad-record-share",
            metavar="SHARE",
            min=0,
            max=1,
            help="With --on-error skip: stop at a larger share of bad records in one transaction, such as 0.01.",
        ),
    ] = None,
) -> None:
    """Stream files into a table, exactly once.

    After a crash, run the same command again: it resumes after the last committed record. A file is identified by
    its name: it may be moved, and lines that were appended to it are ingested by the next run.

    The exit code is 3 if all is committed, but bad records were skipped.
    """
    from hive_ingest.errors import ConfigurationError
    from hive_ingest.model import TableName
    from hive_ingest.record_writer import StrictDelimitedInputWriter, StrictJsonWriter
    from hive_ingest.streaming import ingest_files

    skipping = (bad_records, max_bad_records, max_bad_record_share)
    if on_error is OnError.FAIL and any(option is not None for option in skipping):
        raise ConfigurationError(
            "--bad-records and the limits of bad records have no effect with on_error=fail: pass --on-error skip too"
        )
    writer: RecordWriter
    if format is Format.JSON:
        writer = StrictJsonWriter(
            on_error=on_error.value,
            unknown_fields=unknown_fields.value,
            missing_partition_keys=missing_partition_keys.value,
            max_record_bytes=max_record_bytes,
        )
    else:
        writer = StrictDelimitedInputWriter(
            field_delimiter=field_delimiter.replace("\\t", "\t"),
            null_format=null_format,
            escape=escape,
            columns=[name.strip() for name in columns.split(",")] if columns is not None else None,
            missing_fields=missing_fields.value,
            on_error=on_error.value,
            max_record_bytes=max_record_bytes,
        )
    name = TableName.of(table)
    with connected(metastore, warehouse) as client, _report_interruption(), _progress_bar() as on_progress:
        result = ingest_files(
            client,
            name,
            files,
            sink=sink,
            record_writer=writer,
            rows_per_transaction=rows_per_transaction,
            header_lines=header_lines,
            on_progress=on_progress,
            maintenance=maintenance.value,
            bad_records=bad_records,
            max_bad_records=max_bad_records,
            max_bad_record_share=max_bad_record_share,
        )
    typer.echo(f"{name}: {_summary(result)}")
    if result.stats.records_skipped:
        raise typer.Exit(RECORDS_SKIPPED)


@contextmanager
def _report_interruption() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        say("interrupted: what was committed is kept; run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from error


@contextmanager
def _progress_bar() -> Iterator[Callable[[IngestProgress], None]]:
    """On stderr, and only if it is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from hive_ingest.cli.failures import printable
    from hive_ingest.cli.rows import counted

    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    is_shown = console.is_terminal and is_for_people()
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as bar:
        task = bar.add_task("", total=None)

        def show(progress: IngestProgress) -> None:
            text = f"{counted(progress.records_committed, 'row')}, "
            text += counted(progress.transactions_committed, "transaction")
            where = f", {printable(progress.file)}" if progress.file else ""
            bar.update(task, completed=progress.bytes_committed, total=progress.bytes_total, description=text + where)

        yield show


def _summary(result: IngestResult) -> str:
    from hive_ingest.cli.rows import counted

    stats = result.stats
    if not stats.transactions_committed:
        return f"nothing to do, everything is committed already: {counted(len(result.positions), 'file')}"
    parts = [
        f"{counted(stats.rows_committed, 'row')} in {counted(stats.transactions_committed, 'transaction')} and "
        f"{counted(stats.files_committed, 'ORC file')}, {result.seconds:.1f} s"
    ]
    if stats.records_skipped:
        parts.append(f"{counted(stats.records_skipped, 'bad record')} skipped")
    if result.finished_before:
        parts.append(f"{counted(len(result.finished_before), 'file')} finished before")
    return "; ".join(parts)
