"""What the group assigns and revokes.

The client calls the listener on its own I/O thread, which also sends the heartbeats, while the consumer's thread waits
inside `poll`. So a call only notes the change. The route's thread ends its transaction and reads the positions again;
the lock of each partition makes the next owner wait until then.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hive_ingest.faults import reach
from hive_ingest.streaming.kafka.client_options import kafka_module
from hive_ingest.streaming.kafka.inbox import RouteInbox
from hive_ingest.streaming.kafka.positions import source_name

_log = logging.getLogger(__name__)


class Rebalances:
    """Keeps the assignment of each route up to date."""

    def __init__(self, consumer: Any, inboxes: Mapping[str, RouteInbox]) -> None:
        self._consumer = consumer
        self._inboxes = inboxes
        #: Changes of the assignment since the start.
        self.count = 0

    def assigned(self, partitions: Iterable[Any]) -> None:
        """Nothing is fetched before the table's positions are known: those of Kafka do not count."""
        self.count += 1
        partitions = list(partitions)
        self.hold(partitions)
        for topic, numbers in _by_topic(partitions).items():
            inbox = self._inboxes[topic]
            inbox.assign(inbox.assignment.partitions | numbers)
        _log.info("assigned: %s", _names(partitions))
        reach("after_assignment")

    def revoked(self, partitions: Iterable[Any], *, is_lost: bool = False) -> None:
        """The route ends its transaction: it commits what it has, unless another instance is the owner already."""
        self.count += 1
        partitions = list(partitions)
        for topic, numbers in _by_topic(partitions).items():
            inbox = self._inboxes[topic]
            inbox.assign(inbox.assignment.partitions - numbers, is_lost=is_lost)
        _log.info("%s: %s", "lost" if is_lost else "revoked", _names(partitions))
        reach("after_revocation")

    def hold(self, partitions: Iterable[Any]) -> None:
        """Fetch nothing until the next seek."""
        for partition in partitions:
            self._consumer.pause(partition)
            # Without a position, the client would look for one of its own.
            self._consumer.seek(partition, 0)

    def listener(self) -> Any:
        """For `KafkaConsumer.subscribe`."""
        rebalances = self

        class Listener(kafka_module().ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                rebalances.assigned(assigned)

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                rebalances.revoked(revoked)

            def on_partitions_lost(self, lost: Iterable[Any]) -> None:
                rebalances.revoked(lost, is_lost=True)

        return Listener()


def _by_topic(partitions: Iterable[Any]) -> dict[str, frozenset[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for partition in partitions:
        found[partition.topic].add(partition.partition)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}


def _names(partitions: Iterable[Any]) -> str:
    return ", ".join(source_name(each.topic, each.partition) for each in sorted(partitions)) or "nothing"
