"""Rows come out readable for people and exact for programs."""

from __future__ import annotations

import csv
import io
import json
import math
import sys

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from rich.console import Console

from hive_ingest.cli import rows as rows_module
from hive_ingest.cli.options import Output
from hive_ingest.cli.rows import write_rows

COLUMNS = ("id", "msg", "tags")
ROWS = [(1, "a,b", {"k": [1, None]}), (2, None, None), (30, "line\nend [red]x\x1b[0m", {})]


def test_json_is_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(COLUMNS, ROWS, Output.JSON)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def test_json_is_valid_whatever_the_numbers_and_the_encoding_are(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (math.nan, math.inf, {"k": [-math.inf, 1.5]})
    output = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", output)
    write_rows(("a", "b", "é"), [numbers], Output.JSON)
    output.seek(0)
    [found] = [json.loads(line, parse_constant=pytest.fail) for line in output]
    assert found == {"a": "NaN", "b": "Infinity", "é": {"k": ["-Infinity", 1.5]}}


def test_a_table_is_printed_on_a_terminal_that_is_not_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", output)
    write_rows(("id", "name"), [(1, "é")], Output.TABLE)
    output.seek(0)
    assert output.read().splitlines()[-1].split() == ["1", "|", "\\xe9"]


def test_csv_is_read_back_by_a_csv_reader(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(COLUMNS, ROWS, Output.CSV)
    found = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert found == [
        ["id", "msg", "tags"],
        ["1", "a,b", '{"k": [1, null]}'],
        ["2", "", ""],
        ["30", "line\nend [red]x\x1b[0m", "{}"],
    ]


@pytest.mark.parametrize("null_format", ["", "\\N", "NULL"])
def test_csv_distinguishes_null_from_text(null_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(("a", "b", "c"), [(None, "", null_format or "x")], Output.CSV, null_format=null_format)
    header, row = capsys.readouterr().out.splitlines()
    assert header == "a,b,c"
    assert row == f'{null_format},"",' + (f'"{null_format}"' if null_format else "x")


def test_arrow_reads_nulls_and_empty_strings_back(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_rows(("a", "b"), [(None, 1), ("", 2), ('say "hi", you', None)], Output.CSV)
    options = pa_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    found = pa_csv.read_csv(pa.BufferReader(capsysbinary.readouterr().out), convert_options=options)
    assert found.to_pydict() == {"a": [None, "", 'say "hi", you'], "b": [1, 2, None]}


def test_a_printed_table_escapes_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(COLUMNS, ROWS, Output.TABLE)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["id", "msg", "tags"]
    assert lines[3] == ["2", "NULL", "NULL"]
    assert lines[4] == ["30", "line\\nend", "[red]x\\x1b[0m", "{}"]


def test_a_table_in_a_pipe_is_never_folded(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(("wide", "end"), [("x" * 500, "y")], Output.TABLE)
    assert f"{'x' * 500}   y" in capsys.readouterr().out


def test_a_table_too_wide_for_the_screen_is_printed_row_by_row() -> None:
    console = Console(file=io.StringIO(), width=60)
    few, many = [("a" * 50, "b" * 50)], [tuple("abcdefgh" * 2)]
    assert rows_module._is_readable(rows_module._table(("one", "two"), few), console)
    names = [f"column_{i}" for i in range(16)]
    assert not rows_module._is_readable(rows_module._table(names, many), console)
    rows_module._write_row_by_row(names, many, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].startswith("row 1 ---")
    assert lines[1:3] == ["column_0   a", "column_1   b"]


def test_no_rows_are_fine(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(COLUMNS, [], Output.TABLE)
    assert capsys.readouterr().out.split()[:3] == ["id", "msg", "tags"]
