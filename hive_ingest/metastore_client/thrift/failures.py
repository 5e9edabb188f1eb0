"""What a server, or the way to it, says instead of an answer, in our errors."""

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
# A server wraps exceptions that a call does not declare into the text of another one.
_WRAPPED = re.compile(r"\b(\w+Exception)\(message:(.*?)\)", re.DOTALL)
_LONGEST_MESSAGE = 500
_TOO_MANY_OPEN = "Maximum allowed number of open transactions"


class ServerFailed(MetastoreError):
    """The server answered that the call failed inside it: nothing of the call is under way any more."""


class NoAnswer(MetastoreUnavailable):
    """The call was sent and no answer came: whether it took effect is not known."""


class HungUp(NoAnswer):
    """The connection ended instead."""


class UnknownCall(UnsupportedFeature):
    """The server has no such call."""


def server_error(call: str, server: str, error: TException) -> StreamingError:
    """Of an exception that came as the answer."""
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
        f"{call} failed inside the metastore {server} ({message}): its log says why"
    )


def _named(name: str, message: str, call: str, server: str) -> StreamingError | None:
    """The error that the exception stands for, or the one that is wrapped in its text."""
    wrapped = _WRAPPED.search(message)
    if name not in _ERRORS and wrapped is not None:
        name, message = wrapped[1], wrapped[2]
    if name == "NoSuchTxnException":
        message += ": it was never opened, has ended, or is no longer remembered"
    return _ERRORS[name](_reported(call, server, message)) if name in _ERRORS else None


def _reported(call: str, server: str, message: str) -> str:
    # Only the first line is for people: a Java trace may follow.
    first = next(iter(message.strip().splitlines()), "refused without a word")[:_LONGEST_MESSAGE]
    return f"{call}: {first} (says the metastore {server})"
