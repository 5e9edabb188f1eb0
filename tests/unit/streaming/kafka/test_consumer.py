"""The consumer's thread with a client that does what a test says: what is rare with a broker."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

from hive_ingest.errors import OffsetLoss
from hive_ingest.streaming.kafka import consumer as module
from hive_ingest.streaming.kafka.consumer import MessageConsumer
from hive_ingest.streaming.kafka.inbox import AssignmentChanged, Batch, RouteEvent, RouteInbox, StartRequest
from hive_ingest.streaming.kafka.messages import KafkaMessage
from hive_ingest.streaming.kafka.options import KafkaOptions
from hive_ingest.streaming.kafka.positions import KnownPosition, TopicPosition
from hive_ingest.streaming.kafka.takeover import Membership

TOPIC = "events"
EPOCH = 3
ZERO, ONE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
Polled = dict[TopicPartition, list[Any]]


def message(offset: int, *, key: int = 0, header: int = 0) -> KafkaMessage:
    return KafkaMessage(
        TOPIC,
        0,
        offset,
        key=b"k" * key or None,
        value=b"0123456789",
        headers=(("", b"h" * header),) if header else (),
        leader_epoch=EPOCH,
    )


class Client:
    """A consumer of kafka-python, as far as it is used. Like that one, it fails for partitions it does not have."""

    def __init__(self) -> None:
        self.config = {"max_poll_interval_ms": 300_000, "max_poll_records": 1_000}
        self.id = uuid.uuid4()
        self.end = 100
        self.start = 0
        self.owned: set[TopicPartition] = set()
        self.positions: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.polls: list[Callable[[], Polled]] = []
        #: What the group has committed.
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.offset_requests: list[list[TopicPartition]] = []
        self._cluster = SimpleNamespace(topic_id=lambda topic: self.id, partitions_for_topic=lambda topic: {0, 1})
        self._coordinator = SimpleNamespace(fetch_committed_offsets=self._fetch_committed)

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.listener = listener

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {0, 1}

    def assignment(self) -> set[TopicPartition]:
        return set(self.owned)

    def pause(self, *partitions: TopicPartition) -> None:
        assert self.owned.issuperset(partitions)

    resume = pause

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        assert partition in self.owned
        self.epochs[partition] = leader_epoch
        self.positions[partition] = offset

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return self.positions[partition]

    def position_epoch(self, partition: TopicPartition) -> int:
        return EPOCH + 1

    def highwater(self, partition: TopicPartition) -> int:
        return self.end

    def beginning_offsets(self, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.start)

    def end_offsets(self, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)

    def _fetch_committed(
        self, partitions: list[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self.offset_requests.append(partitions)
        return self.committed

    def poll(self, timeout_ms: float, max_records: int) -> Polled:
        return self.polls.pop(0)()


class Route:
    """A route without a thread, and the consumer's thread it belongs to."""

    def __init__(self, *, until_end: bool = False, **options: Any) -> None:
        self.client = Client()
        self.inbox = RouteInbox()
        self.committed: dict[int, KnownPosition] = {}
        self.route = SimpleNamespace(sink_name="events")
        self.events: queue.SimpleQueue[RouteEvent] = queue.SimpleQueue()
        self.version = 0
        routes: Any = {TOPIC: self}
        self._loop = MessageConsumer(
            self.client,
            routes,
            self.events,
            Membership(),
            KafkaOptions(**options),
            until_end=until_end,
            high_watermarks=lambda partitions: dict.fromkeys(partitions, self.client.end),
        )

    def run(self, *polls: Callable[[], Polled]) -> None:
        """Until all these polls have been made."""
        self.client.polls = list(polls)
        self._loop.run(lambda: not self.client.polls)

    def assign(self) -> Polled:
        self.client.owned = {ZERO, ONE}
        self.client.listener.on_partitions_assigned([ZERO, ONE])
        return self.request(0)()

    def request(self, offset: int) -> Callable[[], Polled]:
        """A poll without messages, during which the route has read its positions."""

        def poll() -> Polled:
            self.version += 1
            position = {number: TopicPosition(TOPIC, number, None, offset, 2, EPOCH) for number in (0, 1)}
            self.committed = {number: KnownPosition(each, 0) for number, each in position.items()}
            generation = self.inbox.assignment.generation
            self.events.put(StartRequest(TOPIC, self.version, generation, 1, self.committed, 2))
            return {}

        return poll

    def batches(self) -> list[Batch]:
        assignment, found = self.inbox.wait_for_partitions(), []
        while (item := self.inbox.get(assignment, self.version, 0)) is not None:
            found.append(item)
        return [item for item in found if isinstance(item, Batch)]


def nothing() -> Polled:
    return {}


def test_a_topic_that_was_created_again_does_not_disturb_partitions_that_were_revoked() -> None:
    route = Route()

    def revoke() -> Polled:
        route.client.owned = {ZERO}
        route.client.listener.on_partitions_revoked([ONE])
        return {}

    def create_again() -> Polled:
        route.client.id = uuid.uuid4()
        return {ZERO: [message(0)]}

    route.run(route.assign, nothing, revoke, create_again)
    assert route.inbox.assignment.partitions == {0}
    assert route.batches() == []


