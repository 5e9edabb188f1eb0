"""What a command writes to stderr: text for people, or one JSON object per line for a log collector."""

from __future__ import annotations

import datetime as dt
import enum
import json
import logging
import threading
from typing import Any

import typer

from hive_ingest.cli import failures
from hive_ingest.cli.failures import CommandFailed, error_text, one_line, without_passwords

_log = logging.getLogger("hive_ingest.cli")
#: The attributes that every record has; all others come from `extra=`.
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_format = "text"
_is_quiet = False


class LogFormat(enum.StrEnum):
    """The format of what is written to stderr."""

    TEXT = "text"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """The least important messages that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure(format: LogFormat, level: LogLevel | None) -> None:
    """Set up logging for this process.

    Args:
        format: The format of log messages and of the command's own messages.
        level: The lowest level of this package's messages; those of other libraries are written from `warning` on.
            None: `warning`; with JSON, `info`.
    """
    global _format
    _format = format.value
    if format is LogFormat.TEXT and level is None:
        return
    handler = _Stderr()
    handler.setFormatter(JsonFormatter() if format is LogFormat.JSON else _TextFormatter(_TEXT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    own = _number(level or LogLevel.INFO)
    root.setLevel(max(own, logging.WARNING))
    logging.getLogger("hive_ingest").setLevel(own)
    if format is LogFormat.JSON:
        logging.captureWarnings(True)
        threading.excepthook = _log_thread


def _number(level: LogLevel) -> int:
    return logging.getLevelNamesMapping()[level.value.upper()]


def is_configured() -> bool:
    """Whether messages of the library are written by a handler of ours."""
    return any(isinstance(each, _Stderr) for each in logging.getLogger().handlers)


def is_for_people() -> bool:
    """Whether stderr is text, not JSON."""
    return _format == "text"


def shows_progress() -> bool:
    """Whether stderr may show progress, if it is a terminal."""
    return is_for_people() and not _is_quiet


def be_quiet(quiet: bool) -> None:
    """Leave out progress and what commands say about what they did. Errors and warnings are written."""
    global _is_quiet
    _is_quiet = quiet


def confirm(text: str) -> None:
    """Print what a command has done to stdout, unless it is to be quiet."""
    if not _is_quiet:
        typer.echo(text)


def say(text: str) -> None:
    """Write a message of the command, such as that it was interrupted, unless it is to be quiet."""
    if _is_quiet:
        return
    if is_for_people():
        typer.echo(one_line(text), err=True)
    else:
        _log.info(text)


def report(error: Exception, *, with_traceback: bool) -> int:
    """Write an error, in one line or as one object. Returns the exit code."""
    if is_for_people():
        return failures.report(error, with_traceback=with_traceback)
    name = type(error.__cause__ if isinstance(error, CommandFailed) else error).__name__
    _log.error(error_text(error), exc_info=error if with_traceback else None, extra={"error": name})
    return 1


def _log_thread(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value is not None and not isinstance(failure.exc_value, SystemExit):
        name = failure.thread.name if failure.thread is not None else "a thread"
        _log.error("%s ended with an error", name, exc_info=failure.exc_value)


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Write above a progress bar, which redirects stderr while it is shown."""
        try:
            typer.echo(self.format(record), err=True)
        except Exception:  # noqa: BLE001 (as every handler: what cannot be logged must not end the command)
            self.handleError(record)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_passwords(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object, without line breaks, for each record.

    It has `time` (RFC 3339, UTC), `level`, `logger` and `message`; `exception`, the traceback, where there is one; and
    the record's own fields, such as `table` and `transaction`. Passwords in URIs are left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The object as text."""
        own = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        fields: dict[str, Any] = {
            **own,
            "time": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_passwords(record.getMessage()),
        }
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = without_passwords(self.formatException(record.exc_info))
        first = ("time", "level", "logger", "message")
        ordered = {name: fields[name] for name in (*first, *(each for each in fields if each not in first))}
        return json.dumps(ordered, default=str, ensure_ascii=False)


def _utc(seconds: float) -> str:
    at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
