"""What our own Java services of the tests have in common: a JVM that takes commands on its standard input.

It prints `UP` when it serves, and `DONE` after each command that it has carried out. It ends when its standard input
does, so it cannot outlive this process.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_START_SECONDS = 120.0
_LOG_CHARACTERS = 4000  # of its end, in an error


class ServiceFailed(Exception):
    """It did not start, or did not carry out a command; the message ends with its log."""


class JavaService:
    """A running JVM whose files are in `folder`.

    Args:
        name: Of its log and in errors.
        folder: Created if it does not exist; the process works there.
        command: Starts the JVM.
    """

    def __init__(self, name: str, folder: Path, command: Sequence[str]) -> None:
        self.folder = folder
        self._name = name
        self._log = folder / f"{name.lower()}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        # A service that hangs at its start reports nothing.
        with _killed_after(self._process, _START_SECONDS):
            self._expect("UP")

    def stop(self) -> None:
        """Kill it; idempotent."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _obey(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        self._expect("DONE")

    def _expect(self, answer: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != answer:
            log = self._log.read_text(errors="replace")[-_LOG_CHARACTERS:]
            raise ServiceFailed(f"{self._name} answered {line!r}, not {answer}; its log ends:\n{log}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextlib.contextmanager
def _killed_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
