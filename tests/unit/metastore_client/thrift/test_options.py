"""Options of a real metastore: argument, environment, hive-site.xml, default."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hive_ingest.config import parse_seconds
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.thrift.options import ThriftOptions, uris_of_hive_site


def site(folder: Path, **properties: str) -> dict[str, str]:
    """An environment whose hive-site.xml says so; `__` stands for a dot."""
    entries = "".join(
        f"<property><name>{name.replace('__', '.')}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{entries}</configuration>")
    return {"HIVE_CONF_DIR": str(folder)}


def test_the_defaults_need_no_file() -> None:
    assert ThriftOptions.load({}, environ={}) == ThriftOptions()


def test_every_option_is_on_the_page_with_its_default() -> None:
    text = (Path(__file__).parents[4] / "docs" / "metastores.md").read_text("utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    for option in dataclasses.fields(ThriftOptions):
        assert table[option.name].strip() == (str(option.default) or "empty"), option.name


def test_hive_3_and_hive_4_names_of_hive_site_are_read(tmp_path: Path) -> None:
    for prefix in ("hive__metastore__", "metastore__"):
        names = {
            f"{prefix}client__socket__timeout": "1800s",
            f"{prefix}use__SSL": "TRUE",
            f"{prefix}kerberos__principal": "hms/_HOST@EXAMPLE.ORG",
            f"{prefix}sasl__enabled": "true",
        }
        options = ThriftOptions.load({}, environ=site(tmp_path, **names))
        assert (options.call_timeout_seconds, options.use_ssl) == (1800.0, True)
        assert (options.authentication, options.kerberos_principal) == ("kerberos", "hms/_HOST@EXAMPLE.ORG")


def test_an_argument_overrides_the_environment_which_overrides_hive_site(tmp_path: Path) -> None:
    environ = site(
        tmp_path, hive__metastore__client__socket__timeout="5s", hive__metastore__uri__selection="SEQUENTIAL"
    )
    assert ThriftOptions.load({}, environ=environ).call_timeout_seconds == 5.0
    assert ThriftOptions.load({}, environ=environ).uri_selection == "sequential"
    environ["HIVE_INGEST_METASTORE_CALL_TIMEOUT_SECONDS"] = "6"
    assert ThriftOptions.load({}, environ=environ).call_timeout_seconds == 6.0
    assert ThriftOptions.load({"call_timeout_seconds": 7}, environ=environ).call_timeout_seconds == 7.0


def test_the_password_may_come_from_the_environment_and_is_not_shown() -> None:
    environ = {"HIVE_INGEST_METASTORE_PASSWORD": "s3cret", "HIVE_INGEST_METASTORE_USER": "me"}
    options = ThriftOptions.load({"authentication": "plain"}, environ=environ)
    assert options.password == "s3cret"
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_open_txns": 3}, "unknown option 'max_open_txns'"),
        ({"call_timeout_seconds": 0}, "call_timeout_seconds=0"),
        ({"retry_seconds": "soon"}, "retry_seconds='soon'"),
        ({"use_ssl": "perhaps"}, "use_ssl='perhaps'"),
        ({"user": 7}, "give a text"),
        ({"authentication": "ldap"}, "none, plain, kerberos"),
        ({"uri_selection": "best"}, "random, sequential"),
        ({"authentication": "plain", "user": "me"}, "needs user and password"),
    ],
)
def test_an_invalid_option_is_an_error(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ThriftOptions.load(arguments, environ={})


def test_the_uris_come_from_hive_site_or_are_reported_missing(tmp_path: Path) -> None:
    assert uris_of_hive_site(site(tmp_path, hive__metastore__uris="thrift://a:1")) == "thrift://a:1"
    with pytest.raises(ConfigurationError, match="HIVE_CONF_DIR"):
        uris_of_hive_site({})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("300s", 300), ("300", 300), ("5 min", 300), ("5m", 300), ("2h", 7200), ("1d", 86400), ("2days", 172800)],
        *[("250ms", 0.25), ("250 msec", 0.25), ("10sec", 10), (" 7 S ", 7), ("9 us", 9e-6)],
    ],
)
def test_hives_times_are_read(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "five", "-3s", "3 parsecs"])
def test_a_text_that_is_not_a_duration_is_an_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not a duration"):
        parse_seconds(text)
