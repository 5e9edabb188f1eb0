"""What becomes of the memory that the ORC library frees, with the memory allocator of glibc.

The library allocates some 12 MB for each column of a file, and touches half a megabyte of it. After each file glibc
gives this back to the kernel if it is more than twice the largest block that was freed so far. Then a file of 1,000
rows in five columns takes up to 9 ms instead of 1. If glibc keeps it, each file touches other parts of it: with 1,500
columns a process grows to 4 GB, nearly all of it free. So it is kept, and given back after every so many columns.
"""

from __future__ import annotations

import ctypes
from functools import cache
from threading import Lock

import numpy as np

_LARGE_BLOCK_BYTES = 32 * 1024 * 1024 - 64 * 1024  # glibc adapts to blocks of up to 32 MiB
#: After so many columns of files, freed memory goes back to the kernel.
GIVEN_BACK_AFTER_COLUMNS = 2000


class FreedMemory:
    """Counts the columns of files; several threads may do so."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._columns = 0

    def before_file(self, columns: int) -> None:
        """Called before a file with that many columns is begun."""
        _keep()
        with self._lock:
            is_due = self._columns >= GIVEN_BACK_AFTER_COLUMNS
            self._columns = columns if is_due else self._columns + columns
        if is_due:
            _give_back()


FREED_MEMORY = FreedMemory()


@cache
def _keep() -> None:
    np.empty(_LARGE_BLOCK_BYTES, np.uint8)


def _give_back() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other allocators than glibc's have none
    if trim is not None:
        trim(0)
