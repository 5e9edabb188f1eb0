"""The documentation stays true: options, named tests, links and the public names."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import hive_ingest
import hive_ingest.connection
import hive_ingest.metastore_client
import hive_ingest.record_writer
from hive_ingest.config import StreamingSettings
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions

ROOT = Path(__file__).parents[2]
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("options", [StreamingSettings, EmbeddedOptions])
def test_every_option_is_in_the_limits_with_its_default(options: type) -> None:
    text = (ROOT / "docs" / "limits.md").read_text("utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    for option in dataclasses.fields(options):
        shown, value = table[option.name].strip(), option.default
        if option.name == "writer_threads":
            continue  # depends on the machine
        if shown.endswith(" MiB"):
            assert int(shown.split()[0]) << 20 == value, option.name
        else:
            assert shown.replace(",", "") == str(value), option.name


def test_every_test_that_the_guarantees_name_is_there() -> None:
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
    assert rows == promises


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


def test_every_public_name_is_there() -> None:
    for module in (hive_ingest, hive_ingest.connection, hive_ingest.record_writer, hive_ingest.metastore_client):
        assert list(module.__all__) == sorted(module.__all__, key=_isort_key)
        for name in module.__all__:
            assert getattr(module, name) is not None


def _isort_key(name: str) -> tuple[bool, str]:
    return name[0].islower(), name


def test_the_root_has_what_users_name() -> None:
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
