"""A stream whose next block is read by a thread while the last one is used."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

#: Smaller reads are looks at a file that may be one of many, each of which would have a thread.
_LEAST_BYTES: Final = 2 << 20


class ReadAhead:
    """Reads one block ahead. Uncompressing lets other threads run, so it takes no time of theirs.

    Args:
        stream: What is read. Nobody else may read it, or close it before this is closed.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._thread = ThreadPoolExecutor(1, "hive-ingest-read")
        self._ahead: Future[bytes] | None = None

    def read(self, most_bytes: int) -> bytes:
        """The next bytes, empty at the end. They may be fewer than `most_bytes`. Raises what the stream raises."""
        ahead, self._ahead = self._ahead, None
        block: bytes = self._stream.read(most_bytes) if ahead is None else ahead.result()
        if block and most_bytes >= _LEAST_BYTES:
            self._ahead = self._thread.submit(self._stream.read, most_bytes)
        return block

    def close(self) -> None:
        """Wait for the block under way. The stream stays open for its owner."""
        self._thread.shutdown()
