"""The consumer of an ingest, and what it uses of kafka-python beyond the public API."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hive_ingest.streaming.kafka.client_options import KafkaClientOptions, kafka_module
from hive_ingest.streaming.kafka.clients import new_consumer
from hive_ingest.streaming.kafka.confluent_options import confluent_module
from hive_ingest.streaming.kafka.messages import UNKNOWN_EPOCH
from hive_ingest.streaming.kafka.options import (
    MAX_PARTITION_FETCH_BYTES,
    MAX_POLL_RECORDS,
    POLLS_IN_QUEUE,
    KafkaOptions,
)
from hive_ingest.streaming.kafka.record_batches import use_record_batches

_log = logging.getLogger(__name__)


def group_consumer(
    bootstrap_servers: str | Sequence[str], group_id: str, options: KafkaOptions, client_options: KafkaClientOptions
) -> Any:
    """A consumer that stores nothing in Kafka by itself, and never decides where to continue.

    Raises:
        ConfigurationError, StreamingConnectionError: See `new_consumer`.
    """
    defaults = {
        "client_id": "hive-ingest",
        "max_poll_records": MAX_POLL_RECORDS,
        "max_partition_fetch_bytes": MAX_PARTITION_FETCH_BYTES,
        # A topic that was deleted and created again is noticed this early.
        "metadata_max_age_ms": 30_000,
        "metrics_enabled": False,
        # A broker that was restarted is found soon.
        "reconnect_backoff_max_ms": 5_000,
    }
    own = {
        "allow_auto_create_topics": False,
        "enable_auto_commit": False,
        "group_id": group_id,
        "isolation_level": options.isolation_level,
        **{name: value for name, value in defaults.items() if name not in client_options},
    }
    if options.client == "confluent-kafka":
        confluent_module()
        module = importlib.import_module("hive_ingest.streaming.kafka.confluent_consumer")
        return module.ConfluentConsumer(
            bootstrap_servers, client_options, own, options.queue_max_bytes // POLLS_IN_QUEUE
        )
    if importlib.util.find_spec("crc32c") is None:
        _log.warning("the package crc32c is missing, without which Kafka is read many times slower: pip install crc32c")
    if "partition_assignment_strategy" not in client_options:
        assignors = importlib.import_module("kafka.coordinator.assignors.cooperative_sticky")
        own["partition_assignment_strategy"] = [assignors.CooperativeStickyAssignor]
    consumer = new_consumer(bootstrap_servers, client_options, own | {"auto_offset_reset": "none"})
    use_record_batches(consumer)
    _keep_joining(consumer)
    _claim_present_partitions(consumer)
    return consumer


def _keep_joining(consumer: Any) -> None:
    """Have polls go on with a join of the group until it has succeeded.

    The leader joins again when the metadata has changed. kafka-python finds that out by a comparison with the metadata
    of the last assignment, which is made in the middle of a join. If the poll that began it has ended by then, as on a
    busy machine, the next poll sees no difference, and nobody takes the result of the join: the member sends no
    heartbeats, commits no offsets, and is expelled after the session timeout.
    """
    coordinator = consumer._coordinator
    prepare = coordinator._on_join_prepare_async

    async def prepare_until_joined(*args: Any, **options: Any) -> Any:
        coordinator.request_rejoin()  # the coordinator takes it back when it has joined
        return await prepare(*args, **options)

    coordinator._on_join_prepare_async = prepare_until_joined


def _claim_present_partitions(consumer: Any) -> None:
    """Have a member tell the leader of the group which partitions it has now.

    kafka-python tells it those of the last assignment, also after the group has expelled the member. The leader then
    waits for it to give up partitions that it does not have, and nobody gets them until the next rebalance.
    """
    coordinator = consumer._coordinator
    group_protocols = coordinator.group_protocols

    def protocols() -> Any:
        is_expelled = coordinator._generation.is_lost()
        partitions = () if is_expelled else sorted(coordinator._subscription.assigned_partitions())
        for assignor in coordinator._assignors.values():
            if assignor.name == "cooperative-sticky":
                assignor.member_assignment = partitions
        return group_protocols()

    coordinator.group_protocols = protocols


def high_watermarks(
    bootstrap_servers: str | Sequence[str],
    client_options: KafkaClientOptions,
    partitions: Collection[Any],
    timeout_ms: int,
) -> Mapping[Any, int]:
    """Where partitions end, with the messages of open transactions.

    A consumer has one isolation level, so this needs another one. Raises KafkaError and what `new_consumer` raises.
    """
    settings = {"isolation_level": "read_uncommitted", "enable_auto_commit": False, "group_id": None}
    consumer = new_consumer(bootstrap_servers, client_options, settings)
    try:
        found: Mapping[Any, int] = consumer.end_offsets(list(partitions), timeout_ms=timeout_ms)
        return found
    finally:
        consumer.close(autocommit=False)


def topic_id(consumer: Any, topic: str) -> str | None:
    """The id of a topic as of the last metadata; None where the brokers are older than Kafka 2.8."""
    found = consumer._cluster.topic_id(topic)  # the public API has names only
    return None if found is None or not found.int else str(found)


def has_topic(consumer: Any, topic: str) -> bool:
    """Whether the last metadata have the topic. Asks no broker."""
    return bool(consumer._cluster.partitions_for_topic(topic))  # the public method asks for a topic that is missing


def seek(consumer: Any, partition: Any, offset: int, leader_epoch: int) -> None:
    """Continue at an offset. With the epoch, the client asks the leader whether its log still has what came before."""
    if hasattr(consumer, "position_epoch"):  # confluent-kafka
        consumer.seek(partition, offset, leader_epoch)
        return
    consumer.seek(partition, offset)
    if leader_epoch != UNKNOWN_EPOCH:
        metadata = kafka_module().OffsetAndMetadata(offset, "", leader_epoch)
        consumer._subscription.seek(partition, metadata)  # the public method takes no epoch


def position_epoch(consumer: Any, partition: Any) -> int:
    """The leader epoch of what is before the client's position; -1 if it is not known."""
    if hasattr(consumer, "position_epoch"):  # confluent-kafka
        return int(consumer.position_epoch(partition))
    position = consumer._subscription.assignment[partition].position  # the public method returns the offset alone
    return UNKNOWN_EPOCH if position is None else int(position.leader_epoch)


