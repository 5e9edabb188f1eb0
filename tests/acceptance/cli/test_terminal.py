"""What only a person at a terminal sees: progress, and the completion of commands."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli.shell import Shell, records

pytestmark = pytest.mark.one_embedded


def on_terminal(*command: str | Path) -> str:
    """Run the command with a terminal as its stderr. Returns what the terminal got."""
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "200"}
    program = [sys.executable, "-m", "hive_ingest", *map(str, command)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                block = os.read(leader, 1 << 16)
            except OSError:  # Linux: the other end is closed
                break
            if not block:
                break
            shown += block
    os.close(leader)
    assert process.returncode == 0, shown
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_an_ingest_shows_rows_per_second_and_the_time_left(alerts: Shell, tmp_path: Path) -> None:
    path = records(tmp_path / "a.json", 30)
    shown = on_terminal("ingest", "web.alerts", path, "--rows-per-transaction", "10")
    assert re.search(r"100 % 30 rows, 3 transactions, [\d,]+ rows/s +\d:\d\d:\d\d left \d:\d\d:\d\d", shown), shown
    assert on_terminal("--quiet", "ingest", "web.alerts", path) == ""
    assert on_terminal("--log-format", "json", "ingest", "web.alerts", path, "--sink", "b").count("rows/s") == 0


@pytest.mark.parametrize(
    ("typed", "choices"),
    [
        ("drop", ["drop-partition", "drop-table"]),
        ("sinks seek", ["seek", "seek-file"]),
        ("ingest web.logs --max-bad", ["--max-bad-record-share", "--max-bad-records"]),
        ("read web.logs -o a", ["arrow"]),
    ],
)
def test_bash_completes_commands_options_and_choices(typed: str, choices: list[str]) -> None:
    words = ["hive-ingest", *typed.split(" ")]
    script = f"""
        eval "$(hive-ingest --show-completion)"
        complete -p hive-ingest > /dev/null || exit 9
        COMP_WORDS=({" ".join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}
        _hive_ingest_completion hive-ingest
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, sorted(done.stdout.split())) == (0, choices), done.stderr
