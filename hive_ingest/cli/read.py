"""`hive-ingest read`."""

from __future__ import annotations

import base64
import enum
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_ingest.cli.options import (
    MetastoreOption,
    Output,
    TableArgument,
    WarehouseOption,
    connected,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from hive_ingest.reader import Scan

#: Of a table on the screen.
_DEFAULT_ROWS_SHOWN = 20


class RowOutput(enum.StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


def read(
    table: TableArgument,
    metastore: MetastoreOption,
    warehouse: WarehouseOption = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME,…",
            help="Only these columns, separated by commas; payload.user.id is a field of a struct.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="FILTER",
            help="A condition in SQL: \"month = 3 and (origin like 'JF%' or dest is not null)\".",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=0, help="Print at most N rows. Default: 20 for a table, else all."),
    ] = None,
    row_ids: Annotated[bool, typer.Option("--row-ids", help="Add Hive's ROW__ID.")] = False,
    output: Annotated[
        RowOutput,
        typer.Option(
            "--output",
            "-o",
            help="table for the terminal; json (one object per line), csv or arrow (an Arrow IPC stream, with the "
            "types of the table) for programs.",
        ),
    ] = RowOutput.TABLE,
    null_format: Annotated[
        str,
        typer.Option("--null-format", metavar="TEXT", help="csv: the text for null; an empty string is quoted."),
    ] = "",
) -> None:
    """Print the rows of a table at one snapshot. Without --limit, json, csv and arrow print all of them."""
    from hive_ingest.cli.rows import write_rows
    from hive_ingest.reader import scan

    condition = _joined(where or [])
    names = [name.strip() for name in columns.split(",")] if columns is not None else None
    if output is RowOutput.ARROW and sys.stdout.isatty():
        raise typer.BadParameter("arrow is not text: redirect it to a file or a pipe", param_hint="--output")
    is_cut = limit is None and output is RowOutput.TABLE
    most = _DEFAULT_ROWS_SHOWN if is_cut else limit
    with (
        connected(metastore, warehouse) as client,
        scan(client, table, columns=names, where=condition, row_ids=row_ids) as batches,
    ):
        if output is RowOutput.ARROW:
            _write_arrow(batches, most)
            return
        rows = _rows(batches)
        shown = itertools.islice(rows, most)
        write_rows(batches.schema.names, shown, Output(output.value), null_format=null_format)
        if is_cut and next(rows, None) is not None:
            typer.echo(f"the first {most} rows; --limit N shows more", err=True)


def _joined(conditions: list[str]) -> str | None:
    """A single condition stays as it is, so that an error shows what was typed."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return " and ".join(f"({text})" for text in conditions)


def _write_arrow(batches: Scan, limit: int | None) -> None:
    """Batch by batch, as they are read."""
    import pyarrow as pa

    # A descriptor of its own: Arrow closes what it writes to.
    with (
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out,
        pa.ipc.new_stream(out, batches.schema) as writer,
    ):
        left = limit
        while left is None or left > 0:
            batch = next(batches, None)
            if batch is None:
                break
            writer.write_batch(batch if left is None else batch.slice(0, left))
            left = None if left is None else left - batch.num_rows


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    for batch in batches:
        columns = [_plain(column) for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def _plain(column: pa.Array) -> list[Any]:
    """Values that JSON can represent: dates, timestamps and decimals as text, binary as base64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.cast(_text_type(column.type))
    if pa.types.is_timestamp(column.type):
        texts = pc.replace_substring_regex(texts, r"\.?0+$", "")  # Arrow writes all nine digits
    return [_without_bytes(value) for value in texts.to_pylist(maps_as_pydicts="lossy")]


def _text_type(type_: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_temporal(type_) or pa.types.is_decimal(type_):
        return pa.string()
    if pa.types.is_map(type_):
        return pa.map_(_text_type(type_.key_type), _text_type(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(_text_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_text_type(field.type)) for field in type_])
    return type_


def _without_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, list):
        return [_without_bytes(item) for item in value]
    if isinstance(value, dict):
        return {_without_bytes(key): _without_bytes(item) for key, item in value.items()}
    return value
