"""How many deltas partitions have, as the initiators of this process last found them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hive_ingest.events import CompactionEnded, PartitionExamined

#: The most partitions that are remembered; those that were examined longest ago are forgotten first.
MAX_PARTITIONS = 100_000
#: A partition that has not been examined for this time is forgotten. Initiators look at every partition that has
#: something to compact every few seconds, so it was compacted by another process, or dropped.
FORGET_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class TableBacklog:
    """The deltas of a table.

    Attributes:
        deltas: In all partitions.
        delta_bytes: Their size.
        max_deltas: In the partition that has the most.
        partitions: Deltas by the name of the partition.
    """

    deltas: int
    delta_bytes: int
    max_deltas: int
    partitions: dict[str, int]


class Backlog:
    """Fed by the events of initiators and workers, on any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: In the order in which they were examined.
        self._seen: dict[tuple[str, str], tuple[float, PartitionExamined]] = {}

    def examined(self, event: PartitionExamined) -> None:
        """Remember what an initiator saw."""
        key = event.table, event.partition
        with self._lock:
            self._seen.pop(key, None)
            self._seen[key] = self._clock(), event
            if len(self._seen) > MAX_PARTITIONS:
                del self._seen[next(iter(self._seen))]

    def compacted(self, event: CompactionEnded) -> None:
        """Forget a partition that was compacted, until it is examined again."""
        if event.state == "succeeded":
            with self._lock:
                self._seen.pop((event.table, event.partition), None)

    def tables(self) -> dict[str, TableBacklog]:
        """By table, in the order of their names."""
        oldest = self._clock() - FORGET_SECONDS
        with self._lock:
            while self._seen and next(iter(self._seen.values()))[0] < oldest:
                del self._seen[next(iter(self._seen))]
            seen = [event for _, event in self._seen.values()]
        by_table: dict[str, list[PartitionExamined]] = {}
        for event in seen:
            by_table.setdefault(event.table, []).append(event)
        return {table: _sum(by_table[table]) for table in sorted(by_table)}


def _sum(events: list[PartitionExamined]) -> TableBacklog:
    return TableBacklog(
        deltas=sum(each.deltas for each in events),
        delta_bytes=sum(each.delta_bytes for each in events),
        max_deltas=max(each.deltas for each in events),
        partitions={each.partition: each.deltas for each in sorted(events, key=lambda each: each.partition)},
    )
