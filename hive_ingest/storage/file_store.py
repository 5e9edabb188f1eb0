"""The interface of file systems to the other packages, and how their errors are reported.

A path is that of a `Location`, or anything below it joined by `/`. It is never percent-decoded:
Hive escapes partition values into folder names (`time=10%3A30`), and locations hold those names as they are.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

import pyarrow as pa

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure

BytesLike: TypeAlias = bytes | bytearray | memoryview | pa.Buffer

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space, then begin a new transaction",
    errno.EDQUOT: "the disk quota is used up: free some space, then begin a new transaction",
    errno.EACCES: "permission denied: give this user the right to read and write there",
    errno.EPERM: "not permitted: give this user the right to read and write there",
    errno.EROFS: "the file system is read-only: mount it for writing, or use another location",
    errno.ENOENT: "no such file or folder: it was removed, or the location is wrong",
    errno.ENOTDIR: "a part of the path is a file, not a folder: check the location",
    errno.EISDIR: "it is a folder, not a file: check the location",
    errno.EEXIST: "it exists already and is never replaced: remove it if nobody needs it",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine",
    errno.ENAMETOOLONG: "the name is too long for the file system: use shorter partition values",
    errno.EXDEV: "source and target lie on different file systems: a rename needs one",
    errno.EIO: "the device reported an error: check the disk and the system log",
}

_KINDS: dict[int, type[StreamingIOFailure]] = {errno.ENOENT: PathNotFound, errno.EEXIST: PathExists}


def io_failure(action: str, path: str, error: BaseException) -> StreamingIOFailure:
    """The error to raise `from` an error of the operating system or of Arrow."""
    code = getattr(error, "errno", None)
    remedy = _REMEDIES.get(code) if isinstance(code, int) else None
    kind = _KINDS.get(code, StreamingIOFailure) if isinstance(code, int) else StreamingIOFailure
    return kind(f"cannot {action} {path!r}: {remedy or error}")


@contextmanager
def io_errors(action: str, path: str) -> Iterator[None]:
    """Converts OSError and Arrow's errors inside to a StreamingIOFailure that names `path`."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise io_failure(action, path, error) from error


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file or folder of a listing; `size_bytes` is 0 for a folder."""

    path: str
    name: str
    size_bytes: int
    is_folder: bool


class OutputFile(ABC):
    """A new file. It is complete only after `close`; otherwise it is removed."""

    path: str

    @abstractmethod
    def write(self, data: BytesLike) -> int:
        """Append all of `data`; returns its size in bytes. Raises StreamingIOFailure."""

    def write_all(self, parts: Sequence[BytesLike]) -> None:
        """Append all of `parts` at once. Raises StreamingIOFailure."""
        self.write(parts[0] if len(parts) == 1 else b"".join(parts))

    @abstractmethod
    def close(self) -> None:
        """Finish the file (and sync it, if so created). Idempotent. On failure the file is removed."""

    def begin_close(self) -> Future[None]:
        """Begin to close the file. The future ends when it is closed, and has the error of `close`."""
        done: Future[None] = Future()
        self.close()
        done.set_result(None)
        return done

    @abstractmethod
    def discard(self) -> None:
        """Close and remove the file. Does nothing after `close` or `discard`."""

    @contextmanager
    def _discarded_on_failure(self) -> Iterator[None]:
        """For a `close` that `discard` can follow: remove the file if it fails, and note where that fails too."""
        try:
            yield
        except StreamingIOFailure as failure:
            try:
                self.discard()
            except StreamingIOFailure as error:
                failure.add_note(f"and the unfinished file could not be removed: {error}")
            raise

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @abstractmethod
    def tell(self) -> int:
        """Bytes written so far."""

    def flush(self) -> None:  # noqa: B027 (pyarrow calls it)
        """Nothing is buffered here."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is None:
            self.close()
            return
        try:
            self.discard()
        except StreamingIOFailure as failure:
            exc.add_note(f"and, while cleaning up: {failure}")


