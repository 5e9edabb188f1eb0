"""Paths and keys of object stores: what a listing of keys says about folders, and what a process remembers of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from hive_ingest.storage.file_store import FileEntry

#: How much is remembered to spare requests.
_MOST_RECENT: Final = 1000


def key_of(path: str) -> str:
    """The key of a path."""
    return path.lstrip("/")


class RecentPaths:
    """Paths that this process has added last, of which it need not ask the service. Safe from several threads."""

    def __init__(self, most: int = _MOST_RECENT) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._paths: dict[str, None] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def add(self, path: str) -> None:
        with self._lock:
            self._paths[path] = None
            if len(self._paths) > self._most:
                del self._paths[next(iter(self._paths))]

    def forget(self, path: str) -> None:
        """With all paths below it."""
        path = path.rstrip("/")
        with self._lock:
            self._paths = {each: None for each in self._paths if each != path and not each.startswith(f"{path}/")}


def prefix_of(path: str) -> str:
    """How the keys in a folder begin; empty for the whole bucket."""
    key = key_of(path).rstrip("/")
    return f"{key}/" if key else ""


def with_folders_above(path: str) -> list[str]:
    """A folder, the one it lies in, and so on; not the whole bucket."""
    found = []
    while key_of(path := path.rstrip("/")):
        found.append(path)
        path = path.rpartition("/")[0]
    return found


def folder_entry(path: str) -> FileEntry:
    return FileEntry(path, path.rpartition("/")[2], 0, True)


def entries_of(path: str, key: str, size: int) -> Iterator[FileEntry]:
    """A listed object, and the folders between it and the folder that is listed."""
    if f"/{key}" == f"{path}/":
        return
    parts = f"/{key}"[len(path) + 1 :].rstrip("/").split("/")
    for depth in range(1, len(parts)):
        yield folder_entry(f"{path}/{'/'.join(parts[:depth])}")
    whole = f"{path}/{'/'.join(parts)}"
    yield folder_entry(whole) if key.endswith("/") else FileEntry(whole, parts[-1], size, False)
