"""A path on any store, with the methods of `pathlib.Path` that tests use to look at a warehouse."""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

from hive_ingest.storage import FileEntry, Location, OutputFile


@functools.total_ordering
@dataclass(frozen=True, repr=False)
class StorePath:
    """Like `pathlib.Path`, on a store that the operating system does not reach; `str` gives the URI."""

    location: Location

    def __str__(self) -> str:
        return str(self.location)

    def __repr__(self) -> str:
        return f"StorePath({str(self)!r})"

    def __lt__(self, other: StorePath) -> bool:
        return self.location.path < other.location.path

    def __truediv__(self, name: str) -> StorePath:
        location = self.location
        for part in filter(None, str(name).split("/")):
            location = location / part
        return StorePath(location)

    @property
    def name(self) -> str:
        return self.location.name

    @property
    def parent(self) -> StorePath:
        return StorePath(self.location.parent)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.location.path.split("/"))

    def with_name(self, name: str) -> StorePath:
        return self.parent / name

    def relative_to(self, other: StorePath) -> str:
        return self.location.path.removeprefix(other.location.path).lstrip("/")

    # -- what is there -----------------------------------------------------------------------------

    def exists(self) -> bool:
        return self.location.exists()

    def is_dir(self) -> bool:
        found = self._entry()
        return found is not None and found.is_folder

    def is_file(self) -> bool:
        found = self._entry()
        return found is not None and not found.is_folder

    def stat(self) -> Any:
        """With `st_size` alone."""
        return SimpleNamespace(st_size=self.location.store.file_size(self.location.path))

    def _entry(self) -> FileEntry | None:
        found = {entry.name: entry for entry in self.location.parent.list(missing_ok=True)}
        return found.get(self.name)

    def iterdir(self) -> Iterator[StorePath]:
        return (self / entry.name for entry in self.location.list())

    def glob(self, pattern: str) -> Iterator[StorePath]:
        expression = re.compile("/".join(map(_segment, pattern.split("/"))).replace("**/", "(?:[^/]+/)*"))
        for path in self._below():
            if expression.fullmatch(path.relative_to(self)):
                yield path

    def rglob(self, pattern: str) -> Iterator[StorePath]:
        return self.glob(f"**/{pattern}")

    def _below(self) -> Iterator[StorePath]:
        for entry in self.location.list(recursive=True, missing_ok=True):
            yield self / entry.path.removeprefix(self.location.path)

    # -- content -----------------------------------------------------------------------------------

    def open(self, mode: Literal["rb", "wb"]) -> Any:
        """A file object; writing creates the file."""
        return self.location.create(sync=False) if mode == "wb" else io.BytesIO(self.read_bytes())

    def read_bytes(self) -> bytes:
        with self.location.open_input() as file:
            return bytes(file.read())

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        self.location.delete_file()
        with self.location.create(sync=False) as out:
            assert isinstance(out, OutputFile)
            out.write(data)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def touch(self) -> None:
        if not self.exists():
            self.write_bytes(b"")

    # -- changes -----------------------------------------------------------------------------------

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        self.location.make_folder(exist_ok=exist_ok, parents=parents)

    def rename(self, target: StorePath) -> StorePath:
        """Of a file, or of a folder."""
        source = self.location
        if self.is_dir() and source.store.can_rename_folders:
            source.store.rename_folder(source.path, target.location.path)
        elif self.is_dir():
            copy_tree(self, target)
            source.delete_folder()
        else:
            source.rename(target.location)
        return target

    def unlink(self) -> None:
        self.location.delete_file()

    def rmdir(self) -> None:
        assert self.location.store.delete_empty_folder(self.location.path), f"{self} is not empty"


def _segment(pattern: str) -> str:
    if pattern == "**":
        return pattern
    return re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]").replace(r"\[", "[").replace(r"\]", "]")


def remove_tree(path: Any) -> None:
    """Remove a folder, of the local file system or of a store, as other programs do: they leave uploads alone."""
    folder = Location.of(os.fspath(path) if isinstance(path, os.PathLike) else str(path))
    entries = folder.list(recursive=True)
    for entry in entries:
        if not entry.is_folder:
            folder.store.delete_file(entry.path)
    for path in (*(entry.path for entry in reversed(entries) if entry.is_folder), folder.path):
        folder.store.delete_empty_folder(path)


def copy_tree(source: Any, target: Any, *, dirs_exist_ok: bool = False) -> None:
    """Copy a folder between, or within, the local file system and stores."""
    target.mkdir(parents=True, exist_ok=dirs_exist_ok)
    for path in source.iterdir():
        if path.is_dir():
            copy_tree(path, target / path.name, dirs_exist_ok=dirs_exist_ok)
        else:
            (target / path.name).write_bytes(path.read_bytes())
