"""Bad messages reach the dead-letter topic, whole, before the transaction that leaves them out commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.connection import StreamingConnection
from hive_ingest.errors import ConfigurationError, KafkaFailure
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.record_writer import BadRecord, StrictJsonWriter
from hive_ingest.streaming.kafka import DeadLetterTopic, KafkaMessage, MessageColumns, MessageWriter
from tests.kafka.messages import messages_in
from tests.services.kafka import KafkaBroker
from tests.support.rows import ids

TIME = 1_700_000_000_123


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_metastore(f"sqlite:///{tmp_path}/ms.db", create=True) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int", "pos": "bigint"})
        yield client


def message(offset: int, value: bytes | None, **fields: Any) -> KafkaMessage:
    return KafkaMessage("events", 3, offset, value=value, **({"timestamp": TIME} | fields))


def test_a_bad_message_is_sent_whole_before_the_rows_are_visible(
    kafka_broker: KafkaBroker, ms: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka_broker.new_topic()
    writer = MessageWriter(StrictJsonWriter(on_error="skip"), MessageColumns(offset="pos"))
    bad = message(11, b'{"id": "\xff\n"}', key=b"\x00", headers=(("a", b"\xff"), ("b", None)))
    seen: list[Any] = []
    with DeadLetterTopic(kafka_broker.bootstrap_servers, topic) as letters:
        flush = letters.flush
        monkeypatch.setattr(letters, "flush", lambda: (flush(), seen.append(ids(ms, "web.t"))))
        with (
            StreamingConnection.connect(ms, table="web.t", record_writer=writer, bad_records=letters) as conn,
            conn.transaction(),
        ):
            conn.write([message(10, b'{"id": 1}'), bad, message(12, None), message(13, b'{"id": 4}')])
        assert seen == [[]]
        assert ids(ms, "web.t") == [1, 4]
    first, second = messages_in(kafka_broker, topic)
    assert (first.key, first.value, first.timestamp) == (bad.key, bad.value, TIME)
    *original, about = first.headers[:2], dict(first.headers[2:])
    assert original == [[("a", b"\xff"), ("b", b"")]]
    assert about.pop("hive_ingest.reason").startswith(b"not UTF-8")
    assert about == {"hive_ingest.topic": b"events", "hive_ingest.partition": b"3", "hive_ingest.offset": b"11"}
    assert (second.key, second.value, dict(second.headers)["hive_ingest.offset"]) == (None, b"", b"12")


def test_a_message_that_the_topic_does_not_accept_fails_the_transaction(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    writer = MessageWriter(StrictJsonWriter(on_error="skip"), MessageColumns(offset="pos"))
    with (
        DeadLetterTopic(kafka_broker.bootstrap_servers, kafka_broker.new_topic()) as letters,
        StreamingConnection.connect(ms, table="web.t", record_writer=writer, bad_records=letters) as conn,
    ):
        conn.begin_transaction()
        conn.write([message(10, b'{"id": 1}'), message(11, b"x" * (2 << 20))])
        with pytest.raises(KafkaFailure, match=r"could not be written: .*max\.message\.bytes"):
            conn.commit_transaction()
        conn.abort_transaction()
        assert ids(ms, "web.t") == []
        with conn.transaction():  # what was lost is forgotten with its transaction
            conn.write([message(10, b'{"id": 1}'), message(11, b"x")])
    assert ids(ms, "web.t") == [1]


def test_each_thread_waits_for_its_own_messages(kafka_broker: KafkaBroker) -> None:
    errors: list[BaseException] = []

    def send_too_large() -> None:
        try:
            letters.handle([BadRecord(0, "why", message(2, b"x" * (2 << 20)))])
            sent.wait()
            letters.flush()
        except KafkaFailure as error:
            errors.append(error)

    topic, sent = kafka_broker.new_topic(), threading.Event()
    with DeadLetterTopic(kafka_broker.bootstrap_servers, topic) as letters:
        other = threading.Thread(target=send_too_large)
        other.start()
        letters.handle([BadRecord(0, "why", message(1, b"x"))])
        letters.flush()
        sent.set()
        other.join()
    assert len(errors) == 1
    assert [record.value for record in messages_in(kafka_broker, topic)] == [b"x"]


def test_a_topic_that_is_missing_is_an_error_at_once(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer waits for the topic until its timeout, so none is created before the topic has been looked up."""
    monkeypatch.setattr("hive_ingest.streaming.kafka.dead_letters.new_producer", None)
    with pytest.raises(ConfigurationError, match=r"dead letters, 'missing' does not exist.* --create --topic missing"):
        DeadLetterTopic(kafka_broker.bootstrap_servers, "missing")


def test_a_topic_that_is_ingested_cannot_take_its_dead_letters(kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.new_topic()
    with (
        DeadLetterTopic(kafka_broker.bootstrap_servers, topic) as letters,
        pytest.raises(ConfigurationError, match="is ingested and takes the dead letters too"),
    ):
        letters.handle([BadRecord(0, "why", KafkaMessage(topic, 0, 1, value=b"x"))])
    assert messages_in(kafka_broker, topic) == []
