"""Files that come in one after another while a writer runs, and while none does."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from examples.quickstart.flights import FlightsFile


class Arrivals:
    """Moves files into a folder, one every so many seconds; leaving the `with` block stops that.

    `seen` says when a file came, in seconds since the epoch, and how many rows had come with it.
    """

    def __init__(self, files: Sequence[FlightsFile], folder: Path, seconds_between: float) -> None:
        self.seen: list[tuple[float, int]] = []
        self._files = files
        self._folder = folder
        self._seconds_between = seconds_between
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Arrivals:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def begin(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Until all have come."""
        self._thread.join()

    def _run(self) -> None:
        rows = 0
        for file in self._files:
            file.path.touch()  # Spark takes the oldest first
            file.path.rename(self._folder / file.path.name)
            rows += file.rows
            self.seen.append((time.time(), rows))
            if self._is_over.wait(self._seconds_between):
                return
