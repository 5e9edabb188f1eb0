"""`hive-ingest describe`, `drop-table`, `drop-partition` and `alter-table`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli.logs import confirm, say
from hive_ingest.cli.option_names import Command
from hive_ingest.cli.options import (
    DryRunOption,
    MetastoreOption,
    Output,
    OutputOption,
    TableArgument,
    WarehouseOption,
    connected,
    pairs,
)
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from hive_ingest.metastore_client import MetastoreClient
    from hive_ingest.model import Column, Table, TableName
    from hive_ingest.reader import PartitionSize

alter_app = typer.Typer(help="Change a table.", no_args_is_help=True, rich_markup_mode=None)

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Drop it. Nothing is asked, so that scripts do not wait.")]
DeleteDataOption = Annotated[
    bool, typer.Option("--delete-data/--keep-data", help="Whether the files are removed as well.")
]


def describe(
    table: TableArgument,
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    sizes: Annotated[
        bool,
        typer.Option("--sizes/--no-sizes", help="Whether to count files, bytes and rows, opening each file's end."),
    ] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the columns of a table, its layout, location, properties, size and number of rows.

    Rows that were deleted and not compacted away yet are counted; the delete events tell how many. As json, one object.
    """
    if output is Output.CSV:
        raise typer.BadParameter("use table or json", param_hint="--output")

    with connected(metastore, warehouse) as client:
        found = client.get_table(table)
        size = _sizes(client, found) if sizes and _is_readable(found) else None
    description = _description(found, size)
    if output is Output.JSON:
        _print_json(description)
    else:
        _print_description(description)


def _is_readable(table: Table) -> bool:
    return table.is_transactional and not table.is_insert_only


def _sizes(client: MetastoreClient, table: Table) -> Sequence[PartitionSize]:
    from hive_ingest.reader import partition_sizes

    return partition_sizes(client, table.name)


def _description(table: Table, sizes: Sequence[PartitionSize] | None) -> dict[str, Any]:
    keys = [(column, True) for column in table.partition_keys]
    found: dict[str, Any] = {
        "table": str(table.name),
        "location": table.location,
        "type": table.table_type.lower(),
        "transactional": table.is_transactional,
        "owner": table.owner or None,
        "created": dt.datetime.fromtimestamp(table.create_time_seconds, dt.UTC).isoformat().replace("+00:00", "Z"),
        "bucket_columns": list(table.bucket_columns),
        "num_buckets": max(table.num_buckets, 0),
    }
    if sizes is not None:
        found |= {
            "partitions": len(sizes) if table.is_partitioned else None,
            **{
                name: sum(getattr(size, name) for size in sizes) for name in ("files", "bytes", "rows", "delete_events")
            },
        }
    found["columns"] = [
        {"name": column.name, "type": column.type, "comment": column.comment or None, "partition_key": is_key}
        for column, is_key in [*((column, False) for column in table.columns), *keys]
    ]
    found["properties"] = dict(sorted(table.properties.items()))
    return found


def _print_json(description: dict[str, Any]) -> None:
    from hive_ingest.cli.rows import write_rows

    write_rows(tuple(description), [tuple(description.values())], Output.JSON)


def _print_description(description: dict[str, Any]) -> None:
    from hive_ingest.cli.rows import write_rows

    columns, properties = description.pop("columns"), description.pop("properties")
    rows = [(column["name"], column["type"], column["partition_key"], column["comment"] or "") for column in columns]
    write_rows(("column", "type", "partition_key", "comment"), rows, Output.TABLE)
    typer.echo()
    facts = [(name, _fact(value)) for name, value in description.items() if value is not None]
    write_rows(
        ("name", "value"), [*facts, *((f"property {key}", value) for key, value in properties.items())], Output.TABLE
    )


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


# -- drop --------------------------------------------------------------------------------------------


