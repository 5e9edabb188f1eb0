"""Rewords error messages of the library for the command line.

The library names its arguments (`if_not_exists=True`) and settings (`lock_wait_seconds`). A command has an option of
the same name for most of them; the parameter of the command's function has the argument's name, so the
translation is derived from the options themselves. Settings without an option are set in the environment.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from hive_ingest.cli.failures import CommandFailed, error_text

#: `name`, `name=True`, `name=False`, `name='value'`: not inside quotes, a path or a dotted name.
_ARGUMENT = re.compile(r"(?<![\w'\"`./<>-])([a-z][a-z_]*[a-z])(?:=(True|False)\b|(=)(?=[^\s=])|(?![\w'\"`/(=-]))")

#: An option with a value that Python quotes.
_QUOTED_VALUE = re.compile(r"(?<![\w'\"`./<>-])(--[a-z][a-z-]*)='([\w.,-]+)'")

#: What only one command can do, for all others.
_ELSEWHERE = {
    "create": "`hive-ingest create-table --create-metastore`",
    "create_database": "`hive-ingest create-table --create-database`",
}
#: Choices of Python objects, and steps that a command takes itself.
_PHRASES = {
    "StrictJsonWriter or ArrowWriter": "--format json",
    "write the transaction again": "run the command again",
    "begin a new transaction": "run the command again",
}


class Command(TyperCommand):
    """A command whose errors name its own options instead of the library's arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. An option of the program that follows the command is refused with its place."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)
            if option is None or all(option not in each.opts for each in ctx.find_root().command.params):
                raise
            raise typer.BadParameter("write it before the command", param_hint=option) from error

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            CommandFailed: Any error of the library, reworded for the command line.
        """
        from hive_ingest.errors import StreamingError

        # The keys of a file are the library's arguments, and most of them cannot be given as options beside it.
        names = _ELSEWHERE if ctx.params.get("config") else option_names(self)
        try:
            with _logged_in(names):
                return super().invoke(ctx)
        except StreamingError as error:
            raise CommandFailed(in_option_names(error_text(error), names)) from error


class _InOptionNames(logging.Filter):
    """Rewords what the library logs."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__("hive_ingest")
        self._names = names

    def filter(self, record: logging.LogRecord) -> bool:
        """Reword a record of the library, and let every record pass."""
        if super().filter(record):
            record.msg, record.args = in_option_names(record.getMessage(), self._names), None
        return True


@contextmanager
def _logged_in(names: Mapping[str, str]) -> Iterator[None]:
    """What is logged to stderr has the command line's names of arguments."""
    handlers = [each for each in (logging.lastResort, *logging.getLogger().handlers) if each is not None]
    reword = _InOptionNames(names)
    for handler in handlers:
        handler.addFilter(reword)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(reword)


def option_names(command: TyperCommand) -> dict[str, str]:
    """The command line's name of each argument and setting of the library: an option, else a variable.

    `name=False` stands for the option that turns a flag off, where there is one.
    """
    from hive_ingest.config import StreamingSettings

    variables = {
        setting.name: f"HIVE_INGEST_{setting.name.upper()}" for setting in dataclasses.fields(StreamingSettings)
    }
    given = [each for each in command.params if each.name and isinstance(each, TyperOption)]
    options = {each.name: each.opts[0] for each in given}
    negated = {f"{each.name}=False": each.secondary_opts[0] for each in given if each.secondary_opts}
    return variables | _ELSEWHERE | options | negated


def in_option_names(text: str, names: Mapping[str, str]) -> str:
    """A message with arguments as the command line has them.

    `if_not_exists=True` becomes `--if-not-exists`, `header=False` becomes `--no-header`, and `on_error='skip'` becomes
    `--on-error skip`.

    A single word, such as `columns`, is replaced only where a value follows: it may be an ordinary word.
    """

    def replacement(found: re.Match[str]) -> str:
        name, flag, has_value = found.groups()
        option = names.get(name)
        if option is None or not (flag or has_value or "_" in name):
            return found[0]
        if flag and option.startswith("HIVE_INGEST_"):
            return f"{option}={flag.lower()}"
        if flag == "False":
            return names.get(f"{name}=False", found[0])
        return f"{option}=" if has_value else option

    for phrase, option in _PHRASES.items():
        text = text.replace(phrase, option)
    return _QUOTED_VALUE.sub(r"\1 \2", _ARGUMENT.sub(replacement, text))
