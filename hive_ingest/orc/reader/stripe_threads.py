"""Reads the stripes of a large file by several threads. Decoding releases the interpreter, so each takes a core."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hive_ingest.orc.in_order import in_order
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.storage import FileStore

THREAD_NAME = "hive-ingest-stripe"
#: Stripes that are decoded at the same time. Each holds its rows in memory, so there are not as many as cores.
_THREADS = 2
_T = TypeVar("_T")


def is_worth_threads(file: FileToRead, stripes: int) -> bool:
    """Whether the stripes of a file are better read by several threads."""
    return stripes > 1 and not file.is_small and (os.cpu_count() or 1) > 1


def stripes_ahead(
    store: FileStore,
    file: FileToRead,
    stripes: Sequence[int],
    read: Callable[[AcidFileReader, int], _T],
    *,
    verify_checksums: bool = True,
) -> Iterator[_T]:
    """What `read` makes of each stripe of a file, in order; at most two are read ahead.

    Args:
        store: The file's store.
        file: What to read. Each thread opens it, since a reader is not for several threads.
        stripes: Which of its stripes, from 0.
        read: Reads a stripe; called by several threads. Its error is raised in place of the stripe.
        verify_checksums: As for `AcidFileReader`.

    Raises:
        CorruptFile, StreamingIOFailure: As `AcidFileReader`.
    """
    readers = _Readers(lambda: AcidFileReader(store, file, verify_checksums=verify_checksums))

    def work(stripe: int) -> _T:
        reader = readers.take()
        try:
            return read(reader, stripe)
        finally:
            readers.put_back(reader)

    # No `with` block: it would wait for the threads, perhaps in a garbage collection on one of them.
    threads = ThreadPoolExecutor(_THREADS, THREAD_NAME)
    try:
        for _, result in in_order(threads, _THREADS - 1, work, stripes):
            yield result
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        readers.close()


class _Readers:
    """Open readers of one file. One that a thread still uses when this is closed is closed by that thread.

    There is no lock: a garbage collection may close this on any thread, also on one that would hold the lock.
    """

    def __init__(self, open_reader: Callable[[], AcidFileReader]) -> None:
        self._open = open_reader
        self._idle: deque[AcidFileReader] = deque()
        self._is_closed = False
        self._pid = os.getpid()

    def take(self) -> AcidFileReader:
        # In a fork, the position in a file is the parent's too.
        reader = self._popped() if os.getpid() == self._pid else None
        return self._open() if reader is None else reader

    def put_back(self, reader: AcidFileReader) -> None:
        if os.getpid() != self._pid:
            reader.close()
            return
        self._idle.append(reader)
        if self._is_closed:  # looked at after that, so either this or `close` finds the reader
            self._close_idle()

    def close(self) -> None:
        if os.getpid() == self._pid:
            self._is_closed = True
            self._close_idle()

    def _close_idle(self) -> None:
        while (reader := self._popped()) is not None:
            reader.close()

    def _popped(self) -> AcidFileReader | None:
        try:
            return self._idle.pop()
        except IndexError:  # another thread was faster, or there is none
            return None
