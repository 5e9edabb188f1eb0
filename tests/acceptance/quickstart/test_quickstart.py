"""The quickstart without Spark keeps its promises on the whole of its input, and would say so if it did not."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from examples.quickstart.__main__ import main
from examples.quickstart.checks import compare
from examples.quickstart.flights import (
    COLUMNS,
    DELIMITER,
    FIELDS,
    PARTITION_KEYS,
    read_source,
    write_months,
    write_weeks,
)
from examples.quickstart.jobs import FilesJob
from examples.quickstart.story import Story
from hive_ingest.model import columns_of
from hive_ingest.schema import arrow_schema

ROWS = 336_776


@pytest.fixture(scope="module")
def source() -> pa.Table:
    return read_source()


@pytest.fixture(scope="module")
def landed(source: pa.Table) -> pa.Table:
    """What the table must hold."""
    return source.select(FIELDS).cast(arrow_schema(columns_of(COLUMNS | PARTITION_KEYS)))


def test_a_year_of_flights_is_ingested_exactly_once_through_a_kill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = tmp_path / "demo"
    assert main([str(demo), "--no-spark"]) == 0
    output = capsys.readouterr().out
    assert "All checks passed" in output
    assert "FAILED" not in output
    assert f"{ROWS:,} rows, 69 transactions, 36 partitions" in output
    assert "3 delta folders are published, the commit is not. A reader sees 45,000 rows." in output
    assert "It continued after 45,000 rows" in output
    assert (demo / "flights.png").read_bytes().startswith(b"\x89PNG")
    command = next(line for line in output.splitlines() if "hive-ingest read" in line)
    shown = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
    assert len(shown.splitlines()) == 2 + 5


def test_its_own_folder_is_created_again(tmp_path: Path) -> None:
    demo = tmp_path / "demo"
    for _ in range(2):
        Story(demo, FilesJob())._clear()  # type: ignore[arg-type]  # its fields are read-only, the protocol's are not
        assert [path.name for path in demo.iterdir()] == [".hive-ingest-quickstart"]
        (demo / "metastore.db").touch()


def test_a_folder_of_another_owner_is_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(SystemExit, match="holds something else"):
        main([str(tmp_path), "--no-spark"])
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_the_files_of_months_hold_every_flight_with_its_number(source: pa.Table, tmp_path: Path) -> None:
    flights = source.slice(100_000, 5_000)
    files = write_months(flights, tmp_path / "input")
    assert [file.path.name for file in files] == [
        f"flights-{month:02d}.{'json' if month < 7 else 'txt'}" for month in range(1, 13)
    ]
    lines = [file.path.read_text().splitlines() for file in files]
    assert [len(found) for found in lines] == [file.rows for file in files]
    assert sum(file.rows for file in files) == flights.num_rows
    assert all(line.count(DELIMITER) == len(FIELDS) - 1 for found in lines[6:] for line in found)


def test_the_files_of_weeks_hold_every_flight_with_its_number(source: pa.Table, tmp_path: Path) -> None:
    flights = source.filter(pc.is_in(source["month"], pa.array([2, 3])))
    files = write_weeks(flights, tmp_path / "input")
    numbers = [json.loads(line)["row_number"] for file in files for line in file.path.read_text().splitlines()]
    assert sorted(numbers) == sorted(flights["row_number"].to_pylist())
    assert [file.path.name for file in files if file.rows] == [
        "flights-02-1.json",
        "flights-02-2.json",
        "flights-02-3.json",
        "flights-02-4.json",
        *(f"flights-03-{week}.json" for week in range(1, 6)),
    ]


def test_a_table_equal_to_its_source_passes_every_check(source: pa.Table, landed: pa.Table) -> None:
    assert source.num_rows == ROWS
    assert all(check.is_kept for check in compare(source, landed))


def broken(source: pa.Table, landed: pa.Table) -> list[str]:
    return [check.promise.split()[0] for check in compare(source, landed) if not check.is_kept]


def test_a_lost_row_is_noticed(source: pa.Table, landed: pa.Table) -> None:
    assert broken(source, landed.slice(1)) == ["every", "counts", "every"]


def test_a_duplicate_row_is_noticed(source: pa.Table, landed: pa.Table) -> None:
    assert broken(source, pa.concat_tables([landed, landed.slice(7, 1)])) == ["none", "counts", "every"]


def test_a_row_in_place_of_another_is_noticed(source: pa.Table, landed: pa.Table) -> None:
    assert broken(source, pa.concat_tables([landed.slice(1), landed.slice(7, 1)])) == [
        "every",
        "none",
        "counts",
        "every",
    ]


def test_a_changed_cell_is_noticed(source: pa.Table, landed: pa.Table) -> None:
    carriers = pc.replace_with_mask(
        landed["carrier"].combine_chunks(), pc.equal(landed["row_number"], 5).combine_chunks(), pa.scalar("XX")
    )
    changed = landed.set_column(landed.schema.get_field_index("carrier"), "carrier", carriers)
    assert broken(source, changed) == ["every"]
