"""Sets the positions of a sink in Kafka topics, to write messages again or to skip some."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hive_ingest.config import StreamingSettings
from hive_ingest.connection import SourceProgress, StreamingConnection, progress_table_name
from hive_ingest.errors import ConfigurationError, NoSuchObject, SinkConflict
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.record_writer import ArrowWriter
from hive_ingest.streaming.kafka.client_options import KafkaClientOptions
from hive_ingest.streaming.kafka.clients import missing_topic, new_consumer
from hive_ingest.streaming.kafka.group_consumer import topic_id
from hive_ingest.streaming.kafka.positions import TopicPosition, source_name
from hive_ingest.streaming.sinks import latest_progress, sink_exists

_AGENT_INFO = "hive-ingest sinks"

#: An offset, or one that Kafka knows.
ToOffset: TypeAlias = int | Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class SeekResult:
    """The position of one topic partition.

    Attributes:
        before: The next offset until now; None if the sink had no position in this partition.
        after: The next offset from now on.
        is_same_topic: False if the topic was deleted and created again since, so that `before` is an offset of the
            former one.
    """

    topic: str
    partition: int
    before: int | None
    after: int
    is_same_topic: bool


def seek_offsets(
    client: MetastoreClient,
    table: str | TableName,
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str],
    to_offset: ToOffset | None = None,
    to_timestamp: dt.datetime | None = None,
    sink: str | None = None,
    partitions: Iterable[int] | None = None,
    new_topic: bool = False,
    kafka_options: Mapping[str, Any] | None = None,
    settings: StreamingSettings | Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> list[SeekResult]:
    """Set where an ingest continues. Messages between a lower position and the former one are written again.

    A sink that does not exist yet is created. The positions are set in one transaction, while the partitions are
    locked; a running ingest continues from there with its next transaction.

    Args:
        client: Of the metastore.
        table: The table that the sink writes.
        topic: The topic.
        bootstrap_servers: The brokers, by which each offset is checked.
        to_offset: The next offset to be read, or `earliest` or `latest`.
        to_timestamp: Instead of `to_offset`: continue at the first message that is not older than this time, which
            needs a time zone.
        sink: The name of the sink; by default the table's.
        partitions: Only these. Default: all that the topic has.
        new_topic: Whether the sink may have positions in other topics only. Without it such a topic is refused,
            because its name is probably mistyped.
        kafka_options: Of kafka-python's consumer, such as those of security.
        settings: Of the connection.
        dry_run: Only return what would be changed. Errors are those of the change itself.

    Raises:
        ConfigurationError: An argument is not valid, the topic or a partition does not exist, the topic does not have
            the offset, or the sink has positions in other topics only.
        SinkConflict: The sink belongs to another table, or its positions are not those of a topic.
        SinkInUse: A transaction of the sink was open, and still was after the wait for the lock.
        StreamingConnectionError: Kafka cannot be reached.
        StreamingError: What a commit raises.
    """
    _check_target(to_offset, to_timestamp)
    name = TableName.of(table)
    if not new_topic:
        _check_topic(client, name, sink or name.table, topic)
    consumer = new_consumer(bootstrap_servers, KafkaClientOptions(kafka_options), {"enable_auto_commit": False})
    try:
        targets = _targets(_Topic(consumer, topic, partitions), to_offset, to_timestamp)
    finally:
        consumer.close(autocommit=False)
    seeking = _Seeking(targets, dry_run=dry_run)
    if dry_run and not sink_exists(client, name.database, sink or name.table):
        seeking(dict.fromkeys(targets))
        return seeking.results
    with StreamingConnection.connect(
        client,
        database=name.database,
        table=name.table,
        record_writer=ArrowWriter(),
        agent_info=_AGENT_INFO,
        settings=settings,
        sink=sink or name.table,
        sources=list(targets),
    ) as connection:
        connection.seek(seeking)
    return seeking.results


def _check_target(to_offset: ToOffset | None, to_timestamp: dt.datetime | None) -> None:
    if (to_offset is None) == (to_timestamp is None):
        raise ConfigurationError("give one of to_offset and to_timestamp")
    if to_timestamp is not None and to_timestamp.tzinfo is None:
        raise ConfigurationError(f"to_timestamp={to_timestamp.isoformat()} has no time zone: append Z or +01:00")
    if isinstance(to_offset, str) and to_offset not in ("earliest", "latest"):
        raise ConfigurationError(f"to_offset={to_offset!r}: give a number, 'earliest' or 'latest'")


def _check_topic(client: MetastoreClient, table: TableName, sink: str, topic: str) -> None:
    """Raises ConfigurationError if the sink has positions in topics, and none of them in this one."""
    try:
        progress = latest_progress(client, progress_table_name(table.database, sink))
    except NoSuchObject:
        return
    known = sorted({found for source, row in progress.items() if (found := _topic_of(source, row)) is not None})
    if known and topic not in known:
        raise ConfigurationError(
            f"sink {sink!r} has no position in topic {topic!r}; it has positions in {', '.join(map(repr, known))}: "
            "correct the topic's name, or pass new_topic=True to add this one"
        )


def _topic_of(source: str, row: SourceProgress) -> str | None:
    try:
        return TopicPosition.from_json(source, row.position).topic
    except SinkConflict:
        return None


class _Topic:
    """The partitions and offsets of a topic now."""

    def __init__(self, consumer: Any, topic: str, partitions: Iterable[int] | None) -> None:
        from kafka import TopicPartition

        self.consumer = consumer
        self.name = topic
        known = consumer.partitions_for_topic(topic)
        if not known:
            raise missing_topic("topic", topic)
        chosen = sorted(known if partitions is None else set(partitions))
        missing = [number for number in chosen if number not in known]
        if missing:
            raise ConfigurationError(f"topic {topic!r} has no partition {missing[0]}: it has 0 to {max(known)}")
        self.partitions = [TopicPartition(topic, number) for number in chosen]
        self.count = len(known)
        self.topic_id = topic_id(consumer, topic)
        self.earliest: dict[Any, int] = consumer.beginning_offsets(self.partitions)
        self.latest: dict[Any, int] = consumer.end_offsets(self.partitions)


def _targets(topic: _Topic, to_offset: ToOffset | None, to_timestamp: dt.datetime | None) -> dict[str, TopicPosition]:
    """The new position of each source. Raises ConfigurationError for an offset that is not there."""
    if to_timestamp is not None:
        milliseconds = int(to_timestamp.timestamp() * 1000)
        times = topic.consumer.offsets_for_times(dict.fromkeys(topic.partitions, milliseconds))
        offsets = {each: found.offset if found else topic.latest[each] for each, found in times.items()}
    elif isinstance(to_offset, str):
        offsets = topic.earliest if to_offset == "earliest" else topic.latest
    else:
        assert to_offset is not None
        offsets = dict.fromkeys(topic.partitions, to_offset)
    for each, offset in offsets.items():
        if not topic.earliest[each] <= offset <= topic.latest[each]:
            raise ConfigurationError(
                f"{source_name(topic.name, each.partition)} has offsets from {topic.earliest[each]}, and its next one "
                f"is {topic.latest[each]}: {offset} is not between them"
            )
    return {
        source_name(topic.name, each.partition): TopicPosition(
            topic.name, each.partition, topic.topic_id, offset, topic.count
        )
        for each, offset in sorted(offsets.items())
    }


class _Seeking:
    """Called while the partitions are locked, so the positions cannot change between being read and the commit."""

    results: list[SeekResult]

    def __init__(self, targets: Mapping[str, TopicPosition], *, dry_run: bool) -> None:
        self._targets = targets
        self._dry_run = dry_run

    def __call__(self, progress: Mapping[str, SourceProgress | None]) -> dict[str, Any]:
        before = {
            source: TopicPosition.from_json(source, row.position) if (row := progress[source]) is not None else None
            for source in self._targets
        }
        self.results = [_result(before[source], after) for source, after in self._targets.items()]
        return {} if self._dry_run else {source: position.to_json() for source, position in self._targets.items()}


def _result(before: TopicPosition | None, after: TopicPosition) -> SeekResult:
    return SeekResult(
        after.topic,
        after.partition,
        before.offset if before else None,
        after.offset,
        before is None or before.topic_id is None or before.topic_id == after.topic_id,
    )
