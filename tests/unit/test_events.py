"""Listeners of events."""

from __future__ import annotations

import pytest

from hive_ingest.events import CommitUnknown, Event, listen, report, stop_listening

EVENT = CommitUnknown("web.t", "", 1)


def test_each_listener_gets_each_event_until_it_stops() -> None:
    first: list[Event] = []
    second: list[Event] = []
    for listener in (first.append, second.append):
        listen(listener)
    try:
        report(EVENT)
        stop_listening(first.append)
        stop_listening(first.append)
        report(EVENT)
    finally:
        stop_listening(first.append)
        stop_listening(second.append)
    report(EVENT)
    assert (first, second) == ([EVENT], [EVENT, EVENT])


def test_a_listener_that_fails_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError("broken")

    found: list[Event] = []
    listen(fail)
    listen(found.append)
    try:
        report(EVENT)
    finally:
        stop_listening(fail)
        stop_listening(found.append)
    assert found == [EVENT]
    assert "a listener failed at CommitUnknown" in caplog.text
