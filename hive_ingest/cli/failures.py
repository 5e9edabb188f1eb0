"""Errors of a command: one line that says what is wrong, where and what to do, without traceback or password."""

from __future__ import annotations

import re
import sys
import traceback

from hive_ingest.errors import StreamingError

_PASSWORD_IN_URI = re.compile(r"(://[^\s:/@]*):[^\s/]*@")


class CommandFailed(Exception):
    """An error of the library, reworded for the command line; the original error is its cause."""


def report(error: Exception, *, with_traceback: bool) -> int:
    """Print an error to stderr. Returns the exit code."""
    if with_traceback:
        print(without_passwords("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    print(f"error: {one_line(error_text(error))}", file=sys.stderr)
    return 1


def error_text(error: Exception) -> str:
    """The message of an error, with its notes."""
    if isinstance(error, StreamingError | CommandFailed):
        return " ".join([str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))])
    if isinstance(error, UnicodeEncodeError) and "utf" not in error.encoding.lower():
        character = ascii(error.object[error.start])
        return f"the output's encoding, {error.encoding}, does not have {character}: set PYTHONIOENCODING=utf-8"
    if isinstance(error, OSError) and error.filename is None:
        return f"the operating system refused to write or read: {error}. --debug shows where"
    return f"unexpected {type(error).__name__}: {error}. This is a bug: please report it, with what --debug shows"


def one_line(text: str) -> str:
    """Replace line breaks by spaces, and escape control characters, which a terminal would interpret."""
    return printable(" ".join(without_passwords(text).split()))


def printable(text: str) -> str:
    """Escape control characters as Python does: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def without_passwords(text: str) -> str:
    """Remove passwords, which errors of other libraries may contain; those of this package do not."""
    return _PASSWORD_IN_URI.sub(r"\1:***@", text)
