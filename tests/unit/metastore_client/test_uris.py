from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest

from hive_ingest.errors import ConfigurationError, MetastoreUnavailable, StreamingError
from hive_ingest.metastore_client import connect_metastore
from hive_ingest.metastore_client.embedded.uris import check_warehouse, parse_uri
from hive_ingest.metastore_client.locations import local_path, normal_location

PASSWORD = "p@ss w/rd:%&?"
ENCODED = "p%40ss%20w%2Frd%3A%25%26%3F"
WITH_PASSWORD = f"postgresql+psycopg://ann:{ENCODED}@127.0.0.1:1/db"


# -- addresses ---------------------------------------------------------------------------------------


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    uri = parse_uri("sqlite:///demo/metastore.db")
    assert uri.path == tmp_path / "demo/metastore.db"
    assert str(uri) == f"sqlite:///{tmp_path}/demo/metastore.db"


def test_an_absolute_path_stays() -> None:
    assert parse_uri("sqlite:////var/lib/m.db").path == Path("/var/lib/m.db")


@pytest.mark.parametrize(
    "uri",
    [
        "mysql+pymysql://host/db",
        "postgresql://host/db",
        "postgres://host/db",
        "metastore.db",
        "",
        "://",
        "postgresql+psycopg://host:port/db",
    ],
)
def test_an_unsupported_uri_is_refused_with_the_supported_ones(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///relative\.db.*postgresql\+psycopg://"):
        parse_uri(uri)


@pytest.mark.parametrize(
    "uri", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x", "sqlite://host/x", "sqlite:///x?mode=ro"]
)
def test_a_sqlite_metastore_is_one_file(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///path\.db"):
        parse_uri(uri)


# -- passwords ---------------------------------------------------------------------------------------


def assert_no_password(text: str) -> None:
    for form in (PASSWORD, ENCODED, "p@ss", "p%40ss"):
        assert form not in text


def chain(error: BaseException) -> list[BaseException]:
    """The error, its causes and its contexts, shown or suppressed."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in found:
            found.append(each)
            waiting += [each.__cause__, each.__context__]
    return found


def assert_chain_without_password(error: BaseException) -> None:
    for each in chain(error):
        assert_no_password(str(each))
        assert_no_password(repr(each))
        assert_no_password(repr(vars(each)))
    assert_no_password("".join(traceback.format_exception(error)))


def test_a_password_is_not_shown() -> None:
    uri = parse_uri(WITH_PASSWORD)
    assert str(uri) == "postgresql+psycopg://ann@127.0.0.1:1/db"
    assert_no_password(str(uri) + repr(uri))
    assert uri.url.password == PASSWORD


def test_a_password_in_the_query_is_not_shown() -> None:
    uri = parse_uri(f"postgresql+psycopg://127.0.0.1/db?password={ENCODED}&sslmode=disable")
    assert str(uri) == "postgresql+psycopg://127.0.0.1/db?sslmode=disable"
    assert_no_password(uri.redact(f"could not use {PASSWORD} or {ENCODED}"))


@pytest.mark.parametrize(
    "uri",
    [
        f"postgresql+psycopg://ann:{ENCODED}@127.0.0.1:port/db",
        f"mysql://ann:{ENCODED}@127.0.0.1/db",
        f"postgresql+psycopg//ann:{ENCODED}@127.0.0.1/db",
        f"ann:{ENCODED}@127.0.0.1",
    ],
)
def test_an_invalid_uri_is_not_repeated_in_the_message(uri: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_uri(uri)
    assert_chain_without_password(caught.value)


def test_a_failed_connection_shows_no_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(MetastoreUnavailable) as caught:
        connect_metastore(WITH_PASSWORD, warehouse=tmp_path, create=True)
    assert isinstance(caught.value, StreamingError)
    assert "127.0.0.1" in str(caught.value)
    assert caught.value.__cause__ is not None
    assert_chain_without_password(caught.value)
    assert caplog.text
    assert_no_password(caplog.text)


def test_an_error_of_the_database_driver_that_quotes_the_uri_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq quotes what it cannot parse, percent-encoded or not."""
    import psycopg

    def refuse(**arguments: object) -> None:
        try:
            raise psycopg.Error(f"inner: {arguments}")
        except psycopg.Error as error:
            raise psycopg.OperationalError(f"{WITH_PASSWORD} {PASSWORD}: refused") from error

    monkeypatch.setattr(psycopg, "connect", refuse)
    with pytest.raises(MetastoreUnavailable) as caught:
        connect_metastore(WITH_PASSWORD, warehouse=tmp_path, create=True)
    assert "***" in str(caught.value)
    assert_chain_without_password(caught.value)


def test_a_missing_driver_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"hive-ingest\[postgres\]") as caught:
        connect_metastore(WITH_PASSWORD, warehouse=tmp_path, create=True)
    assert_chain_without_password(caught.value)


# -- locations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("/warehouse", "file:/warehouse"),
        ("/warehouse/", "file:/warehouse"),
        ("file:/warehouse", "file:/warehouse"),
        ("file:///warehouse/a%3Ab", "file:/warehouse/a%3Ab"),
        ("/with space/a:b", "file:/with space/a:b"),
        ("s3a://bucket/x/", "s3a://bucket/x"),
        ("hdfs://host:8020/x", "hdfs://host:8020/x"),
    ],
)
def test_locations_are_written_as_hive_writes_them(given: str, normal: str) -> None:
    assert normal_location(given) == normal


def test_a_relative_location_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert normal_location("demo/warehouse") == f"file:{tmp_path}/demo/warehouse"


def test_a_remote_location_has_no_path() -> None:
    assert local_path("s3a://bucket/x") is None
    assert local_path("FILE:/x") == Path("/x")


def test_a_warehouse_must_be_named() -> None:
    with pytest.raises(ConfigurationError, match="empty warehouse"):
        check_warehouse("")
