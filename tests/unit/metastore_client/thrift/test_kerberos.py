"""The exchange of GSSAPI tokens, with a stand-in for the package that talks to Kerberos."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hive_ingest.errors import ConfigurationError, MetastoreError
from hive_ingest.metastore_client.thrift.kerberos import Gssapi


class Context:
    """Complete after two steps; wraps by a prefix."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.steps: list[bytes | None] = []

    @property
    def complete(self) -> bool:
        return len(self.steps) == 2

    def step(self, token: bytes | None) -> bytes | None:
        if token == b"expired":
            raise GSSError("ticket expired")
        self.steps.append(token)
        return None if self.complete else b"ticket"

    def wrap(self, data: bytes, encrypt: bool) -> SimpleNamespace:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped:" + data)

    def unwrap(self, data: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=data.removeprefix(b"wrapped:"))


class GSSError(Exception):
    """Has the interface of the package's class."""


@pytest.fixture
def mechanism(monkeypatch: pytest.MonkeyPatch) -> Gssapi:
    package = SimpleNamespace(
        Name=lambda name, type_: (name, type_),
        NameType=SimpleNamespace(kerberos_principal="principal"),
        SecurityContext=Context,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", package)
    return Gssapi("hive/meta.example.org@EXAMPLE.ORG", "meta")


def test_a_kerberos_exchange_without_a_security_layer_succeeds(mechanism: Gssapi) -> None:
    assert mechanism.initial_response() == b"ticket"
    assert mechanism.respond(b"mutual") == b""
    assert mechanism.respond(b"wrapped:\x07\x00\xff\xff") == b"wrapped:\x01\x00\x00\x00"
    assert mechanism.unwrap(mechanism.wrap(b"data")) == b"data"


def test_a_server_that_requires_a_security_layer_is_refused(mechanism: Gssapi) -> None:
    mechanism.initial_response()
    mechanism.respond(b"mutual")
    with pytest.raises(MetastoreError, match=r"hadoop\.rpc\.protection"):
        mechanism.respond(b"wrapped:\x06\x00\xff\xff")


def test_a_refusal_by_kerberos_is_reported_with_a_remedy(mechanism: Gssapi) -> None:
    mechanism.initial_response()
    with pytest.raises(MetastoreError, match=r"ticket expired.*kinit"):
        mechanism.respond(b"expired")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'hive-ingest\[kerberos\]'"):
        Gssapi("hive/_HOST", "meta")
