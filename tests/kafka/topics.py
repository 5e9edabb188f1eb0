"""Topics with numbered messages."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable

from kafka import KafkaProducer

from tests.services.kafka import KafkaBroker


def message(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


class Producer:
    """Sends numbered messages to one topic."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self._topic = topic
        self._producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5)

    def send(self, numbers: Iterable[int], partitions: int = 1) -> dict[tuple[int, int], int]:
        """Send a message for each number, to partition `number % partitions`. Returns where each went."""
        futures = [
            (number, self._producer.send(self._topic, message(number), partition=number % partitions))
            for number in numbers
        ]
        records = [(future.get(timeout=60), number) for number, future in futures]
        return {(record.partition, record.offset): number for record, number in records}

    def close(self) -> None:
        self._producer.close()


def produce_ids(broker: KafkaBroker, topic: str, numbers: Iterable[int], *, partitions: int = 1) -> None:
    """Send a message for each number, to partition `number % partitions`, in order."""
    with contextlib.closing(Producer(broker, topic)) as producer:
        producer.send(numbers, partitions)
