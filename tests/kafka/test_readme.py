"""The commands of the README and the file of docs/kafka.md work as they stand, but for addresses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hive_ingest.cli.kafka_config import read_config
from tests.acceptance.cli.shell import Shell
from tests.kafka.test_command import numbers, produce
from tests.services.kafka import KafkaBroker

ROOT = Path(__file__).parents[2]


def commands(text: str) -> list[list[str]]:
    """Those of the first block that follows, without the comments."""
    block = re.search(r"\n\n((?:    .*\n)+)", text)
    assert block is not None
    lines = block[1].replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines]


def test_the_commands_of_the_readme_land_a_topic(
    kafka_broker: KafkaBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    produce(kafka_broker, topic, numbers(0, 5))
    readme = (ROOT / "README.md").read_text("utf-8")
    export, *found = commands(readme[readme.index("\nFrom Kafka") :])
    assert export[0] == "export"
    monkeypatch.setenv("HIVE_INGEST_METASTORE", export[1].partition("=")[2].replace("/data", str(tmp_path)))
    shell = Shell(monkeypatch, capsys)
    shown = ""
    for program, name, *arguments in found:
        assert program == "hive-ingest"
        here = {"localhost:9092": kafka_broker.bootstrap_servers, "events": topic, "events-to-hive": f"of-{topic}"}
        extra = ["--until-end"] if name == "kafka" else []
        shown += shell.done(name, *(here.get(argument, argument) for argument in arguments), *extra).out
    assert "5 rows in" in shown
    assert "offset " in shown


def test_the_file_of_the_documentation_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "kafka.md").read_text("utf-8")
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "ingest.toml").write_text(example)
    monkeypatch.setenv("HIVE_METASTORE_URI", "thrift://metastore:9083")
    assert [each.route.table for each in read_config(tmp_path / "ingest.toml")["routes"]] == [
        "web.events",
        "web.clicks",
    ]
