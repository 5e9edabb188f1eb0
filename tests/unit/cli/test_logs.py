"""JSON logs: one object on each line, with what the record knows."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.cli.logs import JsonFormatter


def formatted(message: str, *arguments: object, **values: Any) -> dict[str, Any]:
    record = logging.getLogger("hive_ingest.x").makeRecord(
        "hive_ingest.x", logging.WARNING, "file.py", 1, message, arguments, values.pop("exc_info", None), extra=values
    )
    record.created = 1_700_000_000.25
    text = JsonFormatter().format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_a_record_has_time_level_logger_and_message_first() -> None:
    found = formatted("transaction %d\nfailed", 7, transaction=7, table="web.t")
    assert found == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "hive_ingest.x",
        "message": "transaction 7\nfailed",
        "transaction": 7,
        "table": "web.t",
    }
    assert [*found][:4] == ["time", "level", "logger", "message"]


def test_a_field_of_the_record_does_not_replace_those() -> None:
    found = formatted("text", time="never", level=3, path=Path("x"))
    assert (found["time"], found["level"], found["path"]) == ("2023-11-14T22:13:20.250Z", "warning", "x")


def test_an_exception_is_one_field_without_passwords() -> None:
    try:
        raise ValueError("cannot reach postgresql://me:secret@host/db")
    except ValueError:
        found = formatted("failed at thrift://me:secret@host", exc_info=sys.exc_info())
    assert found["exception"].startswith("Traceback")
    assert found["exception"].endswith("cannot reach postgresql://me:***@host/db")
    assert found["message"] == "failed at thrift://me:***@host"


def run(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "hive_ingest.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), **environment},
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("options", "environment"),
    [(("--log-format", "json"), {}), ((), {"HIVE_INGEST_LOG_FORMAT": "json"})],
    ids=["option", "environment"],
)
def test_an_error_of_a_command_is_an_object_too(
    tmp_path: Path, options: tuple[str, ...], environment: dict[str, str]
) -> None:
    missing = f"sqlite:///{tmp_path}/none.db"
    status, [line] = run(*options, "read", "web.t", "--metastore", missing, **environment)
    found = json.loads(line)
    assert status == 1
    assert (found["level"], found["logger"], "exception" in found) == ("error", "hive_ingest.cli", False)
    assert f"{tmp_path}/none.db" in found["message"]
    assert found["error"] == "MetastoreError", "of the library, not of the command line"


def test_with_debug_the_object_has_the_traceback(tmp_path: Path) -> None:
    missing = f"sqlite:///{tmp_path}/none.db"
    _, lines = run("--log-format", "json", "--debug", "read", "web.t", "--metastore", missing)
    assert json.loads(lines[-1])["exception"].startswith("Traceback")


def test_text_is_the_default(tmp_path: Path) -> None:
    status, [line] = run("read", "web.t", "--metastore", f"sqlite:///{tmp_path}/none.db")
    assert status == 1
    assert line.startswith("error: ")


def test_other_libraries_write_warnings_only() -> None:
    code = """
import logging
from hive_ingest.cli.logs import LogFormat, LogLevel, configure
configure(LogFormat.JSON, LogLevel.DEBUG)
for name in ("hive_ingest.x", "kafka.conn"):
    for level in (logging.DEBUG, logging.WARNING):
        logging.getLogger(name).log(level, "text")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    written = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(each["logger"], each["level"]) for each in written] == [
        ("hive_ingest.x", "debug"),
        ("hive_ingest.x", "warning"),
        ("kafka.conn", "warning"),
    ]


def test_text_with_a_level_has_time_and_logger() -> None:
    code = """
import logging
from hive_ingest.cli.logs import LogFormat, LogLevel, configure
configure(LogFormat.TEXT, LogLevel.INFO)
logging.getLogger("hive_ingest.x").info("at %s", "thrift://me:secret@host")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[-\d]+ [:,\d]+ INFO hive_ingest\.x: at thrift://me:\*\*\*@host\n", done.stderr)


@pytest.mark.parametrize("option", ["--quiet", "-q", "--log-format"])
def test_an_option_of_the_program_after_the_command_is_refused_with_its_place(option: str) -> None:
    """The error for --quiet suggested --quote."""
    status, lines = run("read", "web.t", "--metastore", "sqlite:///x", option)
    assert status == 2
    assert f"{option}: write it before the command" in lines[-1]


def test_an_unknown_level_is_a_usage_error() -> None:
    status, lines = run("--log-level", "loud", "read", "web.t", "--metastore", "sqlite:///x")
    assert status == 2
    assert "'loud' is not one of" in "\n".join(lines)
