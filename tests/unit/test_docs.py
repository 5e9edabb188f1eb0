"""The documentation stays true: options, named tests, links and the public names."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import hive_ingest
import hive_ingest.connection
import hive_ingest.errors
import hive_ingest.metastore_client
import hive_ingest.record_writer
from hive_ingest.config import StreamingSettings
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.record_writer import RecordListWriter, StrictDelimitedInputWriter, StrictJsonWriter
from hive_ingest.streaming.spark import SparkCompactor
from hive_ingest.streaming.spark.target import HiveTarget

ROOT = Path(__file__).parents[2]
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("options", [StreamingSettings, EmbeddedOptions])
def test_every_option_is_in_the_limits_with_its_default(options: type) -> None:
    for option in dataclasses.fields(options):
        if option.name != "writer_threads":  # depends on the machine
            _check_default(option.name, option.default)


def test_the_sizes_of_records_are_in_the_limits_with_their_defaults() -> None:
    for writer in (StrictJsonWriter, StrictDelimitedInputWriter):
        parameters = inspect.signature(writer).parameters
        for name in ("max_record_bytes", "block_bytes"):
            _check_default(name, parameters[name].default)
    _check_default("block_records", inspect.signature(RecordListWriter).parameters["block_records"].default)


def test_the_sizes_of_spark_are_in_the_limits_with_their_defaults() -> None:
    options = {option.name: option.default for option in dataclasses.fields(HiveTarget)}
    for name in ("target_file_bytes", "task_buffer_bytes", "shared_filesystem"):
        _check_default(name, options[name])
    _check_default("split_bucket_bytes", inspect.signature(SparkCompactor).parameters["split_bucket_bytes"].default)


def _check_default(name: str, value: object) -> None:
    text = (ROOT / "docs" / "limits.md").read_text("utf-8")
    [shown] = re.findall(rf"^\| `{name}` \| ([^|]+) \|", text, re.MULTILINE)
    if size := re.match(r"(\d+) MiB\b", shown):
        assert int(size[1]) << 20 == value, name
    else:
        assert shown.replace(",", "") == str(value), name


def test_every_test_that_the_guarantees_name_exists() -> None:
    text = _guarantees()
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) >= 15
    assert {name for name in named if f"def {name}(" not in sources} == set()
    for path in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


def test_every_guarantee_is_in_the_table_of_tests() -> None:
    promises = re.findall(r"^- \*\*([A-Z]\d+)\*\* \S", _guarantees(), re.MULTILINE)
    rows = re.findall(r"^\| ([A-Z]\d+) [^|]+\| .*`tests?[_/]\w+", _guarantees(), re.MULTILINE)
    assert len(promises) > 50
    assert len(set(promises)) == len(promises), "a label has one meaning"
    assert rows == promises


def test_every_error_has_a_row_with_its_cause_and_its_remedy() -> None:
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    explained = re.findall(r"^\| `([A-Z]\w+)` \| [^|]{5,} \| [^|]{5,} \|$", text, re.MULTILINE)
    classes = inspect.getmembers(hive_ingest.errors, inspect.isclass)
    assert sorted(explained) == sorted(name for name, _ in classes)
    assert set(explained) <= set(hive_ingest.__all__)


def _guarantees() -> str:
    return (ROOT / "docs" / "guarantees.md").read_text("utf-8")


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text("utf-8")):
        found = page.parent / target if target else page
        assert found.exists(), target
        assert not heading or heading in _anchors(found), f"{target}#{heading}"


def _anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_public_name_exists() -> None:
    for module in (hive_ingest, hive_ingest.connection, hive_ingest.record_writer, hive_ingest.metastore_client):
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_the_root_exports_the_public_names() -> None:
    assert set(hive_ingest.__all__) >= {
        "ArrowWriter",
        "Column",
        "CommitInfo",
        "MetastoreClient",
        "RecordListWriter",
        "Scan",
        "StreamingConnection",
        "StreamingError",
        "StreamingSettings",
        "StrictDelimitedInputWriter",
        "StrictJsonWriter",
        "append",
        "connect_metastore",
        "ingest_files",
        "read_table",
        "scan",
    }
