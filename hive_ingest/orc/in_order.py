"""Results of several threads, in the order of what they were computed from."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def in_order(
    executor: Executor, ahead: int, function: Callable[[_T], _R], items: Iterable[_T]
) -> Iterator[tuple[_T, _R]]:
    """Each item with its result, in order.

    Args:
        executor: Runs the function; not the one that runs this call.
        ahead: How many results may be computed before they are requested.
        function: Computes the result of an item. Its error is raised in place of the result.
        items: Taken as results are requested.
    """
    process = os.getpid()
    waiting: deque[tuple[_T, Future[_R]]] = deque()

    def first() -> tuple[_T, _R]:
        item, future = waiting.popleft()
        # A child of a fork has none of the threads, which may not even have begun with it.
        return item, future.result() if os.getpid() == process else function(item)

    try:
        for item in items:
            if len(waiting) > ahead:
                yield first()
            if os.getpid() == process:
                waiting.append((item, executor.submit(function, item)))
            else:
                while waiting:
                    yield first()
                yield item, function(item)
        while waiting:
            yield first()
    finally:
        # Not waited for: this may run in a garbage collection, on the thread that would have to end first.
        for _, future in waiting:
            future.cancel()
