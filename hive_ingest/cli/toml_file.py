"""TOML files whose errors name the line, the key and the nearest key that is valid."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_ingest.errors import ConfigurationError

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*(["']?)([\w-]+)\1\s*[.=]""")

#: Names of tables and keys, and positions in arrays of tables.
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class TomlSection:
    """A table of a file: the file's root, `[name]`, one of `[[name]]`, or an inline table.

    Attributes:
        values: As TOML has them.
    """

    file: str
    text: str
    path: _Path
    values: dict[str, Any]

    def check_keys(self, known: Iterable[str]) -> None:
        """Raises ConfigurationError for a key that is not among them."""
        names = sorted(known)
        for key in self.values:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
                raise self.error(key, f"unknown key {key!r}; {hint}")

    def required(self, key: str) -> Any:
        """A value that must be there."""
        if key not in self.values:
            raise ConfigurationError(f"{self._where()}: {key!r} is missing")
        return self.values[key]

    def section(self, key: str) -> TomlSection:
        """The table below a key; empty if there is none."""
        found = self.values.get(key, {})
        if not isinstance(found, dict):
            raise self.error(key, f"{key!r} must be a table: {key} = {{ … }}")
        return TomlSection(self.file, self.text, (*self.path, key), found)

    def sections(self, key: str) -> list[TomlSection]:
        """The array of tables below a key; empty if there is none."""
        found = self.values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self.error(key, f"{key!r} must be an array of tables: [[{key}]]")
        return [TomlSection(self.file, self.text, (*self.path, key, i), each) for i, each in enumerate(found)]

    def error(self, key: str, message: str) -> ConfigurationError:
        """An error in the value of a key."""
        return ConfigurationError(f"{self._where(key)}: {message}")

    def _where(self, *key: str) -> str:
        line = _line_of(self.text, (*self.path, *key))
        return f"{self.file}, line {line}" if line else self.file


def read_toml(path: Path) -> TomlSection:
    """The root of a file.

    Raises:
        ConfigurationError: It cannot be read, or is not TOML.
    """
    try:
        text = path.read_text("utf-8")
        return TomlSection(str(path), text, (), tomllib.loads(text))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _line_of(text: str, path: _Path) -> int | None:
    """The line of a key, or else of the table that it is in; None for the root."""
    lines: dict[_Path, int] = {}
    for found, number in _keys(text):
        lines.setdefault(found, number)
        lines.setdefault(found[:-1], number)  # of an array of tables, the first one
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _keys(text: str) -> Iterator[tuple[_Path, int]]:
    """The paths of the tables and keys that begin a line, with the line's number."""
    table: _Path = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _table_path(header[2], header[1] == "[[", counts)
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, key[2]), number


def _table_path(name: str, is_array: bool, counts: dict[str, int]) -> _Path:
    """`[a.b]` as ("a", "b"); below an array of tables, with the position of the current one."""
    if is_array:
        counts[name] = counts.get(name, -1) + 1
    path: list[str | int] = []
    for depth, part in enumerate(parts := name.split(".")):
        path.append(part.strip().strip("\"'"))
        prefix = ".".join(parts[: depth + 1])
        if prefix in counts:
            path.append(counts[prefix])
    return tuple(path)
