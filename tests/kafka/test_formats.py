"""What messages are made of: Avro by a registry, metadata columns, tombstones, and bad messages in a topic."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

import hive_ingest as hi
from hive_ingest.errors import SchemaRegistryUnavailable
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.record_writer import AvroWriter, RecordWriter
from hive_ingest.streaming.kafka import (
    DeadLetterFile,
    DeadLetterTopic,
    KafkaIngest,
    KafkaRoute,
    MessageColumns,
    SchemaRegistry,
)
from tests.kafka.messages import messages_in
from tests.services.kafka import KafkaBroker
from tests.services.ports import free_port
from tests.services.registry import Registry, running_registry
from tests.unit.record_writer.avro import encoded, record

TIME = 1_700_000_000_000


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_metastore(f"sqlite:///{tmp_path}/ms.db", create=True) as client:
        client.create_database("web")
        yield client


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


def produce(broker: KafkaBroker, topic: str, *messages: dict[str, Any]) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for each in [producer.send(topic, partition=0, **({"timestamp_ms": TIME} | message)) for message in messages]:
        each.get(timeout=60)
    producer.close()


def ingest(
    metastore: MetastoreClient, broker: KafkaBroker, topic: str, record_writer: RecordWriter, **options: Any
) -> KafkaIngest:
    return KafkaIngest(
        metastore=metastore,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"group-{topic}",
        routes=[KafkaRoute(topic=topic, table="web.events", record_writer=record_writer, **options)],
    )


def rows(metastore: MetastoreClient) -> list[dict[str, Any]]:
    return sorted(hi.read_table(metastore, "web.events").to_pylist(), key=lambda row: row["pos"])


def test_metadata_tombstones_and_dead_letters_of_a_topic(
    kafka_broker: KafkaBroker, ms: MetastoreClient, tmp_path: Path
) -> None:
    types = {"id": "int", "pos": "bigint", "part": "int", "at": "timestamp", "k": "string", "h": "map<string,string>"}
    ms.create_table("web.events", columns=types)
    topic, letters_topic = kafka_broker.new_topic(), kafka_broker.new_topic()
    produce(
        kafka_broker,
        topic,
        {"value": b'{\n "id": 1\n}', "key": b"a", "headers": [("x", b"1")]},
        {"value": None, "key": b"a"},
        {"value": b"", "key": b"b"},
        {"value": b'{"id": 4}', "key": b"\xff"},
        {"value": b'{"id": 5}'},
    )
    columns = MessageColumns(offset="pos", partition="part", timestamp="at", key="k", headers="h")
    with DeadLetterTopic(kafka_broker.bootstrap_servers, letters_topic) as letters:
        application = ingest(
            ms,
            kafka_broker,
            topic,
            hi.StrictJsonWriter(on_error="skip"),
            columns=columns,
            tombstones="record",
            bad_records=letters,
        )
        application.run(until_end=True)
        assert application.stats.bad_messages == 2
    at = rows(ms)[0]["at"]
    assert str(at) == "2023-11-14 22:13:20"
    empty = {"part": 0, "at": at, "k": None, "h": []}
    assert rows(ms) == [
        {**empty, "id": 1, "pos": 0, "k": "a", "h": [("x", "1")]},
        {**empty, "id": None, "pos": 1, "k": "a"},
        {**empty, "id": 5, "pos": 4},
    ]
    found = messages_in(kafka_broker, letters_topic)
    assert [(letter.key, letter.value, letter.timestamp) for letter in found] == [
        (b"b", b"", TIME),
        (b"\xff", b'{"id": 4}', TIME),
    ]
    assert [dict(letter.headers)["hive_ingest.offset"] for letter in found] == [b"2", b"3"]


def test_avro_of_several_versions_by_a_real_registry(
    kafka_broker: KafkaBroker, registry: Registry, ms: MetastoreClient, tmp_path: Path
) -> None:
    ms.create_table("web.events", columns={"id": "bigint", "home": "struct<city:string>", "pos": "bigint"})
    topic = kafka_broker.new_topic()
    address = record("Address", city="string")
    first, second = record("Event", id="int"), record("Event", id="int", home=["null", "Address"])
    second["fields"][1]["default"] = None
    registry.register(f"{topic}-address", address)
    old = registry.register(f"{topic}-value", first)
    reference = {"name": "Address", "subject": f"{topic}-address", "version": 1}
    new = registry.register(f"{topic}-value", second, [reference])
    whole = record("Event", id="int", home=["null", address])
    produce(
        kafka_broker,
        topic,
        {"value": encoded(first, {"id": 1}, old)},
        {"value": encoded(whole, {"id": 2, "home": {"city": "A"}}, new)},
        {"value": encoded(first, {"id": 3}, 999_999)},
        {"value": b"no avro"},
        {"value": encoded(first, {"id": 5}, old)},
    )
    writer = AvroWriter(SchemaRegistry(registry.url), on_error="skip")
    with DeadLetterFile(tmp_path / "dead.jsonl") as letters:
        columns = MessageColumns(offset="pos")
        ingest(ms, kafka_broker, topic, writer, columns=columns, bad_records=letters).run(until_end=True)
    assert rows(ms) == [
        {"id": 1, "home": None, "pos": 0},
        {"id": 2, "home": {"city": "A"}, "pos": 1},
        {"id": 5, "home": None, "pos": 4},
    ]
    lines = [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text().splitlines()]
    assert [(line["topic"], line["offset"]) for line in lines] == [(topic, 2), (topic, 3)]
    assert lines[0]["reason"].startswith("schema id 999999 is unknown in the schema registry")


class Forwarder(BaseHTTPRequestHandler):
    """The registry at another address."""

    target: str

    def do_GET(self) -> None:
        with urllib.request.urlopen(f"{self.target}{self.path}", timeout=30) as response:
            body = response.read()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def test_a_registry_that_never_answers_fails_the_start(kafka_broker: KafkaBroker, ms: MetastoreClient) -> None:
    ms.create_table("web.events", columns={"id": "int", "pos": "bigint"})
    topic, url = kafka_broker.new_topic(), f"http://127.0.0.1:{free_port()}"
    with pytest.raises(SchemaRegistryUnavailable, match=f"{url}: .*Check the URL") as caught:
        ingest(ms, kafka_broker, topic, AvroWriter(SchemaRegistry(url))).run(until_end=True)
    assert caught.value.__notes__ == [f"in the route of topic {topic!r} to web.events"]


def test_a_registry_that_goes_down_is_waited_for_and_makes_no_message_bad(
    kafka_broker: KafkaBroker,
    registry: Registry,
    ms: MetastoreClient,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ms.create_table("web.events", columns={"id": "int", "pos": "bigint"})
    topic = kafka_broker.new_topic()
    schema = record("Event", id="int")
    known = registry.register(f"{topic}-value", schema)
    produce(kafka_broker, topic, *({"value": encoded(schema, {"id": i}, known)} for i in range(3)))
    port = free_port()
    schemas = SchemaRegistry(f"http://127.0.0.1:{port}")
    monkeypatch.setattr(schemas, "check", lambda: None)  # it was there at the start
    writer = AvroWriter(schemas, on_error="skip")
    application = ingest(ms, kafka_broker, topic, writer, columns=MessageColumns(offset="pos"), max_bad_records=0)
    caplog.set_level("DEBUG", "hive_ingest.streaming.kafka.route_writer")
    running = threading.Thread(target=application.run, kwargs={"until_end": True})
    running.start()
    monkeypatch.setattr(Forwarder, "target", registry.url, raising=False)
    try:
        # It does not come up before its absence has been noticed twice.
        while running.is_alive() and caplog.text.count("SchemaRegistryUnavailable") < 2:
            running.join(0.05)
        with ThreadingHTTPServer(("127.0.0.1", port), Forwarder) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            running.join(60)
            server.shutdown()
    finally:
        application.stop()
        running.join()
    assert [row["id"] for row in rows(ms)] == [0, 1, 2]
    logged = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.split(": ")[1].split(" ")[0] for text in logged if topic in text] == ["the", "written"], "once each"
