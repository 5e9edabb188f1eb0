"""Timestamps and dates that clocks of some zone do not show, or show twice; and our side in a process of that zone.

Run as a script it writes or reads a table in the zone that the environment variable TZ names:
`python -m tests.interop.zoned write|read <uri> <table>`.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.schema import arrow_schema

REPOSITORY = Path(__file__).parents[2]
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")
COLUMNS = {
    "writer": "string",
    "id": "int",
    "at": "timestamp",
    "day": "date",
    "many": "array<timestamp>",
    "nested": "struct<at:timestamp,day:date>",
}
AT = [
    dt.datetime(2024, 3, 10, 1, 59, 59, 999_999),
    dt.datetime(2024, 3, 10, 2, 30),  # which Los Angeles never shows: its clocks go from 2:00 to 3:00
    dt.datetime(2024, 3, 10, 3, 0, 0, 1),
    dt.datetime(2024, 11, 3, 0, 59, 59),
    dt.datetime(2024, 11, 3, 1, 30, 0, 123_456),  # which it shows twice
    dt.datetime(2024, 11, 3, 2, 0),
    dt.datetime(1970, 1, 1),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999),  # the last one with a fraction that ORC can hold
    dt.datetime(1969, 12, 31, 23, 59, 58, 999_999),
    dt.datetime(1969, 12, 31, 16, 0),
    dt.datetime(1967, 4, 30, 2, 30),  # not in Los Angeles
    dt.datetime(1941, 10, 1, 0, 10),  # not in Kolkata, which moved on by 37 minutes
    dt.datetime(1942, 5, 15, 0, 15),
    dt.datetime(1883, 11, 18, 12, 0),  # the day of Los Angeles that had two noons
    dt.datetime(1883, 11, 18, 12, 0, 0, 500_000),
    dt.datetime(1800, 1, 1, 0, 0),  # local mean time, with seconds
    dt.datetime(1800, 1, 1, 0, 0, 0, 1),
    dt.datetime(1677, 9, 21, 0, 12, 44),
    dt.datetime(2037, 7, 1, 12, 0, 0, 999_000),
    dt.datetime(2100, 7, 1, 12, 0),  # beyond the tables of many zones
    dt.datetime(2262, 4, 11, 23, 47, 16, 850_000),
]
DAYS = [
    *(dt.date(2024, 3, 10), dt.date(2024, 11, 3), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1941, 10, 1)),
    *(dt.date(1900, 2, 28), dt.date(1582, 10, 15), dt.date(9999, 12, 31)),
]

#: Of the proleptic Gregorian calendar, written by us only. (Hive 4 reads 5 to 14 October 1582 too, but its own files,
#: which a vectorised query's answer goes through, have no such days.)
OLD_DAYS = [dt.date(1582, 10, 4), dt.date(1500, 2, 28), dt.date(1, 1, 1)]

Row = list[Any]


def rows(writer: str) -> list[Row]:
    """What `writer` writes, as Hive and we give it: each time as array and struct too."""
    return [[writer, i, *_cells(i)] for i in range(len(AT))]


def old_rows(writer: str) -> list[Row]:
    nothing: Row = [writer, -1, None, None, None, None]
    return [nothing, *([writer, 100 + i, None, day, None, None] for i, day in enumerate(OLD_DAYS))]


def _cells(i: int) -> Row:
    at, day = AT[i], DAYS[i % len(DAYS)]
    return [at, day, [at, None], {"at": at, "day": day}]


def literals(writer: str) -> str:
    """What Hive selects to have the same rows, from texts."""
    return " union all ".join(f"select {_literals(writer, i)}" for i in range(len(AT)))


def _literals(writer: str, i: int) -> str:
    at, day = f"timestamp '{AT[i]}'", f"date '{DAYS[i % len(DAYS)]}'"
    many = f"array({at}, cast(null as timestamp))"
    return f"'{writer}', {i}, {at}, {day}, {many}, named_struct('at', {at}, 'day', {day})"


def text(value: Any) -> str:
    """One form for the times of Python and of pandas."""
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, dict):
        return text([[name, item] for name, item in value.items()])
    return str(value)


def texts(rows: Iterable[Row]) -> list[str]:
    return sorted(map(text, rows))


def start(action: str, zone: str, uri: str, table: str) -> subprocess.Popen[str]:
    """Our side in a separate process in the time zone `zone`."""
    command = [sys.executable, "-m", "tests.interop.zoned", action, uri, table]
    return subprocess.Popen(
        command, cwd=REPOSITORY, env=os.environ | {"TZ": zone}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output


def main(action: str, uri: str, name: str) -> None:
    zone = os.environ["TZ"]
    assert dt.datetime.fromtimestamp(0).hour == {"UTC": 0, "America/Los_Angeles": 16, "Asia/Kolkata": 5}[zone]
    with connect_metastore(uri) as client:
        if action == "write":
            write(client, name, f"ours in {zone}")
        else:
            json.dump(texts(list(row.values()) for row in hi.read_table(client, name).to_pylist()), sys.stdout)


def write(client: MetastoreClient, name: str, writer: str) -> None:
    schema = arrow_schema(client.get_table(name).columns)
    records = [dict(zip(COLUMNS, row, strict=True)) for row in (*rows(writer), *old_rows(writer))]
    hi.append(client, name, pa.Table.from_pylist(records, schema=schema))


if __name__ == "__main__":
    main(*sys.argv[1:])
