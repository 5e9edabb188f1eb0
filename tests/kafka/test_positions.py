"""Where an ingest starts, what it passes over, and what it shares with others."""

from __future__ import annotations

import contextlib

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

import hive_ingest as hi
from hive_ingest.connection import CommitInfo
from hive_ingest.errors import KafkaFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute
from hive_ingest.streaming.sinks import latest_progress
from tests.kafka.running import ingest_until_kafka_has_the_offset
from tests.kafka.topics import message, produce_ids
from tests.services.kafka import KafkaBroker
from tests.support.rows import ids
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    return metastore


def ingest(metastore: MetastoreClient, broker: KafkaBroker, topic: str, **options: object) -> KafkaIngest:
    given = {
        "group_id": f"group-{topic}",
        "routes": [KafkaRoute(topic=topic, table="web.events", record_writer=hi.StrictJsonWriter())],
        **options,
    }
    return KafkaIngest(metastore=metastore, bootstrap_servers=broker.bootstrap_servers, **given)  # type: ignore[arg-type]


def transactional(broker: KafkaBroker, topic: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"producer-{topic}")
    producer.init_transactions()
    return producer


def test_messages_of_aborted_transactions_are_left_out_and_their_offsets_passed(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic()
    with contextlib.closing(transactional(kafka_broker, topic)) as producer:
        for first, commits in ((0, True), (10, False), (20, True), (30, False)):
            producer.begin_transaction()
            for number in range(first, first + 10):
                producer.send(topic, message(number), partition=0)
            producer.flush()  # what is not sent yet is dropped by an abort
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    ingest(ms, kafka_broker, topic).run(until_end=True)

    assert ids(ms, "web.events") == [*range(10), *range(20, 30)]
    position = latest_progress(ms, "web.events__progress")[f"{topic}-0"].position
    assert position["offset"] == 44, "40 messages and 4 markers"


def test_uncommitted_messages_are_read_on_request(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    topic = kafka_broker.new_topic()
    with contextlib.closing(transactional(kafka_broker, topic)) as producer:
        producer.begin_transaction()
        producer.send(topic, message(1), partition=0)
        producer.flush()
        producer.abort_transaction()

    ingest(ms, kafka_broker, topic, isolation_level="read_uncommitted").run(until_end=True)

    assert ids(ms, "web.events") == [1]


def test_messages_after_an_open_transaction_are_left_out_with_a_warning(
    kafka_broker: KafkaBroker, ms: MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(5))
    ingest(ms, kafka_broker, topic).run(until_end=True)
    assert not caplog.messages
    with contextlib.closing(transactional(kafka_broker, topic)) as producer:
        producer.begin_transaction()
        producer.send(topic, message(5), partition=0)
        producer.flush()
        produce_ids(kafka_broker, topic, range(6, 9))
        ingest(ms, kafka_broker, topic).run(until_end=True)
        assert ids(ms, "web.events") == [*range(5)]
        assert any("whose first offset is 5. The messages from there to 8 cannot" in each for each in caplog.messages)
        producer.commit_transaction()
    ingest(ms, kafka_broker, topic).run(until_end=True)
    assert ids(ms, "web.events") == [*range(9)]


def test_an_offset_of_another_program_in_the_group_is_pointed_out_and_not_used(
    kafka_broker: KafkaBroker, ms: MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(5))
    group = {"bootstrap_servers": kafka_broker.bootstrap_servers, "group_id": f"group-{topic}"}
    with contextlib.closing(KafkaConsumer(**group, enable_auto_commit=False)) as consumer:
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1)})
    ingest(ms, kafka_broker, topic).run(until_end=True)
    assert ids(ms, "web.events") == [*range(5)]
    assert sum("the group has committed offset 3, but not by an ingest" in each for each in caplog.messages) == 1


