"""MIT Kerberos's libgssapi_krb5, called through ctypes (RFC 2744).

The package gssapi of PyPI has no wheels for Linux, so installing it takes a compiler and Kerberos's headers. The
library itself is on most machines, since curl and OpenSSH need it, and hdfs-native loads the same one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from ctypes import POINTER, byref, c_int, c_size_t, c_uint32, c_void_p

from hive_ingest.errors import ConfigurationError

LIBRARY = "libgssapi_krb5.so.2"

#: Held by calls that use the ticket cache. While a ticket is renewed the cache is empty for a moment, which fails the
#: calls of other threads, and a child that is forked during a call would wait forever for the library's own locks.
ticket_cache_lock = threading.Lock()
os.register_at_fork(
    before=ticket_cache_lock.acquire,
    after_in_parent=ticket_cache_lock.release,
    after_in_child=ticket_cache_lock.release,
)


class Buffer(ctypes.Structure):
    """A `gss_buffer_desc`."""

    _fields_ = (("length", c_size_t), ("value", c_void_p))

    @classmethod
    def of(cls, data: bytes) -> Buffer:
        """A view of `data`, which the buffer keeps alive."""
        view = cls(len(data), ctypes.cast(ctypes.c_char_p(data), c_void_p))
        view.data = data
        return view

    def to_bytes(self) -> bytes:
        return ctypes.string_at(self.value, self.length) if self.value else b""


class Oid(ctypes.Structure):
    """A `gss_OID_desc`."""

    _fields_ = (("length", c_uint32), ("elements", c_void_p))

    @classmethod
    def of(cls, data: bytes) -> Oid:
        view = cls(len(data), ctypes.cast(ctypes.c_char_p(data), c_void_p))
        view.data = data
        return view


class OidSet(ctypes.Structure):
    """A `gss_OID_set_desc`."""

    _fields_ = (("count", c_size_t), ("elements", POINTER(Oid)))

    @classmethod
    def of(cls, mechanism: Oid) -> OidSet:
        view = cls(1, ctypes.pointer(mechanism))
        view.mechanism = mechanism
        return view


#: 1.2.840.113554.1.2.2, and the names of its principals below it.
KRB5_MECHANISM = Oid.of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
KRB5_PRINCIPAL_NAME = Oid.of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")

_BUFFER = POINTER(Buffer)
_OID = POINTER(Oid)
_NUMBER = POINTER(c_uint32)
_HANDLE = POINTER(c_void_p)

_ARGUMENTS = {
    "gss_import_name": (_NUMBER, _BUFFER, _OID, _HANDLE),
    "gss_release_name": (_NUMBER, _HANDLE),
    "gss_release_buffer": (_NUMBER, _BUFFER),
    "gss_init_sec_context": (
        *(_NUMBER, c_void_p, _HANDLE, c_void_p, _OID, c_uint32, c_uint32, c_void_p, _BUFFER),
        *(c_void_p, _BUFFER, c_void_p, c_void_p),
    ),
    "gss_acquire_cred": (
        *(_NUMBER, c_void_p, c_uint32, POINTER(OidSet), c_int, _HANDLE),
        *(c_void_p, c_void_p),
    ),
    "gss_inquire_cred": (_NUMBER, c_void_p, c_void_p, _NUMBER, c_void_p, c_void_p),
    "gss_release_cred": (_NUMBER, _HANDLE),
    "gss_delete_sec_context": (_NUMBER, _HANDLE, c_void_p),
    "gss_wrap": (_NUMBER, c_void_p, c_int, c_uint32, _BUFFER, POINTER(c_int), _BUFFER),
    "gss_unwrap": (_NUMBER, c_void_p, _BUFFER, _BUFFER, POINTER(c_int), c_void_p),
    "gss_wrap_size_limit": (_NUMBER, c_void_p, c_int, c_uint32, c_uint32, _NUMBER),
    "gss_display_status": (_NUMBER, c_uint32, c_int, _OID, _NUMBER, _BUFFER),
}


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises ConfigurationError if the system has none."""
    try:
        loaded = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise ConfigurationError(
            f"Kerberos needs the system library {LIBRARY}, which cannot be loaded ({error}): install it with "
            "'apt-get install libgssapi-krb5-2' (Debian, Ubuntu), 'dnf install krb5-libs' (Red Hat, Fedora) or "
            "'apk add krb5-libs' (Alpine)"
        ) from error
    for name, arguments in _ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes = arguments
        function.restype = c_uint32
    return loaded


def take(buffer: Buffer) -> bytes:
    """The content of a buffer that the library has allocated, which is released."""
    try:
        return buffer.to_bytes()
    finally:
        library().gss_release_buffer(byref(c_uint32()), byref(buffer))
