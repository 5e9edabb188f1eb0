"""What the stores of objects have in common: names are taken by conditional requests, and folders are made of objects.

A folder is there if an object lies in it, or an empty object that stands for it, its marker.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage.file_store import FileStore, OutputFile
from hive_ingest.storage.objects.paths import RecentPaths, key_of, prefix_of
from hive_ingest.storage.objects.staged import KEPT_BYTES, StagedFiles

#: As many as two transactions of 10,000 files have.
_MOST_RENAMED: Final = 20_000


class ObjectClient(Protocol):
    """Calls that every store of objects has. Methods raise StreamingIOFailure (PathNotFound, PathExists)."""

    def uri(self, path: str) -> str:
        """Of a path, for errors."""

    def put_new(self, action: str, path: str, key: str, data: bytes | bytearray, *, token: str | None = None) -> None:
        """Create an object in one request. Raises PathExists, unless the object there has this token."""

    def has_token(self, path: str, key: str, token: str) -> bool:
        """Whether the object there is the one that was created with this token."""


class ObjectStore(FileStore):
    """Paths are those of one bucket or container: `/` and the key."""

    # A request takes tens of milliseconds, whatever its size.
    parallel_files = 16
    can_rename_folders = False
    first_file_makes_folder = True
    spills_locally = True
    closes_slowly = True
    kept_bytes = KEPT_BYTES

    def __init__(self, client: ObjectClient, staged: StagedFiles[Any]) -> None:
        self._objects = client
        self._staged_files = staged
        self._lock = threading.Lock()
        #: The later name of a hidden file, and whether it may stay in memory until it gets that.
        self._announced: dict[str, tuple[str, bool]] = {}
        #: Announced files that were renamed: whoever cleans up removes them again, under names that nobody else uses.
        self._renamed = RecentPaths(_MOST_RENAMED)
        #: Folders that are there, as far as this process knows.
        self._known = RecentPaths()

    # -- what differs --------------------------------------------------------------------------------

    @abstractmethod
    def _new_file(self, path: str, target: str | None, *, stays_here: bool) -> OutputFile:
        """A file in a folder that is there, whose name is free or has a target."""

    @abstractmethod
    def _is_file(self, path: str) -> bool:
        """Whether an object has this name that is no marker."""

    @abstractmethod
    def _is_folder(self, path: str) -> bool: ...

    @abstractmethod
    def _marker_of(self, path: str) -> str:
        """The key of a folder's marker."""

    @abstractmethod
    def _put_marker(self, path: str) -> None:
        """Raises PathExists."""

    @abstractmethod
    def _require_alone(self, path: str, key: str) -> None:
        """Raises PathExists if a folder holds another object than the one that has just made it."""

    @abstractmethod
    def _delete(self, path: str) -> None:
        """Delete one object; a missing one is not an error."""

    # -- files -------------------------------------------------------------------------------------

    def announce_rename(self, path: str, target: str, *, here: bool = False) -> None:
        with self._lock:
            self._announced[path] = target, here

    def create(self, path: str, *, sync: bool) -> OutputFile:
        with self._lock:
            target, stays_here = self._announced.pop(path, (None, False))
        if path in self._renamed:
            self._renamed.forget(path)
        self._require_folder("create", path)
        if target is None and self._is_file(path):  # a hidden name is taken when the file is finished
            raise PathExists(f"cannot create {self._objects.uri(path)!r}: it exists already and is never replaced")
        return self._new_file(path, target, stays_here=stays_here)

    def create_all(self, paths: Sequence[str], data: bytes, *, sync: bool) -> None:
        for first in {path.rpartition("/")[0]: path for path in paths}.values():
            self._require_folder("create", first)

        def put(path: str) -> None:
            self._objects.put_new("create", path, key_of(path), data)

        with ThreadPoolExecutor(max(1, min(len(paths), self.parallel_files)), "hive-ingest-files") as pool:
            list(pool.map(put, paths))

    def rename(self, source: str, target: str) -> None:
        self.publish(source, target)
        if source not in self._renamed:
            self._delete(source)
            self._renamed.add(source)

    def _publish_kept(self, what: str, source: str, target: str) -> bool:
        """Publish a file that is in memory alone. Returns whether it was."""
        kept = self._staged_files.kept(source)
        if kept is None:
            return False
        kept.put(self._objects, "rename", what, key_of(target))
        self._staged_files.drop(source)
        self._renamed.add(source)
        return True

    def drop_kept(self, path: str) -> bool:
        return self._staged_files.drop(path)

    # -- folders -----------------------------------------------------------------------------------

    def make_folder(self, path: str, *, exist_ok: bool = True, parents: bool = True) -> list[str]:
        path = path.rstrip("/")
        if not exist_ok:
            return self._make_exclusively(path, parents)
        if path in self._known or self._is_folder(path):
            return []
        self._refuse_file(path)
        made = self._make_above(path, parents)
        try:
            self._mark(path)
        except PathExists:
            return made
        return [*made, path]

    def _make_exclusively(self, path: str, parents: bool) -> list[str]:
        """Of a new ACID folder, whose name no file gets. The marker may be gone since files were published in it."""
        made = self._make_above(path, parents)
        self._mark(path)
        marker = self._marker_of(path)
        try:
            self._require_alone(path, marker)
        except StreamingIOFailure as failure:
            self._known.forget(path)
            self._withdraw(marker, failure)
            raise
        return [*made, path]

    def make_folder_with(self, path: str, name: str, data: bytes) -> None:
        path = path.rstrip("/")
        self._require_folder("make folder", path)
        key, token = prefix_of(path) + name, uuid.uuid4().hex
        try:
            self._objects.put_new("make folder", path, key, data, token=token)
        except PathExists:
            raise
        except StreamingIOFailure as failure:  # it may have been made: whoever withdraws the transaction cannot know
            with contextlib.suppress(StreamingIOFailure):
                if self._objects.has_token(path, key, token):
                    self._withdraw(key, failure)
            raise
        try:
            self._require_alone(path, key)
        except StreamingIOFailure as failure:
            self._withdraw(key, failure)
            raise

    def _withdraw(self, key: str, failure: StreamingIOFailure) -> None:
        """Remove an object after an error, to which one of the removal is added."""
        try:
            self._delete(f"/{key}")
        except StreamingIOFailure as error:
            failure.add_note(f"and /{key} could not be removed: {error}")

    def _make_above(self, path: str, parents: bool) -> list[str]:
        if parents:
            return self.make_folder(path.rpartition("/")[0])
        self._require_folder("make folder", path)
        return []

    def _mark(self, path: str) -> None:
        """Raises PathExists."""
        self._put_marker(path)
        self._known.add(path)

    def _refuse_file(self, path: str) -> None:
        if self._is_file(path):
            raise StreamingIOFailure(
                f"cannot make folder {self._objects.uri(path)!r}: it is a file, not a folder: check the location"
            )

    def _require_folder(self, action: str, path: str) -> None:
        above = path.rpartition("/")[0]
        if above in self._known:
            return
        if not self._is_folder(above):
            raise PathNotFound(f"cannot {action} {self._objects.uri(path)!r}: the folder above it is missing")
        self._known.add(above)

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Nothing: what was answered is stored."""

    def exists(self, path: str) -> bool:
        return self._is_folder(path) or self._is_file(path)

    def delete_folder(self, path: str) -> None:
        while not self.delete_some(path):
            pass

    def rename_folder(self, source: str, target: str) -> None:
        raise UnsupportedFeature(
            f"cannot rename {self._objects.uri(source)!r} to {target!r}: an object store cannot rename a folder in one "
            "step; create a new table and copy the rows"
        )

    def _missing_or_file(self, path: str) -> StreamingIOFailure:
        """The error of a listing of what is no folder."""
        uri = self._objects.uri(path)
        if self._is_file(path):
            return StreamingIOFailure(f"cannot list {uri!r}: it is a file, not a folder: check the location")
        return PathNotFound(f"cannot list {uri!r}: there is no such folder, it is missing")
