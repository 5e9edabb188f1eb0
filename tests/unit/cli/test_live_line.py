"""The line on the terminal while topics are ingested."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from hive_ingest.cli.live_line import WINDOW_SECONDS, IngestLine, live_line
from tests.support.kafka_stats import Ingest


def test_the_line_shows_lag_rate_commits_and_bad_messages() -> None:
    line, ingest = IngestLine(), Ingest()
    first = "landing | 2 partitions | lag 10+? | 0 rows/s | 90 rows in 3 commits | 2 bad messages | queue full"
    assert line.next(ingest.stats, 0.0) == first

    ingest.commit_all()
    ingest.route = replace(ingest.route, bad_messages=0, rows=3090, heartbeat_age_seconds=4.2)
    second = "landing | 2 partitions | lag 0 | 1,500 rows/s | 3,090 rows in 4 commits | heartbeat 4 s ago"
    assert line.next(ingest.stats, 2.0) == second


def test_the_rate_is_that_of_the_last_seconds() -> None:
    line, ingest = IngestLine(), Ingest()
    for second in range(60):
        ingest.route = replace(ingest.route, rows=second * 100 if second < 30 else 3000)
        text = line.next(ingest.stats, float(second))
        if second == 25:
            assert " 100 rows/s " in text
    assert " 0 rows/s " in text
    assert len(line._rate._seen) <= WINDOW_SECONDS + 2


def test_nothing_is_shown_where_stderr_is_not_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with live_line(lambda: Ingest().stats):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with live_line(lambda: Ingest().stats):
        pass
    assert "landing | 2 partitions | lag 10+?" in terminal.getvalue()
