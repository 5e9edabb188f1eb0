"""SASL's GSSAPI (RFC 4752): Kerberos tickets through the optional package gssapi."""

from __future__ import annotations

import socket
from typing import Any

from hive_ingest.errors import ConfigurationError, MetastoreError

_NO_SECURITY_LAYER = 1


class Gssapi:
    """Authenticates with a ticket for the metastore's principal. The data is neither signed nor encrypted."""

    name = "GSSAPI"

    def __init__(self, principal: str, host: str) -> None:
        self._gssapi = _package()
        name = self._gssapi.Name(principal_of(principal, host), self._gssapi.NameType.kerberos_principal)
        self._context = self._gssapi.SecurityContext(name=name, usage="initiate")

    def initial_response(self) -> bytes:
        return self._step(None)

    def respond(self, challenge: bytes) -> bytes:
        """The tokens of the context, then the response to the security layers that the server offers."""
        if not self._context.complete:
            return self._step(challenge)
        offered = self._context.unwrap(challenge).message
        if not offered[0] & _NO_SECURITY_LAYER:
            raise MetastoreError(
                "the metastore requires a SASL security layer (hadoop.rpc.protection), which is not supported: "
                "set it to 'authentication' and use TLS"
            )
        wrapped: bytes = self._context.wrap(bytes([_NO_SECURITY_LAYER, 0, 0, 0]), False).message
        return wrapped

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> bytes:
        return data

    def _step(self, token: bytes | None) -> bytes:
        try:
            return self._context.step(token) or b""
        except self._gssapi.exceptions.GSSError as error:
            raise MetastoreError(
                f"Kerberos authentication failed: {error}. Get a ticket with kinit, and check the principal"
            ) from error


def principal_of(principal: str, host: str) -> str:
    """The principal with `_HOST` replaced, as in Hadoop."""
    return principal.replace("_HOST", socket.getfqdn(host).lower())


def _package() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise ConfigurationError(
            "authentication='kerberos' needs the package gssapi: pip install 'hive-ingest[kerberos]' "
            "(and Kerberos itself: krb5-user, or your system's name for it)"
        ) from error
    return gssapi
