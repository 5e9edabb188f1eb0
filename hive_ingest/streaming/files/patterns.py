"""Paths of folders and patterns, replaced by those of their files."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator

from hive_ingest.errors import ConfigurationError, PathNotFound, StreamingIOFailure
from hive_ingest.storage import FileEntry, Location

_WILDCARDS = frozenset("*?[")


def matching_files(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    """The files of each path: itself; those in a folder; or those whose names match the pattern at its end.

    Files of a folder or a pattern are in the order of their names. As in Hive, those whose names begin with a dot or
    an underscore do not count, unless the pattern begins so. A file whose name has a wildcard in it is itself.

    Raises:
        ConfigurationError: A folder has no file, no file matches, or a wildcard is in the name of a folder.
        StreamingIOFailure: A name is not UTF-8.
    """
    for each in paths:
        path = os.fspath(each)
        _check_name(path)
        folder, _, name = path.rstrip("/").rpartition("/")
        if os.path.isdir(path) or (path.endswith("/") and path.strip("/")):
            yield from _listed(path, path.rstrip("/") or "/", "*")
        elif _WILDCARDS.isdisjoint(path) or Location.of(path).exists():
            yield path
        elif _WILDCARDS.isdisjoint(folder):
            yield from _listed(path, folder or ("/" if path.startswith("/") else "."), name)
        else:
            raise ConfigurationError(f"{path!r}: wildcards are supported in the names of files, not of folders")


def _listed(path: str, folder: str, pattern: str) -> list[str]:
    try:
        entries = Location.of(folder).list()
    except PathNotFound as error:
        raise ConfigurationError(f"{path!r}: there is no such folder") from error
    names = sorted(entry.name for entry in entries if not entry.is_folder and _is_chosen(entry, pattern))
    if not names:
        raise ConfigurationError(f"{path!r}: no file there, or none of that name")
    for name in names:
        _check_name(name)
    return [name if folder == "." else f"{folder.rstrip('/')}/{name}" for name in names]


def _is_chosen(entry: FileEntry, pattern: str) -> bool:
    is_hidden = entry.name.startswith((".", "_")) and not pattern.startswith(entry.name[0])
    return not is_hidden and fnmatch.fnmatchcase(entry.name, pattern)


def _check_name(name: str) -> None:
    """Raises StreamingIOFailure for a name with bytes that are not UTF-8, which Python represents by surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise StreamingIOFailure(
            f"{name!a}: the name of a file must be UTF-8, because its position is kept under it: rename it"
        ) from error
