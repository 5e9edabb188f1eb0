"""How a command fails: one line that says what, where and what to do; no traceback, no password."""

from __future__ import annotations

import re
import sys
import traceback

from hive_ingest.errors import StreamingError

_PASSWORD_IN_URI = re.compile(r"(://[^\s:/@]*):[^\s/]*@")


class CommandFailed(Exception):
    """An error of the library whose message is in the words of the command line; the library's is its cause."""


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
    return f"unexpected {type(error).__name__}: {error}. This is a bug: please report it, with what --debug shows"


def one_line(text: str) -> str:
    """Line breaks become spaces, and what a terminal would obey is escaped."""
    return printable(" ".join(without_passwords(text).split()))


def printable(text: str) -> str:
    """Control characters are shown as Python writes them: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def without_passwords(text: str) -> str:
    """The errors of this package hold none; this is for those of other libraries."""
    return _PASSWORD_IN_URI.sub(r"\1:***@", text)
