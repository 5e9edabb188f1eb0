"""Objects that nobody closed are ended, but never on the thread that happens to collect them."""

from __future__ import annotations

import gc
import threading
from typing import Any, Self

import pytest

from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.transactions import reaper
from hive_ingest.transactions.reaper import Guard
from tests.support.waiting import wait_until


class FakeClient:
    """Remembers on which threads its clones were used."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.error: Exception | None = None
        self.may_continue = threading.Event()
        self.may_continue.set()

    def clone(self) -> Self:
        return self

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        self.may_continue.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def end(self, own: Any) -> None:
        self.threads.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error


class Thing:
    """Something that holds a transaction, in a reference cycle if wanted."""

    def __init__(self, client: Any) -> None:
        self.guard = Guard(self, client, client.end, "a thing", "a thing was not closed")
        self.itself: Thing | None = None


@pytest.fixture(autouse=True)
def own_reaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that may be told of an exit: that of the test process goes on for the tests after these."""
    monkeypatch.setattr(reaper, "_reaper", reaper._Reaper())


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


def test_collected_objects_are_ended_on_the_reapers_thread_with_a_warning(client: FakeClient) -> None:
    thing = Thing(client)
    with pytest.warns(ResourceWarning, match="a thing was not closed"):
        del thing
    wait_until(lambda: client.threads == ["hive-ingest-reaper"])


def leave_garbage(client: FakeClient) -> None:
    thing = Thing(client)
    thing.itself = thing
    del thing
    gc.collect()


def test_garbage_collection_never_waits(client: FakeClient) -> None:
    """It waited for worker threads, which could be the collecting thread itself: the process never ended."""
    client.may_continue.clear()
    with pytest.warns(ResourceWarning):
        leave_garbage(client)  # a collection may begin by itself
    assert client.threads == []
    client.may_continue.set()
    wait_until(lambda: bool(client.threads))


def test_a_warning_raised_as_an_error_does_not_prevent_the_abort(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("sys.excepthook", lambda *error: seen.append(error))
    monkeypatch.setattr("sys.unraisablehook", seen.append)
    thing = Thing(client)
    del thing
    wait_until(lambda: bool(client.threads))
    assert seen


def test_released_objects_are_not_ended(client: FakeClient) -> None:
    thing = Thing(client)
    thing.guard.release()
    thing.guard.release()
    assert not thing.guard.is_active
    del thing
    other = Thing(client)
    other.guard.end_now()
    assert len(client.threads) == 1


def test_an_error_of_one_does_not_stop_the_next(client: FakeClient, caplog: pytest.LogCaptureFixture) -> None:
    things = [Thing(client) for _ in range(3)]
    client.error = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        things[0].guard.end_now()
    client.error = MetastoreUnavailable("gone")
    with pytest.raises(MetastoreUnavailable):
        things[1].guard.end_now()
    client.error = None
    things[2].guard.end_now()
    assert len(client.threads) == 3


def test_the_exit_of_the_interpreter_ends_what_is_open(client: FakeClient) -> None:
    thing = Thing(client)
    with pytest.warns(ResourceWarning):
        reaper._at_exit()
    assert client.threads == ["hive-ingest-reaper"]
    assert not thing.guard.is_active


def test_the_exit_of_the_interpreter_does_not_wait_forever(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reaper, "EXIT_SECONDS", 0.05)
    client.may_continue.clear()
    thing = Thing(client)
    with pytest.warns(ResourceWarning):
        reaper._at_exit()
    assert "will time out" in caplog.text
    assert client.threads == []
    client.may_continue.set()
    wait_until(lambda: bool(client.threads))
    assert not thing.guard.is_active


def test_a_begin_that_is_interrupted_does_not_hold_up_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that ended the process between counting and beginning made its exit wait for nobody."""

    class Interrupted(threading.Condition):
        is_first = True

        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            if self.is_first:
                self.is_first = False
                raise SystemExit(143)

    of_this_test = reaper._Reaper()
    monkeypatch.setattr(of_this_test, "_no_openings", Interrupted())
    with pytest.raises(SystemExit), of_this_test.opening():
        pass
    assert of_this_test.exit(0)
