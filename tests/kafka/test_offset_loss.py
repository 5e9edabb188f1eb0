"""A topic that does not continue where the table's position is: an explanation and a stop, or what the option says."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from hive_ingest.testing import faults
from tests.kafka.running import ingest_until_kafka_has_the_offset
from tests.kafka.topics import produce_ids
from tests.services.kafka import KafkaBroker, running_broker
from tests.support.metastores import connect_in
from tests.support.rows import ids


@contextlib.contextmanager
def admin(broker: KafkaBroker) -> Iterator[KafkaAdminClient]:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as client:
        yield client


def ingest(metastore: MetastoreClient, broker: KafkaBroker, topic: str, **options: object) -> KafkaIngest:
    return KafkaIngest(
        metastore=metastore,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"group-{topic}",
        routes=[KafkaRoute(topic=topic, table="web.events", record_writer=hi.StrictJsonWriter())],
        **options,  # type: ignore[arg-type]
    )


@pytest.fixture
def landed(kafka_broker: KafkaBroker, metastore: MetastoreClient) -> str:
    """A topic whose first ten messages are in the table."""
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    ingest(metastore, kafka_broker, topic).run(until_end=True)
    return topic


def create_again(broker: KafkaBroker, topic: str) -> None:
    with admin(broker) as client:
        client.delete_topics([topic])
        while topic in client.list_topics():
            pass
        client.create_topics([NewTopic(topic, 1, 1)])


@pytest.mark.one_embedded
def test_a_topic_that_was_deleted_and_created_again_is_not_taken_for_the_old_one(
    kafka_broker: KafkaBroker, metastore: MetastoreClient, landed: str
) -> None:
    create_again(kafka_broker, landed)
    produce_ids(kafka_broker, landed, range(100, 120))  # its offsets reach beyond the old position

    with pytest.raises(hi.OffsetLoss, match="deleted and created again"):
        ingest(metastore, kafka_broker, landed).run(until_end=True)
    assert ids(metastore, "web.events") == list(range(10))

    ingest(metastore, kafka_broker, landed, on_offset_loss="earliest").run(until_end=True)
    assert ids(metastore, "web.events") == [*range(10), *range(100, 120)]
    ingest(metastore, kafka_broker, landed).run(until_end=True)
    assert ids(metastore, "web.events") == [*range(10), *range(100, 120)]


@pytest.mark.one_embedded
def test_messages_that_retention_removed_unread_are_an_error(
    kafka_broker: KafkaBroker, metastore: MetastoreClient, landed: str
) -> None:
    produce_ids(kafka_broker, landed, range(10, 30))
    with admin(kafka_broker) as client:
        client.delete_records({TopicPartition(landed, 0): 20})

    with pytest.raises(hi.OffsetLoss, match="messages 10 to 19 were removed by retention"):
        ingest(metastore, kafka_broker, landed).run(until_end=True)

    ingest(metastore, kafka_broker, landed, on_offset_loss="earliest").run(until_end=True)
    assert ids(metastore, "web.events") == [*range(10), *range(20, 30)]


@pytest.mark.one_embedded
def test_messages_that_retention_removes_just_before_they_are_fetched_are_an_error(
    kafka_broker: KafkaBroker, metastore: MetastoreClient, landed: str
) -> None:
    def remove_unread(point: str) -> None:
        if point == "after_seek":  # the position was checked, and nothing is fetched yet
            with admin(kafka_broker) as client:
                client.delete_records({TopicPartition(landed, 0): 20})

    produce_ids(kafka_broker, landed, range(10, 30))
    with faults(observe=remove_unread), pytest.raises(hi.OffsetLoss, match="messages 10 to 19 were removed"):
        ingest(metastore, kafka_broker, landed).run(until_end=True)
    assert ids(metastore, "web.events") == list(range(10))


@pytest.mark.one_embedded
@pytest.mark.local_warehouse(because="metastore and warehouse are copied as one local folder")
def test_a_metastore_restored_from_an_older_copy_is_noticed(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    def in_metastore(work: Callable[[MetastoreClient], None]) -> None:
        with connect_in(tmp_path / "now") as client:
            work(client)

    def create(client: MetastoreClient) -> None:
        client.create_database("web")
        client.create_table("web.events", columns={"id": "bigint"})

    topic = kafka_broker.new_topic()
    (tmp_path / "now").mkdir()
    in_metastore(create)
    produce_ids(kafka_broker, topic, range(10))
    in_metastore(lambda client: ingest(client, kafka_broker, topic).run(until_end=True))
    shutil.copytree(tmp_path / "now", tmp_path / "copy")
    counts: list[int] = []
    in_metastore(lambda client: counts.append(ingest_until_kafka_has_the_offset(client, kafka_broker, topic, first=10)))

    shutil.rmtree(tmp_path / "now")
    shutil.copytree(tmp_path / "copy", tmp_path / "now")
    with pytest.raises(hi.OffsetLoss, match="restored from an older copy"):
        in_metastore(lambda client: ingest(client, kafka_broker, topic).run(until_end=True))

    in_metastore(lambda client: ingest(client, kafka_broker, topic, on_offset_loss="earliest").run(until_end=True))
    with connect_in(tmp_path / "now") as client:
        assert ids(client, "web.events") == list(range(counts[0]))


@pytest.mark.one_embedded
def test_a_broker_restored_from_an_older_copy_is_noticed(metastore: MetastoreClient, tmp_path: Path) -> None:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    with running_broker(tmp_path / "broker") as broker:
        topic = broker.new_topic()
        produce_ids(broker, topic, range(10))
        broker.stop()
        shutil.copytree(tmp_path / "broker" / "data", tmp_path / "copy")
        broker.start()
        produce_ids(broker, topic, range(10, 20))
        ingest(metastore, broker, topic).run(until_end=True)
        broker.stop()
        shutil.rmtree(tmp_path / "broker" / "data")
        shutil.copytree(tmp_path / "copy", tmp_path / "broker" / "data")
        broker.start()

        with pytest.raises(hi.OffsetLoss, match="position is 20, and the topic ends at 10"):
            ingest(metastore, broker, topic).run(until_end=True)
        assert ids(metastore, "web.events") == list(range(20))
