"""Asks the brokers for the offsets and the id of a topic, and for what the group has committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from hive_ingest.streaming.kafka.group_consumer import committed_offsets, topic_id
from hive_ingest.streaming.kafka.inbox import StartRequest
from hive_ingest.streaming.kafka.positions import OffsetMetadata, source_name
from hive_ingest.streaming.kafka.start_offsets import CommittedOffset, LogRange, PartitionNow

_log = logging.getLogger(__name__)

#: How long a call may take.
CALL_MS: Final = 10_000

#: Returns the ends of partitions whatever the isolation level; the partitions are kafka-python's.
HighWatermarks: TypeAlias = Callable[[Collection[Any]], Mapping[Any, int]]


class PartitionLookup:
    """Used by the thread of the consumer."""

    def __init__(
        self, consumer: Any, sinks: Mapping[str, str], high_watermarks: HighWatermarks, *, until_end: bool = False
    ) -> None:
        """Args:
        consumer: Of the group.
        sinks: The name of the sink of each topic.
        high_watermarks: Asks for the ends of partitions with the messages of open transactions.
        until_end: Whether messages that cannot be read yet will be left out, so that a warning is due.
        """
        self._until_end = until_end
        self._consumer = consumer
        self._sinks = sinks
        self._high_watermarks = high_watermarks
        #: Of each partition whose log was truncated, the offset from which its messages are gone; None if unknown.
        self._truncated: dict[Any, int | None] = {}
        #: Of each partition, the offset that its leader has refused.
        self._refused: dict[Any, int] = {}
        #: Partitions of which it was logged that they have an open transaction.
        self._open: set[Any] = set()
        #: Topics of which it was logged that the group has written them to another table.
        self._warned: set[str] = set()

    def note_truncation(self, partition: Any, offset: int | None) -> None:
        """Remember that messages from `offset` on were replaced, until the partition has been started again."""
        self._truncated[partition] = offset

    def forget_truncation(self, partition: Any) -> None:
        self._truncated.pop(partition, None)

    def note_refusal(self, partition: Any, offset: int) -> None:
        """The leader does not have messages from `offset` on, or does not know the epoch of those before it.

        The first is found by looking at the log. So if it happens again, it is the second.
        """
        if self._refused.get(partition) == offset:
            self.note_truncation(partition, None)
        self._refused[partition] = offset

    def forget_refusal(self, partition: Any) -> None:
        self._refused.pop(partition, None)

    def look_up(self, request: StartRequest, partitions: Mapping[Any, int]) -> dict[int, PartitionNow]:
        """The partitions of a request as they are now, by number. Raises KafkaError."""
        # Before the ends: messages that arrive meanwhile are not those of open transactions.
        former = self._high_watermarks(partitions) if self._until_end else {}
        starts = self._consumer.beginning_offsets(list(partitions), timeout_ms=CALL_MS)
        ends = self._consumer.end_offsets(list(partitions), timeout_ms=CALL_MS)
        self._warn_of_open_transactions(ends, former)
        watermarks = {**former, **self._watermarks_beyond(ends, request, partitions)}
        committed = committed_offsets(self._consumer, list(partitions), CALL_MS)
        count = len(self._consumer.partitions_for_topic(request.topic) or ())
        return {
            number: PartitionNow(
                request.topic,
                number,
                topic_id(self._consumer, request.topic),
                count,
                LogRange(starts[partition], ends[partition]),
                self._own_commit(request, partition, committed.get(partition)),
                high_watermark=watermarks.get(partition, ends[partition]),
                truncated_at=self._truncation(partition, starts[partition]),
            )
            for partition, number in partitions.items()
        }

    def _watermarks_beyond(
        self, ends: Mapping[Any, int], request: StartRequest, partitions: Mapping[Any, int]
    ) -> Mapping[Any, int]:
        """The ends of partitions whose position is beyond what this isolation level can read.

        A run with `read_uncommitted` may have read the messages of a transaction that is still open.
        """
        beyond = [
            partition
            for partition, number in partitions.items()
            if (known := request.known[number]) is not None and known.position.offset > ends[partition]
        ]
        return self._high_watermarks(beyond) if beyond else {}

    def _warn_of_open_transactions(self, ends: Mapping[Any, int], watermarks: Mapping[Any, int]) -> None:
        for partition, watermark in watermarks.items():
            if watermark > ends[partition] and partition not in self._open:
                self._open.add(partition)
                _log.warning(
                    "%s: a producer's transaction is open, whose first offset is %d. The messages from there to %d "
                    "cannot be read before it ends, and this run does not wait for that",
                    source_name(partition.topic, partition.partition),
                    ends[partition],
                    watermark - 1,
                )

    def _truncation(self, partition: Any, log_start: int) -> int | None:
        if partition not in self._truncated:
            return None
        offset = self._truncated[partition]
        return log_start if offset is None else offset

    def _own_commit(self, request: StartRequest, partition: Any, found: Any) -> CommittedOffset | None:
        """What was committed after a commit to the same table; None for anything else."""
        metadata = OffsetMetadata.parse(found.metadata) if found is not None else None
        if metadata is None:
            # Offset 0 may be our own question whether the group still has this member.
            if found is not None and found.offset > 0 and request.known[partition.partition] is None:
                self._warn_of_another_program(partition, found.offset)
            return None
        if (metadata.sink, metadata.table_id) != (self._sinks[request.topic], request.table_id):
            self._warn_of_another_table(partition, metadata)
            return None
        return CommittedOffset(found.offset, metadata)

    def _warn_of_another_program(self, partition: Any, offset: int) -> None:
        if partition.topic in self._warned:
            return
        self._warned.add(partition.topic)
        _log.warning(
            "%s: the group has committed offset %d, but not by an ingest. It is not used: this table has no position "
            "yet, and begins where auto_offset_reset says. To continue at the group's offset, set it with "
            "'hive-ingest sinks seek'. If another application still reads the topic in this group, the table gets only "
            "some of the partitions: give each a group of its own",
            source_name(partition.topic, partition.partition),
            offset,
        )

    def _warn_of_another_table(self, partition: Any, metadata: OffsetMetadata) -> None:
        if partition.topic in self._warned:
            return
        self._warned.add(partition.topic)
        _log.warning(
            "%s: the offset that the group has committed is that of sink %r of another table. If an ingest to "
            "that table still runs in this group, each table gets only some of the partitions: give each table a group "
            "of its own",
            source_name(partition.topic, partition.partition),
            metadata.sink,
        )
