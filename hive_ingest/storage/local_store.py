"""The local file system, through the operating system's own calls."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice

import pyarrow as pa

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage.file_store import BytesLike, FileEntry, FileStore, OutputFile, io_errors, io_failure
from hive_ingest.storage.sync_threads import run_for_device, run_shares

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
#: What writev(2) takes at once (IOV_MAX).
_MOST_PARTS = 1024
#: Names that no reader looks at, such as an editor's lock, which is a symbolic link to nothing.
_HIDDEN = (".", "_")
# Errors of link(2) for a folder, and on a file system without hard links (FAT, some FUSE ones).
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class LocalOutputFile(OutputFile):
    """Writes straight to the file descriptor."""

    def __init__(self, path: str, *, sync: bool) -> None:
        self.path = path
        self._sync = sync
        self._size = 0
        self._owner = os.getpid()
        self._fd = -1
        with io_errors("create", path):
            self._fd = os.open(path, _CREATE_FLAGS, 0o666)

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def tell(self) -> int:
        return self._size

    def write(self, data: BytesLike) -> int:
        return self._write([data])

    def write_all(self, parts: Sequence[BytesLike]) -> None:
        self._write(parts)

    def _write(self, parts: Sequence[BytesLike]) -> int:
        if self.closed:
            raise StreamingIOFailure(f"cannot write {self.path!r}: it is closed; create another file")
        rest = deque(memoryview(part).cast("B") for part in parts)
        total = sum(map(len, rest))
        try:
            while rest:
                _drop(rest, os.writev(self._fd, [*islice(rest, _MOST_PARTS)]))
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

    def begin_close(self) -> Future[None]:
        if self.closed or not self._sync:
            return super().begin_close()
        with io_errors("finish", self.path):
            device = os.fstat(self._fd).st_dev
        return run_for_device(device, self.close)

    def discard(self) -> None:
        if self.closed:
            return
        fd, self._fd = self._fd, -1
        with io_errors("remove", self.path):
            try:
                # If the name cannot be removed, an empty file is at least not mistaken for a complete one.
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
            warnings.warn(
                f"file {self.path!r} was neither closed nor discarded; it is incomplete and is removed",
                ResourceWarning,
                stacklevel=2,
            )
            self.discard()


class LocalStore(FileStore):
    """Paths are absolute paths of this machine."""

    def create(self, path: str, *, sync: bool) -> OutputFile:
        return LocalOutputFile(path, sync=sync)

    def open_input(self, path: str) -> pa.NativeFile:
        with io_errors("open", path):
            return pa.OSFile(path)

    def rename(self, source: str, target: str) -> None:
        with io_errors("rename", f"{source} to {target}"):
            if _link_and_unlink(source, target):
                return
            # rename(2) replaces a file silently, so look first. Between the two calls another process could still
            # put a file there; on file systems with hard links this path is for folders only.
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            os.rename(source, target)

    def rename_folder(self, source: str, target: str) -> None:
        with io_errors("rename", f"{source} to {target}"):
            os.rename(source, target)  # which replaces an empty folder, and no other

    def is_free(self, path: str) -> bool:
        with io_errors("look at", path):
            return not os.path.lexists(path) or (os.path.isdir(path) and not os.listdir(path))

    def why_not_renamable(self, source: str, target: str) -> str | None:
        folders = (os.path.dirname(source), os.path.dirname(target))
        try:
            device = os.lstat(source).st_dev  # of a symbolic link, which is renamed itself
            devices = {os.stat(folder).st_dev for folder in folders}
        except OSError as error:
            return f"{error.filename} cannot be looked at ({error.strerror}): mount its disk, or restore it"
        closed = [folder for folder in dict.fromkeys(folders) if not os.access(folder, os.W_OK | os.X_OK)]
        if closed:
            return f"this user cannot write to {' and '.join(closed)}: change the permissions, or mount it writable"
        if devices != {device}:
            return "they are on different file systems, or it is a mount point: create a new table and copy the rows"
        return None

    def create_all(self, paths: Sequence[str], data: bytes, *, sync: bool) -> None:
        self.begin_create_all(paths, data, sync=sync).result()

    def begin_create_all(self, paths: Sequence[str], data: bytes, *, sync: bool) -> Future[None]:
        """The first file is written and synced; the others are hard links to it, if the file system supports them."""
        if not paths:
            return super().begin_create_all([], data, sync=sync)
        first = self.create(paths[0], sync=sync)
        try:
            first.write(data)
            closed = first.begin_close()
        except BaseException:
            first.discard()
            raise
        for path in paths[1:]:
            with io_errors("link", f"{paths[0]} to {path}"):
                try:
                    os.link(paths[0], path)
                except OSError as error:
                    if error.errno not in _NO_HARD_LINKS and error.errno != errno.EXDEV:
                        raise
                    super().create_all([path], data, sync=sync)
        return closed

    def can_rename(self, source: str, target: str) -> bool:
        with io_errors("look at", target):
            return _device(source) == _device(target)

    def make_folder(self, path: str, *, exist_ok: bool = True, parents: bool = True) -> list[str]:
        with io_errors("make folder", path):
            return _make_folder(path.rstrip("/"), exist_ok=exist_ok, parents=parents)

    def sync_folders(self, paths: Iterable[str]) -> None:
        by_device: dict[int, list[str]] = {}
        for path in dict.fromkeys(paths):
            with io_errors("sync folder", path):
                by_device.setdefault(os.stat(path).st_dev, []).append(path)
        for device, folders in by_device.items():
            run_shares(device, folders, _sync_folder)

    def list(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> list[FileEntry]:
        with io_errors("list", path):
            try:
                entries = list(os.scandir(path.rstrip("/") or "/"))
            except FileNotFoundError:
                if missing_ok:
                    return []
                raise
            return sorted(_file_entries(entries, recursive), key=lambda entry: entry.path)

    def exists(self, path: str) -> bool:
        with io_errors("look at", path):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def is_symlink(self, path: str) -> bool:
        return os.path.islink(path)

    def file_size(self, path: str) -> int:
        with io_errors("look at", path):
            return os.stat(path).st_size

    def delete_file(self, path: str) -> None:
        with io_errors("delete", path):
            _unlink(path)

    def delete_empty_folder(self, path: str) -> bool:
        with io_errors("delete folder", path):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
            return True

    def delete_folder(self, path: str) -> None:
        with io_errors("delete folder", path):
            _delete_tree(path)


def _drop(parts: deque[memoryview], count: int) -> None:
    """Remove the first bytes, which were written, and parts without bytes."""
    while parts and count >= len(parts[0]):
        count -= len(parts.popleft())
    if count:
        parts[0] = parts[0][count:]


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _link_and_unlink(source: str, target: str) -> bool:
    """The rename that never replaces; False for a folder, and where the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            return False
        raise
    os.unlink(source)
    return True


