"""The consumer's thread: it owns the Kafka client, and hands messages to the routes."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hive_ingest.errors import KafkaFailure, OffsetLoss, StreamingConnectionError
from hive_ingest.faults import reach
from hive_ingest.streaming.kafka.client_options import kafka_module
from hive_ingest.streaming.kafka.clients import missing_topic
from hive_ingest.streaming.kafka.group_consumer import (
    committed_offsets,
    describe,
    has_topic,
    has_valid_position,
    position_epoch,
    seek,
    topic_id,
)
from hive_ingest.streaming.kafka.inbox import Batch, RouteCommitted, RouteEnded, RouteEvent, Start, StartRequest
from hive_ingest.streaming.kafka.options import POLL_SECONDS, POLLS_IN_QUEUE, KafkaOptions
from hive_ingest.streaming.kafka.partition_lookup import CALL_MS, HighWatermarks, PartitionLookup
from hive_ingest.streaming.kafka.polling import Poller
from hive_ingest.streaming.kafka.positions import KnownPosition, OffsetMetadata, TopicPosition
from hive_ingest.streaming.kafka.rebalances import Rebalances
from hive_ingest.streaming.kafka.route_writer import RouteWriter
from hive_ingest.streaming.kafka.start_offsets import PartitionNow, start_position
from hive_ingest.streaming.kafka.takeover import Membership

_log = logging.getLogger(__name__)

_CLOSE_MS = 5_000
#: How often gaps are looked for while no messages come, and while some do.
_IDLE_LOOK_SECONDS = 0.5
_BUSY_LOOK_SECONDS = 5.0
#: An empty poll does not show whether a broker can be reached: after so long it is asked for something.
_SILENCE_SECONDS = 5.0


class _Started(NamedTuple):
    """What a route wants: the version of the messages, its assignment then, and the topic's id."""

    version: int
    generation: int
    topic_id: str | None


