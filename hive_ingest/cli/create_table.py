"""`hive-ingest create-table`."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from hive_ingest.cli.logs import confirm
from hive_ingest.cli.options import DryRunOption, MetastoreOption, TableArgument, WarehouseOption, connected, pairs
from hive_ingest.cli.record_options import (
    DateFormatsOption,
    DecimalPoint,
    DecimalPointOption,
    EscapeOption,
    FieldDelimiterOption,
    NullValuesOption,
    QuoteOption,
    TimestampFormatsOption,
    TimezoneOption,
)


class SampleFormat(enum.StrEnum):
    """The formats of files whose columns can be inferred."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    ORC = "orc"


def create_table(
    table: TableArgument,
    metastore: MetastoreOption,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME:TYPE",
            help="A column and its Hive type; repeat it. With --from-file: another type for a column of the file.",
            show_default=False,
        ),
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from-file",
            metavar="FILE",
            help="Infer the columns from a CSV file with a header, JSON lines, Parquet or ORC.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        SampleFormat | None,
        typer.Option("--format", help="Of --from-file. Default: by the end of the file's name.", show_default=False),
    ] = None,
    field_delimiter: FieldDelimiterOption = ",",
    quote: QuoteOption = '"',
    escape: EscapeOption = None,
    null_values: NullValuesOption = None,
    timestamp_formats: TimestampFormatsOption = None,
    timezone: TimezoneOption = None,
    date_formats: DateFormatsOption = None,
    decimal_point: DecimalPointOption = DecimalPoint.POINT,
    sample_records: Annotated[
        int,
        typer.Option("--sample-records", metavar="N", min=1, help="With --from-file: how many records to look at."),
    ] = 10_000,
    warehouse: WarehouseOption = None,
    partition_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-key",
            metavar="NAME:TYPE",
            help="A partition key; repeat it. With --from-file, the name of a column is enough.",
        ),
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
    dry_run: DryRunOption = False,
) -> None:
    """Create a transactional ORC table."""
    from hive_ingest.model import TableName

    name = TableName.of(table)
    typed_columns = pairs(columns or [], ":", "--column")
    if from_file is not None:
        typed_columns, typed_keys = _columns_of_file(
            from_file,
            typed_columns,
            partition_keys or [],
            format=format.value if format else None,
            field_delimiter=field_delimiter.replace("\\t", "\t"),
            quote=quote or None,
            escape=escape,
            null_values=null_values or None,
            timestamp_formats=timestamp_formats or None,
            timezone=timezone,
            date_formats=date_formats or None,
            decimal_point=decimal_point.value,
            sample_records=sample_records,
        )
    elif typed_columns:
        typed_keys = pairs(partition_keys or [], ":", "--partition-key")
    else:
        raise typer.BadParameter("give the columns, or a file that has them by --from-file", param_hint="--column")
    table_properties = pairs(properties or [], "=", "--property")
    if (bucket_columns is None) != (num_buckets is None):
        raise typer.BadParameter("--bucket-column and --num-buckets belong together", param_hint="--num-buckets")

    if from_file is not None or dry_run:
        _print_columns(typed_columns, typed_keys)
    if dry_run:
        return
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
    confirm(f"{made.name} at {made.location}")


def _columns_of_file(
    path: str, types: dict[str, str], partition_keys: Sequence[str], **options: Any
) -> tuple[dict[str, str], dict[str, str]]:
    """The columns and the partition keys of a table for a file. Keys with a type need not be in the file."""
    from hive_ingest.streaming import infer_columns

    found = infer_columns(path, types=types, **options)
    keys = {}
    for text in partition_keys:
        name, _, type_ = text.partition(":")
        if not type_ and name.lower() not in found:
            raise typer.BadParameter(
                f"{path!r} has no column {name!r}: write NAME:TYPE for a key that is not in it",
                param_hint="--partition-key",
            )
        keys[name.lower()] = type_ or found[name.lower()]
    return {name: type_ for name, type_ in found.items() if name not in keys}, keys


def _print_columns(columns: Mapping[str, str], keys: Mapping[str, str]) -> None:
    """As options, so that they can be changed and used without the file."""
    for option, found in (("--column", columns), ("--partition-key", keys)):
        for name, type_ in found.items():
            typer.echo(f"{option} {shlex.quote(f'{name}:{type_}')}")
