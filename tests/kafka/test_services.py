"""What the other tests here stand on: a broker that keeps what it was given, and Spark's source that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.services.fetch import fetch
from tests.services.kafka import KafkaBroker, KafkaFailed
from tests.services.spark_versions import OF_KAFKA_JARS
from tests.spark.driver import Driver
from tests.spark.installation import Installation


def produce(broker: KafkaBroker, topic: str, count: int, *, partitions: int) -> list[list[object]]:
    """Send `count` numbered messages, to one partition after the other; gives [partition, offset, value] of each."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    sent = []
    for i in range(count):
        record = producer.send(topic, str(i).encode(), partition=i % partitions).get(timeout=60)
        sent.append([record.partition, record.offset, str(i)])
    producer.close()
    return sorted(sent)


def consume(broker: KafkaBroker, topic: str, count: int) -> list[list[object]]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)])
    records = [next(consumer) for _ in range(count)]
    consumer.close()
    return sorted([record.partition, record.offset, record.value.decode()] for record in records)


def test_a_killed_broker_has_what_it_acknowledged_when_it_is_started_again(kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    sent = produce(kafka_broker, topic, 10, partitions=2)

    kafka_broker.stop()
    kafka_broker.start()

    assert consume(kafka_broker, topic, 10) == sent


def test_a_broker_that_does_not_start_reports_why(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path)
    (tmp_path / "server.properties").write_text("process.roles=nothing")

    with pytest.raises(KafkaFailed, match=r"(?s)did not start; its log ends:.*process\.roles"):
        broker.start()


def test_spark_gives_each_message_to_foreach_batch_once(
    kafka_broker: KafkaBroker,
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
    tmp_path: Path,
) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    sent = produce(kafka_broker, topic, 10, partitions=2)
    # The source is published, whole, for this version alone.
    jars = ",".join(str(jar) for jar in fetch("spark-kafka").iterdir())
    spark = install_spark(version=OF_KAFKA_JARS, conf={"spark.jars": jars})
    script = Path(__file__).with_name("batches.py")

    done = start_driver(spark, script, kafka_broker.bootstrap_servers, topic, tmp_path / "checkpoint").wait()

    assert done.returncode == 0, done.err
    batches = [json.loads(line) for line in done.out.splitlines()]
    assert [(batch_id, len(rows)) for batch_id, rows in batches] == [(0, 6), (1, 4)]
    assert sorted(row for _, rows in batches for row in rows) == sent
