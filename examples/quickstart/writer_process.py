"""A writer as a process that the parent watches, stops and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from examples.quickstart.places import ROOT
from examples.quickstart.reports import Report
from hive_ingest.testing import CrashPoint

#: Called with the number of rows that are committed.
OnRows = Callable[[int], None]


class WriterProcess:
    """One run of a writer, a module that takes the demo's folder; leaving the `with` block kills it.

    `on_rows` is called from another thread. `started` and `ended` are seconds since the epoch, and so are the times
    of `reports`.
    """

    def __init__(self, module: str, demo: Path, on_rows: OnRows, *, stop_at: CrashPoint | None = None) -> None:
        self.rows_at_start: int | None = None
        self.reports: list[tuple[float, Report]] = []
        self.seconds_to_first_commit: float | None = None
        self.started = time.time()
        self.ended: float | None = None
        self._on_rows = on_rows
        self._has_reported = threading.Event()
        # The leader of a process group, which its JVM joins. Its input ends with this process, however that ends.
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(demo)],
            cwd=ROOT,
            env=os.environ | (stop_at.to_environment() if stop_at else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read_reports, daemon=True)
        self._reader.start()

    def __enter__(self) -> WriterProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read_reports(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._receive(Report.from_line(line))
        self._has_reported.set()

    def _receive(self, report: Report) -> None:
        self.reports.append((time.time(), report))
        if self.rows_at_start is None:
            self.rows_at_start = report.rows
        if report.transactions and self.seconds_to_first_commit is None:
            self.seconds_to_first_commit = time.time() - self.started
        self._on_rows(report.rows)
        self._has_reported.set()

    @property
    def rows(self) -> int:
        """As of the last report."""
        return self.reports[-1][1].rows if self.reports else 0

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until_started(self) -> None:
        """Until it is ready to write, or has ended."""
        self._has_reported.wait()

    def wait_until_stopped(self) -> None:
        """Until it has stopped itself. Raises RuntimeError when it ends instead."""
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._process.returncode = os.waitstatus_to_exitcode(status)
            raise RuntimeError("the writer ended before it could be killed")

    def wait_until_killed(self) -> None:
        """Until it has killed itself. Raises RuntimeError when it ends otherwise."""
        if self._end() != -signal.SIGKILL:
            raise RuntimeError("the writer ended before it could be killed")

    def wait_until_done(self) -> None:
        """Close its input, as no more files will come, and wait for its end. Raises RuntimeError when it fails."""
        self._close_input()
        code = self._end()
        if code != 0:
            raise RuntimeError(f"the writer failed with exit code {code}")

    def kill(self) -> None:
        """Send SIGKILL to it and all that it started, and wait until it is gone. Does nothing to one that has ended."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._close_input()
        self._end()

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _end(self) -> int:
        code = self._process.wait()
        self._reader.join()
        self.ended = self.ended or time.time()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code
