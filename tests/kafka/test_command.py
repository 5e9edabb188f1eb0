"""`hive-ingest kafka` and `hive-ingest sinks seek` on a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.acceptance.cli.shell import Shell
from tests.kafka.test_services import consume
from tests.services.kafka import KafkaBroker
from tests.support.waiting import wait_until

#: The other suites here run on every metastore.
pytestmark = [pytest.mark.one_embedded, pytest.mark.usefixtures("client")]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def client(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    for table in ("events", "clicks"):
        metastore.create_table(f"web.{table}", columns={"id": "int", "place": "bigint"})
    return metastore


def produce(broker: KafkaBroker, topic: str, values: Sequence[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for value in values:
        producer.send(topic, value)
    producer.flush()
    producer.close()


def numbers(start: int, end: int) -> list[bytes]:
    return [b'{"id": %d}' % number for number in range(start, end)]


def ids(client: MetastoreClient, table: str = "events") -> list[Any]:
    return sorted(hi.read_table(client, f"web.{table}").column("id").to_pylist())


def from_kafka(broker: KafkaBroker, topic: str) -> tuple[str, ...]:
    group = ("--bootstrap-servers", broker.bootstrap_servers, "--group-id", f"group-of-{topic}")
    return ("kafka", *group, "--topic", topic, "--table", "web.events")


def test_each_message_is_one_row_and_a_second_run_finds_nothing_to_do(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell
) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    produce(kafka_broker, topic, numbers(0, 50))
    shell.done(*from_kafka(kafka_broker, topic), "--until-end")
    assert ids(client) == list(range(50))
    produce(kafka_broker, topic, numbers(50, 60))
    shell.done(*from_kafka(kafka_broker, topic), "--until-end")
    assert ids(client) == list(range(60))


def test_a_file_sends_several_topics_to_several_tables(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell, tmp_path: Path
) -> None:
    first, second = kafka_broker.new_topic(), kafka_broker.new_topic()
    produce(kafka_broker, first, numbers(0, 10))
    produce(kafka_broker, second, [b"100;7", b"bad", b"101;8"])
    config = tmp_path / "ingest.toml"
    config.write_text(f"""
        bootstrap_servers = "{kafka_broker.bootstrap_servers}"
        group_id = "of-a-file-{first}"
        max_seconds = 1
        [settings]
        fsync = false
        [kafka_options]
        fetch_max_wait_ms = 100
        [[routes]]
        topic = "{first}"
        table = "web.events"
        columns = {{ offset = "place" }}
        [[routes]]
        topic = "{second}"
        table = "web.clicks"
        record_writer = {{ format = "delimited", field_delimiter = ";", on_error = "skip" }}
    """)
    outcome = shell("kafka", "--config", config, "--until-end")
    assert (outcome.code, outcome.out) == (3, "12 rows in 2 transactions; 1 bad message skipped\n"), outcome
    rows = hi.read_table(client, "web.events").to_pylist()
    assert sorted((row["id"], row["place"]) for row in rows) == [(number, number) for number in range(10)]
    assert ids(client, "clicks") == [100, 101]


def test_an_error_names_the_options_or_the_keys_of_the_file(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell, tmp_path: Path
) -> None:
    topic = kafka_broker.new_topic()
    produce(kafka_broker, topic, [b"bad"])
    config = tmp_path / "ingest.toml"
    config.write_text(f"""
        bootstrap_servers = "{kafka_broker.bootstrap_servers}"
        group_id = "of-a-file-{topic}"
        [[routes]]
        topic = "{topic}"
        table = "web.events"
    """)
    failed = shell("kafka", "--config", config, "--until-end").err
    assert "or set on_error='skip'" in failed
    assert f"(in the route of topic {topic!r} to web.events)" in failed
    assert "or set --on-error skip" in shell(*from_kafka(kafka_broker, topic), "--until-end").err


def test_bad_messages_go_to_a_topic_or_a_file(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell, tmp_path: Path
) -> None:
    topic, dead = kafka_broker.new_topic(), kafka_broker.new_topic()
    produce(kafka_broker, topic, [b'{"id": 1}', b"bad", b'{"id": 2}'])
    command = (*from_kafka(kafka_broker, topic), "--until-end", "--on-error", "skip")
    assert shell(*command, "--dead-letter-topic", dead).code == 3
    produce(kafka_broker, topic, [b'{"id": "x"}'])
    assert shell(*command, "--bad-records", tmp_path / "bad.jsonl").code == 3
    assert ids(client) == [1, 2]
    [letter] = consume(kafka_broker, dead, 1)
    assert letter == [0, 0, "bad"]
    [line] = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert json.loads(line)["offset"] == 3


def test_a_csv_message_is_one_row_whatever_its_quotes_contain(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell, tmp_path: Path
) -> None:
    client.create_table("web.notes", columns={"id": "int", "note": "string", "place": "bigint"})
    topic = kafka_broker.new_topic()
    produce(kafka_broker, topic, [b'1,"a, ""b""\nc"', b"2,", b'3,"open', b"4,d,e", b"5,f\n6,g", '7,"ü"'.encode()])
    group = ("--bootstrap-servers", kafka_broker.bootstrap_servers, "--group-id", f"group-of-{topic}")
    command = ("kafka", *group, "--topic", topic, "--table", "web.notes", "--format", "csv", "--until-end")
    options = ("--message-column", "offset=place", "--on-error", "skip", "--bad-records", tmp_path / "bad.jsonl")
    assert shell(*command, *options).code == 3
    rows = hi.read_table(client, "web.notes").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, 'a, "b"\nc', 0), (2, None, 1), (7, "ü", 5)]
    bad = [json.loads(line)["offset"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert bad == [2, 3, 4]


def test_sigterm_commits_what_was_read_and_is_not_a_failure(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell, tmp_path: Path
) -> None:
    topic = kafka_broker.new_topic()
    produce(kafka_broker, topic, numbers(0, 10))
    command = [sys.executable, "-m", "hive_ingest.cli", *from_kafka(kafka_broker, topic)]
    options = ["--max-seconds", "1", "--kafka-option", "fetch_max_wait_ms=100"]
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen([*command, *options], env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=err)
    wait_until(lambda: process.poll() is not None or len(ids(client)) == 10, "nothing was committed")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0, (tmp_path / "err").read_text()
    assert "SIGTERM: committing what was read" in (tmp_path / "err").read_text()
    assert ids(client) == list(range(10))


def test_seek_writes_messages_again_or_leaves_them_out(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell
) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    produce(kafka_broker, topic, numbers(0, 20))
    shell.done(*from_kafka(kafka_broker, topic), "--until-end")
    where = ("web.events", "--bootstrap-servers", kafka_broker.bootstrap_servers, "--topic", topic)

    planned = shell.done("sinks", "seek", *where, "--to-offset", "earliest", "--dry-run")
    new = shell.done("sinks", "seek", *where, "--to-offset", "earliest", "--dry-run", "--sink", "new")
    assert planned.out.count("would set ") == new.out.count(": no position -> offset 0") == 2
    assert client.get_tables("web", "new__progress") == []
    back = shell.done("sinks", "seek", *where, "--to-offset", "earliest")
    assert "are written again" in back.out
    shown = shell.done("sinks", "show", "web.events")
    assert shown.out.count("offset 0, topic id ") == 2
    shell.done(*from_kafka(kafka_broker, topic), "--until-end")
    assert ids(client) == sorted([*range(20), *range(20)])

    produce(kafka_broker, topic, numbers(20, 30))
    forward = shell.done("sinks", "seek", *where, "--to-offset", "latest")
    assert "are left out" in forward.out
    shell.done(*from_kafka(kafka_broker, topic), "--until-end")
    assert len(ids(client)) == 40


def test_seek_to_a_time_continues_with_the_first_message_from_then_on(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell
) -> None:
    topic = kafka_broker.new_topic()
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
    for number in range(10):
        producer.send(topic, b'{"id": %d}' % number, timestamp_ms=1_735_689_600_000 + 1000 * number)  # 2025
    producer.close()
    where = ("web.events", "--bootstrap-servers", kafka_broker.bootstrap_servers, "--topic", topic)
    done = shell.done("sinks", "seek", *where, "--to-timestamp", "2025-01-01T01:00:07+01:00")
    assert f"{topic}-0: no position -> offset 7" in done.out
    shell.done(*from_kafka(kafka_broker, topic), "--until-end")
    assert ids(client) == [7, 8, 9]


def test_seek_refuses_what_the_topic_does_not_have(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell
) -> None:
    topic = kafka_broker.new_topic()
    servers = ("--bootstrap-servers", kafka_broker.bootstrap_servers)
    for options, message in (
        (("--topic", topic, "--to-offset", "7"), "its next one is 0: 7 is not between them"),
        (("--topic", topic, "--to-offset", "0", "--partition", "3"), "has no partition 3"),
        (("--topic", "no-such-topic", "--to-offset", "0"), "topic 'no-such-topic' does not exist"),
        (("--topic", topic, "--to-timestamp", "2025-01-01"), "has no time zone"),
        (("--topic", topic, "--to-offset", "newest"), "--to-offset newest: give a number"),
    ):
        outcome = shell("sinks", "seek", "web.events", *servers, *options)
        assert outcome.code == 1
        assert message in outcome.err


def test_seek_adds_a_topic_to_a_sink_only_when_asked(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell
) -> None:
    """A mistyped topic that exists would get positions that no ingest reads."""
    topic, other = kafka_broker.new_topic(), kafka_broker.new_topic()
    where = ("sinks", "seek", "web.events", "--bootstrap-servers", kafka_broker.bootstrap_servers, "--to-offset", "0")
    shell.done(*where, "--topic", topic)
    outcome = shell(*where, "--topic", other)
    assert outcome.code == 1
    assert f"has no position in topic {other!r}; it has positions in {topic!r}" in outcome.err
    assert "--new-topic" in outcome.err
    assert f"{other}-0: no position -> offset 0" in shell.done(*where, "--topic", other, "--new-topic").out


def test_seek_is_refused_while_the_sink_is_in_use(
    kafka_broker: KafkaBroker, client: MetastoreClient, shell: Shell
) -> None:
    topic = kafka_broker.new_topic()
    with hi.StreamingConnection.connect(
        client, table="web.events", record_writer=hi.StrictJsonWriter(), sink="events", sources=[f"{topic}-0"]
    ) as writer:
        writer.begin_transaction()
        where = ("web.events", "--bootstrap-servers", kafka_broker.bootstrap_servers, "--topic", topic)
        outcome = shell("sinks", "seek", *where, "--to-offset", "0", "--lock-wait-seconds", "0")
        assert outcome.code == 1
        assert f"source '{topic}-0' of sink 'events' was in use" in outcome.err
