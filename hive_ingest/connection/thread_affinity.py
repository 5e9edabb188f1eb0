"""Objects that belong to one thread of one process."""

from __future__ import annotations

import os
from threading import get_ident

from hive_ingest.errors import ConnectionMisuse

#: Incremented in every forked child: cheaper to read than the process id, which takes a system call.
_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class ThreadAffinity:
    """Remembers the thread and the process that made it; `what` is named in errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread, self._forks = get_ident(), _forks

    def is_caller(self) -> bool:
        """Checked at every `write()`."""
        return self._thread == get_ident() and self._forks == _forks

    def check(self) -> None:
        """Raises ConnectionMisuse for any caller but the owner."""
        self.check_process()
        if self._thread != get_ident():
            raise ConnectionMisuse(f"{self._what} belongs to another thread: open one for each thread")

    def check_process(self) -> None:
        """Raises ConnectionMisuse in a forked child."""
        if self._forks != _forks:
            raise ConnectionMisuse(f"{self._what} was inherited through a fork: open one in this process")
