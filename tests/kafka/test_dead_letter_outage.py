"""The broker of the dead letters is stopped and comes back, while the one that is read goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.kafka.landing import landing_in
from tests.kafka.messages import messages_in
from tests.services.kafka import KafkaBroker, running_broker
from tests.services.kinds import Address

pytestmark = pytest.mark.one_embedded


def send_bad(broker: KafkaBroker, topic: str) -> int:
    """Send a message that is no JSON. Returns its offset."""
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
        offset: int = producer.send(topic, b"{", partition=0).get(timeout=60).offset
    return offset


def test_messages_wait_for_the_dead_letters_broker_and_none_is_lost(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    with (
        running_broker(tmp_path / "letters") as letters,
        landing_in(tmp_path, kafka_broker, metastore_timing_out(60.0)) as landing,
    ):
        topic = letters.new_topic()
        dead_letters = {"servers": letters.bootstrap_servers, "topic": topic, "timeout_seconds": 2}
        instance = landing.start(dead_letters=dead_letters)
        landing.produce(10)
        bad = {send_bad(kafka_broker, landing.topic)}
        landing.wait_for_all(instance)

        letters.stop()
        bad.add(send_bad(kafka_broker, landing.topic))
        landing.produce(10)
        landing.wait_until(lambda: "KafkaUnavailable: the topic of the dead letters" in instance.log, "a retry")
        assert landing.check_so_far() == 10, "committed without the dead letter"

        letters.start()
        landing.produce(10)
        landing.wait_for_all(instance)
        assert instance.stop() == 0, instance.log[-3000:]
        landing.check()
        found = {int(dict(each.headers)["hive_ingest.offset"]) for each in messages_in(letters, topic)}
        assert found == bad
