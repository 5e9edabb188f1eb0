"""`hive-ingest sinks …`: the progress of a sink's sources, where Kafka continues, and which Spark query may write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli import seek
from hive_ingest.cli.option_names import Command
from hive_ingest.cli.options import (
    MetastoreOption,
    Output,
    OutputOption,
    TableArgument,
    WarehouseOption,
    connected,
)

if TYPE_CHECKING:
    import datetime as dt

    from hive_ingest.connection import SourceProgress
    from hive_ingest.metastore_client import MetastoreClient
    from hive_ingest.model import TableName
    from hive_ingest.streaming.sinks import Sink
    from hive_ingest.streaming.spark.adoption import Adoption
    from hive_ingest.streaming.spark.checkpoint import Checkpoint

app = typer.Typer(
    help="Show the progress of sinks, set positions in Kafka and files, and bind a sink to a Spark query.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("seek", cls=Command, short_help="Set the positions of Kafka topics.")(seek.seek)
app.command("seek-file", cls=Command, short_help="Set the positions of files.")(seek.seek_file)


@app.command("list", cls=Command, short_help="List sinks, their tables and latest commits.")
def list_(
    metastore: MetastoreOption,
    database: Annotated[
        str | None, typer.Argument(metavar="DB", help="Only this database.", show_default=False)
    ] = None,
    warehouse: WarehouseOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List sinks, the table that each writes, how many sources it has, and its latest commit (time in UTC).

    Reads the whole progress table of each sink.
    """
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.streaming.sinks import list_sinks

    with connected(metastore, warehouse) as client:
        databases = client.get_databases() if database is None else [database]
        rows = [_sink_row(sink) for name in databases for sink in list_sinks(client, name)]
    write_rows(("database", "sink", "table", "sources", "txn", "written_at"), rows, output)


def _sink_row(sink: Sink) -> tuple[Any, ...]:
    newest = sink.newest[0] if sink.newest else None
    return (
        sink.database,
        sink.name,
        str(sink.table) if sink.table else None,
        len(sink.sources),
        newest.txn_id if newest else None,
        _utc(newest.written_at) if newest else None,
    )


def _utc(time: dt.datetime) -> str:
    return f"{time.isoformat(timespec='milliseconds')}Z"


