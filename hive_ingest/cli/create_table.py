"""`hive-ingest create-table`."""

from __future__ import annotations

from typing import Annotated

import typer

from hive_ingest.cli.options import MetastoreOption, TableArgument, WarehouseOption, connected, pairs


def create_table(
    table: TableArgument,
    metastore: MetastoreOption,
    column: Annotated[
        list[str], typer.Option("--column", metavar="NAME:TYPE", help="A column and its Hive type; repeat it.")
    ],
    warehouse: WarehouseOption = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", metavar="NAME:TYPE", help="A partition key; repeat it.")
    ] = None,
    bucket_by: Annotated[
        list[str] | None, typer.Option("--bucket-by", metavar="NAME", help="A column to bucket by; repeat it.")
    ] = None,
    buckets: Annotated[int | None, typer.Option("--buckets", metavar="N", min=1, help="Number of buckets.")] = None,
    table_property: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A table property; repeat it.")
    ] = None,
    location: Annotated[
        str | None, typer.Option("--location", metavar="PATH", help="Instead of a folder in the database's.")
    ] = None,
    create_database: Annotated[
        bool, typer.Option("--create-database", help="Create the database too, if it is missing.")
    ] = False,
    create_metastore: Annotated[
        bool, typer.Option("--create-metastore", help="Create an embedded metastore too, if there is none.")
    ] = False,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing table is fine.")] = False,
) -> None:
    """Create a transactional ORC table."""
    columns = pairs(column, ":", "--column")
    partition_keys = pairs(partition or [], ":", "--partition")
    properties = pairs(table_property or [], "=", "--property")
    if (bucket_by is None) != (buckets is None):
        raise typer.BadParameter("--bucket-by and --buckets belong together", param_hint="--buckets")

    from hive_ingest.model import TableName

    name = TableName.of(table)
    with connected(metastore, warehouse, create=create_metastore) as client:
        if create_database:
            client.create_database(name.database, if_not_exists=True)
        made = client.create_table(
            name,
            columns=columns,
            partition_keys=partition_keys,
            bucket_columns=bucket_by or (),
            num_buckets=buckets or -1,
            properties=properties,
            location=location,
            if_not_exists=if_not_exists,
        )
    typer.echo(f"{made.name} at {made.location}")
