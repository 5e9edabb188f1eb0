"""Writes the messages of one assignment of a route: transactions, one after another, through one connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from hive_ingest.connection import SourceProgress, StreamingConnection, TransactionState
from hive_ingest.faults import reach
from hive_ingest.streaming.kafka.inbox import Assignment, AssignmentChanged, Batch, Finished, RouteInbox, Start
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.positions import KnownPosition, TopicPosition, source_name

_log = logging.getLogger(__name__)


class RouteSession:
    """Runs until the assignment changes or the ingest ends.

    A transaction is begun for the first message, and compares the positions in the table with those that the messages
    follow on: if somebody else has moved them meanwhile, the messages are dropped and read again from there.
    """

    def __init__(
        self,
        connection: StreamingConnection,
        inbox: RouteInbox,
        assignment: Assignment,
        topic: str,
        options: KafkaOptions,
        max_seconds: float,
        *,
        on_begin: Callable[[], None],
        request_start: Callable[[Mapping[int, KnownPosition | None]], int],
        on_committed: Callable[[Mapping[int, KnownPosition], float], None],
        on_idle: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._inbox = inbox
        self._assignment = assignment
        self._topic = topic
        self._options = options
        self._max_seconds = max_seconds
        self._on_begin = on_begin
        self._request_start = request_start
        self._on_committed = on_committed
        self._on_idle = on_idle
        #: As the table has them: None for a partition without a position. Before the first begin: not known.
        self._known: dict[int, KnownPosition | None] | None = None
        #: After what was written in this transaction.
        self._next: dict[int, TopicPosition] = {}
        self._version = -1
        self._rows = self._bytes = 0
        self._deadline: float | None = None

    def run(self) -> None:
        """Raises AssignmentChanged, Finished; and what the connection raises, with the transaction aborted."""
        try:
            self._begin()
            while True:
                self._step()
        except AssignmentChanged as change:
            if not change.is_lost:
                self._end_transaction()
            raise
        except Finished:
            self._end_transaction()
            raise

    @property
    def has_written(self) -> bool:
        """Whether the last transaction, open or failed, has messages."""
        return self._rows > 0

    @property
    def _is_open(self) -> bool:
        return self._connection.state is TransactionState.OPEN

    def _step(self) -> None:
        timeout = None if self._deadline is None else max(self._deadline - time.monotonic(), 0)
        item = self._inbox.get(self._assignment, self._version, timeout)
        if item is None:
            self._end_transaction()
        elif isinstance(item, Start):
            self._next = dict(item.positions)
            if self._moved() and not self._is_open:
                self._begin()  # it came after the deadline, and the beginning is to be committed
        else:
            self._write(item)

    # -- begin -------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Begin a transaction. Returns whether messages that were read before it can be written in it."""
        self._rows = self._bytes = 0
        self._on_begin()
        self._connection.begin_transaction()
        self._deadline = time.monotonic() + self._max_seconds
        known = self._read_positions(self._connection.progress)
        if known == self._known:
            return True
        self._known, self._next = known, {}
        self._version = self._request_start(known)
        return False

    def _read_positions(self, progress: Mapping[str, SourceProgress | None]) -> dict[int, KnownPosition | None]:
        found: dict[int, KnownPosition | None] = {}
        for partition in self._assignment.partitions:
            row = progress[source_name(self._topic, partition)]
            found[partition] = KnownPosition.of(row) if row else None
        return found

    # -- write -------------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        """Write a batch, into several transactions if it does not fit into one."""
        rest: Batch | None = batch
        while rest is not None:
            if not self._is_open and not self._begin():
                return
            part, rest = _cut(rest, self._options.max_rows - self._rows)
            self._rows += len(part.messages)
            if part.messages:
                self._connection.write(part.messages)
                reach("after_messages_written")
            self._bytes += part.nbytes
            self._next[part.partition] = replace(
                self._next[part.partition], offset=part.next_offset, leader_epoch=part.leader_epoch
            )
            if self._rows >= self._options.max_rows or self._bytes >= self._options.max_bytes:
                self._commit()

    # -- end ---------------------------------------------------------------------------------------

    def _end_transaction(self) -> None:
        """Commit what was written, or positions that are new; otherwise the transaction was for nothing."""
        self._deadline = None
        if not self._is_open:
            return
        if self._moved():
            self._commit()
        else:
            self._connection.abort_transaction()
            self._on_idle()

    def _moved(self) -> dict[int, TopicPosition]:
        known = self._known or {}
        return {
            partition: position
            for partition, position in self._next.items()
            if (last := known.get(partition)) is None or last.position != position
        }

    def _commit(self) -> None:
        self._deadline = None
        began = time.monotonic()
        moved = self._moved()
        positions = {source_name(self._topic, number): position.to_json() for number, position in moved.items()}
        self._connection.commit_transaction(positions=positions)
        self._known = self._read_positions(self._connection.progress)
        known = {partition: row for partition, row in self._known.items() if row is not None}
        self._on_committed(known, time.monotonic() - began)


def _cut(batch: Batch, most: int) -> tuple[Batch, Batch | None]:
    """A batch of at most so many messages, and the rest."""
    messages = batch.messages
    if len(messages) <= most:
        return batch, None
    nbytes = batch.nbytes * most // len(messages)
    first = replace(
        batch,
        messages=messages[:most],
        next_offset=messages[most - 1].offset + 1,
        leader_epoch=messages[most - 1].leader_epoch,
        nbytes=nbytes,
    )
    return first, replace(batch, messages=messages[most:], nbytes=batch.nbytes - nbytes)
