"""SASL's messages and frames, against a server of a few lines."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from thriftpy2.transport import TSocket, TTransportException

from hive_ingest.errors import MetastoreError
from hive_ingest.metastore_client.thrift import wire
from hive_ingest.metastore_client.thrift.addresses import Address
from hive_ingest.metastore_client.thrift.failures import NoResponse
from hive_ingest.metastore_client.thrift.kerberos import principal_of
from hive_ingest.metastore_client.thrift.sasl import FrameFailure, Plain, SaslTransport, Status
from hive_ingest.metastore_client.thrift.wire import Wire


def message(status: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload


@pytest.fixture
def ends() -> Iterator[tuple[SaslTransport, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(5)
        theirs.settimeout(5)
        yield SaslTransport(TSocket(sock=ours), Plain("me", "s3cret")), theirs


def test_plain_sends_user_and_password_once(ends: tuple[SaslTransport, socket.socket]) -> None:
    transport, server = ends
    server.sendall(message(Status.COMPLETE))
    transport.negotiate()
    assert server.recv(1000) == message(Status.START, b"PLAIN") + message(Status.OK, b"\0me\0s3cret")


def test_frames_carry_their_length_and_may_be_read_in_parts(ends: tuple[SaslTransport, socket.socket]) -> None:
    transport, server = ends
    transport.write(b"question")
    assert server.recv(1000) == struct.pack(">I", 8) + b"question"
    server.sendall(struct.pack(">I", 6) + b"answer" + struct.pack(">I", 1) + b"!")
    assert [transport.read(4), transport.read(4), transport.read(4)] == [b"answ", b"er", b"!"]


@pytest.mark.parametrize("status", [Status.BAD, Status.ERROR])
def test_a_refusal_is_reported_with_the_servers_reason(
    ends: tuple[SaslTransport, socket.socket], status: Status
) -> None:
    transport, server = ends
    server.sendall(message(status, b"no such user"))
    with pytest.raises(MetastoreError, match=r"no such user.*password"):
        transport.negotiate()


def test_a_server_without_sasl_is_distinguished_from_one_with_it(
    ends: tuple[SaslTransport, socket.socket],
) -> None:
    transport, server = ends
    server.sendall(b"HTTP/1.1 400 Bad Request\r\n")
    with pytest.raises(MetastoreError, match="does not respond in SASL"):
        transport.negotiate()


def test_a_connection_that_ends_inside_a_frame_is_an_error(ends: tuple[SaslTransport, socket.socket]) -> None:
    transport, server = ends
    server.sendall(struct.pack(">I", 6) + b"ans")
    server.close()
    with pytest.raises(TTransportException):
        transport.read(6)


class Unverified(Plain):
    """Finds no valid signature."""

    def unwrap(self, data: bytes) -> bytes:
        raise FrameFailure("the signature of the response is not valid")


def test_a_response_with_a_wrong_signature_counts_as_none() -> None:
    """The server may have carried out the call, and the connection is used for no other one."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">I", 4) + b"data")
        transport = SaslTransport(TSocket(sock=ours), Unverified("me", "s3cret"))
        with pytest.raises(NoResponse, match=r"failed during getVersion: the signature"):
            Wire(Address("a"), ours, wire._client(transport)).call("getVersion", (), 60)


def test_the_host_is_substituted_in_a_principal() -> None:
    assert principal_of("hive/meta.example.org@EXAMPLE.ORG", "h") == "hive/meta.example.org@EXAMPLE.ORG"
    assert principal_of("hive/_HOST@EXAMPLE.ORG", "127.0.0.1").startswith("hive/")
    assert "_HOST" not in principal_of("hive/_HOST@EXAMPLE.ORG", "127.0.0.1")


def test_importing_the_package_loads_no_thrift_library() -> None:
    code = "import sys, hive_ingest; print([name for name in sys.modules if name.startswith(('thriftpy2', 'ply'))])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
