"""Topics with numbered messages."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kafka import KafkaProducer

from tests.services.kafka import KafkaBroker


def message(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


def produce_ids(broker: KafkaBroker, topic: str, numbers: Iterable[int], *, partitions: int = 1) -> None:
    """Send a message for each number, to partition `number % partitions`, in order."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)
    sent = [producer.send(topic, message(number), partition=number % partitions) for number in numbers]
    for each in sent:
        each.get(timeout=60)
    producer.close()