def has_valid_position(consumer: Any, partition: Any) -> bool:
    """Whether the leader's log has what is before the position; false while that is not known.

    Raises:
        kafka.errors.LogTruncationError: It does not have it any more.
    """
    if hasattr(consumer, "position_epoch"):  # confluent-kafka
        return consumer.position(partition) is not None
    consumer.position(partition, timeout_ms=0)  # has the leader asked, by the next poll
    if consumer._subscription.assignment[partition].awaiting_validation:
        return False
    consumer.position(partition, timeout_ms=0)  # raises what was found since the first call
    return True


def committed_offsets(consumer: Any, partitions: Sequence[Any], timeout_ms: int) -> Mapping[Any, Any]:
    """What the group has committed, with one request; only partitions that have an offset. Raises KafkaError."""
    found: Mapping[Any, Any] = consumer._coordinator.fetch_committed_offsets(partitions, timeout_ms=timeout_ms)
    return found  # the public method asks for one partition at a time


#: What to do about errors whose text does not say it, by their names.
_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "InconsistentGroupProtocolError": "another application is in this group, with another "
        "partition_assignment_strategy: give the ingest a group_id of its own",
        "UnsupportedCodecError": "the extra installs them: pip install 'hive-ingest[kafka]'",
    }
)


def describe(error: BaseException) -> str:
    """An error of the Kafka client in one line, with its name."""
    text, name = str(error), type(error).__name__
    described = text if name in text else f"{name}: {text}"
    return f"{described}: {_HINTS[name]}" if name in _HINTS else described
