"""The exchange of GSSAPI tokens, with a stand-in for the library that talks to Kerberos."""

from __future__ import annotations

import pytest

from hive_ingest.errors import ConfigurationError, MetastoreError, MetastoreUnavailable
from hive_ingest.kerberos import GssError
from hive_ingest.kerberos import library as kerberos_library
from hive_ingest.metastore_client.thrift import kerberos
from hive_ingest.metastore_client.thrift.kerberos import Gssapi
from hive_ingest.metastore_client.thrift.sasl import FrameFailure


class Context:
    """Complete after two steps; wraps by a prefix."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.steps: list[bytes | None] = []

    @property
    def complete(self) -> bool:
        return len(self.steps) == 2

    def step(self, token: bytes | None) -> bytes:
        if token in (b"expired", b"unreachable"):
            raise failure(str(token, "ascii"))
        self.steps.append(token)
        return b"" if self.complete else b"ticket"

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        if data == b"unsigned":
            raise failure("no context")
        return (b"encrypted:" if encrypt else b"wrapped:") + data

    def unwrap(self, message: bytes) -> bytes:
        if message == b"damaged":
            raise failure("bad signature")
        return message.partition(b":")[2]

    def max_data_bytes(self, message_bytes: int, *, encrypt: bool) -> int:
        return message_bytes - 100


def failure(text: str) -> GssError:
    error = GssError.__new__(GssError)
    Exception.__init__(error, text)
    error.is_unreachable = text == "unreachable"
    return error


@pytest.fixture
def mechanism(monkeypatch: pytest.MonkeyPatch) -> Gssapi:
    monkeypatch.setattr(kerberos, "SecurityContext", Context)
    return Gssapi("hive/meta.example.org@EXAMPLE.ORG", "meta")


@pytest.fixture
def established(mechanism: Gssapi) -> Gssapi:
    assert mechanism.initial_response() == b"ticket"
    assert mechanism.respond(b"mutual") == b""
    return mechanism


def test_without_a_security_layer_frames_are_sent_as_they_are(established: Gssapi) -> None:
    assert established.respond(b"wrapped:\x01\x00\x00\x00") == b"wrapped:\x01\x00\x00\x00"
    assert established.wrap(b"data") == b"data"
    assert established.unwrap(b"data") == b"data"


@pytest.mark.parametrize(
    ("offered", "chosen", "prefix"), [(b"\x03", b"\x02", b"wrapped:"), (b"\x07", b"\x04", b"encrypted:")]
)
def test_the_strongest_layer_of_the_server_is_used(
    established: Gssapi, offered: bytes, chosen: bytes, prefix: bytes
) -> None:
    assert established.respond(b"wrapped:" + offered + b"\x01\x00\x00") == b"wrapped:" + chosen + b"\xff\xff\xff"
    assert established.wrap(b"data") == prefix + b"data"
    assert established.unwrap(b"wrapped:data") == b"data"
    assert established.max_data_bytes == 65536 - 100


def test_a_frame_that_cannot_be_used_is_no_answer_of_the_server(established: Gssapi) -> None:
    """It was an error of the metastore, as if the server had refused the call: a commit may have taken effect."""
    established.respond(b"wrapped:\x02\x01\x00\x00")
    with pytest.raises(FrameFailure, match="bad signature"):
        established.unwrap(b"damaged")
    with pytest.raises(FrameFailure, match="no context"):
        established.wrap(b"unsigned")


def test_a_server_that_offers_no_layer_is_reported(established: Gssapi) -> None:
    with pytest.raises(MetastoreError, match=r"hadoop\.rpc\.protection"):
        established.respond(b"wrapped:\x00\x00\x00\x00")


def test_a_refusal_by_kerberos_is_reported_with_a_remedy(mechanism: Gssapi) -> None:
    with pytest.raises(MetastoreError, match=r"expired.*kinit.*KRB5_CLIENT_KTNAME") as caught:
        mechanism.respond(b"expired")
    assert not isinstance(caught.value, MetastoreUnavailable)


def test_a_kdc_that_does_not_answer_is_worth_a_retry(mechanism: Gssapi) -> None:
    with pytest.raises(MetastoreUnavailable, match="unreachable"):
        mechanism.respond(b"unreachable")


def test_a_missing_library_is_named_with_the_packages_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos_library, "LIBRARY", "libgssapi_krb5.so.missing")
    kerberos_library.library.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match=r"apt-get install libgssapi-krb5-2.*dnf install krb5-libs"):
            Gssapi("hive/_HOST", "meta")
    finally:
        kerberos_library.library.cache_clear()
