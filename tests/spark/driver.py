"""Driver scripts in separate processes: started, killed by -9, and inspected.

A driver leads a session of its own (setsid). By that its JVM, its executors and their Python workers are found,
also when it has died and they belong to nobody.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.spark.installation import ROOT, Installation

_numbers = itertools.count(1)
_BOOTSTRAP = (sys.executable, "-W", "ignore::FutureWarning", "-m", "tests.spark.bootstrap")


@dataclass(frozen=True)
class Finished:
    """A driver that ended; `err` is its error output, then what its JVMs logged."""

    returncode: int
    out: str
    err: str


class Driver:
    """A running driver script. Its files are `driver-<number>.out` and `.err` in the installation's folder."""

    def __init__(
        self,
        installation: Installation,
        script: Path,
        *arguments: object,
        environ: Mapping[str, str] | None = None,
        launcher: Sequence[object] = _BOOTSTRAP,
    ) -> None:
        """`launcher` starts the script, and ends with its standard input."""
        self._installation = installation
        self._files = installation.folder / f"driver-{next(_numbers)}"
        with self._path("out").open("wb") as out, self._path("err").open("wb") as err:
            self.process = subprocess.Popen(
                [str(part) for part in (*launcher, script, *arguments)],
                cwd=ROOT,
                env={**os.environ, **installation.environ, **(environ or {})},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        """What the script has printed so far."""
        return self._path("out").read_text("utf-8", "replace")

    @property
    def err(self) -> str:
        """Its error output so far, then what its JVMs logged."""
        log = self._installation.log
        logged = log.read_text("utf-8", "replace") if log.exists() else ""
        return f"{self._path('err').read_text('utf-8', 'replace')}\n{logged}"

    def wait(self, timeout_seconds: float = 240) -> Finished:
        """Until the script has ended and nothing that it started is left; after the time all is killed.

        Raises `AssertionError` with the driver's error output when the time is over.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            self._wait_until(lambda: self.process.poll() is not None, deadline, "is still running")
            self._wait_until(lambda: not self.processes(), deadline, "left processes behind")
        finally:
            self.close()
        return Finished(self.process.returncode, self.out, self.err)

    def wait_for(self, line: str, timeout_seconds: float = 240) -> None:
        """Until the script has printed `line`.

        Raises `AssertionError` when it ends before, or the time is over.
        """

        def printed() -> bool:
            ended = self.process.poll() is not None
            found = line in self.out.splitlines()
            assert found or not ended, f"the driver ended before it printed {line!r}\n{self.out}\n{self.err}"
            return found

        self._wait_until(printed, time.monotonic() + timeout_seconds, f"has not printed {line!r}")

    def suspend(self) -> None:
        """SIGSTOP of all that runs in it, until `resume`."""
        for member in self.processes():
            member.suspend()

    def resume(self) -> None:
        for member in self.processes():
            member.resume()

    def kill(self) -> None:
        """kill -9 of the driver: its Python and its JVM, which can do nothing between the one and the other.

        Executors and Python workers live until they notice it themselves.
        """
        driver = [member for member in self.processes() if member.pid == self.process.pid or _runs(member, _DRIVER)]
        for signalled in (psutil.Process.suspend, psutil.Process.kill):
            for member in driver:
                with contextlib.suppress(psutil.NoSuchProcess):
                    signalled(member)
        self.process.wait()

    def processes(self) -> list[psutil.Process]:
        """All that runs of it: its Python, its JVM, executors and Python workers."""
        return list(_session(self.process.pid))

    def executors(self) -> list[psutil.Process]:
        """The JVMs of a local cluster's executors; none with `local[…]`, where the driver's JVM runs the tasks."""
        return [member for member in self.processes() if _runs(member, _EXECUTOR)]

    def python_workers(self) -> list[psutil.Process]:
        """The daemons that Python tasks run in, and their children."""
        return [member for member in self.processes() if _runs(member, "pyspark.daemon")]

    def close(self) -> None:
        """Kill what is left of it. Idempotent."""
        for member in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def _wait_until(self, done: Callable[[], bool], deadline: float, otherwise: str) -> None:
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"the driver {otherwise}: {self.processes()}\n{self.out}\n{self.err}")
            time.sleep(0.05)

    def _path(self, suffix: str) -> Path:
        return self._files.with_suffix(f".{suffix}")


_DRIVER = "org.apache.spark.deploy.SparkSubmit"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def _session(leader: int) -> Iterator[psutil.Process]:
    """Every process that runs in the session of `leader`."""
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _runs(process: psutil.Process, program: str) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return program in process.cmdline()
    return False
