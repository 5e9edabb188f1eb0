"""`hive-ingest ingest --source-key` and `hive-ingest sinks seek-file`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli.shell import Shell, records

pytestmark = pytest.mark.one_embedded


def count(shell: Shell) -> int:
    return len(shell.done("read", "web.alerts", "-o", "json").rows)


def test_a_file_is_its_path_unless_another_key_is_chosen(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 10)
    alerts.done("ingest", "web.alerts", path)
    (row,) = alerts.done("sinks", "show", "web.alerts", "-o", "json").rows
    assert row["source"] == str(path)
    moved = path.rename(tmp_path / "b.json")
    alerts.done("ingest", "web.alerts", moved, "--sink", "by_name", "--source-key", "name")
    alerts.done("ingest", "web.alerts", moved.rename(tmp_path / "c.json"), "--sink", "by_name")
    assert count(alerts) == 30
    again = alerts("ingest", "web.alerts", tmp_path / "c.json", "--sink", "by_name", "--source-key", "inode")
    assert again.code == 2


def test_a_position_in_a_file_is_set(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 10)
    alerts.done("ingest", "web.alerts", path)
    planned = alerts.done("sinks", "seek-file", "web.alerts", path, "--to-record", "7", "--dry-run")
    assert planned.out.startswith(f"would set {path}: record 10 -> record 7; CAUTION: ")
    output = alerts.done("sinks", "seek-file", "web.alerts", path, "--to-record", "7")
    assert output.out == f"{path}: record 10 -> record 7; CAUTION: records 8 to 10 are written again\n"
    alerts.done("ingest", "web.alerts", path)
    assert count(alerts) == 13
    output = alerts.done("sinks", "seek-file", "web.alerts", path, "--to-record", "start")
    assert "record 10 -> record 0" in output.out
    output = alerts.done("sinks", "seek-file", "web.alerts", path, "--to-record", "end")
    assert output.out == f"{path}: record 0 -> record 10; CAUTION: records 1 to 10 are left out\n"
    refused = alerts("sinks", "seek-file", "web.alerts", path, "--to-record", "11")
    assert (refused.code, "has 10 records: --to-record=11 is after its end" in refused.err) == (1, True)
    other = alerts.done("sinks", "seek-file", "web.alerts", path, "--to-record", "3", "--sink", "new")
    assert other.out == f"{path}: no position -> record 3\n"


def test_an_unfinished_line_can_wait(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 3)
    path.write_text(path.read_text().removesuffix("\n"))
    alerts.done("ingest", "web.alerts", path, "--unfinished-line", "wait")
    assert count(alerts) == 2
    alerts.done("ingest", "web.alerts", path)
    assert count(alerts) == 3


def test_the_summary_counts_files_that_are_too_short_to_be_recognised(alerts: Shell, tmp_path: Path) -> None:
    long, short = records(tmp_path / "a.json", 30), records(tmp_path / "b.json", 1, start=30)
    assert "; 1 file too short" in alerts.done("ingest", "web.alerts", long, short, "--source-key", "content").out
    again = alerts.done("ingest", "web.alerts", long, short, "--source-key", "content").out
    assert again == (
        "web.alerts: nothing to do, everything is committed already: 1 file; "
        "1 file too short to be recognised by content\n"
    )
    alone = alerts.done("ingest", "web.alerts", short, "--source-key", "content", "--sink", "alone").out
    assert alone == "web.alerts: nothing to do, 1 file too short to be recognised by content\n"
