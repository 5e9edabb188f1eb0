"""A file of a store that is read by ranges of bytes, as a file object for Arrow."""

from __future__ import annotations

import io
from abc import abstractmethod


class RemoteInputFile(io.RawIOBase):
    """Positions within a file of known size; a subclass sets `_size` and reads ranges."""

    _size: int

    def __init__(self) -> None:
        self._position = 0

    @abstractmethod
    def _read_range(self, start: int, length: int) -> bytes:
        """Bytes that lie within the file, at least one. Raises StreamingIOFailure."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, self._size - self._position)
        length = rest if size is None or size < 0 else min(size, rest)
        if not length:
            return b""
        data = self._read_range(self._position, length)
        self._position += len(data)
        return data
