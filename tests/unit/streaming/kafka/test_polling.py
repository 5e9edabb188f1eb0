"""How many messages a poll asks for, and the garbage collector meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hive_ingest.streaming.kafka.messages import KafkaMessage
from hive_ingest.streaming.kafka.polling import Poller

MIB = 1 << 20


def message(value: int, key: int = 0, header: int = 0) -> KafkaMessage:
    headers = (("name", b"h" * header), ("empty", None)) if header else ()
    return KafkaMessage("events", 0, 0, key=b"k" * key or None, value=b"v" * value, headers=headers)


class Client:
    """Notes what it is asked for."""

    def __init__(self, max_poll_records: int = 12_000, poll: Callable[[], None] = lambda: None) -> None:
        self.config = {"max_poll_records": max_poll_records}
        self.asked: list[int] = []
        self._poll = poll

    def poll(self, timeout_ms: float, max_records: int) -> dict[str, list[Any]]:
        self.asked.append(max_records)
        self._poll()
        return {}


@pytest.fixture
def collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_a_poll_asks_for_as_many_messages_as_fit() -> None:
    client = Client()
    poller = Poller(client, 16 * MIB)
    poller.poll()
    poller.size_of([message(200)] * 10)
    poller.poll()
    poller.size_of([message(MIB)] * 10)
    poller.poll()
    poller.size_of([message(20 * MIB)])
    poller.poll()
    assert client.asked == [4_096, 12_000, 15, 1]


def test_max_poll_records_is_the_most() -> None:
    client = Client(max_poll_records=50)
    Poller(client, 16 * MIB).poll()
    assert client.asked == [50]


def test_keys_and_headers_count_as_memory() -> None:
    poller = Poller(Client(), MIB)
    plain = poller.size_of([message(1_000)])
    assert poller.size_of([message(1_000, key=10_000, header=100_000)]) > plain + 109_000


def test_garbage_is_not_collected_during_a_poll(collector: None) -> None:
    enabled: list[bool] = []
    Poller(Client(poll=lambda: enabled.append(gc.isenabled())), MIB).poll()
    assert enabled == [False]
    assert gc.isenabled()


def test_a_poll_that_fails_leaves_the_collector_as_it_was(collector: None) -> None:
    def fail() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        Poller(Client(poll=fail), MIB).poll()
    assert gc.isenabled()
    gc.disable()
    Poller(Client(), MIB).poll()
    assert not gc.isenabled()