@app.command(cls=Command, short_help="Show the position of each source of a sink.")
def show(
    target: Annotated[
        str, typer.Argument(metavar="DB.TABLE|DB", help="The table, or its database.", show_default=False)
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    sink: Annotated[
        str | None, typer.Option("--sink", metavar="NAME", help="The sink. Default: the table's name.")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", metavar="NAME", help="Only this source.")] = None,
    history: Annotated[
        int, typer.Option("--history", metavar="N", min=1, help="The last N positions of each source.")
    ] = 1,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the latest position of each source of a sink; with --history the last ones, newest first. Times are UTC.

    Reads the whole progress table, unless --source names one that is in it.
    """
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.connection import progress_table_name
    from hive_ingest.streaming.sinks import progress_history

    database, name = _database_and_sink(target, sink)
    progress_table = progress_table_name(database, name)
    with connected(metastore, warehouse) as client:
        _check_sink(client, progress_table, name)
        found = progress_history(client, progress_table, rows_per_source=history, source=source)
        tables = {row.table_id for rows in found.values() for row in rows}
        if "." in target and tables - {client.get_table(target).id}:
            typer.echo(f"note: sink {name} writes another table than {target}; see `sinks list {database}`", err=True)
    write_rows(
        ("source", "sequence", "epoch", "position", "txn", "written_at"),
        [
            (row.source, row.sequence, row.epoch, _position(row, output), row.txn_id, _utc(row.written_at))
            for rows in found.values()
            for row in rows
        ],
        output,
    )


def _position(row: SourceProgress, output: Output) -> Any:
    """For the terminal, a position in a topic by its offset; for programs, each as it is stored."""
    from hive_ingest.errors import SinkConflict
    from hive_ingest.streaming.kafka.positions import TopicPosition

    if output is not Output.TABLE:
        return row.position
    try:
        position = TopicPosition.from_json(row.source, row.position)
    except SinkConflict:
        return row.position
    return f"offset {position.offset}" + f", topic id {position.topic_id}" * (position.topic_id is not None)


def _database_and_sink(target: str, sink: str | None) -> tuple[str, str]:
    database, dot, table = target.lower().rpartition(".")
    if not dot and sink is None:
        raise typer.BadParameter("give the sink, or a table: its name is the default", param_hint="--sink")
    return (database, sink or table) if dot else (table, sink or "")


def _check_sink(client: MetastoreClient, progress_table: TableName, sink: str) -> None:
    from hive_ingest.errors import NoSuchObject

    try:
        client.get_table(progress_table)
    except NoSuchObject as error:
        raise NoSuchObject(
            f"database {progress_table.database} has no sink {sink!r} (no table {progress_table}): "
            f"`hive-ingest sinks list {progress_table.database}` lists its sinks"
        ) from error


@app.command(cls=Command, short_help="Bind a sink to another Spark query.")
def adopt(
    table: TableArgument,
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    sink: Annotated[
        str | None, typer.Option("--sink", metavar="NAME", help="The sink. Default: the table's name.")
    ] = None,
    query_id: Annotated[
        str | None, typer.Option("--query-id", metavar="ID", help="Id of the Spark query that will write.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="PATH", help="Checkpoint of that query (path or URI), instead of --query-id."
        ),
    ] = None,
    batch_id: Annotated[
        int | None,
        typer.Option(
            "--batch-id",
            metavar="N",
            min=-1,
            help="The last batch that the query must not write again, -1 for none. "
            "Default: the last one that is committed according to the checkpoint or the sink.",
            show_default=False,
        ),
    ] = None,
    lock_wait_seconds: Annotated[
        float,
        typer.Option(
            "--lock-wait-seconds", metavar="N", min=0, help="How long to wait for a batch that is being written."
        ),
    ] = 10.0,
) -> None:
    """Bind a sink to another Spark query. From then on, every other query is refused.

    Stop the former query first. A sink that does not exist is created.
    """
    if (query_id is None) == (checkpoint is None):
        raise typer.BadParameter("give one of --query-id and --checkpoint", param_hint="--query-id")

    from hive_ingest.cli.failures import printable
    from hive_ingest.model import TableName
    from hive_ingest.streaming.spark.adoption import adopt_checkpoint, adopt_query
    from hive_ingest.streaming.spark.checkpoint import read_checkpoint

    name = TableName.of(table)
    sink = sink or name.table
    settings = {"lock_wait_seconds": lock_wait_seconds}
    found = read_checkpoint(checkpoint) if checkpoint is not None else None
    with connected(metastore, warehouse) as client:
        if found is not None:
            adoption = adopt_checkpoint(client, name, sink, found, batch_id, settings=settings)
        else:
            adoption = adopt_query(client, name, sink, query_id or "", batch_id, settings=settings)
    for line in (f"sink {sink} of {name}:", *_what_is_bound(adoption), *_what_to_know(adoption, found)):
        typer.echo(printable(line))


def _what_is_bound(adoption: Adoption) -> Iterator[str]:
    from hive_ingest.streaming.spark.progress import SparkPosition

    before = SparkPosition.parse(adoption.before.position) if adoption.before is not None else None
    if adoption.before is None:
        yield "before: no Spark query"
    else:
        what = (
            f"query {before.query_id}, {_batch(before.batch_id)}"
            if before
            else f"position {adoption.before.position!r}"
        )
        yield f"before: {what}, written at {_utc(adoption.before.written_at)}"
    if not adoption.is_changed:
        yield "now:    the same; nothing was changed"
    else:
        yield f"now:    query {adoption.query_id}, {_batch(adoption.batch_id)}"
    yield f"next:   batch {adoption.batch_id + 1} of query {adoption.query_id}, or a later one, will be written"
    if before is not None and before.query_id != adoption.query_id:
        yield f"query {before.query_id} is refused from now on"


def _batch(batch_id: int) -> str:
    return "no batch yet" if batch_id < 0 else f"last batch {batch_id}"


def _what_to_know(adoption: Adoption, checkpoint: Checkpoint | None) -> Iterator[str]:
    """Warnings about rows that may be duplicated or left out."""
    next_batch = adoption.batch_id + 1
    if adoption.before is not None and adoption.is_changed and adoption.last_written is None and next_batch == 0:
        yield (
            "CAUTION: a new query reads its sources from its own starting offsets; rows after these that are in the "
            "table already are written again"
        )
    if adoption.last_written is not None and adoption.last_written >= next_batch:
        yield (
            f"CAUTION: this sink has committed its batches up to {adoption.last_written} before; those from "
            f"{next_batch} on are written again if the query repeats them"
        )
    elif checkpoint is not None and checkpoint.last_planned >= next_batch:
        yield (
            f"CAUTION: by the checkpoint, batch {checkpoint.last_planned} was begun and not finished, so the query "
            f"repeats it; if its rows are in the table already, adopt again with --batch-id {checkpoint.last_planned}"
        )
