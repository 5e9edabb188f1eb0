"""The ticket cache is shared by the threads of a process, and forked with it. Kerberos itself is in tests/kerberos."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from hive_ingest.kerberos import GssError, SecurityContext, gssapi, ticket_remedy
from hive_ingest.kerberos.library import ticket_cache_lock

NOT_FOUND = -1765328243 & 0xFFFFFFFF
FAILURE = 13 << 16


class Library:
    """The calls that a context makes; the first steps fail by these minor statuses."""

    def __init__(self, *failures: int) -> None:
        self._failures = [*failures]
        self.steps = 0

    def gss_init_sec_context(self, minor: Any, *_: object) -> int:
        assert ticket_cache_lock.locked()
        self.steps += 1
        if not self._failures:
            return 0
        minor._obj.value = self._failures.pop(0)
        return FAILURE

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0


@pytest.fixture
def context_on(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(library: Library) -> SecurityContext:
        monkeypatch.setattr(gssapi, "library", lambda: library)
        monkeypatch.setattr(gssapi, "take", lambda buffer: b"token")
        return SecurityContext("hive/localhost")

    return make


def test_a_ticket_that_is_being_renewed_is_waited_for(context_on: Any) -> None:
    """One of ten thousand contexts failed with "Matching credential not found"."""
    library = Library(NOT_FOUND, NOT_FOUND)
    assert context_on(library).step(None) == b"token"
    assert library.steps == 3


def test_a_ticket_that_does_not_come_is_an_error(context_on: Any) -> None:
    with pytest.raises(GssError) as caught:
        context_on(Library(*[NOT_FOUND] * 10)).step(None)
    assert caught.value.is_without_ticket


@pytest.mark.parametrize(("token", "minor"), [(None, NOT_FOUND + 1), (b"from the server", NOT_FOUND)])
def test_no_other_failure_is_waited_for(context_on: Any, token: bytes | None, minor: int) -> None:
    library = Library(minor)
    with pytest.raises(GssError):
        context_on(library).step(token)
    assert library.steps == 1


def test_a_fork_waits_until_no_thread_uses_the_ticket_cache() -> None:
    """The child of a fork during a call waited forever for a lock of the library."""
    forked = threading.Event()
    statuses: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(int(ticket_cache_lock.locked()))
        forked.set()
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    thread = threading.Thread(target=fork)
    with ticket_cache_lock:
        thread.start()
        assert not forked.wait(0.2)
    thread.join(60)
    assert statuses == [0]
    assert not ticket_cache_lock.locked()


@pytest.mark.parametrize(
    ("keytab", "remedy"),
    [(None, "Get a ticket with kinit, or name a keytab"), ("/etc/x.keytab", "Check that the keytab '/etc/x.keytab'")],
)
def test_the_remedy_is_about_the_keytab_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, keytab: str | None, remedy: str
) -> None:
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
    if keytab is not None:
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", keytab)
    assert ticket_remedy().startswith(remedy)
