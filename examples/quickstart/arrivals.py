"""Files that arrive one after another, whether a writer runs or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from examples.quickstart.flights import FlightsFile


class Arrivals:
    """Moves files into a folder at a fixed interval, until all have arrived or the `with` block ends.

    Attributes:
        seen: For each file, when it arrived (seconds since the epoch) and how many rows had arrived with it.
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
        """Wait until all have arrived."""
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
