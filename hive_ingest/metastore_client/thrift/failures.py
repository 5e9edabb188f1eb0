"""Conversion of failures of a server, or of the connection to it, to our errors."""

from __future__ import annotations

import re

from thriftpy2.thrift import TApplicationException, TException

from hive_ingest.errors import (
    AlreadyExists,
    InvalidOperation,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchLock,
    NoSuchObject,
    NoSuchTxn,
    StreamingError,
    TooManyOpenTxns,
    TxnAborted,
    TxnOpen,
    UnsupportedFeature,
)

_ERRORS: dict[str, type[StreamingError]] = {
    "AlreadyExistsException": AlreadyExists,
    "InvalidObjectException": InvalidOperation,
    "InvalidOperationException": InvalidOperation,
    "NoSuchLockException": NoSuchLock,
    "NoSuchObjectException": NoSuchObject,
    "NoSuchTxnException": NoSuchTxn,
    "TxnAbortedException": TxnAborted,
    "TxnOpenException": TxnOpen,
}
# A server reports an exception that a call does not declare in the text of another one.
_WRAPPED = re.compile(r"\b(\w+Exception)\(message:(.*?)\)", re.DOTALL)
_LONGEST_MESSAGE = 500
_TOO_MANY_OPEN = "Maximum allowed number of open transactions"


class ServerFailed(MetastoreError):
    """The server reported that the call failed inside it, so nothing of the call is still running."""


class NoResponse(MetastoreUnavailable):
    """The call was sent and no response came: whether it took effect is unknown."""


class ConnectionClosed(NoResponse):
    """The connection ended before the response."""


class UnknownCall(UnsupportedFeature):
    """The server has no such call."""


def server_error(call: str, server: str, error: TException) -> StreamingError:
    """The message of an exception that the server returned."""
    if isinstance(error, TApplicationException):
        return _application_error(call, server, error)
    name, message = type(error).__name__, str(getattr(error, "message", "") or "")
    return _named(name, message, call, server) or MetastoreError(_reported(call, server, message or name))


def _application_error(call: str, server: str, error: TApplicationException) -> StreamingError:
    message = str(error)
    if error.type == TApplicationException.UNKNOWN_METHOD:
        return UnknownCall(f"{server} has no call {call}: its version is too old for this, or too new")
    if _TOO_MANY_OPEN in message:
        return TooManyOpenTxns(_reported(call, server, message))
    return _named("", message, call, server) or ServerFailed(
        f"{call} failed inside the metastore {server} ({message}): see its log"
    )


def _named(name: str, message: str, call: str, server: str) -> StreamingError | None:
    """The error for the exception, or for the one in its text."""
    wrapped = _WRAPPED.search(message)
    if name not in _ERRORS and wrapped is not None:
        name, message = wrapped[1], wrapped[2]
    if name == "NoSuchTxnException":
        message += ": it was never opened, has ended, or is no longer remembered"
    return _ERRORS[name](_reported(call, server, message)) if name in _ERRORS else None


def _reported(call: str, server: str, message: str) -> str:
    # Only the first line is useful: a Java stack trace may follow.
    first = next(iter(message.strip().splitlines()), "refused without a reason")[:_LONGEST_MESSAGE]
    return f"{call}: {first} (reported by the metastore {server})"