def test_an_application_with_another_strategy_in_the_group_is_named(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic()
    # A subscription during the client's first metadata request is left out of it, until the metadata are that old.
    other = KafkaConsumer(
        topic,
        bootstrap_servers=kafka_broker.bootstrap_servers,
        group_id=f"group-{topic}",
        metadata_max_age_ms=1000,
    )
    with contextlib.closing(other):
        wait_until(
            lambda: other.poll(1000) is not None and bool(other.assignment()), "the other application got no partition"
        )
        with pytest.raises(KafkaFailure, match=r"another application is in this group.*a group_id of its own"):
            ingest(ms, kafka_broker, topic).run(until_end=True)


def test_a_change_of_the_isolation_level_is_not_a_loss(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    """What is read of an open transaction is beyond the end that `read_committed` sees."""
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, [0])
    with contextlib.closing(transactional(kafka_broker, topic)) as producer:
        producer.begin_transaction()
        producer.send(topic, message(1), partition=0)
        producer.flush()
        ingest(ms, kafka_broker, topic, isolation_level="read_uncommitted").run(until_end=True)
        ingest(ms, kafka_broker, topic).run(until_end=True)
        producer.commit_transaction()
    produce_ids(kafka_broker, topic, [2])
    ingest(ms, kafka_broker, topic).run(until_end=True)
    assert ids(ms, "web.events") == [0, 1, 2]


def test_a_topic_can_begin_with_its_latest_message_and_keeps_that_beginning(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    """The beginning is committed even if no message comes: what is produced until the next start is not left out."""
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    ingest(ms, kafka_broker, topic, auto_offset_reset="latest").run(until_end=True)
    assert ids(ms, "web.events") == []
    produce_ids(kafka_broker, topic, range(10, 20))
    ingest(ms, kafka_broker, topic, auto_offset_reset="latest").run(until_end=True)
    assert ids(ms, "web.events") == list(range(10, 20))


def test_of_a_partition_that_is_added_to_a_topic_nothing_is_left_out(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic()
    ingest(ms, kafka_broker, topic, auto_offset_reset="latest").run(until_end=True)
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)) as admin:
        admin.create_partitions({topic: 2})
    produce_ids(kafka_broker, topic, range(20), partitions=2)
    ingest(ms, kafka_broker, topic, auto_offset_reset="latest").run(until_end=True)
    assert ids(ms, "web.events") == list(range(20))


def test_several_topics_go_to_several_tables(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    ms.create_table("web.clicks", columns={"id": "bigint"})
    topics = {kafka_broker.new_topic(partitions=2): table for table in ("web.events", "web.clicks", "web.events")}
    for number, topic in enumerate(topics):
        produce_ids(kafka_broker, topic, range(number * 10, number * 10 + 10), partitions=2)
    routes = [
        KafkaRoute(topic=topic, table=table, record_writer=hi.StrictJsonWriter()) for topic, table in topics.items()
    ]
    for _ in range(2):
        ingest(ms, kafka_broker, "several", routes=routes, group_id=f"group-{min(topics)}").run(until_end=True)
    assert ids(ms, "web.events") == [*range(10), *range(20, 30)]
    assert ids(ms, "web.clicks") == list(range(10, 20))


@pytest.mark.parametrize(("limits", "commits"), [({"max_rows": 10}, 5), ({"max_bytes": 1}, 1), ({}, 1)])
def test_a_transaction_ends_at_the_limit_that_is_reached_first(
    kafka_broker: KafkaBroker, ms: MetastoreClient, limits: dict[str, int], commits: int
) -> None:
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(50))
    rows: list[int] = []

    def on_commit(info: CommitInfo) -> None:
        rows.append(info.rows)

    ingest(ms, kafka_broker, topic, on_commit=on_commit, **limits).run(until_end=True)
    assert sum(rows) == 50
    assert len(rows) == commits


def test_the_group_shows_the_positions_of_the_table_and_decides_nothing(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic()
    count = ingest_until_kafka_has_the_offset(ms, kafka_broker, topic)
    partition = TopicPartition(topic, 0)
    settings = {"bootstrap_servers": kafka_broker.bootstrap_servers, "group_id": f"group-{topic}"}
    with contextlib.closing(KafkaConsumer(**settings, enable_auto_commit=False)) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 3)
        consumer.commit()  # as an operator's tool may do
    ingest(ms, kafka_broker, topic).run(until_end=True)
    assert ids(ms, "web.events") == list(range(count))


def test_a_seek_makes_rows_repeat_on_purpose(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    ingest(ms, kafka_broker, topic).run(until_end=True)
    source = f"{topic}-0"
    with hi.StreamingConnection.connect(
        ms, table="web.events", record_writer=hi.StrictJsonWriter(), sink="events", sources=[source]
    ) as connection:
        connection.seek(lambda progress: {source: {**progress[source].position, "offset": 7}})  # type: ignore[union-attr]
    ingest(ms, kafka_broker, topic).run(until_end=True)
    assert ids(ms, "web.events") == [*range(7), 7, 7, 8, 8, 9, 9]


def test_two_groups_cannot_write_the_same_messages_to_one_sink(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    """Neither interrupts the other: the second waits, and finds that the messages are there."""
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    waiting: list[BaseException] = []

    def on_commit(info: CommitInfo) -> None:
        try:
            ingest(ms, kafka_broker, topic, group_id=f"other-{topic}").run(until_end=True)
        except hi.StreamingError as error:
            waiting.append(error)

    ingest(ms, kafka_broker, topic, on_commit=on_commit).run(until_end=True)
    assert waiting == []
    assert ids(ms, "web.events") == list(range(10))


def test_a_topic_that_does_not_exist_is_an_error(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    with pytest.raises(hi.ConfigurationError, match="topic 'no-such-topic' does not exist"):
        ingest(ms, kafka_broker, "no-such-topic").run(until_end=True)


def test_five_hundred_partitions_are_read_by_one_instance(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    topic = kafka_broker.new_topic(partitions=500)
    produce_ids(kafka_broker, topic, range(2_000), partitions=500)
    seconds: list[float | None] = []

    def on_commit(info: CommitInfo) -> None:
        seconds.append(running.stats.routes[0].last_commit_seconds)

    running = ingest(ms, kafka_broker, topic, max_rows=500, on_commit=on_commit)
    running.run(until_end=True)
    assert ids(ms, "web.events") == list(range(2_000))
    assert len(latest_progress(ms, "web.events__progress")) == 500