def drop_table(
    table: TableArgument,
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    yes: YesOption = False,
    delete_data: DeleteDataOption = True,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do nothing if there is no such table.")] = False,
    drop_sinks: Annotated[
        bool,
        typer.Option(
            "--drop-sinks/--keep-sinks", help="Whether the positions of the sinks that write it are dropped as well."
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Drop a table with its files, once nobody reads or writes it.

    The positions of its sinks are in tables of their own, which stay unless --drop-sinks is given. A new table of the
    same name is refused by these sinks, because their positions say that the records are in the dropped one.
    """
    from hive_ingest.connection import progress_table_name
    from hive_ingest.errors import NoSuchObject
    from hive_ingest.streaming.sinks import sinks_of

    _require_yes(yes=yes, dry_run=dry_run)
    with connected(metastore, warehouse) as client:
        try:
            found = client.get_table(table)
        except NoSuchObject:
            if not if_exists:
                raise
            confirm(f"there is no table {table}: nothing to do")
            return
        what = f"{found.name} at {found.location}"
        sinks = [progress_table_name(found.name.database, sink) for sink in sinks_of(client, found)]
        if dry_run:
            typer.echo(f"would drop {what}, {_files(delete_data)}")
        else:
            client.drop_table(table, delete_data=delete_data, if_exists=if_exists)
            confirm(f"dropped {what}, {_files(delete_data)}")
        # After the table: without its positions, a sink would write all records to it once more.
        for progress_table in sinks:
            _drop_sink(client, progress_table, drop=drop_sinks, dry_run=dry_run)


def _drop_sink(client: MetastoreClient, progress_table: TableName, *, drop: bool, dry_run: bool) -> None:
    what = f"{progress_table}, the positions of a sink"
    if not drop:
        say(
            f"note: {what}, {'would stay' if dry_run else 'is still there'}: drop it before a new table of the same "
            "name is written by this sink"
        )
    elif dry_run:
        typer.echo(f"would drop {what}")
    else:
        client.drop_table(progress_table, if_exists=True)
        confirm(f"dropped {what}")


def drop_partition(
    table: TableArgument,
    partitions: Annotated[
        list[str],
        typer.Argument(metavar="K=V/…", help="Partitions, as `show partitions` lists them.", show_default=False),
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    yes: YesOption = False,
    delete_data: DeleteDataOption = True,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Leave out partitions that do not exist.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Drop partitions with their files, one after the other, once nobody reads or writes them."""
    from hive_ingest.errors import NoSuchObject

    _require_yes(yes=yes, dry_run=dry_run)
    with connected(metastore, warehouse) as client:
        found = client.get_table(table)
        # All names are checked before the first partition is dropped.
        for values in [_partition_values(found, name) for name in partitions]:
            try:
                partition = client.get_partition(found.name, values)
            except NoSuchObject:
                if not if_exists:
                    raise
                continue
            what = f"{_name_of(found, values)} of {found.name} at {partition.location}"
            if dry_run:
                typer.echo(f"would drop {what}, {_files(delete_data)}")
                continue
            client.drop_partition(found.name, values, delete_data=delete_data, if_exists=if_exists)
            confirm(f"dropped {what}, {_files(delete_data)}")


def _partition_values(table: Table, name: str) -> list[str]:
    from hive_ingest.acid import parse_partition_name

    keys = [key.name for key in table.partition_keys]
    found = parse_partition_name(name)
    if [key.lower() for key in found] != keys:
        raise typer.BadParameter(
            f"{name!r} does not name a partition of {table.name}: give all its keys in order "
            f"({'/'.join(f'{key}=…' for key in keys) or 'it has none'})",
            param_hint="K=V/…",
        )
    return list(found.values())


def _name_of(table: Table, values: Sequence[str]) -> str:
    from hive_ingest.acid import partition_name

    return partition_name([key.name for key in table.partition_keys], values)


def _require_yes(*, yes: bool, dry_run: bool) -> None:
    if not yes and not dry_run:
        raise typer.BadParameter(
            "rows that are dropped cannot be brought back: give --yes, or --dry-run to see what would be dropped",
            param_hint="--yes",
        )


def _files(delete_data: bool) -> str:
    return "with its files" if delete_data else "without its files"


# -- alter -------------------------------------------------------------------------------------------


@alter_app.command("add-column", cls=Command, short_help="Add columns at the end.")
def add_column(
    table: TableArgument,
    columns: Annotated[
        list[str], typer.Argument(metavar="NAME:TYPE…", help="Columns and their Hive types.", show_default=False)
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave out columns that the table has, with the same type.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Add columns at the end. Rows that are there have null in them. Nobody waits."""
    wanted = pairs(columns, ":", "NAME:TYPE")
    with connected(metastore, warehouse) as client:
        before = {column.name for column in client.get_table(table).columns}
        if dry_run:
            new = [f"{name} {type_}" for name, type_ in wanted.items() if name.lower() not in before]
            typer.echo(f"would add to {table}: {', '.join(new) or 'nothing'}")
            return
        changed = client.add_columns(table, wanted, if_not_exists=if_not_exists)
    added = [f"{column.name} {column.type}" for column in changed.columns if column.name not in before]
    confirm(f"{changed.name}: {counted(len(added), 'column')} added{': ' * bool(added)}{', '.join(added)}")


@alter_app.command("change-type", cls=Command, short_help="Give columns a wider type.")
def change_type(
    table: TableArgument,
    columns: Annotated[
        list[str], typer.Argument(metavar="NAME:TYPE…", help="Columns and their new Hive types.", show_default=False)
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Give columns a type that holds all values of the old one, such as bigint for int. Files stay as they are."""
    from dataclasses import replace

    wanted = {name.lower(): type_ for name, type_ in pairs(columns, ":", "NAME:TYPE").items()}
    with connected(metastore, warehouse) as client:
        found = client.get_table(table)
        _require_columns(found, wanted)
        new = [replace(column, type=wanted.get(column.name, column.type)) for column in found.columns]
        _change_columns(client, found, new, dry_run=dry_run)


@alter_app.command("rename-column", cls=Command, short_help="Rename a column.")
def rename_column(
    table: TableArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The column.", show_default=False)],
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name.", show_default=False)],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Rename a column. Files stay as they are: their columns are read by position."""
    from dataclasses import replace

    with connected(metastore, warehouse) as client:
        found = client.get_table(table)
        _require_columns(found, [name.lower()])
        new = [
            replace(column, name=new_name.lower()) if column.name == name.lower() else column
            for column in found.columns
        ]
        _change_columns(client, found, new, dry_run=dry_run)


def _require_columns(table: Table, names: Iterable[str]) -> None:
    known = [column.name for column in table.columns]
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"{table.name} has no column {name!r} beside its partition keys: it has {', '.join(known)}",
                param_hint="NAME",
            )


def _change_columns(client: MetastoreClient, table: Table, columns: Sequence[Column], *, dry_run: bool) -> None:
    """Change columns at their places, once nobody reads or writes the table."""
    from dataclasses import replace

    changes = [
        f"{before.name} {before.type} -> {after.name} {after.type}"
        for before, after in zip(table.columns, columns, strict=True)
        if before != after
    ]
    if dry_run:
        for line in changes:
            typer.echo(f"would change {table.name}: {line}")
        return
    if changes:
        client.alter_table(table.name, replace(table, columns=tuple(columns)))
    for line in changes or ["nothing to change"]:
        confirm(f"{table.name}: {line}")


@alter_app.command("set-property", cls=Command, short_help="Set or remove table properties.")
def set_property(
    table: TableArgument,
    properties: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE…", help="Properties; an empty value removes one.", show_default=False),
    ],
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Set or remove properties, such as orc.compress=ZLIB for files written from now on. Nobody waits."""
    from dataclasses import replace

    wanted = pairs(properties, "=", "NAME=VALUE")
    with connected(metastore, warehouse) as client:
        found = client.get_table(table)
        changes = list(_property_changes(found, wanted))
        if dry_run:
            for line in changes:
                typer.echo(f"would change {found.name}: {line}")
            return
        if changes:
            kept = {
                name: value for name, value in {**found.properties, **wanted}.items() if value or name not in wanted
            }
            client.alter_table(found.name, replace(found, properties=kept))
    for line in changes or ["nothing to change"]:
        confirm(f"{found.name}: {line}")


def _property_changes(table: Table, wanted: dict[str, str]) -> Iterator[str]:
    for name, value in wanted.items():
        before = table.properties.get(name)
        if value != (before or ""):
            was = "" if before is None else f" (was {before})"
            yield f"{name}={value}{was}" if value else f"{name} removed{was}"
