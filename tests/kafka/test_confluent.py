"""confluent-kafka reads the same messages as kafka-python, with the same promises."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, StreamingConnectionError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute, MessageColumns
from hive_ingest.streaming.sinks import latest_progress
from tests.kafka.churn import Churn
from tests.kafka.landing import landing_in
from tests.kafka.test_offset_loss import admin, create_again
from tests.kafka.test_positions import transactional
from tests.kafka.test_security import LISTENERS
from tests.kafka.topics import produce_ids
from tests.services.kafka import KafkaBroker, running_broker
from tests.services.kafka_security import BrokerSecurity
from tests.services.kinds import Address
from tests.services.ports import free_port
from tests.support.rows import ids

pytestmark = pytest.mark.one_embedded
CLIENTS = ("kafka-python", "confluent-kafka")


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table("web.events", columns={"id": "bigint"})
    return metastore


def ingest(ms: MetastoreClient, servers: str, topic: str, table: str = "web.events", **options: Any) -> KafkaIngest:
    options = {"client": "confluent-kafka", **options}
    columns = options.pop("columns", None)
    route = KafkaRoute(topic=topic, table=table, record_writer=hi.StrictJsonWriter(), columns=columns)
    group = f"group-{topic}-{table}-{Path(ms.uri).parent.name}"  # of this test alone
    return KafkaIngest(metastore=ms, bootstrap_servers=servers, group_id=group, routes=[route], **options)


def test_keys_timestamps_and_headers_are_those_that_kafka_python_reads(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    with contextlib.closing(KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)) as producer:
        for number in range(20):
            headers = [("a", b"\xff"), ("a", b""), ("é", b"x")] if number % 3 else None
            key = b"\x00key" if number % 2 else None
            where = {"partition": number % 2, "timestamp_ms": 1_700_000_000_123 + number}
            producer.send(topic, b'{"id": %d}' % number, key=key, headers=headers, **where)
    types = {"id": "bigint", "t": "string", "p": "int", "pos": "bigint", "at": "timestamp", "kind": "string"}
    types |= {"k": "binary", "h": "array<struct<key:string,value:binary>>"}
    columns = MessageColumns(
        topic="t", partition="p", offset="pos", timestamp="at", timestamp_type="kind", key="k", headers="h"
    )
    found = []
    for number, client in enumerate(CLIENTS):
        ms.create_table(f"web.of_{number}", columns=types)
        servers = kafka_broker.bootstrap_servers
        ingest(ms, servers, topic, f"web.of_{number}", client=client, columns=columns).run(until_end=True)
        found.append(sorted(hi.read_table(ms, f"web.of_{number}").to_pylist(), key=lambda row: row["id"]))
    assert len(found[0]) == 20
    assert found[0] == found[1]


def test_each_client_continues_where_the_other_has_ended(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    """The topic's id is a part of the position, so it must be the same one."""
    topic = kafka_broker.new_topic(partitions=3)
    for number in range(4):
        produce_ids(kafka_broker, topic, range(10 * number, 10 * number + 10), partitions=3)
        running = ingest(ms, kafka_broker.bootstrap_servers, topic, client=CLIENTS[number % 2])
        running.run(until_end=True)
        assert running.stats.rows == 10
    assert ids(ms, "web.events") == list(range(40))


def test_aborted_messages_and_the_markers_of_transactions_are_passed(
    kafka_broker: KafkaBroker, ms: MetastoreClient
) -> None:
    topic = kafka_broker.new_topic()
    with contextlib.closing(transactional(kafka_broker, topic)) as producer:
        for number, end in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
            producer.begin_transaction()
            producer.send(topic, b'{"id": %d}' % number).get(timeout=60)
            end()
    ingest(ms, kafka_broker.bootstrap_servers, topic).run(until_end=True)
    assert ids(ms, "web.events") == [0, 2]
    (last,) = latest_progress(ms, "web.events__progress").values()
    assert last.position["offset"] == 8


def test_what_is_lost_is_explained(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    topic = kafka_broker.new_topic()
    produce_ids(kafka_broker, topic, range(10))
    servers = kafka_broker.bootstrap_servers
    ingest(ms, servers, topic).run(until_end=True)
    produce_ids(kafka_broker, topic, range(10, 30))
    with admin(kafka_broker) as client:
        client.delete_records({TopicPartition(topic, 0): 20})
    with pytest.raises(hi.OffsetLoss, match="messages 10 to 19 were removed by retention"):
        ingest(ms, servers, topic).run(until_end=True)
    ingest(ms, servers, topic, on_offset_loss="earliest").run(until_end=True)
    assert ids(ms, "web.events") == [*range(10), *range(20, 30)]
    create_again(kafka_broker, topic)
    produce_ids(kafka_broker, topic, range(100, 140))
    with pytest.raises(hi.OffsetLoss, match="deleted and created again"):
        ingest(ms, servers, topic).run(until_end=True)


def test_instances_that_die_and_sleep_lose_and_duplicate_nothing(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(20.0), partitions=6) as landing:
        landing.options["client"] = "confluent-kafka"
        Churn(landing, seed=20261123).run(deaths=3)


# -- connections ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerSecurity]:
    """Of a running broker, with a topic of one message."""
    found = BrokerSecurity(tmp_path_factory.mktemp("security"))
    with running_broker(tmp_path_factory.mktemp("secured-kafka"), found) as broker:
        found.topic = broker.new_topic()  # type: ignore[attr-defined]
        produce_ids(broker, found.topic, range(1))  # type: ignore[attr-defined]
        yield found


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_secured_listener_is_read_and_refuses_wrong_credentials_with_a_reason(
    security: BrokerSecurity, ms: MetastoreClient, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, servers = security.topic, security.bootstrap_servers(listener)  # type: ignore[attr-defined]
    options = LISTENERS[listener](security)
    monkeypatch.setenv("TEST_KAFKA_SECRET", security.token() if listener == "OAUTH" else security.password)
    ingest(ms, servers, topic, kafka_options=options).run(until_end=True)
    assert ids(ms, "web.events") == [0]

    secret = security.token(seconds=-3000) if listener == "OAUTH" else "not the password"
    monkeypatch.setenv("TEST_KAFKA_SECRET", secret)
    if listener == "TLS":
        options = {name: value for name, value in options.items() if name in ("security_protocol", "ssl_cafile")}
    for milliseconds in (2_000, 10_000, 60_000):  # a slow broker gets more time to refuse it
        with pytest.raises(StreamingConnectionError) as caught:
            ingest(ms, servers, topic, kafka_options={**options, "bootstrap_timeout_ms": milliseconds}).run()
        if is_explained := re.search("(?i)authentication|certificate|closed", str(caught.value)):
            break
    assert is_explained, str(caught.value)
    assert secret not in str(caught.value)


def test_an_unreachable_broker_is_an_error_that_says_why(ms: MetastoreClient) -> None:
    with pytest.raises(StreamingConnectionError, match="Connection refused"):
        ingest(ms, f"127.0.0.1:{free_port()}", "t", kafka_options={"bootstrap_timeout_ms": 5_000}).run()


def test_an_option_that_only_kafka_python_has_is_refused_by_name(ms: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match=r"'socket_options' in kafka_options has no counterpart.*client="):
        ingest(ms, "127.0.0.1:1", "t", kafka_options={"socket_options": []}).run()
