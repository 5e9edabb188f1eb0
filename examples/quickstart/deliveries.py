"""Flights as messages of a Kafka topic, a few thousand at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from kafka import KafkaProducer

from examples.quickstart import flights
from examples.quickstart.arrivals import Arrivals

TOPIC = "flights"
PARTITIONS = 4
MESSAGES_AT_ONCE = 5_600


class Deliveries(Arrivals):
    """Sends the flights at a fixed interval, until all are sent or the `with` block ends.

    The values are made beforehand, so that the producer takes little of the processor from the ingest.
    """

    def __init__(self, source: pa.Table, servers: str, folder: Path, seconds_between: float) -> None:
        super().__init__([], folder, seconds_between)
        self._values = list(flights.json_records(source))
        self._servers = servers

    @property
    def count(self) -> int:
        """The messages in total."""
        return len(self._values)

    def _run(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._servers, batch_size=128 << 10, linger_ms=20)
        sent = 0
        for values in self._steps():
            for number, value in enumerate(values):
                producer.send(TOPIC, value, partition=number % PARTITIONS)
            producer.flush()
            sent += len(values)
            self.seen.append((time.time(), sent))
            if self._is_over.wait(self._seconds_between):
                break
        producer.close()

    def _steps(self) -> Iterator[list[bytes]]:
        for start in range(0, len(self._values), MESSAGES_AT_ONCE):
            yield self._values[start : start + MESSAGES_AT_ONCE]
