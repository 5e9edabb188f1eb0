"""The local file system, through the operating system's own calls."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage.file_store import BytesLike, FileEntry, FileStore, OutputFile, io_failure, told_as_io_failure

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MAX_SYNC_THREADS = 8
# A file system without hard links (FAT, some FUSE ones) answers one of these.
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalOutputFile(OutputFile):
    """Writes straight to the file descriptor."""

    def __init__(self, path: str, *, sync: bool) -> None:
        self.path = path
        self._sync = sync
        self._size = 0
        self._owner = os.getpid()
        self._fd = -1
        with told_as_io_failure("create", path):
            self._fd = os.open(path, _CREATE_FLAGS, 0o666)

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def tell(self) -> int:
        return self._size

    def write(self, data: BytesLike) -> int:
        if self.closed:
            raise StreamingIOFailure(f"cannot write {self.path!r}: it is closed; create another file")
        rest = memoryview(data).cast("B")
        total = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            raise io_failure("write", self.path, error) from error
        self._size += total
        return total

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._sync:
                os.fsync(self._fd)
            fd, self._fd = self._fd, -1
            os.close(fd)
        except OSError as error:
            self._remove_after(error)
            raise io_failure("finish", self.path, error) from error

    def discard(self) -> None:
        if self.closed:
            return
        fd, self._fd = self._fd, -1
        with told_as_io_failure("remove", self.path):
            try:
                # Should the name survive, nobody can take the rest for a complete file.
                os.ftruncate(fd, 0)
            finally:
                os.close(fd)
                _unlink(self.path)

    def _remove_after(self, error: OSError) -> None:
        try:
            self.discard()
            _unlink(self.path)
        except (OSError, StreamingIOFailure) as failure:
            error.add_note(f"and the unfinished file could not be removed: {failure}")

    def __del__(self) -> None:
        # A forked child inherits the object, but the file is its parent's.
        if getattr(self, "_fd", -1) >= 0 and self._owner == os.getpid():
            warnings.warn(f"unfinished file {self.path!r} was abandoned and is removed", ResourceWarning, stacklevel=2)
            self.discard()


class LocalStore(FileStore):
    """Paths are absolute paths of this machine."""

    def create(self, path: str, *, sync: bool) -> OutputFile:
        return LocalOutputFile(path, sync=sync)

    def open_input(self, path: str) -> pa.NativeFile:
        with told_as_io_failure("open", path):
            return pa.OSFile(path)

    def rename(self, source: str, target: str) -> None:
        with told_as_io_failure("rename", f"{source} to {target}"):
            if not os.path.isdir(source) and _link_and_unlink(source, target):
                return
            # rename(2) replaces a file silently, so look first. Between the two calls another process could still
            # put a file there; on file systems with hard links this path is for folders only.
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            os.rename(source, target)

    def link_or_copy(self, source: str, target: str, *, sync: bool) -> None:
        with told_as_io_failure("link", f"{source} to {target}"):
            try:
                os.link(source, target)
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                super().link_or_copy(source, target, sync=sync)

    def make_folder(self, path: str) -> list[str]:
        with told_as_io_failure("make folder", path):
            return _make_folder(path.rstrip("/"))

    def sync_folders(self, paths: Iterable[str]) -> None:
        folders = list(dict.fromkeys(paths))
        if len(folders) < 2:
            for folder in folders:
                _sync_folder(folder)
            return
        # The journal commits once for all that wait together.
        with ThreadPoolExecutor(min(_MAX_SYNC_THREADS, len(folders))) as pool:
            list(pool.map(_sync_folder, folders))

    def list(self, path: str, *, recursive: bool = False) -> list[FileEntry]:
        with told_as_io_failure("list", path):
            return sorted(_scan(path.rstrip("/") or "/", recursive), key=lambda entry: entry.path)

    def exists(self, path: str) -> bool:
        with told_as_io_failure("look at", path):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def delete_file(self, path: str) -> None:
        with told_as_io_failure("delete", path):
            _unlink(path)

    def delete_folder(self, path: str) -> None:
        with told_as_io_failure("delete folder", path):
            _delete_tree(path)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _link_and_unlink(source: str, target: str) -> bool:
    """The rename that never replaces; False where the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            return False
        raise
    os.unlink(source)
    return True


def _make_folder(path: str) -> list[str]:
    try:
        os.mkdir(path)
    except FileNotFoundError:
        made = _make_folder(os.path.dirname(path))
        return made + _make_folder(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        return []
    return [path]


def _sync_folder(path: str) -> None:
    with told_as_io_failure("sync folder", path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _scan(path: str, recursive: bool) -> Iterator[FileEntry]:
    try:
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            is_folder = entry.is_dir()
            size = 0 if is_folder else entry.stat().st_size
        except FileNotFoundError:  # removed since the folder was read
            continue
        yield FileEntry(entry.path, entry.name, size, is_folder)
        if is_folder and recursive:
            yield from _scan(entry.path, recursive)


def _delete_tree(path: str) -> None:
    while True:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            # Two cleaners in one folder: what the other one took is fine, the rest is still ours to remove.
            if os.path.lexists(path):
                continue
        return
