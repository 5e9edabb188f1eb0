"""Late beginnings, short failures and silent brokers: what an ingest recovers from, and where it gives up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnState
from hive_ingest.streaming.kafka.client_options import KafkaClientOptions
from hive_ingest.streaming.kafka.group_consumer import group_consumer
from hive_ingest.streaming.kafka.inbox import RouteInbox
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.rebalances import Rebalances
from hive_ingest.streaming.sinks import latest_progress
from tests.kafka.landing import landing_in
from tests.kafka.running import LONGEST_SECONDS, Running, ingest, ingest_until_kafka_has_the_offset, route
from tests.kafka.test_trouble import Outage
from tests.kafka.topics import produce_ids
from tests.services.kafka import KafkaBroker, running_broker
from tests.services.kinds import Address
from tests.support.rows import ids
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    return metastore


def test_a_beginning_is_committed_even_if_kafka_answers_after_the_end_of_the_transaction(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic()
    with Running(ingest(ms, kafka_broker, topic, max_seconds=0.001), until_end=True) as running:
        running.thread.join(LONGEST_SECONDS)
        assert not running.thread.is_alive(), "it waits for a message"
    assert running.error is None
    assert latest_progress(ms, "web.events__progress")[f"{topic}-0"].position["offset"] == 0


def test_a_failure_that_has_passed_does_not_count_against_the_next_one(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    """Also if there was no message to commit in between. With `retry_seconds=0`, a failure may happen once."""
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    ingest(ms, kafka_broker, topic).run(until_end=True)

    def aborted() -> int:
        return sum(each.state is TxnState.ABORTED for each in ms.get_open_txns_info().transactions)

    failing, before = [1], aborted()
    idle = ingest(Outage(ms, failing), kafka_broker, topic, retry_seconds=0, max_seconds=0.2)
    with Running(idle) as running:
        wait_until(lambda: aborted() > before, "the transaction without messages was not ended")
        failing[0] = 1
        produce_ids(kafka_broker, topic, range(10, 20))
        wait_until(lambda: not running.thread.is_alive() or len(ids(ms, "web.events")) == 20)
    assert running.error is None
    assert ids(ms, "web.events") == list(range(20))


def test_a_broker_that_cannot_be_reached_any_more_is_raised(
    metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    """Without a failing call: the client returns no messages then, as it does where there are none."""
    with (
        running_broker(tmp_path / "broker") as broker,
        landing_in(tmp_path, broker, metastore_timing_out(60.0)) as landing,
    ):
        instance = landing.start(retry_seconds=1)
        landing.produce(10)
        landing.wait_for_all(instance)
        broker.stop()
        assert instance.wait() == 1
        assert "KafkaFailure: Kafka: KafkaTimeoutError" in instance.log
        landing.check()


def test_a_join_that_outlasts_its_poll_is_completed_by_later_ones(kafka_broker: KafkaBroker) -> None:
    """Nobody took its result: the member sent no heartbeats, and Kafka accepted no offset from it."""
    topic = kafka_broker.new_topic()
    options = KafkaClientOptions({})
    consumer = group_consumer(kafka_broker.bootstrap_servers, f"group-{topic}", KafkaOptions(), options)
    with contextlib.closing(consumer):
        coordinator = consumer._coordinator
        consumer.subscribe(topics=[topic], listener=Rebalances(consumer, {topic: RouteInbox()}).listener())

        def is_stable() -> bool:
            consumer.poll(timeout_ms=100)
            return coordinator.generation_if_stable() is not None

        def has_begun_to_join() -> bool:
            consumer.poll(timeout_ms=0)
            return coordinator._join_task is not None

        wait_until(is_stable)
        coordinator._assignment_snapshot = {"the metadata": "of before"}
        wait_until(has_begun_to_join)
        wait_until(lambda: bool(coordinator._join_task.is_done))
        wait_until(is_stable, "the member remained in a rebalance")


def test_a_member_that_was_expelled_claims_no_partition(kafka_broker: KafkaBroker) -> None:
    """The leader waited for it to give up partitions that it did not have, so nobody got them."""
    topic = kafka_broker.new_topic(partitions=2)
    consumer = group_consumer(kafka_broker.bootstrap_servers, f"group-{topic}", KafkaOptions(), KafkaClientOptions({}))
    with contextlib.closing(consumer):
        coordinator = consumer._coordinator
        consumer.subscribe(topics=[topic], listener=Rebalances(consumer, {topic: RouteInbox()}).listener())

        def has_both() -> bool:
            """And no other join is under way, as after new metadata."""
            consumer.poll(timeout_ms=100)
            is_stable = coordinator.generation_if_stable() is not None and coordinator._join_task is None
            return is_stable and not coordinator.need_rejoin() and len(consumer.assignment()) == 2

        def claimed() -> list[list[int]]:
            ((_, subscription),) = coordinator.group_protocols()
            return [list(each.partitions) for each in subscription.owned_partitions]

        wait_until(has_both)
        assert claimed() == [[0, 1]]
        coordinator.reset_generation()  # as when a heartbeat finds out
        assert claimed() == []


def test_two_ingests_cannot_share_a_record_writer(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    topic = kafka_broker.new_topic()
    routes = [route(topic)]
    with Running(ingest(ms, kafka_broker, topic, routes=routes)) as running:
        wait_until(lambda: running.ingest.stats.is_running)
        with pytest.raises(hi.ConfigurationError, match="serves another KafkaIngest"):
            ingest(ms.clone(), kafka_broker, topic, routes=routes).run()
    assert running.error is None
    ingest(ms, kafka_broker, topic, routes=routes).run(until_end=True)


def test_a_group_that_has_written_another_table_is_warned_of(
    kafka_broker: KafkaBroker, ms: MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    ms.create_table("web.copies", columns={"id": "bigint"})
    topic = kafka_broker.new_topic()
    count = ingest_until_kafka_has_the_offset(ms, kafka_broker, topic)
    assert "give each table a group of its own" not in caplog.text
    ingest(ms, kafka_broker, topic, routes=[route(topic, "web.copies")]).run(until_end=True)
    assert "give each table a group of its own" in caplog.text
    assert ids(ms, "web.events") == ids(ms, "web.copies") == list(range(count))