class FileStore(ABC):
    """One file system. All methods are safe from several threads, and raise StreamingIOFailure.

    Attributes:
        parallel_files: How many files are finished, renamed or created at a time, for file systems where each takes
            long.
        has_folders: Whether folders can be made. Not in a store that is only read.
        can_rename_folders: Whether a folder can be renamed in one step. Not in an object store.
        spills_locally: Whether spills belong on a local disk, because writing here takes long.
        closes_slowly: Whether closing takes so long, however small the file, that all files of a transaction are to be
            closed at the same time.
        kept_bytes: How many bytes of files that are renamed here stay in memory until then (`announce_rename`), so that
            finishing them takes no request.
        first_file_makes_folder: Whether a folder is there through the files in it, so that making it and its first file
            is one step. In an object store.
    """

    parallel_files: int = 1
    has_folders: bool = True
    can_rename_folders: bool = True
    spills_locally: bool = False
    closes_slowly: bool = False
    kept_bytes: int = 0
    first_file_makes_folder: bool = False

    @abstractmethod
    def create(self, path: str, *, sync: bool) -> OutputFile:
        """Create a file in an existing folder. With `sync`, its bytes are on the device after `close`.

        Raises PathExists; PathNotFound when the folder is missing.
        """

    @abstractmethod
    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random reads; the caller closes it."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Give `source` its new name in one step. Raises PathExists; the existing target stays as it is."""

    def publish(self, source: str, target: str) -> None:
        """Like `rename`, but `source` may stay until `remove_old_names`, where removing it takes a request."""
        self.rename(source, target)

    def remove_old_names(self, sources: Sequence[str]) -> None:  # noqa: B027 (a rename leaves none on most stores)
        """Remove the old names of files that were published. What cannot be removed stays and is not an error."""

    def drop_kept(self, path: str) -> bool:
        """Give up a file that is in memory alone (`kept_bytes`). Returns whether it was; takes no request."""
        return False

    def announce_rename(self, path: str, target: str, *, here: bool = False) -> None:  # noqa: B027 (file systems need not know)
        """Announce the name that the file to be created next at `path` is going to be given by `rename`.

        An object store then uploads it under that name, so that the rename copies nothing; until then the file cannot
        be read. File systems ignore it.

        Args:
            path: Of the file.
            target: The name.
            here: Whether this process renames or deletes the file, and no other needs it before. An object store then
                keeps a small one in memory until it is renamed.
        """

    def require_atomic_rename(self, action: str, path: str) -> None:  # noqa: B027 (most stores have one)
        """Raises UnsupportedFeature for a store on which one writer could replace what another has published."""

    def rename_folder(self, source: str, target: str) -> None:
        """Rename a folder in one step. An empty folder at `target` is replaced.

        Raises:
            StreamingIOFailure: `target` is not free, or the file system refused.
        """
        if not self.is_free(target):
            raise PathExists(f"cannot rename {source!r} to {target!r}: the target exists already")
        self.delete_empty_folder(target)
        self.rename(source, target)

    def is_free(self, path: str) -> bool:
        """Whether a folder can be renamed to this path: nothing exists there, or only an empty folder."""
        return not self.exists(path) or not self.list(path, missing_ok=True)

    def why_not_renamable(self, source: str, target: str) -> str | None:
        """Why renaming a folder would certainly fail, as far as that can be checked; otherwise None."""
        for path in (source, target.rpartition("/")[0]):
            if not self.exists(path):
                return f"{path} is missing"
        if not self.can_rename(source, target):
            return "no rename leads from one mount point into another: create a new table and copy the rows"
        return None

    @abstractmethod
    def delete_empty_folder(self, path: str) -> bool:
        """Delete a folder if it is empty; a missing one is not an error. Returns False if it is not empty."""

    def can_rename(self, source: str, target: str) -> bool:
        """Whether both lie on one device. Either exists, or its folder does."""
        return True

    def create_all(self, paths: Sequence[str], data: bytes, *, sync: bool) -> None:
        """Create files with the same content, as many at a time as `parallel_files` says. Raises PathExists."""

        def put(path: str) -> None:
            with self.create(path, sync=sync) as out:
                out.write(data)

        if len(paths) < 2 or self.parallel_files == 1:
            for path in paths:
                put(path)
            return
        with ThreadPoolExecutor(min(len(paths), self.parallel_files), "hive-ingest-files") as pool:
            list(pool.map(put, paths))

    def begin_create_all(self, paths: Sequence[str], data: bytes, *, sync: bool) -> Future[None]:
        """The same, without waiting for the device: the files are complete when the future has a result."""
        done: Future[None] = Future()
        self.create_all(paths, data, sync=sync)
        done.set_result(None)
        return done

    @abstractmethod
    def make_folder(self, path: str, *, exist_ok: bool = True, parents: bool = True) -> list[str]:
        """Make a folder, and the folders above it.

        Args:
            exist_ok: Whether `path` may be there already.
            parents: Whether missing folders above it are made too.

        Returns:
            The folders that were made, outermost first.

        Raises:
            PathExists: `path` is there, and `exist_ok` is False.
            PathNotFound: The folder above is missing, and `parents` is False.
        """

    def make_folder_with(self, path: str, name: str, data: bytes) -> None:
        """Make a folder that must be new, in an existing one, with its first file.

        Raises:
            PathExists: `path` is there; nothing in it was changed.
            PathNotFound: The folder above is missing.
        """
        self.make_folder(path, exist_ok=False, parents=False)
        self.create_all([f"{path}/{name}"], data, sync=True)

    def unmark_folders(self, folders: Iterable[str]) -> None:  # noqa: B027 (most stores have none)
        """Remove the markers of empty folders from folders that are not empty any more, and from those above them.

        Only object stores have markers. What cannot be removed stays and is not an error.

        Args:
            folders: In which files or folders were made.
        """

    @abstractmethod
    def sync_folders(self, paths: Iterable[str]) -> None:
        """Sync the folders, so that names created in them are on the device."""

    @abstractmethod
    def list(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> list[FileEntry]:
        """What lies in a folder (with `recursive`, everything below it), sorted by path.

        Raises PathNotFound for a missing folder; with `missing_ok` it lists as empty.
        """

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    def is_symlink(self, path: str) -> bool:
        """Whether the last part of the path is a symbolic link; object stores have none."""
        return False

    @abstractmethod
    def file_size(self, path: str) -> int:
        """In bytes. Raises PathNotFound."""

    @abstractmethod
    def delete_file(self, path: str) -> None:
        """Delete a file; a missing one is not an error."""

    @abstractmethod
    def delete_folder(self, path: str) -> None:
        """Delete a folder and its content; a missing one is not an error."""

    def delete_some(self, path: str) -> bool:
        """Delete a folder, or so much of it as a few requests delete, on a store that cannot rename folders.

        Returns:
            Whether the folder is gone. Otherwise call it again.
        """
        self.delete_folder(path)
        return True
