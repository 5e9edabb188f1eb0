"""Errors in a TOML file name the file, the line and the nearest valid key."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_ingest.cli.toml_file import TomlSection, read_toml
from hive_ingest.errors import ConfigurationError

TEXT = """\
# how fast
max_seconds = 5

[kafka_options]
client_id = "a"

[[routes]]
topic = "one"
record_writer = { format = "json", on_error = "skip" }

[[routes]]
"topic" = "two"
[routes.columns]
offset = "o"
"""


@pytest.fixture
def root(tmp_path: Path) -> TomlSection:
    (tmp_path / "a.toml").write_text(TEXT)
    return read_toml(tmp_path / "a.toml")


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_valid_key(root: TomlSection) -> None:
    with pytest.raises(ConfigurationError, match=r"a\.toml, line 2: unknown key 'max_seconds'; did you mean 'max_sec"):
        root.check_keys(["max_secs", "kafka_options", "routes"])
    with pytest.raises(ConfigurationError, match=r"line 2: unknown key 'max_seconds'; known are kafka_options, routes"):
        root.check_keys(["routes", "kafka_options"])


def test_each_place_has_its_line(root: TomlSection) -> None:
    first, second = root.sections("routes")
    assert "line 5: x" in str(root.section("kafka_options").error("client_id", "x"))
    assert "line 8: x" in str(first.error("topic", "x"))
    assert "line 9: x" in str(first.section("record_writer").error("on_error", "x"))
    assert "line 12: x" in str(second.error("topic", "x"))
    assert "line 14: x" in str(second.section("columns").error("offset", "x"))
    assert "line 11: x" in str(second.error("table", "x"))


def test_a_missing_key_is_named_with_the_line_of_its_table(root: TomlSection) -> None:
    with pytest.raises(ConfigurationError, match="line 11: 'table' is missing"):
        root.sections("routes")[1].required("table")


def test_a_value_of_another_form_is_refused(root: TomlSection) -> None:
    with pytest.raises(ConfigurationError, match=r"line 7: 'routes' must be a table"):
        root.section("routes")
    with pytest.raises(ConfigurationError, match=r"line 2: 'max_seconds' must be an array of tables: \[\[max_sec"):
        root.sections("max_seconds")


@pytest.mark.parametrize(
    ("content", "message"), [(b"a = \n", "is not valid TOML.*line 1"), (b"\xff", "not valid TOML")]
)
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        read_toml(tmp_path / "a.toml")
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read: No such file"):
        read_toml(tmp_path / "none.toml")
