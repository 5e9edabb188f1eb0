"""Options of the data source: each is understood, or refused by name before anything is done."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from hive_ingest.config import StreamingSettings
from hive_ingest.errors import ConfigurationError
from hive_ingest.model import TableName
from hive_ingest.streaming.spark.source_options import (
    ReadOptions,
    StreamOptions,
    read_options,
    stream_options,
    write_options,
)

PLACE = {"metastore": "sqlite:////data/metastore.db", "warehouse": "/data/warehouse", "table": "web.alerts"}
#: Spark passes this one too; only streams look at it.
STREAM = {**PLACE, "checkpointLocation": "/data/checkpoint"}


def test_a_metastore_and_a_table_are_enough() -> None:
    for options in (read_options(PLACE), write_options(PLACE), stream_options(STREAM)):
        assert options.metastore == "sqlite:////data/metastore.db"
        assert options.warehouse == "/data/warehouse"
        assert options.table == TableName("web", "alerts")


def test_texts_become_values_of_the_options_types() -> None:
    given = {"row_ids": "TRUE", "split_bytes": "1000", "lock_wait_seconds": "2.5", "where": "id = 3"}
    options = read_options({**PLACE, **given})
    assert (options.row_ids, options.split_bytes, options.lock_wait_seconds, options.where) == (
        True,
        1000,
        2.5,
        "id = 3",
    )


def test_every_option_of_the_connection_is_taken_by_its_name() -> None:
    for setting in dataclasses.fields(StreamingSettings):
        default: Any = setting.default
        value = not default if isinstance(default, bool) else (default or 0) + 1
        options = write_options({**PLACE, setting.name.upper(): str(value)})
        assert getattr(options.settings, setting.name) == value


def test_options_of_the_metastore_are_passed_to_it() -> None:
    options = write_options({**PLACE, "metastore.max_open_batch": "10", "metastore.user": "etl"})
    assert options.metastore_options == {"max_open_batch": 10, "user": "etl"}


@pytest.mark.parametrize("parse", [read_options, write_options, stream_options])
@pytest.mark.parametrize("missing", PLACE)
def test_a_missing_option_is_named(parse, missing) -> None:
    with pytest.raises(ConfigurationError, match=rf"needs \.option\('{missing}', '.+'\)"):
        parse({name: text for name, text in PLACE.items() if name != missing})


@pytest.mark.parametrize(
    ("parse", "name"),
    [
        (read_options, "sink"),
        (read_options, "fsync"),
        (write_options, "sink"),
        (write_options, "where"),
        (write_options, "path"),
        (stream_options, "query_id"),
        (stream_options, "settings"),
        (stream_options, "metastore_options"),
    ],
)
def test_an_inapplicable_option_is_refused_with_those_that_apply(parse, name) -> None:
    with pytest.raises(ConfigurationError, match=rf"no option '{name}' for .*known are .*metastore, .*table"):
        parse({**PLACE, name: "x"})


@pytest.mark.parametrize(
    ("parse", "name", "text"),
    [
        (read_options, "row_ids", "yes"),
        (read_options, "split_bytes", "0"),
        (read_options, "split_bytes", "1.5"),
        (read_options, "lock_wait_seconds", "nan"),
        (write_options, "missing_columns", "ignore"),
        (write_options, "staged_retention_seconds", "-1"),
        (write_options, "maintenance", "sometimes"),
        (write_options, "max_buffer_bytes", "a lot"),
        (stream_options, "delivery", "at-most-once"),
        (stream_options, "table", "web alerts"),
    ],
)
def test_an_invalid_value_is_refused(parse, name, text) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse({**PLACE, name: text})


@pytest.mark.parametrize(
    ("name", "text"), [("metastore", "sqlite:///data/metastore.db"), ("warehouse", "data/warehouse")]
)
def test_a_relative_path_is_refused_because_processes_differ_in_it(name, text) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} names the relative path 'data/.*absolute"):
        read_options({**PLACE, name: text})


def test_a_server_has_its_own_warehouse() -> None:
    assert read_options({"metastore": "thrift://hive:9083", "table": "web.alerts"}).warehouse is None


def test_sparks_own_options_of_a_stream_are_accepted() -> None:
    options = stream_options({**PLACE, "checkpointLocation": "/data/checkpoint", "queryName": "alerts"})
    assert options.sink == "alerts"


def test_progress_is_kept_under_the_sinks_name_else_the_tables() -> None:
    assert stream_options(STREAM).sink == "alerts"
    assert stream_options({**STREAM, "sink": "second"}).sink == "second"


def test_a_stream_only_requests_compactions() -> None:
    assert stream_options({**STREAM, "maintenance": "request"}).maintenance == "request"
    assert write_options({**PLACE, "maintenance": "inline"}).maintenance == "inline"
    with pytest.raises(ConfigurationError, match="maintenance='inline' would make each batch wait"):
        stream_options({**STREAM, "maintenance": "inline"})


def test_at_least_once_must_be_requested_by_name_and_keeps_no_progress() -> None:
    assert stream_options({**PLACE, "delivery": "at-least-once"}).sink is None
    with pytest.raises(ConfigurationError, match="leave out one"):
        stream_options({**PLACE, "delivery": "at-least-once", "sink": "second"})


def test_a_password_is_not_shown() -> None:
    place = {**PLACE, "metastore": "postgresql+psycopg://user:geheim@db/hive", "metastore.password": "geheim"}
    assert "geheim" not in repr(read_options(place))


ROOT = Path(__file__).parents[4]


def test_every_test_that_the_promises_name_exists() -> None:
    section = (ROOT / "docs" / "spark.md").read_text("utf-8").partition("## The data source")[2].partition("\n## ")[0]
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_data_source*.py"))
    named = set(re.findall(r"`(test_\w+)`", section))
    assert len(named) >= 10
    assert {name for name in named if f"def {name}(" not in sources} == set()


def test_every_option_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "spark.md").read_text("utf-8")
    section = text.partition("### Options of the data source")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `([\w.<>]+)` \| ([^|]*?) ?\|", section, re.MULTILINE))
    options = {
        option.name: option.default
        for kind in (ReadOptions, StreamOptions)
        for option in dataclasses.fields(kind)
        if option.name not in ("settings", "metastore_options", "checkpoint")
    }
    assert documented.keys() == options.keys() | {"metastore.<name>"}
    shown = {name: str(value).lower() for name, value in options.items() if isinstance(value, str | int | float)}
    assert {name: documented[name] for name in shown} == shown
