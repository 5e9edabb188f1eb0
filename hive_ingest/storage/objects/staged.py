"""Hidden files that this process has written: it need not ask the store what they are, or even bring them there."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

#: A file that is uploaded under its later name and not visible there yet, as the store has it.
Upload = TypeVar("Upload")

_MOST_FILES: Final = 10_000
_MOST_BYTES: Final = 64 << 20
#: The most bytes of files that are here alone.
KEPT_BYTES: Final = 64 << 20


class NewObjects(Protocol):
    """The client of an object store."""

    def put_new(self, action: str, path: str, key: str, data: bytes | bytearray, *, token: str) -> None:
        """Create an object in one request. Raises PathExists, unless the object there has this token."""


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file that is written once more when it is renamed.

    Attributes:
        content: All of it.
        token: Of the object, the same under both names: a rename that was interrupted can be repeated.
    """

    content: bytes | bytearray
    token: str

    def put(self, client: NewObjects, action: str, path: str, key: str) -> None:
        """Make it an object. Raises PathExists; an existing object stays as it is."""
        client.put_new(action, path, key, self.content, token=self.token)


class StagedFiles(Generic[Upload]):
    """What the newest hidden files are: uploads that are not completed, or, if they are small, their content.

    Files that it has forgotten, such as those of tasks, which another process renames, are read from the store. Some
    are here alone, and never forgotten. Safe from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, Upload | SmallFile] = {}
        self._bytes = 0
        self._only_here: dict[str, SmallFile] = {}
        self._bytes_only_here = 0

    def add(self, path: str, file: Upload | SmallFile) -> None:
        """Remember a file that is in the store, and forget the oldest ones if there are too many."""
        with self._lock:
            self._remove(path)
            self._files[path] = file
            self._bytes += _size(file)
            while len(self._files) > _MOST_FILES or self._bytes > _MOST_BYTES:
                self._remove(next(iter(self._files)))

    def keep(self, path: str, file: SmallFile) -> bool:
        """Keep a file here instead of in the store, if there is room for it. Returns whether there is."""
        with self._lock:
            if self._bytes_only_here + _size(file) > KEPT_BYTES:
                return False
            self._only_here[path] = file
            self._bytes_only_here += _size(file)
            return True

    def kept(self, path: str) -> SmallFile | None:
        """The file, if it is here alone."""
        return self._only_here.get(path)

    def drop(self, path: str) -> bool:
        """Give a file up that is here alone. Returns whether there was one."""
        with self._lock:
            file = self._only_here.pop(path, None)
            self._bytes_only_here -= _size(file)
            return file is not None

    def take(self, path: str) -> Upload | SmallFile | None:
        """The file, which is forgotten."""
        with self._lock:
            return self._remove(path)

    def _remove(self, path: str) -> Upload | SmallFile | None:
        file = self._files.pop(path, None)
        self._bytes -= _size(file)
        return file


def _size(file: object) -> int:
    return len(file.content) if isinstance(file, SmallFile) else 0
