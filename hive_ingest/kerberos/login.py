"""Logging in with a keytab: an identity for the whole process, whose tickets are renewed while it runs."""

from __future__ import annotations

import os
from ctypes import byref, c_uint32, c_void_p
from typing import Final

from hive_ingest.errors import ConfigurationError, MetastoreUnavailable
from hive_ingest.kerberos.gssapi import GssError, check
from hive_ingest.kerberos.library import (
    KRB5_MECHANISM,
    KRB5_PRINCIPAL_NAME,
    Buffer,
    OidSet,
    library,
    ticket_cache_lock,
)

_INITIATE: Final = 1
_INDEFINITE: Final = 0xFFFFFFFF
_KEYTAB, _CACHE = "KRB5_CLIENT_KTNAME", "KRB5CCNAME"
_OWN_CACHE: Final = "MEMORY:hive_ingest"
_login: tuple[str, str] | None = None


def log_in(keytab: str, principal: str = "") -> None:
    """Authenticate this process with a keytab from now on.

    MIT's library, which hdfs-native uses too, gets tickets from the keytab and renews them, for as long as the process
    runs. They are kept in memory, so that the ticket cache of this user is neither used nor changed.

    Args:
        keytab: The path of the keytab.
        principal: As whom. Without it, the first principal of the keytab.

    Raises:
        ConfigurationError: The keytab cannot be read or has no key for the principal, or this process has logged in as
            somebody else.
        MetastoreUnavailable: No key distribution centre answers.
    """
    global _login
    if not keytab:
        raise ConfigurationError(f"principal={principal!r} needs keytab: give both, or use a ticket cache")
    path = os.path.abspath(keytab)
    with ticket_cache_lock:
        if _login is None or (_login == (path, principal) and not _is_in_effect(path)):
            _check_readable(path)
            _log_in(path, principal)
            _login = (path, principal)
        elif _login != (path, principal):
            raise ConfigurationError(
                f"keytab={path!r}, principal={principal!r}: this process has logged in with {_login[0]!r} as "
                f"{_login[1] or 'its first principal'!r}: a process has one identity, so use another process"
            )


def ticket_remedy() -> str:
    """What to do about a ticket that cannot be obtained; the beginning of a sentence."""
    keytab = os.environ.get(_KEYTAB)
    if not keytab:
        return "Get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME"
    return (
        f"Check that the keytab {keytab!r} (KRB5_CLIENT_KTNAME) can be read and has the present keys of its principal: "
        "'klist -k' lists them, and 'kinit -k' tries them"
    )


def _is_in_effect(path: str) -> bool:
    """Whether nobody has changed the environment since the login."""
    return os.environ.get(_KEYTAB) == path and os.environ.get(_CACHE) == _OWN_CACHE


def _check_readable(path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigurationError(f"the keytab {path!r} cannot be read ({error.strerror}): check its path") from error


def _log_in(path: str, principal: str) -> None:
    library()  # raises where there is none
    before = {name: os.environ.get(name) for name in (_KEYTAB, _CACHE)}
    os.environ[_KEYTAB] = path
    os.environ[_CACHE] = _OWN_CACHE
    if not principal:
        return
    try:
        _get_ticket(principal)
    except GssError as error:
        _restore(before)
        kind = MetastoreUnavailable if error.is_unreachable else ConfigurationError
        raise kind(
            f"cannot log in as {principal!r} with the keytab {path!r}: {error}. List its principals with 'klist -k'"
        ) from error


def _restore(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _get_ticket(principal: str) -> None:
    """Into the ticket cache, whose principal the library uses from then on. Raises GssError."""
    minor, name, credentials, lifetime = c_uint32(), c_void_p(), c_void_p(), c_uint32()
    calls = library()
    try:
        major = calls.gss_import_name(
            byref(minor), byref(Buffer.of(principal.encode())), byref(KRB5_PRINCIPAL_NAME), byref(name)
        )
        check(major, minor)
        major = calls.gss_acquire_cred(
            *(byref(minor), name, _INDEFINITE, byref(OidSet.of(KRB5_MECHANISM)), _INITIATE, byref(credentials)),
            *(None, None),
        )
        check(major, minor)
        # Acquiring is deferred until something is asked of the credentials.
        check(calls.gss_inquire_cred(byref(minor), credentials, None, byref(lifetime), None, None), minor)
    finally:
        calls.gss_release_cred(byref(c_uint32()), byref(credentials))
        calls.gss_release_name(byref(c_uint32()), byref(name))
