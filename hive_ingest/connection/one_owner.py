"""A thing that one thread of one process owns."""

from __future__ import annotations

import os
import threading

from hive_ingest.errors import ConnectionMisuse


class OneOwner:
    """Remembers the thread and the process that made it; `what` is named in errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread, self._pid = threading.get_ident(), os.getpid()

    def is_caller(self) -> bool:
        return self._thread == threading.get_ident() and self._pid == os.getpid()

    def check(self) -> None:
        """Raises ConnectionMisuse for any caller but the owner."""
        if self._pid != os.getpid():
            raise ConnectionMisuse(f"{self._what} came through a fork: open one of your own")
        if self._thread != threading.get_ident():
            raise ConnectionMisuse(f"{self._what} belongs to another thread: open one for each thread")
