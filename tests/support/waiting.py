"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], what: str = "nothing happened", seconds: float = 60) -> None:
    """Return as soon as `done` gives true.

    Raises:
        AssertionError: It did not within `seconds`; `what` says what went wrong.
    """
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
