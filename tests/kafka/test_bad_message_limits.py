"""Bad messages of a whole run: what waits for the dead letters, and what counts against the limit."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from kafka import KafkaProducer

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import BadRecord
from hive_ingest.streaming.kafka import KafkaRoute
from tests.kafka.running import ingest
from tests.kafka.topics import message
from tests.services.kafka import KafkaBroker
from tests.support.rows import ids

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    return metastore


class Letters:
    """Dead letters whose brokers cannot be reached at the flushes of these numbers."""

    def __init__(self, *away: int) -> None:
        self.away = away
        self.flushes = 0
        self.offsets: list[int] = []

    def handle(self, records: Sequence[BadRecord]) -> None:
        self.offsets += [record.data.offset for record in records]

    def flush(self) -> None:
        self.flushes += 1
        if self.flushes in self.away:
            raise hi.KafkaUnavailable("the dead letters could not be written (on purpose)")


def send(broker: KafkaBroker, topic: str, *values: bytes) -> None:
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
        for value in values:
            producer.send(topic, value, partition=0).get(timeout=60)


def run(ms: MetastoreClient, broker: KafkaBroker, topic: str, letters: Letters, **options: Any) -> None:
    limit = options.pop("max_bad_records", None)
    route = KafkaRoute(
        topic, "web.events", hi.StrictJsonWriter(on_error="skip"), bad_records=letters, max_bad_records=limit
    )
    ingest(ms, broker, topic, routes=[route], max_rows=1, max_seconds=0.2, **options).run(until_end=True)


def test_dead_letters_that_cannot_be_written_are_waited_for(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    topic, letters = kafka_broker.new_topic(), Letters(1, 2)
    send(kafka_broker, topic, message(0), b"{", message(2))
    run(ms, kafka_broker, topic, letters)
    assert ids(ms, "web.events") == [0, 2]
    assert letters.offsets == [1, 1, 1]


def test_dead_letters_that_cannot_be_written_for_long_end_the_ingest(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    """Also if transactions can be begun meanwhile."""
    topic = kafka_broker.new_topic()
    send(kafka_broker, topic, message(0), b"{")
    with pytest.raises(hi.KafkaUnavailable) as error:
        run(ms, kafka_broker, topic, Letters(*range(1_000)), retry_seconds=1)
    assert any("retry_seconds" in note for note in error.value.__notes__)
    assert ids(ms, "web.events") == [0]


def test_the_limit_of_bad_messages_is_that_of_the_run(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    """A new connection, as after each change of the assignment, does not start it from the beginning."""
    topic = kafka_broker.new_topic()
    send(kafka_broker, topic, b"{", b"{", message(2), b"{")
    with pytest.raises(hi.SerializationError) as error:
        run(ms, kafka_broker, topic, Letters(2), max_bad_records=2)
    assert any("2 were skipped before, of the 2" in note for note in error.value.__notes__)
    assert ids(ms, "web.events") == [2]
