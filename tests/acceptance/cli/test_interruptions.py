"""A command that is interrupted, or whose output nobody reads, ends in an orderly way at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hive_ingest.faults import FAULT_POINTS
from hive_ingest.testing import CrashPoint, faults
from tests.acceptance.cli.shell import Shell, records

pytestmark = pytest.mark.one_embedded

#: Those that an ingest of a small file passes.
POINTS = [point for point in FAULT_POINTS if point not in ("lock_waiting", "after_spill", "commit_before_answer")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("point", POINTS)
def test_a_signal_in_a_transaction_ends_the_ingest_in_one_line_and_leaves_nothing_half_done(
    point: str, number: signal.Signals, alerts: Shell, tmp_path: Path
) -> None:
    path = records(tmp_path / "a.json", 30)
    command = ("ingest", "web.alerts", path, "--rows-per-transaction", "10")
    with faults(CrashPoint(point, 2, number)):
        outcome = alerts(*command)

    assert outcome.code == 128 + number
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert "what was committed is kept" in outcome.err
    assert open_transactions(alerts) == []
    assert alerts.done("show", "locks", "-o", "json").rows == []
    kept = ids(alerts)
    assert kept == list(range(len(kept)))
    assert len(kept) % 10 == 0

    alerts.done(*command)
    assert ids(alerts) == list(range(30))
    alerts.done("check", "web.alerts")


def ids(alerts: Shell) -> list[object]:
    return sorted(row["id"] for row in alerts.done("read", "web.alerts", "--columns", "id", "-o", "json").rows)  # type: ignore[type-var]


def open_transactions(alerts: Shell) -> list[object]:
    rows = alerts.done("show", "transactions", "-o", "json").rows
    return [row["txn"] for row in rows if row["state"] == "open"]


@pytest.mark.parametrize("rows", [3, 2_000])  # within the buffer of stdout, and far beyond it
@pytest.mark.parametrize("output", ["json", "csv", "table", "arrow"])
def test_a_command_whose_output_nobody_reads_ends_silently(
    output: str, rows: int, alerts: Shell, tmp_path: Path
) -> None:
    """As in `hive-ingest read … | head`; the end of the output may also be written when the command is done."""
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", rows))
    command = [sys.executable, "-m", "hive_ingest", "read", "web.alerts", "--limit", str(rows), "-o", output]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command, env=os.environ, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=300
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
    assert open_transactions(alerts) == []


def test_a_command_that_prints_nothing_needs_no_reader(alerts: Shell) -> None:
    command = [sys.executable, "-m", "hive_ingest", "--quiet", "drop-table", "web.alerts", "--yes"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert subprocess.run(command, env=os.environ, stdout=writing, check=False, timeout=300).returncode == 0
    finally:
        os.close(writing)


def test_an_interrupted_command_says_so_in_one_line(alerts: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hive_ingest.reader.scan", interrupt)
    outcome = alerts("read", "web.alerts")
    assert (outcome.code, outcome.err) == (130, "interrupted: what was committed is kept\n")


def test_an_interruption_while_modules_are_imported_shows_no_traceback() -> None:
    code = (
        "import sys; from importlib.abc import MetaPathFinder\n"
        "class Interrupt(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'hive_ingest.cli.app': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt()); from hive_ingest.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
