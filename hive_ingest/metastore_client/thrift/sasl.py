"""SASL under Thrift: a negotiation, then frames, with pluggable mechanisms (RFC 4422, Thrift's TSaslTransport).

A negotiation message is a status byte, the length in four bytes, the payload. A frame is its length and the payload.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Protocol

from thriftpy2.transport import TTransportException

from hive_ingest.errors import MetastoreError

_MAX_FRAME_BYTES = 1 << 30


class Status(enum.IntEnum):
    """The status of a negotiation message."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class RefusedLogin(MetastoreError):
    """The server does not accept the client's credentials."""


class FrameFailure(Exception):
    """A frame cannot be signed, or its signature is wrong: the connection cannot be used any more."""


class Mechanism(Protocol):
    """The client's side of one SASL mechanism."""

    @property
    def name(self) -> str:
        """The registered name: PLAIN, GSSAPI."""
        ...

    @property
    def max_data_bytes(self) -> int:
        """After the negotiation: how much data one frame may carry."""
        ...

    def initial_response(self) -> bytes: ...

    def respond(self, challenge: bytes) -> bytes: ...

    def wrap(self, data: bytes) -> bytes:
        """The payload of a frame after the negotiation: unchanged, signed or encrypted. Raises FrameFailure."""
        ...

    def unwrap(self, data: bytes) -> bytes:
        """The data of a frame's payload. Raises FrameFailure."""
        ...


class Plain:
    """User and password in clear text (RFC 4616): use it only over TLS or in a trusted network."""

    name = "PLAIN"
    max_data_bytes = _MAX_FRAME_BYTES

    def __init__(self, user: str, password: str) -> None:
        self._message = b"\0" + user.encode() + b"\0" + password.encode()

    def initial_response(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes:
        """PLAIN has one message; a server may end with an empty challenge."""
        return b""

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> bytes:
        return data


class SaslTransport:
    """Frames over an open transport, for thriftpy2's buffered transport to read from and write to."""

    def __init__(self, transport: Any, mechanism: Mechanism) -> None:
        self._transport = transport
        self._mechanism = mechanism
        self._unread = b""

    def negotiate(self) -> None:
        """Negotiate. Raises RefusedLogin; MetastoreError if the server does not respond in SASL."""
        self._send(Status.START, self._mechanism.name.encode())
        self._send(Status.OK, self._mechanism.initial_response())
        while True:
            status, payload = self._receive()
            if status == Status.COMPLETE:
                if payload:
                    self._mechanism.respond(payload)
                return
            if status != Status.OK:
                reason = payload.decode("utf-8", "replace") or "no reason given"
                raise RefusedLogin(
                    f"the metastore refuses SASL {self._mechanism.name} ({reason}): check authentication, user and "
                    "password, or the Kerberos ticket"
                )
            self._send(Status.OK, self._mechanism.respond(payload))

    def read(self, size: int) -> bytes:
        """Read at least one byte and at most `size`. Raises FrameFailure."""
        if not self._unread:
            (length,) = struct.unpack(">I", self._exactly(4))
            if length > _MAX_FRAME_BYTES:
                raise TTransportException(TTransportException.UNKNOWN, f"a frame of {length} bytes is not a SASL frame")
            self._unread = self._mechanism.unwrap(self._exactly(length))
        chunk, self._unread = self._unread[:size], self._unread[size:]
        return chunk

    def write(self, data: bytes) -> None:
        size = self._mechanism.max_data_bytes
        for start in range(0, len(data), size):
            wrapped = self._mechanism.wrap(data[start : start + size])
            self._transport.write(struct.pack(">I", len(wrapped)) + wrapped)

    def flush(self) -> None:
        self._transport.flush()

    def close(self) -> None:
        self._transport.close()

    def _send(self, status: Status, payload: bytes) -> None:
        self._transport.write(struct.pack(">BI", status, len(payload)) + payload)
        self._transport.flush()

    def _receive(self) -> tuple[int, bytes]:
        status, length = struct.unpack(">BI", self._exactly(5))
        if length > _MAX_FRAME_BYTES:
            raise MetastoreError("the metastore does not respond in SASL: it uses no authentication, or another one")
        return status, self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            got += self._transport.read(size - len(got))
        return bytes(got)
