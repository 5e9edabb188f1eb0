"""A folder on a local disk, for what a process writes and reads back soon."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from typing import Final

from hive_ingest.storage.location import Location

_lock: Final = threading.Lock()
#: By process: a forked child makes one of its own, and removes none of its parent.
_folders: dict[int, _SpillFolder] = {}


class _SpillFolder:
    """Removed when the process ends."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="hive_ingest_")  # that only this user may read
        weakref.finalize(self, _remove, self.path, os.getpid())


def local_spill_folder() -> Location:
    """In the folder that `TMPDIR` names, or `/tmp`. It is the same for the whole life of a process."""
    with _lock:
        folder = _folders.get(os.getpid())
        if folder is None:
            folder = _folders[os.getpid()] = _SpillFolder()
    return Location.of(folder.path)


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
