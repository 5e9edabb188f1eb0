"""`hive-ingest create-table`."""

from __future__ import annotations

from typing import Annotated

import typer

from hive_ingest.cli.options import MetastoreOption, TableArgument, WarehouseOption, connected, pairs


def create_table(
    table: TableArgument,
    metastore: MetastoreOption,
    columns: Annotated[
        list[str], typer.Option("--column", metavar="NAME:TYPE", help="A column and its Hive type; repeat it.")
    ],
    warehouse: WarehouseOption = None,
    partition_keys: Annotated[
        list[str] | None, typer.Option("--partition-key", metavar="NAME:TYPE", help="A partition key; repeat it.")
    ] = None,
    bucket_columns: Annotated[
        list[str] | None, typer.Option("--bucket-column", metavar="NAME", help="A column to bucket by; repeat it.")
    ] = None,
    num_buckets: Annotated[
        int | None, typer.Option("--num-buckets", metavar="N", min=1, help="Number of buckets.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A table property; repeat it.")
    ] = None,
    location: Annotated[
        str | None,
        typer.Option("--location", metavar="PATH", help="Folder of the table. Default: below the database's."),
    ] = None,
    create_database: Annotated[
        bool, typer.Option("--create-database", help="Create the database as well if it does not exist.")
    ] = False,
    create: Annotated[
        bool, typer.Option("--create-metastore", help="Create an embedded metastore as well if there is none.")
    ] = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the table exists with the same columns.")
    ] = False,
) -> None:
    """Create a transactional ORC table."""
    typed_columns = pairs(columns, ":", "--column")
    typed_keys = pairs(partition_keys or [], ":", "--partition-key")
    table_properties = pairs(properties or [], "=", "--property")
    if (bucket_columns is None) != (num_buckets is None):
        raise typer.BadParameter("--bucket-column and --num-buckets belong together", param_hint="--num-buckets")

    from hive_ingest.model import TableName

    name = TableName.of(table)
    with connected(metastore, warehouse, create=create) as client:
        if create_database:
            client.create_database(name.database, if_not_exists=True)
        made = client.create_table(
            name,
            columns=typed_columns,
            partition_keys=typed_keys,
            bucket_columns=bucket_columns or (),
            num_buckets=num_buckets or -1,
            properties=table_properties,
            location=location,
            if_not_exists=if_not_exists,
        )
    typer.echo(f"{made.name} at {made.location}")
