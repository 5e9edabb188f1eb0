"""`hive-ingest ingest` from the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hive_ingest.streaming.files.ingestion import Ingestion
from tests.acceptance.cli.shell import Shell, records

pytestmark = pytest.mark.one_embedded


def test_ingest_is_exactly_once(alerts: Shell, tmp_path: Path) -> None:
    paths = [records(tmp_path / "a.json", 25), records(tmp_path / "b.json", 10, start=25)]
    output = alerts.done("ingest", "web.alerts", *paths, "--rows-per-transaction", "10")
    assert output.out.startswith("web.alerts: 35 rows in 4 transactions and ")
    again = alerts.done("ingest", "web.alerts", *paths)
    assert again.out == "web.alerts: nothing to do, everything is committed already: 2 files\n"
    more = alerts.done("ingest", "web.alerts", *paths, records(tmp_path / "c.json", 1, start=35))
    assert more.out.startswith("web.alerts: 1 row in 1 transaction and 1 ORC file, ")
    assert more.out.endswith("; 2 files finished before\n")
    rows = alerts.done("read", "web.alerts", "--columns", "id", "--output", "json").rows
    assert sorted(row["id"] for row in rows) == list(range(36))  # type: ignore[type-var]


def test_ingest_compacts_what_it_has_written(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 24)
    alerts.done("ingest", "web.alerts", path, "--rows-per-transaction", "1", "--maintenance", "inline")
    compacted = alerts.done("show", "compactions", "--output", "json").rows
    assert "alerts__progress" in {str(row["table"]).removeprefix("web.") for row in compacted}
    rows = alerts.done("read", "web.alerts", "--columns", "id", "--output", "json").rows
    assert sorted(row["id"] for row in rows) == list(range(24))  # type: ignore[type-var]


def test_ingest_takes_delimited_text_in_any_shape(alerts: Shell, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Country\tID\tMsg\tContinent\nIn\t1\ta\\\tb\tAsia\nJp\t2\t-\tAsia\nJp\t3\n")
    alerts.done(
        *("ingest", "web.alerts", path, "--format", "delimited", "--field-delimiter", "\\t", "--null-format", "-"),
        *("--escape", "\\", "--header-lines", "1", "--columns", "country,id,msg,continent", "--missing-fields", "null"),
    )
    rows = alerts.done("read", "web.alerts", "-o", "json", "--columns", "id,msg,continent,country").rows
    assert sorted((list(row.values()) for row in rows), key=str) == [
        [1, "a\tb", "Asia", "In"],
        [2, None, "Asia", "Jp"],
        [3, None, None, "Jp"],
    ]


def test_ingest_stops_at_a_bad_record_and_says_where(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 25)
    path.write_text(path.read_text() + '{"id": "x"}\n')
    outcome = alerts("ingest", "web.alerts", path, "--rows-per-transaction", "10")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"error: '{path}', line 26 (at byte ")
    assert len(outcome.err.splitlines()) == 1
    skipped = alerts("ingest", "web.alerts", path, "--on-error", "skip")
    assert skipped.code == 3
    assert "; 1 bad record skipped" in skipped.out
    assert alerts("ingest", "web.alerts", path, "--on-error", "skip").code == 0  # nothing was left for it


def test_ingest_keeps_bad_records_in_a_file_and_stops_at_too_many(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 5)
    path.write_text(path.read_text() + '{"id": "x"}\nno json\n')
    bad = tmp_path / "bad.jsonl"
    keep = ("ingest", "web.alerts", path, "--bad-records", bad)
    outcome = alerts(*keep)
    assert outcome.code == 1
    assert "--bad-records has no effect" in outcome.err
    assert "give it --on-error skip" in outcome.err
    outcome = alerts(*keep, "--on-error", "skip", "--max-bad-records", "1")
    assert (outcome.code, outcome.out) == (1, "")
    assert "--max-bad-records=1 allows" in outcome.err
    assert alerts(*keep, "--on-error", "skip", "--max-bad-record-share", "0.2").code == 1
    outcome = alerts(*keep, "--on-error", "skip", "--max-bad-records", "2")
    assert outcome.code == 3
    lines = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [(line["file"], line["line"], line["data"]) for line in lines[-2:]] == [
        (str(path), 6, '{"id": "x"}'),
        (str(path), 7, "no json"),
    ]


def test_ingest_takes_timestamps_of_other_forms_by_name(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 2)
    path.write_text(path.read_text().replace("2013-01-01 05:00:00.5", "2013-07-01T05:00:00.5Z", 1))
    refused = alerts("ingest", "web.alerts", path)
    assert "to accept it, add 'iso8601' to --timestamp-format" in refused.err
    given = ("--timestamp-format", "iso8601", "--timestamp-format", "millis", "--timezone", "Europe/Berlin")
    alerts.done("ingest", "web.alerts", path, *given)
    rows = sorted(str(row["at"]) for row in alerts.done("read", "web.alerts", "-o", "json").rows)
    assert rows == ["2013-01-01 05:00:00.5", "2013-07-01 07:00:00.5"]
    wrong = alerts("ingest", "web.alerts", path, "--timestamp-format", "%Y")
    assert (wrong.code, "--timestamp-format" in wrong.err) == (1, True)


def test_ingest_can_refuse_unknown_fields(alerts: Shell, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1, "colour": "red", "continent": "Asia", "country": "Japan"}\n')
    assert alerts("ingest", "web.alerts", path, "--unknown-fields", "fail").code == 1
    assert alerts("ingest", "web.alerts", path).code == 0


def test_ingest_under_another_sink_loads_a_file_again(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 2)
    for sink in ("one", "two"):
        alerts.done("ingest", "web.alerts", path, "--sink", sink)
    assert len(alerts.done("read", "web.alerts", "-o", "json").rows) == 4


def test_an_interrupted_ingest_says_how_to_resume(
    alerts: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    path = records(tmp_path / "a.json", 25)
    with monkeypatch.context() as patch:
        patch.setattr(Ingestion, "_write", interrupt)
        outcome = alerts("ingest", "web.alerts", path)
    assert outcome.code == 130
    assert "run the same command again" in outcome.err
    alerts.done("ingest", "web.alerts", path)
    assert len(alerts.done("read", "web.alerts", "-o", "json").rows) == 25


def test_ingest_takes_csv_with_a_header_and_without(alerts: Shell, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('\ufeffCountry,continent,msg,id\nJp,Asia,"a, ""b""\nc",1\nIn,Asia,,2\nIn,Asia,"",3\n')
    refused = alerts("ingest", "web.alerts", path, "--format", "csv")
    assert refused.code == 1
    assert "the header lacks 'at': add the names, or set --missing-columns null" in refused.err
    alerts.done("ingest", "web.alerts", path, "--format", "csv", "--missing-columns", "null")
    rows = sorted(alerts.done("read", "web.alerts", "-o", "json").rows, key=lambda row: str(row["id"]))
    assert [row["msg"] for row in rows] == ['a, "b"\nc', None, ""]
    path = tmp_path / "b.csv"
    path.write_text("4;'x;y';NA;Asia;Jp\n")
    options = ("--no-header", "--field-delimiter", ";", "--quote", "'", "--null-value", "NA")
    alerts.done("ingest", "web.alerts", path, "--format", "csv", *options)
    (row,) = alerts.done("read", "web.alerts", "--where", "id = 4", "-o", "json").rows
    assert (row["msg"], row["at"]) == ("x;y", None)


def test_ingest_takes_csv_with_decimal_commas_and_dates_by_a_pattern(alerts: Shell, tmp_path: Path) -> None:
    alerts.done(
        *("create-table", "web.prices", "--column", "id:int", "--column", "price:decimal(10,2)"),
        *("--partition-key", "day:date"),
    )
    path = tmp_path / "prices.csv"
    path.write_text('\ufeffDay;Id;Price\n01.02.2026;1;12,50\n31.12.2025;2;"0,5"\n', encoding="utf-8")
    options = ("--format", "csv", "--field-delimiter", ";", "--decimal-point", ",", "--date-format", "dd.MM.yyyy")
    alerts.done("ingest", "web.prices", path, *options)
    rows = alerts.done("read", "web.prices", "-o", "json").rows
    assert sorted((list(row.values()) for row in rows), key=str) == [
        [1, "12.50", "2026-02-01"],
        [2, "0.50", "2025-12-31"],
    ]
    bad = tmp_path / "bad.csv"
    bad.write_text("day;id;price\n1.2.2026;3;1\n")
    error = alerts("ingest", "web.prices", bad, *options)
    assert error.code == 1
    assert "'1.2.2026' has none of the forms in --date-format=['dd.MM.yyyy']" in error.err


@pytest.mark.parametrize("options", [(), ("--log-level", "info"), ("--log-format", "json")])
def test_a_skipped_record_is_logged_with_the_option_that_would_accept_it(
    alerts: Shell, tmp_path: Path, options: tuple[str, ...]
) -> None:
    alerts.done("create-table", "web.prices", "--column", "id:int", "--column", "price:decimal(10,2)")
    path = tmp_path / "prices.csv"
    path.write_text("id;price\n1;12,50\n2;3\n")
    given = ("ingest", "web.prices", path, "--format", "csv", "--field-delimiter", ";", "--on-error", "skip")
    command = [sys.executable, "-m", "hive_ingest", *options, *map(str, given)]
    skipped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert skipped.returncode == 3
    assert "requires; to accept it, set --decimal-point ," in skipped.stderr
    assert "decimal_point" not in skipped.stderr


def test_columns_that_a_table_lacks_are_added_and_named(alerts: Shell, tmp_path: Path) -> None:
    alerts.done("create-table", "web.logs", "--column", "id:int")
    path = tmp_path / "a.jsonl"
    path.write_text('{"id":1}\n{"id":2,"Status":200,"at":"2026-02-01T08:30:00Z"}\n')
    done = alerts.done("ingest", "web.logs", path, "--merge-schema", "--timestamp-format", "iso8601")
    assert done.out.rstrip().endswith("; added status bigint, at timestamp")
    assert [row["status"] for row in alerts.done("read", "web.logs", "-o", "json").rows] == [None, 200]
    refused = alerts("ingest", "web.logs", path, "--merge-schema", "--format", "delimited")
    assert refused.code == 1
    assert "--merge-schema requires records that name their columns" in refused.err


def test_a_csv_file_without_its_format_is_refused_with_the_name_of_the_option(alerts: Shell, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,msg,continent,country\n1,a,Asia,In\n")
    hint = "Without --format the records are read as JSON"
    assert hint in alerts("ingest", "web.alerts", path).err
    assert hint not in alerts("ingest", "web.alerts", path, "--format", "json").err
    assert hint not in alerts("ingest", "web.alerts", path, "--format", "csv").err


@pytest.mark.parametrize(
    ("format", "option"),
    [("json", "--null-format"), ("delimited", "--quote"), ("csv", "--null-format"), ("json", "--no-header")],
)
def test_ingest_refuses_options_that_the_format_does_not_have(
    alerts: Shell, tmp_path: Path, format: str, option: str
) -> None:
    path = records(tmp_path / "a.json", 1)
    value = () if option == "--no-header" else ("x",)
    refused = alerts("ingest", "web.alerts", path, "--format", format, option, *value)
    assert refused.code == 2
    assert f"has no effect with --format {format}" in refused.err


def test_ingest_takes_an_access_log_and_other_forms_of_values(alerts: Shell, tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("[1.0] a b Asia In\n[2] c - Asia In\n")
    alerts.done(
        *("ingest", "web.alerts", path, "--format", "regex", "--coerce", "lossless", "--null-value", "-"),
        *("--regex", r"\[(?<id>\S+)\] \S+ (?<MSG>\S+) (?<continent>\S+) (?<country>\S+)"),
    )
    rows = alerts.done("read", "web.alerts", "-o", "json", "--columns", "id,msg").rows
    assert sorted((row["id"], row["msg"]) for row in rows) == [(1, "b"), (2, None)]
    missing = alerts("ingest", "web.alerts", path, "--format", "regex")
    assert (missing.code, "--regex: is missing" in missing.err) == (2, True)
    strict = alerts("ingest", "web.alerts", path, "--regex", "(.*)")
    assert (strict.code, "--regex: has no effect with --format json" in strict.err) == (2, True)


def test_ingest_keeps_bad_records_in_a_table(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 3)
    path.write_text(path.read_text() + '{"id": "x"}\n')
    options = ("--on-error", "skip", "--bad-records-table", "web.bad")
    outcome = alerts("ingest", "web.alerts", path, *options)
    assert outcome.code == 3
    [row] = alerts.done("read", "web.bad", "-o", "json", "--columns", "table_name,file,line,record_number").rows
    assert row == {"table_name": "web.alerts", "file": str(path), "line": 4, "record_number": 3}
    both = alerts("ingest", "web.alerts", path, *options, "--bad-records", tmp_path / "bad.jsonl")
    assert (both.code, "give one of" in both.err) == (2, True)


def test_ingest_can_refuse_empty_partition_values(alerts: Shell, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1, "continent": "", "country": "In"}\n')
    refused = alerts("ingest", "web.alerts", path, "--empty-partition-values", "fail")
    assert (refused.code, "--empty-partition-values" in refused.err) == (1, True)
    alerts.done("ingest", "web.alerts", path)


def test_files_replace_a_partition_that_is_named(alerts: Shell, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "old.json", 10))
    path = tmp_path / "new.csv"
    path.write_text("id,msg,at\n1,a,2026-01-01 00:00:00\n2,b,\n")
    given = ("ingest", "web.alerts", path, "--format", "csv", "--overwrite")
    partition = ("--partition", "continent=Asia/country=In")
    planned = alerts.done(*given, *partition, "--dry-run").out
    assert planned == "web.alerts: would be overwritten by 2 rows in 1 transaction\n"
    assert len(alerts.done("read", "web.alerts", "-o", "json").rows) == 10
    done = alerts.done(*given, *partition).out
    assert done.startswith("web.alerts: overwritten by 2 rows in 1 transaction and 2 ORC files, ")
    rows = alerts.done("read", "web.alerts", "--columns", "id,country", "-o", "json").rows
    assert sorted((row["country"], row["id"]) for row in rows) == [
        *(("In", 1), ("In", 2)),
        *(("Jp", i) for i in (1, 3, 5, 7, 9)),
    ]
    with_country = tmp_path / "more.csv"
    with_country.write_text("id,msg,at,country\n3,c,,It\n")
    alerts.done("ingest", "web.alerts", with_country, "--format", "csv", "--partition", "Continent=Europe")
    assert "continent=Europe/country=It" in alerts.done("show", "partitions", "web.alerts").out
    for wrong in ("country=In", "continent=Asia/city=x", "continent=Asia/country=In/city=x"):
        refused = alerts(*given, "--partition", wrong)
        assert (refused.code, "continent=…/country=…" in refused.err) == (2, True), wrong
    assert alerts(*given, "--partition", "Asia").code == 1


def test_a_dry_run_of_an_ingest_says_what_it_would_do(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 25)
    path.write_text(path.read_text() + '{"id": "x"}\n')
    given = ("ingest", "web.alerts", path, "--rows-per-transaction", "10", "--dry-run")
    failed = alerts(*given)
    assert (failed.code, "line 26" in failed.err) == (1, True)
    planned = alerts("--quiet", *given, "--on-error", "skip")
    assert planned.code == 3
    assert planned.out == "web.alerts: would get 25 rows in 3 transactions; 1 bad record skipped\n"
    assert alerts.done("show", "tables", "web", "-o", "json").out.count("\n") == 1
    assert alerts.done("read", "web.alerts", "-o", "json").rows == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--overwrite", "--follow"), "--overwrite: cannot be used with --follow"),
        (("--dry-run", "--follow"), "--dry-run: cannot be used with --follow"),
        (("--poll-seconds", "2"), "--poll-seconds: has no effect without --follow"),
        (("--overwrite", "--rows-per-transaction", "5"), "--rows-per-transaction: has no effect with --overwrite"),
    ],
)
def test_options_that_have_no_effect_together_are_refused(
    alerts: Shell, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    refused = alerts("ingest", "web.alerts", records(tmp_path / "a.json", 1), *options)
    assert (refused.code, message in refused.err) == (2, True), refused.err
