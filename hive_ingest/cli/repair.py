"""`hive-ingest repair`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from hive_ingest.cli.options import MetastoreOption, WarehouseOption, connected
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from hive_ingest.metastore_client import MetastoreClient
    from hive_ingest.model import TableName
    from hive_ingest.transactions import WriteIdReport


def repair(
    metastore: MetastoreOption,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="DB.TABLE…", help="Tables, including progress tables.", show_default=False),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All transactional tables of all databases, including progress tables.")
    ] = False,
    warehouse: WarehouseOption = None,
    apply: Annotated[bool, typer.Option("--apply", help="Make the changes. Without it, only report.")] = False,
) -> None:
    """Raise the write ids of a metastore that was restored from a copy above those of the tables' files.

    Also raises its transactions above those of later compactions, whose files it does not show, and registers the
    partitions that were created after the copy was made.

    The rows of these files, which are hidden now, become visible: those committed after the copy was made, and those
    of transactions that have been aborted since then and not cleaned yet. Stop all writers first.

    With --all, a table whose folders cannot be read is reported, the other tables follow, and the exit code is 1.
    """
    if bool(tables) == all_:
        raise typer.BadParameter("give tables, or --all", param_hint="DB.TABLE")
    with connected(metastore, warehouse) as client:
        if tables:
            for table in tables:
                _repair(client, table, apply=apply)
        elif not _repair_all(client, _transactional(client), apply=apply):
            raise typer.Exit(1)


def _transactional(client: MetastoreClient) -> Iterator[TableName]:
    from hive_ingest.model import TableName

    for database in sorted(client.get_databases()):
        for name in sorted(client.get_tables(database)):
            table = client.get_table(TableName(database, name))
            if table.is_transactional:
                yield table.name


def _repair_all(client: MetastoreClient, tables: Iterable[TableName], *, apply: bool) -> bool:
    """Whether all tables could be read."""
    from hive_ingest.cli.failures import error_text, one_line
    from hive_ingest.errors import StreamingIOFailure

    is_complete = True
    for table in tables:
        try:
            _repair(client, table, apply=apply)
        except StreamingIOFailure as error:
            is_complete = False
            typer.echo(f"{table}: not checked: {one_line(error_text(error))}", err=True)
    return is_complete


def _repair(client: MetastoreClient, table: str | TableName, *, apply: bool) -> None:
    from hive_ingest.transactions import check_write_ids, repair_write_ids

    report = repair_write_ids(client, table) if apply else check_write_ids(client, table)
    for line in _lines(report, apply=apply):
        typer.echo(line)


def _lines(report: WriteIdReport, *, apply: bool) -> Iterator[str]:
    if not report.folders and not report.compactions:
        yield f"{report.table}: no folder is above write id {report.highest_allocated}, the highest used"
        return
    raised = "raised" if apply else "--apply raises"
    yield from map(str, dict.fromkeys((*report.folders, *report.compactions)))
    registers = "registered" if apply else "--apply registers"
    for name in report.unregistered_partitions:
        yield f"{report.table}: {registers} the partition {name}, which the metastore does not have"
    if report.compactions:
        yield (
            f"{report.table}: transaction {report.highest_compaction} of a compaction is above "
            f"{report.highest_opened}, the highest that the metastore has opened; {raised} the transactions "
            f"to {report.highest_compaction + 1}"
        )
    if report.folders:
        are = "is" if len(report.folders) == 1 else "are"
        yield (
            f"{report.table}: {counted(len(report.folders), 'folder')} {are} above write id "
            f"{report.highest_allocated}, the highest that the metastore has allocated; {raised} the write ids to "
            f"{report.highest_found + 1}"
        )
