"""Addresses as in hive.metastore.uris."""

from __future__ import annotations

import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.thrift.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    ("uri", "addresses"),
    [
        ("thrift://host:9084", [Address("host", 9084)]),
        ("thrift://host", [Address("host", 9083)]),
        ("thrift://a:1,thrift://b:2", [Address("a", 1), Address("b", 2)]),
        ("thrift://a:1 , thrift://b:2/", [Address("a", 1), Address("b", 2)]),
        ("thrift://a:1,thrift://a:1", [Address("a", 1)]),
        ("thrift://[::1]:9083", [Address("::1", 9083)]),
    ],
)
def test_uris_are_read_once_each_and_in_order(uri: str, addresses: list[Address]) -> None:
    assert list(parse_addresses(uri)) == addresses


@pytest.mark.parametrize("address", [Address("host", 9084), Address("::1", 9083)])
def test_a_uri_is_written_as_it_is_read(address: Address) -> None:
    assert parse_addresses(str(address)) == (address,)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "host:9083",
        "http://host:9083",
        "thrift://",
        "thrift://host:0",
        "thrift://host:99999",
        "thrift://host:port",
        "thrift://a:1,,thrift://b:2",
        "thrift://a:1,b:2",
        "thrift://user:secret@host:9083",
    ],
)
def test_an_invalid_uri_is_refused_with_a_remedy_and_without_its_password(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="thrift://host:9083") as caught:
        parse_addresses(uri)
    assert "secret" not in str(caught.value)
