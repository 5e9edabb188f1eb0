"""Where to continue reading: compares the table's position with what the topic has now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hive_ingest.errors import OffsetLoss
from hive_ingest.streaming.kafka.messages import UNKNOWN_EPOCH
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.positions import KnownPosition, OffsetMetadata, TopicPosition, source_name


class LogRange(NamedTuple):
    """The offsets that a partition has now: from `start`, and below `end`."""

    start: int
    end: int


class CommittedOffset(NamedTuple):
    """What the group has committed in Kafka, after a commit of ours."""

    offset: int
    metadata: OffsetMetadata


@dataclass(frozen=True, slots=True)
class PartitionNow:
    """A topic partition as Kafka has it now.

    Attributes:
        partitions: How many partitions the topic has.
        log: What can be read with the isolation level of the ingest.
        committed: None without one, and for one of another sink or program.
        high_watermark: Where the log ends with the messages of open transactions.
        truncated_at: If the partition lost messages while it was read, the first offset that was lost. Other messages
            may have that offset now.
    """

    topic: str
    partition: int
    topic_id: str | None
    partitions: int
    log: LogRange
    committed: CommittedOffset | None
    high_watermark: int = 0
    truncated_at: int | None = None

    @property
    def end(self) -> int:
        """The offset that the next message will have."""
        return max(self.log.end, self.high_watermark)

    def at(self, offset: int, partitions_at_first: int = 0, leader_epoch: int = UNKNOWN_EPOCH) -> TopicPosition:
        count = partitions_at_first or self.partitions
        return TopicPosition(self.topic, self.partition, self.topic_id, offset, count, leader_epoch)


def start_position(
    now: PartitionNow,
    known: KnownPosition | None,
    known_partitions: int,
    options: KafkaOptions,
    warn: Callable[[str], None],
) -> TopicPosition:
    """Where a partition is read from.

    Args:
        now: The partition.
        known: Its position in the table, if there is one.
        known_partitions: How many partitions the topic had when the sink first read it; 0 for a new topic.
        options: What happens at a first start, and when messages are gone.
        warn: Called with the explanation where `on_offset_loss` permits continuing.

    Raises:
        OffsetLoss: The messages after the position are gone, or the group has committed a higher offset.
    """
    if known is None:
        return _first_position(now, known_partitions, options, warn)
    position, count = known.position, known.position.partitions
    where = source_name(now.topic, now.partition)
    if _is_another_topic(position.topic_id, now.topic_id):
        what = (
            f"topic {now.topic!r} was deleted and created again: the table's position {position.offset} of partition "
            f"{now.partition} is in topic id {position.topic_id}, and the topic has id {now.topic_id} now"
        )
        return now.at(_choose(what, now.log.start, now.log.end, options, warn))
    if position.offset < now.log.start:
        what = (
            f"{where}: messages {position.offset} to {now.log.start - 1} were removed by retention before they were in "
            f"the table: the topic begins at {now.log.start} now"
        )
        return now.at(_choose(what, now.log.start, now.log.end, options, warn), count)
    if now.truncated_at is not None and position.offset > now.truncated_at:
        what = (
            f"{where}: messages {now.truncated_at} to {position.offset - 1}, which are in the table, are no longer in "
            "the topic: it lost them (an unclean leader election, or a broker that was restored from a copy), and may "
            "have other messages at these offsets now"
        )
        return now.at(_choose(what, now.truncated_at, now.log.end, options, warn), count)
    if position.offset > now.end:
        what = (
            f"{where}: the table's position is {position.offset}, and the topic ends at {now.end}: it lost "
            "messages that are in the table (a broker that was restored from a copy, or an unclean leader election)"
        )
        return now.at(_choose(what, now.log.start, now.log.end, options, warn), count)
    committed = now.committed
    if committed is not None and committed.metadata.epoch >= known.epoch and committed.offset > position.offset:
        what = (
            f"{where}: the group has committed offset {committed.offset}, and the table's position is "
            f"{position.offset}: the metastore was restored from an older copy, or its progress table was changed"
        )
        return now.at(_choose(what, position.offset, min(committed.offset, now.log.end), options, warn), count)
    return now.at(position.offset, count, position.leader_epoch)


def _first_position(
    now: PartitionNow, known_partitions: int, options: KafkaOptions, warn: Callable[[str], None]
) -> TopicPosition:
    if now.committed is not None:
        what = (
            f"{source_name(now.topic, now.partition)}: the group has committed offset {now.committed.offset} "
            "for this table, whose sink has no position: its progress table was dropped, or the metastore was restored "
            "from an older copy"
        )
        offset = _choose(what, now.log.start, min(now.committed.offset, now.log.end), options, warn)
        return now.at(offset, known_partitions)
    # A partition that was added to a known topic is entirely new: none of its messages may be left out.
    is_added = known_partitions and now.partition >= known_partitions
    if options.auto_offset_reset == "latest" and not is_added:
        return now.at(now.log.end, known_partitions)
    return now.at(now.log.start, known_partitions)


def _is_another_topic(before: str | None, now: str | None) -> bool:
    return before is not None and now is not None and before != now


def _choose(what: str, earliest: int, latest: int, options: KafkaOptions, warn: Callable[[str], None]) -> int:
    """Raises OffsetLoss unless `on_offset_loss` says where to continue."""
    if options.on_offset_loss == "fail":
        raise OffsetLoss(
            f"{what}. Nothing was skipped. Find out what has happened; then continue with "
            f"on_offset_loss='earliest' (at {earliest}) or 'latest' (at {latest}), or set a position with "
            "'hive-ingest sinks seek'"
        )
    offset = earliest if options.on_offset_loss == "earliest" else latest
    warn(f"{what}. It continues at {offset} (on_offset_loss={options.on_offset_loss!r})")
    return offset
