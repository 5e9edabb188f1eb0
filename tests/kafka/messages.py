"""The messages that are in a topic."""

from __future__ import annotations

import contextlib
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from tests.services.kafka import KafkaBroker


def messages_in(broker: KafkaBroker, topic: str) -> list[Any]:
    """All messages that are in a topic of one partition now."""
    partition = TopicPartition(topic, 0)
    with contextlib.closing(KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        found: list[Any] = []
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                found += records
        return found
