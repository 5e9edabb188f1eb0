"""Topics and tables that are removed while an ingest runs: an error that says so, and nothing is lost."""

from __future__ import annotations

import contextlib

import pytest
from kafka import KafkaAdminClient

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.kafka.running import Running, ingest
from tests.kafka.topics import produce_ids
from tests.services.kafka import KafkaBroker
from tests.support.rows import ids
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    return metastore


def delete(broker: KafkaBroker, topic: str) -> None:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.delete_topics([topic])


def test_a_topic_that_is_deleted_while_it_is_read_is_an_error(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    with Running(ingest(ms, kafka_broker, topic, retry_seconds=1, max_seconds=0.2)) as running:
        wait_until(lambda: len(ids(ms, "web.events")) == 10)
        delete(kafka_broker, topic)
        running.wait()
    assert isinstance(running.error, hi.KafkaFailure)
    assert f"topic {topic!r} does not exist any more" in str(running.error)
    assert ids(ms, "web.events") == list(range(10))


def test_the_end_of_a_topic_that_is_deleted_is_not_taken_for_its_last_message(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(5_000))
    commits: list[object] = []

    def on_commit(info: object) -> None:
        if not commits:
            delete(kafka_broker, topic)
        commits.append(info)

    options = {
        "retry_seconds": 1,
        "max_rows": 10,
        "queue_max_bytes": 1,
        "on_commit": on_commit,
        "kafka_options": {"max_partition_fetch_bytes": 1_000, "max_poll_records": 10},  # one batch of the producer
    }
    with Running(ingest(ms, kafka_broker, topic, **options), until_end=True) as running:
        running.wait()
    assert isinstance(running.error, hi.KafkaFailure)
    found = ids(ms, "web.events")
    assert found == list(range(len(found)))
    assert len(found) < 5_000


def test_a_progress_table_that_is_dropped_while_it_is_used_is_an_offset_loss(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    """Without positions, the messages would be written again from the start."""
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    with Running(ingest(ms, kafka_broker, topic, max_seconds=0.2)) as running:
        wait_until(lambda: len(ids(ms, "web.events")) == 10 and not ms.show_locks())
        ms.drop_table("web.events__progress")
        produce_ids(kafka_broker, topic, range(10, 20))
        running.wait()
    assert isinstance(running.error, hi.OffsetLoss), running.error
    assert "its progress table was dropped" in str(running.error)
    assert ids(ms, "web.events") == list(range(10))

    ingest(ms, kafka_broker, topic, on_offset_loss="latest").run(until_end=True)
    assert ids(ms, "web.events") == list(range(20)), "the group's offset is where the rows end"
