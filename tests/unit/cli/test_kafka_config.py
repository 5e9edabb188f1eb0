"""The TOML file and the options of `hive-ingest kafka`, before anything connects."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hive_ingest.cli import kafka
from hive_ingest.cli.app import make_app
from hive_ingest.cli.kafka_config import read_config
from hive_ingest.errors import ConfigurationError
from hive_ingest.record_writer import AvroWriter, CsvWriter, StrictDelimitedInputWriter, StrictJsonWriter
from hive_ingest.streaming.kafka import KafkaRoute, MessageColumns
from tests.support.waiting import wait_until

WHOLE = """
metastore = "env:TEST_METASTORE"
warehouse = "/warehouse"
bootstrap_servers = "broker:9092"
group_id = "events-to-hive"
max_seconds = 5
on_offset_loss = "earliest"
maintenance = "inline"

[settings]
fsync = false

[kafka_options]
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl_plain_username = "ingest"
sasl_plain_password = "file:/run/secrets/kafka"

[[routes]]
topic = "events"
table = "web.events"

[[routes]]
topic = "clicks"
table = "web.clicks"
sink = "clicks_by_kafka"
tombstones = "skip"
max_bad_records = 10
bad_records = "/var/log/bad.jsonl"
record_writer = { format = "delimited", field_delimiter = ";", on_error = "skip" }
columns = { offset = "kafka_offset", partition = "kafka_partition" }
"""


def config(folder: Path, text: str) -> Path:
    (folder / "ingest.toml").write_text(text)
    return folder / "ingest.toml"


def test_a_file_has_the_arguments_of_the_ingest_and_its_routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_METASTORE", "postgresql://u:secret@host/hive")
    found = read_config(config(tmp_path, WHOLE))
    first, second = found.pop("routes")
    events, clicks = first.route, second.route
    assert (first.bad_records, second.bad_records) == (None, "/var/log/bad.jsonl")
    assert found.pop("kafka_options")["sasl_plain_password"] == "file:/run/secrets/kafka"
    assert found == {
        "metastore": "postgresql://u:secret@host/hive",
        "warehouse": "/warehouse",
        "bootstrap_servers": "broker:9092",
        "group_id": "events-to-hive",
        "max_seconds": 5,
        "on_offset_loss": "earliest",
        "maintenance": "inline",
        "settings": {"fsync": False},
    }
    assert isinstance(events, KafkaRoute)
    assert (events.topic, events.table, events.columns) == ("events", "web.events", None)
    assert isinstance(events.record_writer, StrictJsonWriter)
    assert (clicks.sink, clicks.tombstones, clicks.max_bad_records) == ("clicks_by_kafka", "skip", 10)
    assert isinstance(clicks.record_writer, StrictDelimitedInputWriter)
    assert clicks.columns == MessageColumns(offset="kafka_offset", partition="kafka_partition")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("group_id", "group", "line 5: unknown key 'group'; did you mean 'group_id'?"),
        ("fsync", "sync", "line 11: unknown key 'sync'; did you mean 'fsync'?"),
        ("sasl_mechanism", "sasl_mech", "line 15: unknown key 'sasl_mech'; did you mean 'sasl_mechanism'?"),
        ('"file:/run/secrets/kafka"', '"hunter2"', "line 17: sasl_plain_password is a secret: write env:NAME or file:"),
        ("[[routes]]\ntopic", "[[route]]\ntopic", "line 19: unknown key 'route'; did you mean 'routes'?"),
        ('table = "web.events"', "", "line 19: 'table' is missing"),
        ("field_delimiter", "field_delim", "line 30: unknown key 'field_delim'; did you mean 'field_delimiter'?"),
        ('"delimited"', '"tsv"', "line 30: format='tsv': give one of json, delimited, csv, regex, avro"),
        ('"skip" }', '"ignore" }', "line 30: .*on_error"),
        ("kafka_partition", "kafka_offset", "line 31: .*one column is named twice"),
        ("[[routes]]\ntopic", '[[routes]]\ndead_letter_topic = "a"\nbad_records = "b"\ntopic', "line 20: give one of"),
        ("max_seconds = 5", "max_seconds = 0", "line 6: max_seconds"),
        ("max_seconds = 5", 'max_seconds = "soon"', "line 6: max_seconds"),
        ('on_offset_loss = "earliest"', 'on_offset_loss = "first"', "line 7: on_offset_loss"),
        ("TEST_METASTORE", "NO_SUCH_VARIABLE", "line 2: metastore=env:NO_SUCH_VARIABLE: there is no environment"),
        ("SASL_SSL", "PLAINTEXT", "line 13: sasl_mechanism has no effect"),
    ],
)
def test_an_error_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, message: str
) -> None:
    monkeypatch.setenv("TEST_METASTORE", "sqlite:///m.db")
    assert before in WHOLE
    with pytest.raises(ConfigurationError, match=r"ingest\.toml, " + message) as caught:
        read_config(config(tmp_path, WHOLE.replace(before, after, 1)))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("registry", "message"),
    [
        ('"https://registry"', None),
        ('{ url = "https://registry", username = "u", password = "env:P" }', None),
        ('{ url = "https://registry", username = "u", password = "hunter2" }', "line 23: password is a secret"),
        ('{ uri = "https://registry" }', "line 23: unknown key 'uri'; did you mean 'url'?"),
        ('{ username = "u", password = "env:P" }', "line 23: 'url' is missing"),
        ('"registry"', "line 23: .*registry"),
    ],
)
def test_avro_names_its_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: str, message: str | None
) -> None:
    monkeypatch.setenv("TEST_METASTORE", "sqlite:///m.db")
    line = f'record_writer = {{ format = "avro", schema_registry = {registry} }}\n'
    text = WHOLE.replace('table = "web.events"\n', 'table = "web.events"\n\n' + line)
    if message is None:
        assert isinstance(read_config(config(tmp_path, text))["routes"][0].route.record_writer, AvroWriter)
        return
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_config(config(tmp_path, text))
    assert "hunter2" not in str(caught.value)


def test_a_file_without_routes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=re.escape("there is no [[routes]]")):
        read_config(config(tmp_path, 'group_id = "g"'))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group-id", "g", "--table", "a.b"], "--topic"),
        (["--topic", "t", "--table", "a.b", "--group-id", "g"], "--bootstrap-servers"),
        (["--topic", "t", "--table", "a.b", "--format", "avro"], "--schema-registry"),
        (["--config", "ingest.toml", "--on-error", "skip"], "--on-error"),
        (["--config", "ingest.toml", "--topic", "t"], "--topic"),
        (
            ["--topic", "t", "--table", "a.b", "--message-column", "offsets=o"],
            "'offsets' is not a part of a message: use topic,",
        ),
        (["--topic", "t", "--table", "a.b", "--schema-registry", "http://r"], "no effect without --format avro"),
        (["--topic", "t", "--table", "a.b", "--kafka-option", "sasl_plain_password=hunter2"], "is a secret"),
        (["--topic", "t", "--table", "a.b", "--kafka-option", "fetch_max_bytes=many"], "give a number"),
        (["--topic", "t", "--table", "a.b", "--kafka-option", "check_crcs=1"], "give true or false"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path: Path, options: list[str], message: str) -> None:
    config(tmp_path, WHOLE)
    options = [str(tmp_path / option) if option == "ingest.toml" else option for option in options]
    done = CliRunner().invoke(make_app(lambda: None), ["kafka", "--metastore", "sqlite:///m.db", *options])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert "hunter2" not in done.output


def test_csv_messages_have_no_header(tmp_path: Path) -> None:
    text = WHOLE.replace('"env:TEST_METASTORE"', '"x"').replace('{ format = "delimited"', '{ format = "csv"')
    routes = read_config(config(tmp_path, text))["routes"]
    writer = routes[1].route.record_writer
    assert isinstance(writer, CsvWriter)
    assert not writer.has_header
    with pytest.raises(ConfigurationError, match="header"):
        read_config(config(tmp_path, text.replace('format = "csv"', 'format = "csv", header = true')))


def test_a_signal_while_stderr_is_written_still_stops_the_ingest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python refuses to write to a stream whose write the signal has interrupted."""

    class Running:
        is_stopped = False

        def stop(self) -> None:
            self.is_stopped = True

    def interrupted(text: str) -> None:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    monkeypatch.setattr(kafka, "say", interrupted)
    running = Running()
    with kafka._stopped_by_signals(running):  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: running.is_stopped)
