"""The writer as a process that the parent watches, stops and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hive_ingest.testing import CrashPoint

ROOT = Path(__file__).resolve().parents[2]
#: The writer stops itself here: its files have their visible names, and the commit has not been asked for.
STOP = CrashPoint("after_publish", occurrence=10, signal=signal.SIGSTOP)


#: Told of the bytes and rows that are committed.
OnProgress = Callable[[int, int], None]


class WriterProcess:
    """One run of `load`. `on_progress` is called from another thread; `seconds` counts until it is gone."""

    def __init__(self, demo: Path, on_progress: OnProgress, *, stop_at: CrashPoint | None = None) -> None:
        self.rows_at_start: int | None = None
        self.seconds_to_first_commit: float | None = None
        self.seconds = 0.0
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "examples.quickstart.load", str(demo)],
            cwd=ROOT,
            env=os.environ | (stop_at.to_environment() if stop_at else {}),
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if self.rows_at_start is None:
                self.rows_at_start = told["rows"]
            if told["transactions"] and self.seconds_to_first_commit is None:
                self.seconds_to_first_commit = time.monotonic() - self._started
            self._on_progress(told["bytes"], told["rows"])

    def wait_until_stopped(self) -> None:
        """Until it has stopped itself. Raises RuntimeError when it ends instead."""
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise RuntimeError("the writer ended before it was to be killed")

    def wait_until_done(self) -> None:
        """Raises RuntimeError when it fails."""
        code = self._end()
        if code != 0:
            raise RuntimeError(f"the writer failed with exit code {code}")

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. Does nothing to one that is."""
        self._process.kill()
        self._end()

    def _end(self) -> int:
        code = self._process.wait()
        self._listener.join()
        self.seconds = self.seconds or time.monotonic() - self._started
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code