class MessageConsumer:
    """Runs on the thread that made it. Ends when it is asked to, when a route fails, or at the end of the topics."""

    def __init__(
        self,
        consumer: Any,
        routes: Mapping[str, RouteWriter],
        events: queue.SimpleQueue[RouteEvent],
        membership: Membership,
        options: KafkaOptions,
        *,
        until_end: bool,
        high_watermarks: HighWatermarks,
    ) -> None:
        self._kafka = kafka_module()
        self._consumer = consumer
        self._poller = Poller(consumer, options.queue_max_bytes // POLLS_IN_QUEUE)
        self._routes = routes
        self._events = events
        self._membership = membership
        self._options = options
        self._until_end = until_end
        sinks = {topic: route.route.sink_name for topic, route in routes.items()}
        self._lookup = PartitionLookup(consumer, sinks, high_watermarks, until_end=until_end)
        #: Since when the brokers do not have a topic any more.
        self._missing_since: dict[str, float] = {}
        self._rebalances = Rebalances(consumer, {topic: route.inbox for topic, route in routes.items()})
        #: Of each topic, what its route wants.
        self._started: dict[str, _Started] = {}
        #: The offset after what was handed on; only of partitions that were started.
        self._handed_on: dict[Any, int] = {}
        #: Where the partitions ended when they were assigned.
        self._ends: dict[Any, int] = {}
        self._paused: set[str] = set()
        self._last_commits: dict[str, RouteCommitted] = {}
        self._waiting: list[StartRequest] = []
        self._failing_since: float | None = None
        self._answered_at = time.monotonic()
        #: Of each topic, the positions that it did not continue when they were last looked at.
        self._doubted: dict[str, Mapping[int, KnownPosition | None]] = {}
        self._looked_at = 0.0
        #: When the last poll ended, by the monotonic clock.
        self.polled_at: float | None = None
        #: Of each partition that was assigned, where it ended when that was last seen.
        self.log_ends: dict[tuple[str, int], int] = {}
        #: Of each partition, the offset at which it was started last.
        self.starts: dict[tuple[str, int], int] = {}
        self.max_poll_interval_seconds: float = consumer.config["max_poll_interval_ms"] / 1000

    @property
    def rebalances(self) -> int:
        """Changes of the assignment since the start."""
        return self._rebalances.count

    @property
    def paused_topics(self) -> set[str]:
        return self._paused

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Raises what a route raises; KafkaFailure, OffsetLoss, ConfigurationError."""
        self._check_topics()
        self._consumer.subscribe(topics=sorted(self._routes), listener=self._rebalances.listener())
        while not is_stopping():
            self._handle_events()
            self._check_existence()
            if self._until_end and self._is_at_end() and self._has_valid_positions():
                return
            self._answer_routes()
            self._poll()
            self._balance_memory()

    def finish(self) -> None:
        """Once the routes have ended, tell Kafka of their last commits. Raises what a route could not commit."""
        self._handle_events()
        for event in self._last_commits.values():
            self._commit_offsets(event, at_once=True)  # what was sent without waiting may not have arrived

    # -- topics ------------------------------------------------------------------------------------

    def _check_topics(self) -> None:
        for topic in self._routes:
            try:
                if not self._consumer.partitions_for_topic(topic):
                    raise missing_topic("topic", topic)
            except self._kafka.errors.KafkaError as error:
                raise KafkaFailure(f"cannot look up topic {topic!r}: {describe(error)}") from error

    def _check_existence(self) -> None:
        """Notice a topic that was deleted: for the client it is a topic without messages."""
        now = time.monotonic()
        for topic in self._routes:
            if has_topic(self._consumer, topic):
                self._missing_since.pop(topic, None)
                continue
            if topic not in self._missing_since:
                _log.warning("topic %s does not exist any more, or this client may not describe it", topic)
            since = self._missing_since.setdefault(topic, now)
            if now - since > self._options.retry_seconds:
                raise KafkaFailure(
                    f"topic {topic!r} does not exist any more: it was deleted while it was read, or this client may "
                    "no longer describe it. What was committed is in the table. If the topic is gone on purpose, "
                    "remove its route"
                )

    # -- events ------------------------------------------------------------------------------------

    def _handle_events(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._start(request)
        while not self._events.empty():
            event = self._events.get_nowait()
            if isinstance(event, StartRequest):
                self._start(event)
            elif isinstance(event, RouteCommitted):
                self._last_commits[event.topic] = event
                self._commit_offsets(event)
            elif isinstance(event, RouteEnded) and event.error is not None:
                raise event.error

    def _start(self, request: StartRequest) -> None:
        route = self._routes[request.topic]
        if route.inbox.is_finishing:
            return
        if request.generation != route.inbox.assignment.generation or request.version != route.version:
            return  # it has asked again, or will
        partitions = {self._kafka.TopicPartition(request.topic, number): number for number in request.known}
        try:
            found = self._lookup.look_up(request, partitions)
        except (self._kafka.errors.KafkaError, StreamingConnectionError) as error:
            self._retry(error)
            self._waiting.append(request)
            return
        self._has_answered()
        positions = self._start_positions(request, found)
        if positions is None:
            self._restart({request.topic})
            return
        route.inbox.put(Start(request.version, positions))
        self._forget(request.topic)
        self._started[request.topic] = _Started(
            request.version, request.generation, topic_id(self._consumer, request.topic)
        )
        for partition, number in partitions.items():
            seek(self._consumer, partition, positions[number].offset, positions[number].leader_epoch)
            self._handed_on[partition] = self.starts[request.topic, number] = positions[number].offset
            self._lookup.forget_truncation(partition)
            end = self.log_ends[request.topic, number] = found[number].log.end
            # It is less than before if the topic was deleted and created again.
            self._ends[partition] = min(self._ends.get(partition, end), end)
        self._consumer.resume(*partitions)
        self._paused.discard(request.topic)
        reach("after_seek")

    def _start_positions(
        self, request: StartRequest, found: Mapping[int, PartitionNow]
    ) -> dict[int, TopicPosition] | None:
        """Where the partitions are read from; None if the positions are to be read again first.

        An instance that was suspended after it had read them may find what others have committed in Kafka since: only
        positions that are still the same are lost ones. Raises OffsetLoss.
        """
        try:
            positions = {
                number: start_position(found[number], known, request.known_partitions, self._options, _log.warning)
                for number, known in request.known.items()
            }
        except OffsetLoss:
            if self._doubted.get(request.topic) == request.known:
                raise
            self._doubted[request.topic] = request.known
            return None
        self._doubted.pop(request.topic, None)
        return positions

    def _commit_offsets(self, event: RouteCommitted, *, at_once: bool = False) -> None:
        """Kafka's own offsets follow, so that its tools show the lag. Nothing depends on them."""
        route = self._routes[event.topic]
        offsets = {
            self._kafka.TopicPartition(event.topic, number): self._kafka.OffsetAndMetadata(
                known.position.offset,
                OffsetMetadata(route.route.sink_name, event.table_id, known.epoch).to_text(),
                -1,
            )
            for number, known in event.known.items()
            if number in route.inbox.assignment.partitions
        }
        if not offsets:
            return
        reach("before_offset_commit")
        try:
            if at_once:
                self._consumer.commit(offsets, timeout_ms=_CLOSE_MS)
            else:
                self._consumer.commit_async(offsets, callback=_log_failed_commit)
        except self._kafka.errors.KafkaError as error:
            _log.info("the offsets of topic %s could not be committed in Kafka: %s", event.topic, describe(error))
        reach("after_offset_commit")

    # -- the group ---------------------------------------------------------------------------------

    def _answer_routes(self) -> None:
        """Find out whether the group still has this member. Only its coordinator knows: it checks each commit."""
        if not self._membership.is_wanted:
            return
        assigned = sorted(self._consumer.assignment())
        is_member = False
        if assigned:
            try:
                last = committed_offsets(self._consumer, assigned[:1], CALL_MS)
                offset = last.get(assigned[0]) or self._kafka.OffsetAndMetadata(0, "", -1)
                self._consumer.commit({assigned[0]: offset}, timeout_ms=_CLOSE_MS)
                is_member = True
            except self._kafka.errors.KafkaError as error:
                _log.info("the group does not confirm this member: %s", describe(error))
        self._membership.answer(is_member=is_member)

    # -- messages ----------------------------------------------------------------------------------

    def _poll(self) -> None:
        try:
            self._read()
        except self._kafka.errors.OffsetOutOfRangeError as error:
            self._note_refusals(error.args[0])
        except self._kafka.errors.LogTruncationError as error:
            self._note_truncation(error.divergent_offsets)
        except self._kafka.errors.KafkaError as error:
            self._retry(error)

    def _read(self) -> None:
        """Hand on what a poll returns. Raises KafkaError."""
        try:
            polled = self._poller.poll()
        finally:
            self.polled_at = time.monotonic()
        if polled:
            self._has_answered()
            reach("after_poll")
        elif time.monotonic() - self._answered_at > _SILENCE_SECONDS:
            self._ask_brokers()
        for partition, messages in polled.items():
            self._hand_on(partition, messages)
            self.log_ends[partition.topic, partition.partition] = self._consumer.highwater(partition)
        self._pass_gaps(_BUSY_LOOK_SECONDS if polled else _IDLE_LOOK_SECONDS)

    def _note_refusals(self, partitions: Iterable[Any]) -> None:
        """Messages are gone, which the restart finds out."""
        for partition in partitions:
            if partition in self._handed_on:
                self._lookup.note_refusal(partition, self._handed_on[partition])
        self._restart({partition.topic for partition in partitions})

    def _note_truncation(self, divergent: Mapping[Any, Any]) -> None:
        """Messages that were read are no longer in the topic; others may have their offsets.

        What is not committed yet is not written: the topic does not have it.
        """
        for partition, found in divergent.items():
            self._lookup.note_truncation(partition, None if found is None else found.offset)
        self._restart({partition.topic for partition in divergent}, is_lost=True)

    def _ask_brokers(self) -> None:
        """Raises a KafkaError if the brokers of the partitions cannot be reached."""
        partitions = self._consumer.assignment() or {self._kafka.TopicPartition(topic, 0) for topic in self._routes}
        self._consumer.end_offsets(list(partitions), timeout_ms=CALL_MS)
        self._has_answered()

    def _has_answered(self) -> None:
        self._answered_at, self._failing_since = time.monotonic(), None

    def _hand_on(self, partition: Any, messages: Sequence[Any]) -> None:
        topic = partition.topic
        if partition not in self._handed_on or not self._is_wanted(topic) or not self._is_same_topic(topic):
            return
        nbytes = self._poller.size_of(messages)
        after = messages[-1].offset + 1
        version, epoch = self._started[topic].version, messages[-1].leader_epoch
        self._routes[topic].inbox.put(Batch(version, partition.partition, messages, after, epoch, nbytes))
        self._handed_on[partition] = after
        self._lookup.forget_refusal(partition)

    def _is_same_topic(self, topic: str) -> bool:
        """Whether a topic is still the one that was started; if not, its positions are looked at again."""
        now, before = topic_id(self._consumer, topic), self._started[topic].topic_id
        if now is None or before is None or now == before:
            return True
        self._restart({topic})
        return False

    def _is_wanted(self, topic: str) -> bool:
        """Whether the route still has the assignment that it asked with. If not, it will ask again."""
        return self._started[topic].generation == self._routes[topic].inbox.assignment.generation

    def _restart(self, topics: Iterable[str], *, is_lost: bool = False) -> None:
        """Have the positions read again, and compared with what the topics have now.

        `is_lost`: without a commit of what was written since.
        """
        for topic in topics:
            self._rebalances.hold(each for each in self._consumer.assignment() if each.topic == topic)
            self._forget(topic)
            self._routes[topic].inbox.restart(is_lost=is_lost)

    def _forget(self, topic: str) -> None:
        for partition in [each for each in self._handed_on if each.topic == topic]:
            del self._handed_on[partition]

    def _pass_gaps(self, after_seconds: float) -> None:
        """Offsets without messages (of compaction and of transactions) are passed too. All messages are handed on."""
        now = time.monotonic()
        if now - self._looked_at < after_seconds:
            return
        self._looked_at = now
        for partition, handed_on in list(self._handed_on.items()):
            if not self._is_wanted(partition.topic):
                continue
            if not self._is_same_topic(partition.topic):
                return
            position = self._consumer.position(partition, timeout_ms=0)
            if position is not None and position > handed_on:
                version = self._started[partition.topic].version
                epoch = position_epoch(self._consumer, partition)
                self._routes[partition.topic].inbox.put(Batch(version, partition.partition, (), position, epoch, 0))
                self._handed_on[partition] = position

    def _balance_memory(self) -> None:
        """Pause the partitions of a route whose queue is full. Polling goes on, or the group would expel us."""
        most = self._options.queue_max_bytes / len(self._routes)
        for topic, route in self._routes.items():
            queued = route.inbox.queued_bytes
            if queued >= most and topic not in self._paused:
                self._consumer.pause(*self._of_topic(topic))
                self._paused.add(topic)
            elif queued < most / 2 and topic in self._paused:
                self._paused.discard(topic)
                self._consumer.resume(*self._of_topic(topic))

    def _of_topic(self, topic: str) -> list[Any]:
        """The partitions that are being read."""
        return [each for each in self._handed_on if each.topic == topic and self._is_wanted(topic)]

    # -- the end -----------------------------------------------------------------------------------

    def _is_at_end(self) -> bool:
        """Whether everything that was in the partitions when they were assigned is committed in the tables."""
        if self._rebalances.count == 0 or self._missing_since:
            return False
        assigned = [
            (route, self._kafka.TopicPartition(topic, number))
            for topic, route in self._routes.items()
            for number in route.inbox.assignment.partitions
        ]
        if not all(partition in self._handed_on and partition in self._ends for _, partition in assigned):
            return False
        if not all(self._handed_on[partition] >= self._ends[partition] for _, partition in assigned):
            return False
        for route in self._routes.values():
            route.inbox.hurry()
        return all(
            (known := route.committed.get(partition.partition)) is not None
            # A position that was lost, and is not committed yet as it was chosen then, may be beyond the end.
            and self._ends[partition] <= known.position.offset <= self._handed_on[partition]
            for route, partition in assigned
        )

    def _has_valid_positions(self) -> bool:
        """Whether no log was truncated below its position; false while that is not known."""
        partitions = [each for each in self._handed_on if self._is_wanted(each.topic)]
        try:
            return all(has_valid_position(self._consumer, each) for each in partitions)
        except self._kafka.errors.LogTruncationError as error:
            self._note_truncation(error.divergent_offsets)
            return False

    # -- failures ----------------------------------------------------------------------------------

    def _retry(self, error: Exception) -> None:
        """Raises KafkaFailure for what will not pass, or does not for `retry_seconds`."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            _log.warning("Kafka: %s", describe(error))
        is_passing = isinstance(error, StreamingConnectionError) or getattr(error, "retriable", False)
        if not is_passing or now - self._failing_since > self._options.retry_seconds:
            raise KafkaFailure(f"Kafka: {describe(error)}") from error
        time.sleep(POLL_SECONDS)


def _log_failed_commit(offsets: object, response: object) -> None:
    if isinstance(response, Exception):
        _log.info("the offsets %s could not be committed in Kafka: %s", offsets, describe(response))
