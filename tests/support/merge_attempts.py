"""Runs the tasks of a distributed merge as an engine does that may run each of them more than once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from hive_ingest.compaction import MergeTasks
from hive_ingest.errors import StreamingIOFailure


class Attempts:
    """Two attempts of each task, in other processes as far as pickling shows; the first one counts.

    Attributes:
        stages: The tasks of each call, by the names of their classes.
    """

    def __init__(self, *, failures: int = 0) -> None:
        """`failures`: how many attempts fail after their work is done, and are repeated."""
        self._failures = failures
        self.stages: list[list[str]] = []

    def __call__(self, tasks: MergeTasks, check: Callable[[], None]) -> list[Any]:
        self.stages.append([type(task).__name__ for task in tasks.tasks])
        results = []
        for number in range(len(tasks.tasks)):
            check()
            results.append(self._attempt(tasks, number))
            self._attempt(tasks, number)
        return results

    def _attempt(self, tasks: MergeTasks, number: int) -> Any:
        sent: MergeTasks = pickle.loads(pickle.dumps(tasks))
        while True:
            result = pickle.loads(pickle.dumps(sent.run(number, 1)))
            if not self._failures:
                return result
            self._failures -= 1


class Broken:
    """Loses its last task of each call, after two attempts of the others."""

    def __call__(self, tasks: MergeTasks, check: Callable[[], None]) -> list[Any]:
        for number in range(len(tasks.tasks)):
            tasks.run(number, 1)
        raise StreamingIOFailure("the engine has gone (on purpose)")
