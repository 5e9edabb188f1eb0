"""`hive-ingest check` and `hive-ingest inspect`."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli.logs import say
from hive_ingest.cli.options import MetastoreOption, Output, OutputOption, TableArgument, WarehouseOption, connected
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from hive_ingest.inspection import UnreadableFile
    from hive_ingest.orc import FileSummary


class Detail(enum.StrEnum):
    """What `inspect` lists."""

    FILES = "files"
    STRIPES = "stripes"
    COLUMNS = "columns"


def check(
    table: TableArgument,
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="FILTER", help="Only partitions that may have such rows.")
    ] = None,
    decode_rows: Annotated[
        bool,
        typer.Option("--decode-rows/--no-decode-rows", help="Whether every row is decoded, or only files' ends read."),
    ] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check all files of a table against the rules of the format and against the metastore. Changes nothing.

    The exit code is 1 if there is an error: rows that are damaged, hidden, or read twice, or files that cannot be read.
    Notes are work for a cleaner.
    """
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.inspection import check_table

    with connected(metastore, warehouse) as client:
        result = check_table(client, table, where=where, decode_rows=decode_rows)
    if result.findings or output is not Output.TABLE:
        rows = [(each.severity.value, each.rule, each.place, each.message) for each in result.findings]
        write_rows(("severity", "rule", "place", "message"), rows, output)
    looked_at = [counted(result.partitions, "partition"), counted(result.files, "file"), counted(result.rows, "row")]
    verdict = "no error" if result.is_healthy else "NOT healthy"
    say(f"{result.table}: {verdict}, {counted(len(result.findings), 'finding')} in {', '.join(looked_at)}")
    if not result.is_healthy:
        raise typer.Exit(1)


def inspect(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH…", help="ORC files, or folders of them.", show_default=False)
    ],
    detail: Annotated[
        Detail, typer.Option("--detail", help="A line for each file, stripe, or column with its statistics.")
    ] = Detail.FILES,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what the ends of ORC files say: rows, stripes, writer, ACID metadata, statistics. Needs no metastore."""
    from hive_ingest.cli.failures import one_line
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.inspection import UnreadableFile, inspect_path

    found: list[FileSummary | UnreadableFile] = [each for path in paths for each in inspect_path(path)]
    summaries = [each for each in found if not isinstance(each, UnreadableFile)]
    columns, rows_of = _DETAILS[detail]
    write_rows(columns, [row for summary in summaries for row in rows_of(summary)], output)
    damaged = [each for each in found if isinstance(each, UnreadableFile)]
    for each in damaged:
        typer.echo(f"error: {one_line(each.message)}", err=True)
    if damaged:
        raise typer.Exit(1)


def _file_row(summary: FileSummary) -> Iterator[tuple[Any, ...]]:
    metadata = ", ".join(f"{name}={value}" for name, value in sorted(summary.metadata.items()))
    yield (
        summary.path,
        summary.bytes,
        summary.rows,
        len(summary.stripes),
        "acid" if summary.is_acid else "plain",
        summary.compression,
        summary.writer,
        summary.calendar,
        summary.has_checksums,
        metadata,
    )


def _stripe_rows(summary: FileSummary) -> Iterator[tuple[Any, ...]]:
    for number, stripe in enumerate(summary.stripes):
        yield (summary.path, number, *dataclasses.astuple(stripe))


def _column_rows(summary: FileSummary) -> Iterator[tuple[Any, ...]]:
    for column in summary.columns:
        values = (_plain(column.low), _plain(column.high))
        yield (summary.path, column.name, column.kind, column.values, column.may_have_nulls, *values)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


_DETAILS: dict[Detail, tuple[tuple[str, ...], Any]] = {
    Detail.FILES: (
        (
            *("path", "bytes", "rows", "stripes", "kind", "compression", "writer", "calendar", "checksums"),
            "metadata",
        ),
        _file_row,
    ),
    Detail.STRIPES: (("path", "stripe", "offset", "bytes", "rows"), _stripe_rows),
    Detail.COLUMNS: (("path", "column", "kind", "values", "may_have_nulls", "low", "high"), _column_rows),
}
