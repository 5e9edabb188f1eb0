"""Security contexts of Kerberos: tokens for a server, and messages that are signed or encrypted."""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_int, c_uint32, c_void_p

from hive_ingest.kerberos.library import (
    KRB5_MECHANISM,
    KRB5_PRINCIPAL_NAME,
    Buffer,
    library,
    take,
    ticket_cache_lock,
)

_CONTINUE_NEEDED = 1
#: The calling error and the routine error in a major status. The rest is additional information.
_ERRORS = 0xFFFF0000
_FAILURE = 13 << 16
#: Mutual authentication, detection of replays and of a wrong order, confidentiality, integrity.
_FLAGS = 2 | 4 | 8 | 16 | 32
_STATUS_OF_ROUTINE, _STATUS_OF_MECHANISM = 1, 2
#: KRB5_KDC_UNREACH and KRB5_REALM_CANT_RESOLVE as unsigned numbers.
_UNREACHABLE = frozenset({-1765328228 & 0xFFFFFFFF, -1765328164 & 0xFFFFFFFF})
#: KRB5_CC_NOTFOUND: the ticket cache is empty, perhaps because hdfs-native, whose threads share it, renews the ticket.
_NOT_FOUND = -1765328243 & 0xFFFFFFFF
_RENEWAL_PAUSES_SECONDS = (0.02, 0.1, 0.5)


class GssError(Exception):
    """A call failed; the message is the library's.

    Attributes:
        is_unreachable: Whether no key distribution centre answers, so that the call may succeed later.
        is_without_ticket: Whether the ticket cache has no ticket, as for a moment while one is renewed.
    """

    def __init__(self, major: int, minor: int) -> None:
        # The text of GSS_S_FAILURE only refers to the minor status.
        reason = "" if minor and (major & _ERRORS) == _FAILURE else _text(_STATUS_OF_ROUTINE, major)
        detail = _text(_STATUS_OF_MECHANISM, minor) if minor else ""
        super().__init__(": ".join(filter(None, (reason, detail))))
        self.is_unreachable = minor in _UNREACHABLE
        self.is_without_ticket = minor == _NOT_FOUND


class SecurityContext:
    """The client's side of an authentication with the credentials of this process.

    MIT's library finds these where `KRB5CCNAME` and `KRB5_CLIENT_KTNAME` say. With a keytab it gets a ticket when there
    is none, and a new one once the present one has reached half of its lifetime.
    """

    _handle: c_void_p
    _name: c_void_p

    def __init__(self, principal: str) -> None:
        self._library = library()
        self._handle, self._name = c_void_p(), c_void_p()
        self.complete = False
        minor = c_uint32()
        major = self._library.gss_import_name(
            byref(minor), byref(Buffer.of(principal.encode())), byref(KRB5_PRINCIPAL_NAME), byref(self._name)
        )
        check(major, minor)

    def step(self, token: bytes | None) -> bytes:
        """The token to send after the server's `token`, None to begin. Raises GssError."""
        for seconds in _RENEWAL_PAUSES_SECONDS if token is None else ():
            try:
                return self._step(None)
            except GssError as error:
                if not error.is_without_ticket:
                    raise
            time.sleep(seconds)
        return self._step(token)

    def _step(self, token: bytes | None) -> bytes:
        minor, answer = c_uint32(), Buffer()
        with ticket_cache_lock:
            major = self._library.gss_init_sec_context(
                *(byref(minor), None, byref(self._handle), self._name, byref(KRB5_MECHANISM), _FLAGS, 0, None),
                *(None if token is None else byref(Buffer.of(token)), None, byref(answer), None, None),
            )
        response = take(answer)
        check(major, minor)
        self.complete = not major & _CONTINUE_NEEDED
        return response

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        """`data` with a signature, encrypted on request. Raises GssError."""
        minor, wrapped, is_encrypted = c_uint32(), Buffer(), c_int()
        major = self._library.gss_wrap(
            byref(minor), self._handle, encrypt, 0, byref(Buffer.of(data)), byref(is_encrypted), byref(wrapped)
        )
        message = take(wrapped)
        check(major, minor)
        return message

    def unwrap(self, message: bytes) -> bytes:
        """The data of a message of the server, whose signature is valid. Raises GssError."""
        minor, data = c_uint32(), Buffer()
        major = self._library.gss_unwrap(byref(minor), self._handle, byref(Buffer.of(message)), byref(data), None, None)
        unwrapped = take(data)
        check(major, minor)
        return unwrapped

    def max_data_bytes(self, message_bytes: int, *, encrypt: bool) -> int:
        """How much data fits into a wrapped message of that size. Raises GssError."""
        minor, limit = c_uint32(), c_uint32()
        major = self._library.gss_wrap_size_limit(byref(minor), self._handle, encrypt, 0, message_bytes, byref(limit))
        check(major, minor)
        return limit.value

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.gss_delete_sec_context(byref(c_uint32()), byref(self._handle), None)
        if getattr(self, "_name", None):
            self._library.gss_release_name(byref(c_uint32()), byref(self._name))


def check(major: int, minor: c_uint32) -> None:
    """Raises GssError unless a call was successful."""
    if major & _ERRORS:
        raise GssError(major, minor.value)


def _text(kind: int, status: int) -> str:
    minor, more, message = c_uint32(), c_uint32(), Buffer()
    library().gss_display_status(byref(minor), status, kind, ctypes.byref(KRB5_MECHANISM), byref(more), byref(message))
    return take(message).decode("utf-8", "replace").strip()
