"""What the servers of the tests have in common: a supervised process that is awaited, and killed at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_START_SECONDS = 120


def answers_http(url: str) -> bool:
    """Whether a request for `url` succeeds."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


class Server(ABC):
    """A server that ends with this process, however that ends."""

    _process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves requests."""

    @abstractmethod
    def _failure(self) -> Exception:
        """The error to raise when it did not start; the message ends with its log."""

    def _launch(
        self, command: Sequence[str], log: Path, folder: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        """Start it in `folder` without waiting. What it prints is added to `log`."""
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.services.supervisor", *command],
                cwd=folder,
                env={**os.environ, **(environ or {}), "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
            )

    def wait(self) -> None:
        """Until it answers. Raises the server's own error."""
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise self._failure()
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill it, as a machine that is lost would; idempotent."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None
