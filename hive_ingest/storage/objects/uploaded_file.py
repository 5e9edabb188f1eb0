"""A file that is uploaded in parts while it is written."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from concurrent.futures import Future, wait
from functools import partial
from typing import Final

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage.file_store import BytesLike, OutputFile
from hive_ingest.storage.sync_threads import run_for_device

#: Parts double in size after so many, so that the number of parts that an object may have is enough for any.
_PARTS_OF_A_SIZE: Final = 1000


class UploadedFile(OutputFile):
    """One part is sent on another thread while the next one is filled. A subclass sends and finishes."""

    def __init__(self, path: str, device: str, part_bytes: int) -> None:
        """
        Args:
            path: Of the file.
            device: Of the threads that send parts.
            part_bytes: Size of the first parts.
        """
        self.path = path
        self._device = device
        self._first_part_bytes = part_bytes
        self._size = 0
        self._pending = bytearray()
        self._owner = os.getpid()
        self._sent_parts = 0
        self._sending: Future[None] | None = None
        self._is_open = True

    @property
    def closed(self) -> bool:
        return not self._is_open

    def tell(self) -> int:
        return self._size

    def write(self, data: BytesLike) -> int:
        if self.closed:
            raise StreamingIOFailure(f"cannot write {self.path!r}: it is closed; create another file")
        view = memoryview(data).cast("B")
        rest = view
        while len(rest):
            room = self._part_bytes - len(self._pending)
            self._pending += rest[:room]
            rest = rest[room:]
            if len(self._pending) == self._part_bytes:
                self._send()
        self._size += len(view)
        return len(view)

    @property
    def _part_bytes(self) -> int:
        return int(self._first_part_bytes << (self._sent_parts // _PARTS_OF_A_SIZE))

    def _send(self) -> None:
        """Upload the pending part on another thread, after the part before it."""
        self._wait_until_sent()
        self._sending = run_for_device(self._device, partial(self._add, *self._next_part()))

    def _next_part(self) -> tuple[int, bytearray]:
        """The number and the content of the pending part."""
        part, self._pending = self._pending, bytearray()
        self._sent_parts += 1
        return self._sent_parts, part

    def _wait_until_sent(self) -> None:
        if self._sending is not None:
            self._sending.result()  # an error is raised again: a part is missing from now on
            self._sending = None

    @abstractmethod
    def _add(self, number: int, part: bytearray) -> None:
        """Upload a part; they are counted from 1. Called by one thread for all but the last part."""

    @abstractmethod
    def _finish(self) -> None:
        """Upload what is pending, and finish the file."""

    @abstractmethod
    def _withdraw(self) -> None:
        """Remove what was uploaded. No part is under way."""

    def close(self) -> None:
        if self.closed:
            return
        with self._discarded_on_failure():
            self._finish()
        self._is_open = False

    def discard(self) -> None:
        if self.closed:
            return
        self._is_open = False
        self._pending = bytearray()
        if self._sending is not None:
            wait([self._sending])  # what it uploads after the upload is removed would stay
        self._withdraw()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False) and self._owner == os.getpid():
            warnings.warn(
                f"file {self.path!r} was neither closed nor discarded; it is incomplete and is removed",
                ResourceWarning,
                stacklevel=2,
            )
            self.discard()
