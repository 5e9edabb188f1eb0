"""A local file to which whole lines are appended."""

from __future__ import annotations

import os
import weakref

from hive_ingest.storage.file_store import io_errors

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class AppendFile:
    """A local file, created if it is missing. Several threads and processes may append to it at once.

    Each append is one system call, so a process that is killed leaves no partial line. What a full disk has cut off
    ends with a newline before the next append, so that no other line is affected.

    Raises:
        StreamingIOFailure: The file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with io_errors("open", path):
            self._fd = os.open(path, _FLAGS, 0o666)
            self._close = weakref.finalize(self, os.close, self._fd)
            _sync_folder(path)
            self._has_partial_line = _ends_within_a_line(path)

    def append(self, data: bytes) -> None:
        """Append all of `data`. Raises StreamingIOFailure."""
        with io_errors("write", self.path):
            rest = memoryview(b"\n" + data if self._has_partial_line else data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
                self._has_partial_line = bool(rest)

    def sync(self) -> None:
        """Wait until what was appended is on the disk. Raises StreamingIOFailure."""
        with io_errors("sync", self.path):
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._close()


def _ends_within_a_line(path: str) -> bool:
    """Whether the last line has no end; False for what is not a file, or may not be read."""
    if not os.path.isfile(path) or not os.path.getsize(path) or not os.access(path, os.R_OK):
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _sync_folder(path: str) -> None:
    """Sync the folder, so that a new file's name is on the disk too."""
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
