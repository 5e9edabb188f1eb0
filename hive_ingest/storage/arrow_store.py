"""Other file systems, through `pyarrow.fs`.

Google Cloud Storage can be listed and read. pyarrow cannot create an object there on the condition that its name is
free, and a rename is a copy: of two writers with the same write id one would replace the files of the other, so
writing is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.fs as pafs

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage.file_store import BytesLike, FileEntry, FileStore, OutputFile, io_errors

_WITH_ATOMIC_RENAME = frozenset({"local"})
#: By pyarrow's name of the file system.
_SERVICES = {"gcs": "Google Cloud Storage"}
#: Where pyarrow lists only folders that have an object of their own (apache/arrow issue 35993).
_WITHOUT_FOLDERS = frozenset({"gcs"})


class ArrowOutputFile(OutputFile):
    """A file that is written through a pyarrow stream."""

    def __init__(self, filesystem: pafs.FileSystem, path: str) -> None:
        self.path = path
        self._filesystem = filesystem
        with io_errors("create", path):
            self._stream = filesystem.open_output_stream(path)

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def tell(self) -> int:
        return int(self._stream.tell())

    def write(self, data: BytesLike) -> int:
        with io_errors("write", self.path):
            return int(self._stream.write(data))

    def close(self) -> None:
        if self.closed:
            return
        try:
            with io_errors("finish", self.path):
                self._stream.close()
        except StreamingIOFailure as failure:
            self._remove_after(failure)
            raise

    def discard(self) -> None:
        if self.closed:
            return
        with io_errors("remove", self.path):
            self._stream.close()
            self._filesystem.delete_file(self.path)

    def _remove_after(self, failure: StreamingIOFailure) -> None:
        try:
            self._filesystem.delete_file(self.path)
        except (OSError, pa.ArrowException) as error:
            failure.add_note(f"and the unfinished file could not be removed: {error}")


class ArrowStore(FileStore):
    """Paths are those of the pyarrow file system (`bucket/key` on an object store)."""

    has_folders = False
    can_rename_folders = False

    def __init__(self, open_filesystem: Callable[[], pafs.FileSystem]) -> None:
        """
        Args:
            open_filesystem: Called at the first use, because that of S3 asks the network for the bucket's region.
        """
        self._open_filesystem = open_filesystem

    @functools.cached_property
    def _filesystem(self) -> pafs.FileSystem:
        return self._open_filesystem()

    def create(self, path: str, *, sync: bool) -> OutputFile:
        self.require_atomic_rename("write", path)
        if self.exists(path):
            raise PathExists(f"cannot create {path!r}: it exists already and is never replaced")
        return ArrowOutputFile(self._filesystem, path)

    def open_input(self, path: str) -> pa.NativeFile:
        with io_errors("open", path):
            return self._filesystem.open_input_file(path)

    def rename(self, source: str, target: str) -> None:
        self.require_atomic_rename("rename", source)
        if self.exists(target):
            raise PathExists(f"cannot rename {source!r} to {target!r}: the target exists already")
        with io_errors("rename", f"{source} to {target}"):
            self._filesystem.move(source, target)

    def make_folder(self, path: str, *, exist_ok: bool = True, parents: bool = True) -> list[str]:
        self.require_atomic_rename("make folder", path)
        missing: list[str] = []
        path = path.rstrip("/")
        parent = path
        if not exist_ok and self.exists(path):
            raise PathExists(f"cannot make folder {path!r}: it exists already")
        if not parents and not self.exists(path.rpartition("/")[0]):
            raise PathNotFound(f"cannot make folder {path!r}: the folder above it is missing")
        while parent and not self.exists(parent):
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        with io_errors("make folder", path):
            self._filesystem.create_dir(path, recursive=True)
        return missing[::-1]

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Nothing to do: what can be written here has no folders to sync."""

    def list(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> list[FileEntry]:
        if not missing_ok and not self.exists(path):
            raise PathNotFound(f"cannot list {path!r}: there is no such folder")
        lists_all = self._filesystem.type_name in _WITHOUT_FOLDERS
        with io_errors("list", path):
            selector = pafs.FileSelector(path, allow_not_found=True, recursive=recursive or lists_all)
            found = self._filesystem.get_file_info(selector)
        entries = [FileEntry(f.path, f.base_name, f.size or 0, f.type == pafs.FileType.Directory) for f in found]
        if lists_all:
            entries = _with_folders(path, entries, recursive=recursive)
        return sorted(entries, key=lambda entry: entry.path)

    def exists(self, path: str) -> bool:
        with io_errors("look at", path):
            return bool(self._filesystem.get_file_info(path).type != pafs.FileType.NotFound)

    def file_size(self, path: str) -> int:
        with io_errors("look at", path):
            found = self._filesystem.get_file_info(path)
        if found.type == pafs.FileType.NotFound:
            raise PathNotFound(f"cannot look at {path!r}: there is no such file")
        return int(found.size)

    def delete_file(self, path: str) -> None:
        with io_errors("delete", path):
            if self.exists(path):
                self._filesystem.delete_file(path)

    def delete_folder(self, path: str) -> None:
        with io_errors("delete folder", path):
            if self.exists(path):
                self._filesystem.delete_dir(path)

    def delete_empty_folder(self, path: str) -> bool:
        if self.list(path, missing_ok=True):
            return False
        self.delete_folder(path)
        return True

    def require_atomic_rename(self, action: str, path: str) -> None:
        kind = self._filesystem.type_name
        if kind not in _WITH_ATOMIC_RENAME:
            raise UnsupportedFeature(
                f"cannot {action} {path!r}: {_SERVICES.get(kind, kind)} is supported for reading only (its conditional "
                "writes, which keep two writers from replacing each other's files, have not been tested): keep the "
                "table on a local file system, on HDFS, on S3 or on Azure Storage"
            )


def _with_folders(path: str, entries: Sequence[FileEntry], *, recursive: bool) -> list[FileEntry]:
    """With the folders that only the names of the files in them show; without `recursive`, no more than one level."""
    start = len(path) + 1
    found = {entry.path: entry for entry in entries}
    for entry in entries:
        folders = entry.path[start:].split("/")[:-1]
        for depth, name in enumerate(folders, 1):
            folder = f"{path}/{'/'.join(folders[:depth])}"
            found.setdefault(folder, FileEntry(folder, name, 0, True))
    return [entry for entry in found.values() if recursive or "/" not in entry.path[start:]]
