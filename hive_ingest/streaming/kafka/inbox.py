"""What passes between the consumer's thread and the thread of a route."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hive_ingest.streaming.kafka.positions import KnownPosition, TopicPosition


@dataclass(frozen=True, slots=True)
class Start:
    """Where each partition is read from. Batches of the same version follow."""

    version: int
    positions: Mapping[int, TopicPosition]


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive messages of a partition; none where only a gap was passed.

    Attributes:
        version: Of the `Start` that they follow.
        next_offset: The offset after them.
        leader_epoch: The leader epoch of the last of them, or of the end of the gap; -1 if it is not known.
        nbytes: What they take in memory.
    """

    version: int
    partition: int
    messages: Sequence[Any]
    next_offset: int
    leader_epoch: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A route has read its positions and wants messages from there.

    Attributes:
        known: Its partitions; None for one without a position.
        known_partitions: How many partitions the topic had when the sink first met it; 0 for a new topic.
    """

    topic: str
    version: int
    generation: int
    table_id: int
    known: Mapping[int, KnownPosition | None]
    known_partitions: int


@dataclass(frozen=True, slots=True)
class RouteCommitted:
    """A route's transaction was committed with these positions."""

    topic: str
    generation: int
    table_id: int
    known: Mapping[int, KnownPosition]


@dataclass(frozen=True, slots=True)
class RouteEnded:
    """The thread of a route has ended."""

    topic: str
    error: BaseException | None


RouteEvent: TypeAlias = StartRequest | RouteCommitted | RouteEnded


class AssignmentChanged(Exception):
    """The partitions of the route, or their positions, are others now.

    `is_lost`: what was not committed must not be: the partitions belong to another instance already, or the topic does
    not have the messages any more.
    """

    def __init__(self, *, is_lost: bool) -> None:
        super().__init__()
        self.is_lost = is_lost


class Finished(Exception):
    """The ingest ends: what is complete is committed."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions of a topic that the group has assigned to this instance. `generation` grows with each change."""

    generation: int
    partitions: frozenset[int]


class RouteInbox:
    """Batches on their way to a route, and which partitions it owns. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[Start | Batch] = deque()
        self._assignment = Assignment(0, frozenset())
        self._lost_at = 0
        #: The version of the last item that was taken.
        self._started = -1
        self._is_finishing = self._is_hurried = False
        #: Size of the messages that wait here.
        self.queued_bytes = 0

    # -- the consumer's side -----------------------------------------------------------------------

    @property
    def assignment(self) -> Assignment:
        return self._assignment

    def assign(self, partitions: frozenset[int], *, is_lost: bool = False) -> None:
        """Set the partitions of the route; the thread ends its transaction and reads their positions again."""
        with self._changed:
            self._assignment = Assignment(self._assignment.generation + 1, partitions)
            if is_lost:
                self._lost_at = self._assignment.generation
            self._changed.notify_all()

    def restart(self, *, is_lost: bool = False) -> None:
        """Have the positions read again."""
        self.assign(self._assignment.partitions, is_lost=is_lost)

    def put(self, item: Start | Batch) -> None:
        with self._changed:
            self._items.append(item)
            if isinstance(item, Batch):
                self.queued_bytes += item.nbytes
            self._changed.notify_all()

    def hurry(self) -> None:
        """From now on, commit whenever nothing is queued."""
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def finish(self) -> None:
        """End the thread: what it has written is committed, what is queued is dropped."""
        with self._changed:
            self._is_finishing = True
            self._changed.notify_all()

    # -- the route's side --------------------------------------------------------------------------

    def wait_for_partitions(self) -> Assignment:
        """The assignment, once it has partitions. Raises Finished."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_finishing or self._assignment.partitions)
            if self._is_finishing:
                raise Finished
            return self._assignment

    def check(self, assignment: Assignment) -> None:
        """Raises AssignmentChanged, Finished."""
        if self._assignment is not assignment:
            raise AssignmentChanged(is_lost=self._lost_at > assignment.generation)
        if self._is_finishing:
            raise Finished

    def get(self, assignment: Assignment, version: int, timeout: float | None) -> Start | Batch | None:
        """The next item of `version`; None after `timeout` seconds, or at once in a hurry.

        Raises:
            AssignmentChanged, Finished: Instead of an item.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                self.check(assignment)
                while self._items:
                    item = self._items.popleft()
                    if isinstance(item, Batch):
                        self.queued_bytes -= item.nbytes
                    if item.version == version:
                        self._started = version
                        return item
                if self._is_hurried and version == self._started and timeout is not None:
                    return None
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    return None
                self._changed.wait(rest)

    def pause(self, seconds: float) -> None:
        """Wait before another attempt. Ends early when the ingest ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_finishing, seconds)

    def clear(self) -> None:
        """Drop what is queued: it will be read again."""
        with self._changed:
            self._items.clear()
            self.queued_bytes = 0

    @property
    def is_finishing(self) -> bool:
        return self._is_finishing
