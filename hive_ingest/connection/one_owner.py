"""A thing that one thread of one process owns."""

from __future__ import annotations

import os
from threading import get_ident

from hive_ingest.errors import ConnectionMisuse

#: Grows in every forked child: cheaper to look at than the process id, which is a system call.
_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class OneOwner:
    """Remembers the thread and the process that made it; `what` is named in errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread, self._forks = get_ident(), _forks

    def is_caller(self) -> bool:
        """Asked at every `write()`."""
        return self._thread == get_ident() and self._forks == _forks

    def check(self) -> None:
        """Raises ConnectionMisuse for any caller but the owner."""
        if self._forks != _forks:
            raise ConnectionMisuse(f"{self._what} came through a fork: open one of your own")
        if self._thread != get_ident():
            raise ConnectionMisuse(f"{self._what} belongs to another thread: open one for each thread")
