"""The store for HDFS, through hdfs-native."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hive_ingest.errors import PathNotFound, StreamingIOFailure
from hive_ingest.storage.file_store import FileEntry, FileStore, OutputFile
from hive_ingest.storage.hadoop_conf import core_site
from hive_ingest.storage.hdfs.client import HdfsClient, is_answer_lost
from hive_ingest.storage.hdfs.files import HdfsInputFile, HdfsOutputFile
from hive_ingest.storage.hdfs.mount_table import MountTable

if TYPE_CHECKING:
    from hdfs_native import FileStatus

#: The default of Hadoop's own client: everybody may read.
_FOLDER_PERMISSION = 0o755
#: How often a rename is tried whose answer is lost each time.
_MAX_RENAMES = 5
#: Prefix of folders that are not yet renamed, which a killed process may leave; the dot hides them from all readers.
_HIDDEN_FOLDER = ".hive_ingest_mkdir_"


class HdfsStore(FileStore):
    """A store whose paths are those of one name service, or of a viewfs."""

    # Finishing a file takes some calls to the NameNode and a sync of a DataNode's disk. A thread only waits for them.
    parallel_files = 64
    spills_locally = True
    closes_slowly = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = HdfsClient(url)

    @functools.cached_property
    def _mounts(self) -> MountTable:
        scheme, _, authority = self._url.rstrip("/").partition("://")
        return MountTable.of_properties(core_site(), authority) if scheme == "viewfs" else MountTable()

    def can_rename(self, source: str, target: str) -> bool:
        return self._mounts.mount_point(source) == self._mounts.mount_point(target)

    def create(self, path: str, *, sync: bool) -> OutputFile:
        return HdfsOutputFile(self._client, path, sync=sync)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(HdfsInputFile(self._client, path), mode="r")

    def rename(self, source: str, target: str) -> None:
        before = self._status(source)
        for left in reversed(range(_MAX_RENAMES)):
            try:
                self._client.call("rename", f"{source} to {target}", lambda hdfs: hdfs.rename(source, target, False))
                return
            except StreamingIOFailure as failure:
                # A call whose answer was lost may have taken effect, and a repeated one finds the source gone.
                was_renamed = self._was_renamed(before, source, target)
                if was_renamed:
                    return
                if was_renamed is None or not left or not is_answer_lost(failure):
                    raise

    def _was_renamed(self, before: FileStatus, source: str, target: str) -> bool | None:
        """Whether the source is gone, and the target is what the source was. None: HDFS does not tell."""
        try:
            if self.exists(source):
                return False
            after = self._status(target)
        except PathNotFound:
            return False
        except StreamingIOFailure:
            return None
        # A rename changes neither. HDFS gives every write a time of its own, in ms.
        return (after.isdir, after.length, after.modification_time) == (
            before.isdir,
            before.length,
            before.modification_time,
        )

    def make_folder(self, path: str, *, exist_ok: bool = True, parents: bool = True) -> list[str]:
        path = path.rstrip("/")
        made = []
        above = path.rpartition("/")[0]
        if parents and above and not self.exists(above):
            made = self.make_folder(above)
        if not exist_ok:
            self._make_exclusively(path)
            return [*made, path]
        if self._is_folder(path):
            return made
        self._mkdir(path)
        return [*made, path]

    def _is_folder(self, path: str) -> bool:
        try:
            is_folder = bool(self._status(path).isdir)
        except PathNotFound:
            return False
        if not is_folder:
            raise StreamingIOFailure(f"cannot make folder {path!r}: it is a file, not a folder: check the location")
        return True

    def _make_exclusively(self, path: str) -> None:
        """HDFS's mkdir succeeds when the folder exists; its rename does not."""
        above, _, name = path.rpartition("/")
        hidden = f"{above}/{_HIDDEN_FOLDER}{uuid.uuid4().hex}_{name}"
        self._mkdir(hidden)
        try:
            self.rename(hidden, path)
        except StreamingIOFailure as failure:
            try:
                self.delete_folder(hidden)
            except StreamingIOFailure as error:
                failure.add_note(f"and {hidden!r} could not be removed: {error}")
            raise

    def _mkdir(self, path: str) -> None:
        self._client.call("make folder", path, lambda hdfs: hdfs.mkdirs(path, _FOLDER_PERMISSION, False), repeat=True)

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Nothing to do: the NameNode writes every name to its journal before it answers."""

    def list(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> list[FileEntry]:
        try:
            found = self._statuses(path)
        except PathNotFound:
            if missing_ok:
                return []
            raise
        return sorted(self._entries(found, recursive), key=lambda entry: entry.path)

    def _entries(self, found: Iterable[FileStatus], recursive: bool) -> Iterator[FileEntry]:
        for status in found:
            name = status.path.rpartition("/")[2]
            yield FileEntry(status.path, name, 0 if status.isdir else status.length, status.isdir)
            if recursive and status.isdir:
                try:
                    below = self._statuses(status.path)
                except PathNotFound:
                    continue  # removed since its parent was listed
                yield from self._entries(below, recursive)

    def _statuses(self, path: str) -> Sequence[FileStatus]:
        path = path.rstrip("/") or "/"
        found = self._client.call("list", path, lambda hdfs: list(hdfs.list_status(path)), repeat=True)
        if len(found) == 1 and not found[0].isdir and found[0].path == path:
            raise StreamingIOFailure(f"cannot list {path!r}: it is a file, not a folder: check the location")
        return found

    def _status(self, path: str) -> FileStatus:
        return self._client.call("look at", path, lambda hdfs: hdfs.get_file_info(path), repeat=True)

    def exists(self, path: str) -> bool:
        try:
            self._status(path)
        except PathNotFound:
            return False
        return True

    def file_size(self, path: str) -> int:
        return int(self._status(path).length)

    def delete_file(self, path: str) -> None:
        self._client.call("delete", path, lambda hdfs: hdfs.delete(path, False), repeat=True)

    def delete_empty_folder(self, path: str) -> bool:
        try:
            self._client.call("delete folder", path, lambda hdfs: hdfs.delete(path, False), repeat=True)
        except StreamingIOFailure:
            if self.list(path, missing_ok=True):
                return False
            raise
        return True

    def delete_folder(self, path: str) -> None:
        self._client.call("delete folder", path, lambda hdfs: hdfs.delete(path, True), repeat=True)