def test_gaps_are_passed_while_another_partition_has_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUSY_LOOK_SECONDS", 0.0)
    route = Route()

    def busy() -> Polled:
        route.client.positions |= {ZERO: 5, ONE: 1}
        return {ONE: [message(0)]}

    route.run(route.assign, nothing, busy, nothing)
    assert [(each.partition, each.next_offset) for each in route.batches()] == [(1, 1), (0, 5)]


def test_keys_and_headers_count_as_memory() -> None:
    route = Route()
    route.run(route.assign, nothing, lambda: {ZERO: [message(0)], ONE: [message(0, key=1_000, header=500)]})
    small, large = (each.nbytes for each in route.batches())
    assert large - small == 1_500


def test_the_end_of_a_topic_that_was_created_again_is_its_own() -> None:
    """With `until_end`, an ingest would wait for an offset of the former topic."""
    route = Route(until_end=True)

    def shorter() -> Polled:
        route.client.end = 10
        return route.request(10)()

    def too_late() -> Polled:
        raise AssertionError("it is at the end, and polls again")

    route.run(route.assign, shorter, too_late)


def test_positions_that_do_not_continue_are_read_again_before_that_is_an_error() -> None:
    """Somebody else may have moved them since, and retention may have followed."""
    route = Route()

    def retention() -> Polled:
        route.client.start = 50
        return route.request(0)()

    route.run(route.assign, retention, route.request(60), nothing)
    assert route.client.positions == {ZERO: 60, ONE: 60}
    with pytest.raises(OffsetLoss, match="removed by retention"):
        route.run(route.assign, route.request(0), nothing)


def test_what_the_group_has_committed_is_asked_for_with_one_request() -> None:
    route = Route()
    route.run(route.assign, nothing)
    assert route.client.offset_requests == [[ZERO, ONE]]


def truncated(at: OffsetAndMetadata | None) -> Callable[[], Polled]:
    def poll() -> Polled:
        raise LogTruncationError({ONE: at})

    return poll


@pytest.mark.parametrize(("divergent", "first"), [(OffsetAndMetadata(40, "", 3), 40), (None, 0)])
def test_a_log_that_was_truncated_below_the_position_is_an_offset_loss(
    divergent: OffsetAndMetadata | None, first: int
) -> None:
    """Even where the log has grown beyond the position again, with other messages."""
    route = Route()
    with pytest.raises(OffsetLoss, match=rf"events-1: messages {first} to 59, .*no longer in the topic"):
        route.run(route.assign, nothing, truncated(divergent), route.request(60), route.request(60), nothing)


def test_a_log_that_was_truncated_is_continued_where_the_option_says() -> None:
    route = Route(on_offset_loss="earliest")
    route.run(route.assign, nothing, truncated(OffsetAndMetadata(40, "", 3)), route.request(60), nothing)
    assert route.client.positions == {ZERO: 60, ONE: 40}


def test_messages_that_were_truncated_before_they_were_committed_are_not_written() -> None:
    route = Route()

    def read() -> Polled:
        before.append(route.inbox.assignment)
        return {ONE: [message(0)]}

    before: list[Any] = []
    route.run(route.assign, nothing, read, truncated(OffsetAndMetadata(0, "", 3)))
    with pytest.raises(AssignmentChanged) as change:
        route.inbox.check(before[0])
    assert change.value.is_lost, "it would commit what it has written"
    route.run(route.request(0), nothing)
    assert route.client.positions == {ZERO: 0, ONE: 0}, "nothing in the table is missing in the topic"


def test_positions_carry_the_leader_epoch_of_what_is_before_them() -> None:
    route = Route()
    route.run(route.assign, route.request(60), lambda: {ZERO: [message(60)]}, nothing)
    assert route.client.epochs == {ZERO: EPOCH, ONE: EPOCH}, "the client cannot ask whether the log was truncated"
    route.client.positions[ONE] = 70  # after a gap
    route._loop._looked_at = 0.0
    route.run(nothing, nothing)
    assert [(each.partition, each.leader_epoch) for each in route.batches()] == [(0, EPOCH), (1, EPOCH + 1)]


def out_of_range() -> Polled:
    raise OffsetOutOfRangeError({ONE: 60})


def test_an_offset_that_is_refused_although_the_log_has_it_is_an_offset_loss() -> None:
    """The leader does not know the epoch of the position: the broker was restored from a copy."""
    route = Route()
    route.run(route.assign, route.request(60), out_of_range, route.request(60), nothing)
    with pytest.raises(OffsetLoss, match=r"events-1: messages 0 to 59, .*no longer in the topic"):
        route.run(out_of_range, route.request(60), route.request(60), nothing)


def test_an_offset_that_is_refused_again_after_messages_came_is_looked_up_first() -> None:
    route = Route()
    route.run(route.assign, route.request(60), out_of_range, route.request(60), lambda: {ONE: [message(60)]})
    route.run(out_of_range, route.request(60), nothing)
    assert route.client.positions == {ZERO: 60, ONE: 60}
