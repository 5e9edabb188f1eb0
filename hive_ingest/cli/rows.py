"""Rows on stdout: a table for people, JSON lines or CSV for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from hive_ingest.cli.failures import printable
from hive_ingest.cli.options import Output

#: A table that goes to a file or a pipe is not fitted to any screen.
_UNLIMITED_WIDTH = 10_000


def write_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], output: Output) -> None:
    """Print rows of values that JSON knows; JSON and CSV as they come."""
    writers = {Output.TABLE: _write_table, Output.JSON: _write_json, Output.CSV: _write_csv}
    writers[output](columns, rows)


def _write_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    for row in rows:
        print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))


def _write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if value is None else _text(value) for value in row])


def _write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text("NULL" if value is None else printable(_text(value))) for value in row))
    console = Console(highlight=False)
    console.print(table, width=None if console.is_terminal else _UNLIMITED_WIDTH)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
