"""A garbage collection can close the readers of a file on any thread, at any point of its work."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from hive_ingest.orc.reader import stripe_threads

TIMEOUT_SECONDS = 60


class Reader:
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.times_closed = 0

    def close(self) -> None:
        self.times_closed += 1


def interrupted(line: int, interrupt: Callable[[], None], work: Callable[[], None]) -> bool:
    """Run `work`, and `interrupt` before that line of the readers' code. Returns whether it was reached."""
    lines = itertools.count()
    reached = False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal reached
        if frame.f_code.co_filename != stripe_threads.__file__:
            return None
        if event == "line" and next(lines) == line:
            reached = True
            interrupt()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return reached


def close_before_line(line: int) -> bool:
    opened: list[Reader] = []

    def open_reader() -> Any:
        opened.append(Reader())
        return opened[-1]

    readers = stripe_threads._Readers(open_reader)

    def work() -> None:
        first, second = readers.take(), readers.take()
        readers.put_back(first)
        readers.put_back(second)
        readers.put_back(readers.take())
        readers.close()

    reached = interrupted(line, readers.close, work)
    assert [reader.times_closed for reader in opened] == [1] * len(opened)
    return reached


def test_a_garbage_collection_may_close_readers_at_any_point_of_their_use() -> None:
    done: list[int] = []

    def all_lines() -> None:
        done.append(sum(1 for _ in itertools.takewhile(close_before_line, itertools.count())))

    thread = threading.Thread(target=all_lines, daemon=True)  # it would wait for a lock that it has itself
    thread.start()
    thread.join(TIMEOUT_SECONDS)
    assert done
    assert done[0] > 10
