"""Arms the fault points of `hive_ingest.faults`: a raised error, or a process killed or stopped right there."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from hive_ingest.errors import ConfigurationError
from hive_ingest.faults import ALL_FAULT_POINTS, set_hook

#: `HIVE_INGEST_FAULT=<point>:<occurrence>:<signal or "raise">` for `arm_from_environment`.
ENVIRONMENT = "HIVE_INGEST_FAULT"


class FaultError(Exception):
    """The error that an armed fault point raises. Deliberately none of the package's own."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """At the `occurrence`th passing of `point`: raise FaultError, or send this process a signal."""

    point: str
    occurrence: int = 1
    signal: signal.Signals | None = None

    def __post_init__(self) -> None:
        if self.point not in ALL_FAULT_POINTS:
            known = ", ".join(sorted(ALL_FAULT_POINTS))
            raise ConfigurationError(f"{self.point!r} is not a fault point: known are {known}")

    def to_environment(self) -> dict[str, str]:
        """For the environment of a child that calls `arm_from_environment`."""
        action = self.signal.name if self.signal is not None else "raise"
        return {ENVIRONMENT: f"{self.point}:{self.occurrence}:{action}"}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> CrashPoint | None:
        text = environ.get(ENVIRONMENT)
        if not text:
            return None
        point, occurrence, action = text.split(":")
        return cls(point, int(occurrence), None if action == "raise" else signal.Signals[action])


@dataclass(slots=True)
class FaultRecorder:
    """Counts the fault points that are passed, and acts at one of them."""

    crash: CrashPoint | None = None
    #: Called at every point before anything else happens there.
    observe: Callable[[str], None] | None = None
    passed: Counter[str] = field(default_factory=Counter)
    #: Threads whose names begin so pass all points unseen.
    except_threads: str | None = None

    def __call__(self, point: str) -> None:
        if point not in ALL_FAULT_POINTS:
            raise ConfigurationError(f"{point!r} is reached but not in hive_ingest.faults: add it there")
        if self.except_threads and threading.current_thread().name.startswith(self.except_threads):
            return
        self.passed[point] += 1
        if self.observe is not None:
            self.observe(point)
        crash = self.crash
        if crash is None or crash.point != point or crash.occurrence != self.passed[point]:
            return
        if crash.signal is None:
            raise FaultError(f"armed at {point}, occurrence {crash.occurrence}")
        # To this thread: a signal to the process may reach another one, and this one would go on for a moment.
        signal.pthread_kill(threading.get_ident(), crash.signal)


@contextmanager
def faults(crash: CrashPoint | None = None, *, observe: Callable[[str], None] | None = None) -> Iterator[FaultRecorder]:
    """Arm the seam for a `with` block; it is disarmed again at the end."""
    recorder = FaultRecorder(crash, observe)
    set_hook(recorder)
    try:
        yield recorder
    finally:
        set_hook(None)


def arm_from_environment(*, except_threads: str | None = None) -> FaultRecorder:
    """Arm the seam for the rest of this process, as `HIVE_INGEST_FAULT` says.

    Args:
        except_threads: Threads whose names begin so are left alone, such as those that compact.
    """
    recorder = FaultRecorder(CrashPoint.from_environment(os.environ), except_threads=except_threads)
    set_hook(recorder)
    return recorder
