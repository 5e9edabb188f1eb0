"""Polls of the consumer: how many messages each one returns, and what they take in memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hive_ingest.streaming.kafka.options import POLL_SECONDS

#: What a message takes in memory besides the key, value and headers.
_RECORD_BYTES = 300
#: The size that messages are expected to have before any have been seen.
_FIRST_MESSAGE_BYTES = 4_096


class Poller:
    """Polls for as many messages as `max_bytes` of memory hold, if they are as large as the last ones.

    Every poll switches to the client's own thread and back several times, which takes long while other threads are
    busy: so it should return many messages, but not more large ones than the queue has room for.
    """

    def __init__(self, consumer: Any, max_bytes: int) -> None:
        """No poll returns more messages than the consumer's `max_poll_records`."""
        self._consumer = consumer
        self._max_bytes = max_bytes
        self._message_bytes = _FIRST_MESSAGE_BYTES

    def poll(self) -> Mapping[Any, Sequence[Any]]:
        """The next messages of each partition; none if none arrive in time. Raises KafkaError."""
        most = min(self._consumer.config["max_poll_records"], max(1, self._max_bytes // self._message_bytes))
        with _without_collector():
            polled: Mapping[Any, Sequence[Any]] = self._consumer.poll(timeout_ms=POLL_SECONDS * 1000, max_records=most)
        return polled

    def size_of(self, messages: Sequence[Any]) -> int:
        """What messages (one or more) take in memory."""
        nbytes = _RECORD_BYTES * len(messages) + sum([len(m.value or b"") + len(m.key or b"") for m in messages])
        nbytes += sum([len(name) + len(value or b"") for m in messages if m.headers for name, value in m.headers])
        self._message_bytes = nbytes // len(messages)
        return nbytes


@contextmanager
def _without_collector() -> Iterator[None]:
    """Put off garbage collection until the messages of a poll are there.

    Their allocation would start a collection every few hundred messages, and none of them is garbage: this took a
    fifth of the processor time of an ingest.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
