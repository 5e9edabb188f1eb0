"""The folder of fetched and built services, outside the tree, shared by every run on this machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/hive-ingest`, else `~/.cache/hive-ingest`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hive-ingest"


def once(target: Path, make: Callable[[Path], None]) -> Path:
    """The folder `target`; when it is not there, `make` fills a new folder, which then takes that name.

    Any number of processes may ask at once: one makes it, the others wait for it. A folder under its
    final name is always whole.
    """
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f"{target.name}.lock")):
            if not target.exists():
                _make(target, make)
    return target


def _make(target: Path, make: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        make(made)
        made.rename(target)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets it go when its holder dies
        yield