def _make_folder(path: str, *, exist_ok: bool, parents: bool) -> list[str]:
    try:
        os.mkdir(path)
    except FileNotFoundError:
        if not parents:
            raise
        made = _make_folder(os.path.dirname(path), exist_ok=True, parents=True)
        return made + _make_folder(path, exist_ok=exist_ok, parents=False)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        if not exist_ok:
            raise
        return []
    return [path]


def _device(path: str) -> int:
    """The device of a file or folder, or of the folder that it is to be made in."""
    try:
        return os.stat(path).st_dev
    except FileNotFoundError:
        return os.stat(os.path.dirname(path)).st_dev


def _sync_folder(path: str) -> None:
    with io_errors("sync folder", path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _file_entries(entries: Iterable[os.DirEntry[str]], recursive: bool) -> Iterator[FileEntry]:
    for entry in entries:
        try:
            is_folder = entry.is_dir()
            size = 0 if is_folder else entry.stat().st_size
        except FileNotFoundError:
            if not entry.name.startswith(_HIDDEN):
                _refuse_dangling_link(entry.path)
            continue  # removed since the folder was read
        yield FileEntry(entry.path, entry.name, size, is_folder)
        if is_folder and recursive:
            yield from _file_entries(_scan(entry.path), recursive)


def _refuse_dangling_link(path: str) -> None:
    """A link to a disk that is not mounted must not look like a file that was never there."""
    try:
        target = os.readlink(path)
    except OSError:
        return  # removed meanwhile, or not a link
    raise StreamingIOFailure(
        f"{path!r} is a symbolic link to {target!r}, which is missing: mount its file system, or remove the link"
    )


def _scan(path: str) -> list[os.DirEntry[str]]:
    """What lies in a folder that was there a moment ago."""
    try:
        return [*os.scandir(path)]
    except FileNotFoundError:
        return []


def _delete_tree(path: str) -> None:
    if _delete_flat(path):
        return
    while True:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            # Another process is cleaning the same folder: continue with what it has not removed.
            if os.path.lexists(path):
                continue
        return


def _delete_flat(path: str) -> bool:
    """Remove a folder of files only, in a third of the time that `rmtree` takes. False: it is not one, or is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for name in os.listdir(fd):
            os.unlink(name, dir_fd=fd)  # not by its path, which a symbolic link could replace meanwhile
        os.rmdir(path)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
