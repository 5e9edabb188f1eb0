"""Rows on stdout: a table for people, JSON lines or CSV for programs."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hive_ingest.cli.failures import printable
from hive_ingest.cli.options import Output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: A table that is written to a file or a pipe is not fitted to a screen.
_UNLIMITED_WIDTH = 100_000
#: With less than this for a column, on average, a table too wide for the screen is printed row by row.
_LEAST_COLUMN_WIDTH = 12
_QUOTED_IN_CSV = frozenset(',"\r\n')


def write_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], output: Output, *, null_format: str = "") -> None:
    """Print rows of JSON values; JSON and CSV row by row as they arrive. `null_format` is the text of a null in CSV."""
    if output is Output.CSV:
        _write_csv(columns, rows, null_format)
    else:
        writers = {Output.TABLE: _write_table, Output.JSON: _write_json}
        writers[output](columns, rows)


def _write_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    for row in rows:
        print(_json(dict(zip(columns, row, strict=True))))


def _write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]], null_format: str) -> None:
    """A null is never quoted; a string that would look like one is, and so is the empty string."""
    print(",".join(_csv_field(name, null_format) for name in columns))
    for row in rows:
        print(",".join(null_format if value is None else _csv_field(_text(value), null_format) for value in row))


def _csv_field(text: str, null_format: str) -> str:
    if text and text != null_format and not _QUOTED_IN_CSV.intersection(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def _write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    shown = list(rows)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8
    console = _console()
    table = _table(columns, shown)
    if _is_readable(table, console):
        console.print(table)
    else:
        _write_row_by_row(columns, shown, console)


def _console() -> Console:
    from rich.console import Console

    class CommandConsole(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the command: rich would exit with a code of its own."""
            if (error := sys.exception()) is not None:
                raise error

    return CommandConsole(highlight=False, width=None if sys.stdout.isatty() else _UNLIMITED_WIDTH)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value), justify="right" if _is_number(value) else "left") for value in row))
    return table


def _is_readable(table: Table, console: Console) -> bool:
    fits = table.__rich_measure__(console, console.options.update(width=_UNLIMITED_WIDTH)).maximum <= console.width
    return fits or console.width // len(table.columns) >= _LEAST_COLUMN_WIDTH


def _write_row_by_row(columns: Sequence[str], rows: Iterable[Sequence[Any]], console: Console) -> None:
    """One value a line, like psql's expanded display."""
    width = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        console.rule(f"row {number}", align="left", characters="-", style="")
        for name, value in zip(columns, row, strict=True):
            console.print(f"{name:<{width}}  {_cell(value)}", markup=False, soft_wrap=True)


def _cell(value: Any) -> str:
    return "NULL" if value is None else printable(_text(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    """The value as JSON: non-finite numbers, which JSON does not have, as `_finite` has them."""
    is_ascii = "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    try:
        return json.dumps(value, ensure_ascii=is_ascii, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=is_ascii)


def _finite(value: Any) -> Any:
    """The value with "NaN", "Infinity" and "-Infinity", Hive's names, for such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_finite(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
