"""`hive-ingest repair`."""

from __future__ import annotations

from typing import Annotated

import typer

from hive_ingest.cli.options import MetastoreOption, WarehouseOption, connected


def repair(
    tables: Annotated[list[str], typer.Argument(metavar="DB.TABLE…", min=1, help="Tables, including progress tables.")],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    apply: Annotated[bool, typer.Option("--apply", help="Make the changes. Without it, only report.")] = False,
) -> None:
    """Raise the write ids of a metastore that was restored from a copy above those of the tables' files.

    Also raises its transactions above those of later compactions, whose files it does not show, and registers the
    partitions that were created after the copy was made.

    The rows of these files, which are hidden now, become visible: those committed after the copy was made, and those
    of transactions that have been aborted since then and not cleaned yet. Stop all writers first.
    """
    from hive_ingest.transactions import check_write_ids, repair_write_ids

    with connected(metastore, warehouse) as client:
        for table in tables:
            report = repair_write_ids(client, table) if apply else check_write_ids(client, table)
            if not report.folders and not report.compactions:
                typer.echo(f"{report.table}: no folder is above write id {report.highest_allocated}, the highest used")
                continue
            raised = "raised" if apply else "--apply raises"
            for folder in dict.fromkeys((*report.folders, *report.compactions)):
                typer.echo(str(folder))
            registers = "registered" if apply else "--apply registers"
            for name in report.unregistered_partitions:
                typer.echo(f"{report.table}: {registers} the partition {name}, which the metastore does not have")
            if report.compactions:
                typer.echo(
                    f"{report.table}: transaction {report.highest_compaction} of a compaction is above "
                    f"{report.highest_opened}, the highest that the metastore has opened; {raised} the transactions "
                    f"to {report.highest_compaction + 1}"
                )
            if report.folders:
                typer.echo(
                    f"{report.table}: {len(report.folders)} folders are above write id {report.highest_allocated}, "
                    f"the highest that the metastore has allocated; {raised} the write ids to "
                    f"{report.highest_found + 1}"
                )
