"""Calls of several threads, of finalisers and of forked children, over connections that each serve one at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hive_ingest.errors import ConnectionMisuse, MetastoreUnavailable, NoSuchObject
from hive_ingest.metastore_client.thrift.addresses import Address
from hive_ingest.metastore_client.thrift.channel import Channel
from hive_ingest.metastore_client.thrift.client import ThriftMetastoreClient
from hive_ingest.metastore_client.thrift.failures import NoResponse
from hive_ingest.metastore_client.thrift.options import ThriftOptions
from hive_ingest.metastore_client.thrift.part import Context
from hive_ingest.metastore_client.thrift.wire import Wire


class FakeWire:
    """Answers with its own number; a second call at once is an error, as on a socket."""

    opened: list[FakeWire]
    refused: set[str]
    during: Callable[[str], object]

    def __init__(self) -> None:
        self.number = len(self.opened)
        self.opened.append(self)
        self.is_busy = self.is_closed = False

    def call(self, name: str, arguments: tuple[Any, ...], timeout_seconds: float) -> Any:
        assert not self.is_busy, "two calls at once on one connection"
        assert not self.is_closed
        self.is_busy = True
        try:
            if name in ("getVersion", "set_ugi"):
                return "4.0.1"
            type(self).during(name)
            return self.number
        finally:
            self.is_busy = False

    def is_stale(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def wires(monkeypatch: pytest.MonkeyPatch) -> type[FakeWire]:
    FakeWire.opened, FakeWire.refused, FakeWire.during = [], set(), lambda name: None

    def open_wire(address: Address, options: ThriftOptions, timeout_seconds: float) -> FakeWire:
        if address.host in FakeWire.refused:
            raise MetastoreUnavailable(f"{address} does not accept a connection")
        return FakeWire()

    monkeypatch.setattr(Wire, "open", open_wire)
    return FakeWire


def made(*hosts: str) -> Channel:
    options = ThriftOptions(retry_seconds=0.01, uri_selection="sequential")
    return Channel([Address(host) for host in hosts or ("a",)], options)


def call(channel: Channel, name: str = "get_table") -> Any:
    return channel.call(name, is_repeatable=False)


def test_calls_of_one_thread_use_one_connection(wires: type[FakeWire]) -> None:
    channel = made()
    assert [call(channel) for _ in range(3)] == [0, 0, 0]


def test_calls_of_two_threads_at_once_use_two(wires: type[FakeWire]) -> None:
    """With one connection they mixed up their responses."""
    channel, both = made(), threading.Barrier(2)
    wires.during = lambda name: None if name == "later" else both.wait(60)
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda _: call(channel), range(2))) == [0, 1]
    assert call(channel, "later") in (0, 1)


def test_a_call_made_inside_another_call_uses_its_own_connection(wires: type[FakeWire]) -> None:
    """A finalizer may run at any moment, also during a call."""
    channel, inner = made(), []
    wires.during = lambda name: inner.append(call(channel, "inner")) if name == "outer" else None
    assert call(channel, "outer") == 0
    assert inner == [1]


def test_no_more_connections_are_kept_than_are_useful(wires: type[FakeWire]) -> None:
    channel, all_ = made(), threading.Barrier(8)
    wires.during = lambda name: all_.wait(60)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: call(channel), range(8)))
    assert sum(not wire.is_closed for wire in wires.opened) == 4
    channel.close()
    assert all(wire.is_closed for wire in wires.opened)


def test_a_connection_whose_response_was_lost_is_not_reused(wires: type[FakeWire]) -> None:
    channel = made()

    def lose(name: str) -> None:
        if name == "lost":
            raise NoResponse("gone")
        if name == "refused":
            raise NoSuchObject("no such table")

    wires.during = lose
    with pytest.raises(NoSuchObject):
        call(channel, "refused")
    assert call(channel) == 0
    with pytest.raises(MetastoreUnavailable):
        call(channel, "lost")
    assert wires.opened[0].is_closed
    assert call(channel) == 1


def test_a_call_in_progress_finishes_although_the_client_is_closed(wires: type[FakeWire]) -> None:
    channel = made()
    wires.during = lambda name: channel.close()
    assert call(channel) == 0
    assert wires.opened[0].is_closed
    with pytest.raises(ConnectionMisuse):
        call(channel)


def test_a_forked_child_opens_its_own_connection(wires: type[FakeWire]) -> None:
    channel = made()
    assert call(channel) == 0
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if call(channel) == 1 else 1)
        except BaseException:  # noqa: BLE001 - a child must not run the rest of the tests
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert call(channel) == 0


def test_the_server_that_answered_last_is_tried_first(wires: type[FakeWire]) -> None:
    channel = made("a", "b", "c")
    wires.refused = {"a", "b"}
    call(channel)
    assert [address.host for address in channel._order] == ["c", "a", "b"]
    wires.refused = {"a", "b", "c"}
    channel._drop_idle()
    with pytest.raises(MetastoreUnavailable, match=r"a:9083.*b:9083|c:9083.*"):
        call(channel)


def test_a_client_shows_no_password() -> None:
    options = ThriftOptions(authentication="plain", user="me", password="s3cret")
    channel = Channel([Address("a")], options)
    client = ThriftMetastoreClient(Context(channel, ""))
    for shown in (repr(client), str(client), repr(client._context), repr(options), client.uri):
        assert "s3cret" not in shown
