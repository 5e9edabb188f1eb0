"""A broker that has lost the end of a log, as in an unclean leader election: the ingest notices what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka.record.memory_records import MemoryRecords

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.kafka.landing import landing_in
from tests.kafka.running import ingest
from tests.kafka.topics import produce_ids
from tests.services.kafka import KafkaBroker, running_broker
from tests.services.kinds import Address
from tests.support.metastores import connect_in
from tests.support.rows import ids

CLIENTS = ["kafka-python", "confluent-kafka"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One that is stopped and started."""
    with running_broker(tmp_path_factory.mktemp("truncated-kafka")) as broker:
        yield broker


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path) as client:
        client.create_database("web")
        client.create_table("web.events", columns={"id": "bigint"})
        yield client


def lose_messages(broker: KafkaBroker, topic: str, after: int) -> None:
    """Kill the broker and start it without the messages of a topic after offset `after`."""
    broker.stop()
    (segment,) = (broker.folder / "data" / f"{topic}-0").glob("*.log")
    kept, batches = 0, MemoryRecords(segment.read_bytes())
    while (batch := batches.next_batch()) is not None and batch.last_offset <= after:
        kept += batch.size_in_bytes
    with segment.open("r+b") as file:
        file.truncate(kept)
    broker.start()


def topic_of_20(broker: KafkaBroker) -> str:
    topic = broker.new_topic()
    produce_ids(broker, topic, range(10))
    produce_ids(broker, topic, range(10, 20))
    return topic


@pytest.mark.parametrize("client", CLIENTS)
def test_a_log_that_ends_before_the_position_is_noticed(broker: KafkaBroker, ms: MetastoreClient, client: str) -> None:
    topic = topic_of_20(broker)
    ingest(ms, broker, topic, client=client).run(until_end=True)
    lose_messages(broker, topic, after=9)

    with pytest.raises(hi.OffsetLoss, match="position is 20, and the topic ends at 10"):
        ingest(ms, broker, topic, client=client).run(until_end=True)
    assert ids(ms, "web.events") == list(range(20))

    produce_ids(broker, topic, range(100, 105))
    ingest(ms, broker, topic, client=client, on_offset_loss="latest").run(until_end=True)
    produce_ids(broker, topic, range(105, 110))
    ingest(ms, broker, topic, client=client).run(until_end=True)
    assert ids(ms, "web.events") == [*range(20), *range(105, 110)]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_log_that_has_grown_beyond_the_position_again_is_noticed(
    broker: KafkaBroker, ms: MetastoreClient, client: str
) -> None:
    """The offsets alone look as if nothing had happened: only the leader epoch is another one."""
    topic = topic_of_20(broker)
    ingest(ms, broker, topic, client=client).run(until_end=True)
    lose_messages(broker, topic, after=9)
    produce_ids(broker, topic, range(100, 130))

    with pytest.raises(hi.OffsetLoss, match=r"messages 10 to 19, which are in the table, are no longer in the topic"):
        ingest(ms, broker, topic, client=client).run(until_end=True)
    assert ids(ms, "web.events") == list(range(20))

    ingest(ms, broker, topic, client=client, on_offset_loss="earliest").run(until_end=True)
    assert ids(ms, "web.events") == [*range(20), *range(100, 130)]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_log_that_is_truncated_while_it_is_read_is_noticed(
    broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path, client: str
) -> None:
    with landing_in(tmp_path, broker, metastore_timing_out(60.0)) as landing:
        instance = landing.start(client=client)
        landing.produce(10)
        landing.produce(10)
        landing.wait_for_all(instance)
        lose_messages(broker, landing.topic, after=9)
        produce_ids(broker, landing.topic, range(100, 130))
        assert instance.wait() == 1
        assert "OffsetLoss" in instance.log
        landing.check()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_log_that_ends_at_the_position_again_is_noticed(
    broker: KafkaBroker, ms: MetastoreClient, client: str
) -> None:
    """There is nothing to read, so only the position shows it."""
    topic = topic_of_20(broker)
    ingest(ms, broker, topic, client=client).run(until_end=True)
    lose_messages(broker, topic, after=9)
    produce_ids(broker, topic, range(100, 110))
    with pytest.raises(hi.OffsetLoss, match=r"messages 10 to 19, which are in the table"):
        ingest(ms, broker, topic, client=client).run(until_end=True)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_restart_of_the_broker_is_not_taken_for_a_loss(broker: KafkaBroker, ms: MetastoreClient, client: str) -> None:
    topic = topic_of_20(broker)
    for number in range(3):
        ingest(ms, broker, topic, client=client).run(until_end=True)
        broker.stop()
        broker.start()
        if number:
            produce_ids(broker, topic, range(20 + number, 21 + number))
    ingest(ms, broker, topic, client=client).run(until_end=True)
    assert ids(ms, "web.events") == [*range(20), 21, 22]
