"""SASL's GSSAPI (RFC 4752): authentication with a Kerberos ticket, and a security layer if the server offers one."""

from __future__ import annotations

import enum
import socket

from hive_ingest.errors import MetastoreError, MetastoreUnavailable
from hive_ingest.kerberos import GssError, SecurityContext, ticket_remedy
from hive_ingest.metastore_client.thrift.sasl import FrameFailure

#: The largest size that the protocol can name.
_MAX_MESSAGE_BYTES = 0xFFFFFF


class Layer(enum.IntFlag):
    """Security layers by their bits in the negotiation. Hadoop: authentication, integrity, privacy."""

    NONE = 1
    INTEGRITY = 2
    CONFIDENTIALITY = 4


class Gssapi:
    """Authenticates with a ticket for the metastore's principal. Uses the strongest layer that the server offers."""

    name = "GSSAPI"

    def __init__(self, principal: str, host: str) -> None:
        self._principal = principal_of(principal, host)
        self.layer = Layer.NONE
        self.max_data_bytes = _MAX_MESSAGE_BYTES
        try:
            self._context = SecurityContext(self._principal)
        except GssError as error:
            raise self._failure(error) from error

    def initial_response(self) -> bytes:
        return self._step(None)

    def respond(self, challenge: bytes) -> bytes:
        """The tokens of the context, then the response to the security layers that the server offers."""
        if not self._context.complete:
            return self._step(challenge)
        try:
            return self._choose(self._context.unwrap(challenge))
        except GssError as error:
            raise self._failure(error) from error

    def _choose(self, offer: bytes) -> bytes:
        offered = [layer for layer in Layer if len(offer) == 4 and offer[0] & layer]
        if not offered:
            raise MetastoreError(
                f"the metastore {self._principal!r} offers no security layer that SASL defines ({offer.hex()}): "
                "check hadoop.rpc.protection in its core-site.xml"
            )
        self.layer = max(offered)
        if self.layer is Layer.NONE:
            return self._context.wrap(bytes([Layer.NONE, 0, 0, 0]), encrypt=False)
        # The server says how long a message it accepts; what we accept is unlimited.
        limit = int.from_bytes(offer[1:], "big")
        self.max_data_bytes = self._context.max_data_bytes(limit, encrypt=self._encrypts)
        choice = bytes([self.layer]) + _MAX_MESSAGE_BYTES.to_bytes(3, "big")
        return self._context.wrap(choice, encrypt=False)

    @property
    def _encrypts(self) -> bool:
        return self.layer is Layer.CONFIDENTIALITY

    def wrap(self, data: bytes) -> bytes:
        if self.layer is Layer.NONE:
            return data
        try:
            return self._context.wrap(data, encrypt=self._encrypts)
        except GssError as error:
            raise FrameFailure(f"the request cannot be signed: {error}") from error

    def unwrap(self, data: bytes) -> bytes:
        if self.layer is Layer.NONE:
            return data
        try:
            return self._context.unwrap(data)
        except GssError as error:
            raise FrameFailure(f"the signature of the response is not valid: {error}") from error

    def _step(self, token: bytes | None) -> bytes:
        try:
            return self._context.step(token)
        except GssError as error:
            raise self._failure(error) from error

    def _failure(self, error: GssError) -> MetastoreError:
        kind = MetastoreUnavailable if error.is_unreachable else MetastoreError
        return kind(
            f"Kerberos authentication with {self._principal!r} failed: {error}. {ticket_remedy()}. "
            "Check kerberos_principal, too"
        )


def principal_of(principal: str, host: str) -> str:
    """The principal with `_HOST` replaced, as in Hadoop."""
    return principal.replace("_HOST", socket.getfqdn(host).lower())
