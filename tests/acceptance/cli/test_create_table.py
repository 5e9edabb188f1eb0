"""`hive-ingest create-table --from-file`."""

from __future__ import annotations

from pathlib import Path

import pytest

import hive_ingest as hi
from tests.acceptance.cli.shell import Shell
from tests.support.metastores import connect_in

pytestmark = pytest.mark.one_embedded

CREATE = ("create-table", "--create-metastore", "default.t")
CSV = 'Id,day,amount,"last name"\n1,2026-11-23,9.50,x\n2,2026-11-24,1,"y\nz"\n'


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_text(CSV)
    return path


def test_a_table_is_made_for_a_file_and_takes_its_records(
    shell: Shell, sample: Path, metastore_uri: str, tmp_path: Path
) -> None:
    output = shell.done(*CREATE, "--from-file", sample, "--partition-key", "Day", "--column", "amount:decimal(10,2)")
    assert output.out.splitlines()[:-1] == [
        "--column id:bigint",
        "--column 'amount:decimal(10,2)'",
        "--column 'last name:string'",
        "--partition-key day:date",
    ]
    assert output.out.splitlines()[-1].startswith("default.t at ")
    shell.done("ingest", "default.t", sample, "--format", "csv")
    with connect_in(tmp_path, metastore_uri) as client:
        found = hi.read_table(client, "default.t").to_pylist()
    assert [str(row["amount"]) for row in found] == ["9.50", "1.00"]
    assert [row["last name"] for row in found] == ["x", "y\nz"]


def test_the_columns_that_are_printed_make_the_same_table(shell: Shell, sample: Path) -> None:
    printed = shell.done(*CREATE, "--from-file", sample, "--partition-key", "day", "--dry-run").out
    assert shell("read", "default.t").code != 0
    options = ("--column", "id:bigint", "--column", "amount:double", "--column", "last name:string")
    again = shell.done(*CREATE, *options, "--partition-key", "day:date", "--dry-run")
    assert again.out == printed


def test_a_table_for_a_german_file_takes_it_with_the_same_options(
    shell: Shell, tmp_path: Path, metastore_uri: str
) -> None:
    path = tmp_path / "preise.csv"
    path.write_text("id;preis;rabatt;tag\n1;12,50;0,5;01.02.2026\n")
    options = ("--format", "csv", "--field-delimiter", ";", "--decimal-point", ",", "--date-format", "dd.MM.yyyy")
    made = shell.done(*CREATE, "--from-file", path, "--column", "preis:decimal(10,2)", *options)
    assert made.out.splitlines()[:-1] == [
        "--column id:bigint",
        "--column 'preis:decimal(10,2)'",
        "--column rabatt:double",
        "--column tag:date",
    ]
    shell.done("ingest", "default.t", path, *options)
    with connect_in(tmp_path, metastore_uri) as client:
        (row,) = hi.read_table(client, "default.t").to_pylist()
    assert [str(value) for value in row.values()] == ["1", "12.50", "0.5", "2026-02-01"]


def test_a_database_that_is_missing_is_created_by_an_option(shell: Shell) -> None:
    create = ("create-table", "--create-metastore", "shop.t", "--column", "id:int")
    missing = shell(*create)
    assert (missing.code, "'shop': create it first, with --create-database" in missing.err) == (1, True)
    shell.done(*create, "--create-database")
    elsewhere = shell("show", "tables", "nowhere").err + shell("sinks", "list", "nowhere").err
    assert "with `hive-ingest create-table --create-database`" in elsewhere


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        ([], 2, "--from-file"),
        (["--from-file", "data.csv", "--partition-key", "dya"], 2, "'data.csv' has no column 'dya'"),
        (["--from-file", "data.csv", "--column", "amuont:int"], 1, "'amuont'"),
        (["--from-file", "data.csv", "--format", "parquet"], 1, "cannot read 'data.csv'"),
        (["--from-file", "data.txt"], 1, "give its format"),
        (
            ["--from-file", "data.csv", "--format", "json", "--decimal-point", ","],
            1,
            "--decimal-point , has no effect",
        ),
        (["--from-file", "data.csv", "--date-format", "dd.MM.yy"], 1, "--date-format: the pattern 'dd.MM.yy'"),
    ],
)
def test_a_file_without_a_table_says_why(
    shell: Shell, sample: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, why: str
) -> None:
    monkeypatch.chdir(sample.parent)
    outcome = shell(*CREATE, *options)
    assert outcome.code == code
    assert why in " ".join(outcome.err.replace("│", "").split())
