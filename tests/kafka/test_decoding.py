"""What the ingest reads is what kafka-python reads from the same broker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.codec import has_lz4, has_snappy, has_zstd
from kafka.consumer.fetcher import ConsumerRecord

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.kafka import KafkaRoute, MessageColumns, MessageWriter
from hive_ingest.streaming.kafka.messages import KafkaMessage
from hive_ingest.streaming.kafka.record_batches import use_record_batches
from hive_ingest.streaming.sinks import latest_progress
from tests.kafka.running import ingest
from tests.services.kafka import KafkaBroker

_CODECS = [
    None,
    "gzip",
    *(["snappy"] if has_snappy() else []),
    *(["lz4"] if has_lz4() else []),
    *(["zstd"] if has_zstd() else []),
]


def produce(broker: KafkaBroker, topic: str, numbers: Iterable[int], **options: Any) -> None:
    """Messages with and without key, value and headers. A transaction of an odd number is aborted."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=20, **options)
    is_transactional = "transactional_id" in options
    if is_transactional:
        producer.init_transactions()
    with contextlib.closing(producer):
        for number in numbers:
            if is_transactional:
                producer.begin_transaction()
            for place in range(100):
                producer.send(
                    topic,
                    b"x" * number * 37 if place % 3 or place % 5 else None,
                    key=None if place % 5 else b"key %d" % place,
                    headers=[("a", b"1"), ("ä", b"")] if place % 7 == 0 else [],
                    partition=0,
                    timestamp_ms=1_700_000_000_000 + number * 1_000 - place,
                )
            if is_transactional:
                producer.flush()  # or an abort would drop what was not sent
                (producer.abort_transaction if number % 2 else producer.commit_transaction)()


def read(broker: KafkaBroker, topic: str, isolation_level: str, *, is_ours: bool) -> list[KafkaMessage]:
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation_level)
    with contextlib.closing(consumer):
        if is_ours:
            assert use_record_batches(consumer)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        found: list[Any] = []
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=1_000, max_records=333).values():
                found += records
    assert all(type(each) is KafkaMessage for each in found) is is_ours
    fields = KafkaMessage._fields
    return [KafkaMessage(**{n: getattr(m, n) for n in fields} | {"headers": tuple(m.headers)}) for m in found]


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_messages_are_those_of_kafka_python(kafka_broker: KafkaBroker, isolation_level: str) -> None:
    topic = kafka_broker.new_topic()
    for number, codec in enumerate(_CODECS):
        produce(kafka_broker, topic, range(number, number + 4), compression_type=codec)
    produce(kafka_broker, topic, range(4), transactional_id=f"decoding {isolation_level}")
    ours = read(kafka_broker, topic, isolation_level, is_ours=True)
    assert ours == read(kafka_broker, topic, isolation_level, is_ours=False)
    assert len(ours) == 400 * len(_CODECS) + (200 if isolation_level == "read_committed" else 400)


@pytest.mark.one_embedded
@pytest.mark.parametrize(("version", "kind"), [(kafka.__version__, KafkaMessage), ("99.0.0", ConsumerRecord)])
def test_an_ingest_decodes_batches_itself_only_with_a_tested_version(
    kafka_broker: KafkaBroker,
    metastore: MetastoreClient,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    kind: type[Any],
) -> None:
    """Any other is read through its public API, with the same rows and positions."""
    monkeypatch.setattr(kafka, "__version__", version)
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint", "key": "string", "at": "bigint"})
    topic, seen = kafka_broker.new_topic(), set[type[Any]]()
    write = MessageWriter.write

    def note(self: MessageWriter, messages: list[Any]) -> Any:
        seen.update(map(type, messages))
        return write(self, messages)

    monkeypatch.setattr(MessageWriter, "write", note)
    with contextlib.closing(KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)) as producer:
        for number in range(20):
            producer.send(topic, b'{"id": %d}' % number, key=b"k%d" % number, partition=0)
    route = KafkaRoute(topic, "web.events", hi.StrictJsonWriter(), columns=MessageColumns(key="key", offset="at"))
    ingest(metastore, kafka_broker, topic, routes=[route], max_rows=7).run(until_end=True)
    rows = hi.read_table(metastore, "web.events").to_pylist()
    assert rows == [{"id": number, "key": f"k{number}", "at": number} for number in range(20)]
    assert seen == {kind}
    (last,) = latest_progress(metastore, "web.events__progress").values()
    assert (last.position["offset"], last.position["leader_epoch"]) == (20, 0)
