"""Positions in topics: what the progress of a sink stores for each topic partition, and what a consumer starts from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from hive_ingest.connection import SourceProgress
from hive_ingest.errors import SinkConflict
from hive_ingest.streaming.kafka.messages import UNKNOWN_EPOCH


def source_name(topic: str, partition: int) -> str:
    """The name of a topic partition as a source of a sink. It is unique over all topics."""
    return f"{topic}-{partition}"


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """The next message of a topic partition: all before it are in the table.

    Attributes:
        topic: The topic's name.
        partition: The partition.
        topic_id: Kafka's id of the topic; a topic that was deleted and created again has another one. None where the
            brokers are older than Kafka 2.8.
        offset: That of the next message, or of a gap before it.
        partitions: How many partitions the topic had when the sink first read it: the others were added later.
        leader_epoch: That of the last message before the offset; -1 if it is not known. A log that was truncated below
            the offset ends earlier in that epoch, even if other messages have been added since.
    """

    topic: str
    partition: int
    topic_id: str | None
    offset: int
    partitions: int = 0
    leader_epoch: int = UNKNOWN_EPOCH

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "topic_id": self.topic_id,
            "offset": self.offset,
            "partitions": self.partitions,
            "leader_epoch": self.leader_epoch,
        }

    @classmethod
    def from_json(cls, source: str, found: Any) -> Self:
        """Raises SinkConflict if `found` is not a position in the topic partition of `source`."""
        try:
            position = cls(
                found["topic"],
                found["partition"],
                found["topic_id"],
                found["offset"],
                found.get("partitions", 0),
                found.get("leader_epoch", UNKNOWN_EPOCH),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise _foreign(source, found) from error
        numbers = (position.partition, position.offset, position.partitions, position.leader_epoch)
        if source_name(position.topic, position.partition) != source or not all(type(n) is int for n in numbers):
            raise _foreign(source, found)
        return position


def _foreign(source: str, found: Any) -> SinkConflict:
    return SinkConflict(
        f"the progress of source {source!r} is not a position in a topic: {found!r}. Another program writes to this "
        "sink: give the route a sink of its own"
    )


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """The latest position of a partition in the progress of the sink. `epoch` grows with each `seek`."""

    position: TopicPosition
    epoch: int

    @classmethod
    def of(cls, progress: SourceProgress) -> Self:
        return cls(TopicPosition.from_json(progress.source, progress.position), progress.epoch)


@dataclass(frozen=True, slots=True)
class OffsetMetadata:
    """The metadata of an offset that is committed in Kafka: which position of which sink it follows.

    An offset without it was committed by another program, and says nothing about the table.
    """

    sink: str
    table_id: int
    epoch: int

    def to_text(self) -> str:
        return json.dumps({"hive-ingest": {"sink": self.sink, "table_id": self.table_id, "epoch": self.epoch}})

    @classmethod
    def parse(cls, text: object) -> Self | None:
        try:
            found: Mapping[str, Any] = json.loads(str(text))["hive-ingest"]
            return cls(str(found["sink"]), int(found["table_id"]), int(found["epoch"]))
        except (ValueError, KeyError, TypeError):
            return None
