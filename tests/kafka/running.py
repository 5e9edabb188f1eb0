"""Ingests that run on a thread of their own while a test changes what they depend on."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from kafka import KafkaConsumer, TopicPartition

import hive_ingest as hi
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from tests.kafka.topics import produce_ids
from tests.services.kafka import KafkaBroker

LONGEST_SECONDS = 60.0


def route(topic: str, table: str = "web.events") -> KafkaRoute:
    return KafkaRoute(topic=topic, table=table, record_writer=hi.StrictJsonWriter())


def ingest(metastore: Any, broker: KafkaBroker, topic: str, **options: Any) -> KafkaIngest:
    given = {"group_id": f"group-{topic}", "routes": [route(topic)], **options}
    return KafkaIngest(metastore=metastore, bootstrap_servers=broker.bootstrap_servers, **given)


def group_offset(broker: KafkaBroker, topic: str) -> int | None:
    """The offset of partition 0 that the group of `ingest` has committed in Kafka."""
    settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": f"group-{topic}"}
    with contextlib.closing(KafkaConsumer(**settings, enable_auto_commit=False)) as consumer:
        found: int | None = consumer.committed(TopicPartition(topic, 0))
        return found


def ingest_until_kafka_has_the_offset(metastore: Any, broker: KafkaBroker, topic: str, *, first: int = 0) -> int:
    """Ingest ten messages at a time, from `first` on, until their last offset is committed in Kafka too. Returns it.

    A group takes no offsets while it rebalances, and a run that ends then leaves its last one out.
    """
    for sent in range(first + 10, first + 210, 10):
        produce_ids(broker, topic, range(sent - 10, sent))
        ingest(metastore, broker, topic).run(until_end=True)
        if group_offset(broker, topic) == sent:
            return sent
    raise AssertionError("Kafka has the last offset of none of the runs")


class Running:
    """An ingest on a thread of its own; it is stopped at the end of the block."""

    def __init__(self, running: KafkaIngest, *, until_end: bool = False) -> None:
        self.ingest = running
        self.error: BaseException | None = None
        self._until_end = until_end
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.ingest.run(until_end=self._until_end)
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ingest.stop()
        self.thread.join(LONGEST_SECONDS)

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        self.thread.join(LONGEST_SECONDS)
        assert not self.thread.is_alive(), "it does not end"
