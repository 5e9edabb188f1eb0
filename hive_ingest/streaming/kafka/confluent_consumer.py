"""confluent-kafka's consumer with the interface of kafka-python's, as far as the ingest uses it.

librdkafka fetches and decodes on threads of its own, without the interpreter. The values and the errors are those of
kafka-python, so nothing else depends on which client is used, and the positions of one can be continued by the other.

What differs underneath:

- librdkafka calls the rebalance listener inside `poll`, on the thread of the caller.
- A seek is possible only once a partition is being fetched, so it is carried out when the partition is resumed. Until
  then, what was fetched of it is dropped.
- The client reports no position after a gap, but the end of a partition, which is one (`enable.partition.eof`).
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    for_code,
)

from hive_ingest.errors import ConfigurationError, StreamingConnectionError
from hive_ingest.streaming.kafka.client_options import KafkaClientOptions
from hive_ingest.streaming.kafka.confluent_options import confluent_config, confluent_module
from hive_ingest.streaming.kafka.confluent_topics import TopicDescriptions
from hive_ingest.streaming.kafka.messages import UNKNOWN_EPOCH, KafkaMessage

_log = logging.getLogger(__name__)

_CALL_SECONDS = 10.0
#: How long a poll waits for more messages than have come.
_GATHER_SECONDS = 0.005
#: `offsets_for_times` passes these on as they are: the first offset, and the one after the last message.
_EARLIEST, _LATEST = -2, -1


class _Position(NamedTuple):
    """The offset that is read next, and the leader epoch of what is before it."""

    offset: int
    leader_epoch: int


class ConfluentConsumer:
    """One thread owns it.

    Args:
        bootstrap_servers: `host:port`, one or more.
        options: The user's options, by kafka-python's names.
        settings: Those of the ingest, which take precedence.
        queue_bytes: The most that librdkafka fetches ahead.

    Raises:
        ConfigurationError: An option is not valid, or confluent-kafka is not installed.
        StreamingConnectionError: No broker could be reached, or none accepted the client.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        options: KafkaClientOptions,
        settings: Mapping[str, Any],
        queue_bytes: int,
    ) -> None:
        self._module = confluent_module()
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        given = {**settings, **options}
        #: What kafka-python's consumer has there and the ingest reads.
        self.config = {name: int(given.get(name, default)) for name, default in _DEFAULTS.items()}
        #: Why connections failed last, and whether it was for the credentials or the certificate.
        self._failures: list[str] = []
        self._is_refused = False
        self._commit_callbacks: list[Callable[[object, object], None]] = []
        self._listener: Any = None
        #: Of each partition, where it is to be read from once it is resumed.
        self._seeks: dict[TopicPartition, _Position] = {}
        self._positions: dict[TopicPartition, _Position] = {}
        #: An error of a partition whose poll had messages of others: the next poll raises it.
        self._error: KafkaError | None = None
        config = confluent_config(servers, options, settings)
        own = {
            "auto.offset.reset": "error",
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.partition.eof": True,
            "enable.auto.offset.store": False,
            "queued.max.messages.kbytes": max(1, queue_bytes >> 10),
            # A full queue is looked at again after a second otherwise.
            "fetch.queue.backoff.ms": 10,
            "error_cb": self._note_failure,
            "on_commit": self._committed_later,
        }
        try:
            self._consumer = self._module.Consumer(config | own)
        except self._module.KafkaException as error:
            raise ConfigurationError(f"kafka_options: {error.args[0].str()}") from error
        # The parts of kafka-python's consumer that have calls which it does not pass on.
        self._cluster = TopicDescriptions(config)
        self._coordinator = self
        self._connect(servers)

    def _connect(self, servers: str) -> None:
        deadline = time.monotonic() + self.config["bootstrap_timeout_ms"] / 1000
        while True:
            try:
                # Calls back with tokens and failures, which happen on its own threads.
                self._consumer.poll(0)
                self._consumer.list_topics(timeout=min(1.0, self.config["bootstrap_timeout_ms"] / 1000))
                return
            except self._module.KafkaException as error:
                if time.monotonic() < deadline and not self._is_refused:
                    continue
                self._consumer.close()
                found = [*dict.fromkeys(self._failures)][:3] or [error.args[0].str()]
                raise StreamingConnectionError(
                    f"no connection to Kafka at {servers}: {'; '.join(found)}. Check bootstrap_servers, "
                    "security_protocol and the credentials"
                ) from error

    def _note_failure(self, error: Any) -> None:
        if error.code() in (self._module.KafkaError._AUTHENTICATION, self._module.KafkaError._SSL):
            self._is_refused = True
        if error.code() != self._module.KafkaError._ALL_BROKERS_DOWN:
            del self._failures[:-10]
            self._failures.append(error.str())
        _log.info("confluent-kafka: %s", error.str())

    # -- the group ---------------------------------------------------------------------------------

    def subscribe(self, topics: Sequence[str], listener: Any) -> None:
        """Join the group. `listener` is kafka-python's `ConsumerRebalanceListener`."""
        self._listener = listener
        with self._errors():
            self._consumer.subscribe(
                list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        found = [_named(each) for each in partitions]
        # With an offset, or the client would continue where the group has committed; at the end, nothing is fetched.
        consumer.incremental_assign([self._at(each, self._module.OFFSET_END) for each in found])
        self._seeks.update(dict.fromkeys(found, _Position(0, UNKNOWN_EPOCH)))
        if self._listener is not None and found:
            self._listener.on_partitions_assigned(found)

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._forget(partitions)
        if self._listener is not None and partitions:
            self._listener.on_partitions_revoked([_named(each) for each in partitions])

    def _lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._forget(partitions)
        if self._listener is not None and partitions:
            self._listener.on_partitions_lost([_named(each) for each in partitions])

    def _forget(self, partitions: Iterable[Any]) -> None:
        for each in map(_named, partitions):
            self._seeks.pop(each, None)
            self._positions.pop(each, None)

    def assignment(self) -> set[TopicPartition]:
        with self._errors():
            return {_named(each) for each in self._consumer.assignment()}

    # -- messages ----------------------------------------------------------------------------------

    def poll(self, timeout_ms: float, max_records: int) -> dict[TopicPartition, list[KafkaMessage]]:
        """The next messages of each partition. Raises KafkaError."""
        self._raise_error()
        seconds = timeout_ms / 1000
        with self._errors():
            # It waits until there are `max_records`, even if some have come.
            messages = self._consumer.consume(max_records, min(seconds, _GATHER_SECONDS))
            if not messages:
                messages = self._consumer.consume(1, max(0.0, seconds - _GATHER_SECONDS))
        found: defaultdict[TopicPartition, list[KafkaMessage]] = defaultdict(list)
        for message in messages:
            if (problem := message.error()) is not None:
                self._handle(problem, message)
            else:
                record = _record(message)
                found[TopicPartition(record.topic, record.partition)].append(record)
        if found:
            self._failures.clear()
        for held in found.keys() & self._seeks.keys():
            del found[held]
        for partition, records in found.items():
            self._positions[partition] = _Position(records[-1].offset + 1, records[-1].leader_epoch)
        if not found:
            self._raise_error()
        return dict(found)

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _handle(self, problem: Any, message: Any) -> None:
        """An event that comes instead of a message."""
        code, codes = problem.code(), self._module.KafkaError
        partition = TopicPartition(message.topic(), message.partition())
        if code == codes._PARTITION_EOF:
            before = self._positions.get(partition)
            if partition not in self._seeks and (before is None or message.offset() > before.offset):
                # It is not told which epoch the end of a transaction has, nor what was removed.
                self._positions[partition] = _Position(message.offset(), UNKNOWN_EPOCH)
        elif code in (codes.OFFSET_OUT_OF_RANGE, codes._AUTO_OFFSET_RESET, codes._LOG_TRUNCATION):
            if partition not in self._seeks:
                self._error = _lost_offset(partition, problem)
        elif code == codes._MAX_POLL_EXCEEDED:
            _log.warning("confluent-kafka: %s", problem.str())
        else:
            self._error = self._translated(problem)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = UNKNOWN_EPOCH) -> None:
        """With the epoch, the leader is asked whether its log still has what came before."""
        self._seeks[partition] = _Position(offset, leader_epoch)
        self._positions.pop(partition, None)

    def pause(self, *partitions: TopicPartition) -> None:
        with self._errors():
            self._consumer.pause([self._at(each) for each in partitions])

    def resume(self, *partitions: TopicPartition) -> None:
        assigned = self.assignment()
        for each in partitions:
            if each in self._seeks and each in assigned:
                self._seek_now(each, self._seeks[each])
                del self._seeks[each]
        with self._errors():
            self._consumer.resume([self._at(each) for each in partitions if each in assigned])

    def _seek_now(self, partition: TopicPartition, position: _Position) -> None:
        known = {} if position.leader_epoch == UNKNOWN_EPOCH else {"leader_epoch": position.leader_epoch}
        target = self._module.TopicPartition(*partition, position.offset, **known)
        try:
            self._consumer.seek(target)
        except self._module.KafkaException as error:
            if error.args[0].code() != self._module.KafkaError._STATE:
                raise self._translated(error.args[0]) from error
            # It is not fetched any more, since its offset was out of range.
            with self._errors():
                self._consumer.incremental_unassign([self._at(partition)])
                self._consumer.incremental_assign([target])

    def position(self, partition: TopicPartition, timeout_ms: float = 0) -> int | None:
        """The offset that is read next; None until the leader has answered after a seek."""
        found = self._positions.get(partition)
        return None if found is None else found.offset

    def position_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch of the last message before the position; -1 if it is not known."""
        found = self._positions.get(partition)
        return UNKNOWN_EPOCH if found is None else found.leader_epoch

    def highwater(self, partition: TopicPartition) -> int | None:
        with self._errors():
            _, high = self._consumer.get_watermark_offsets(self._at(partition), cached=True)
        return high if high >= 0 else None

    # -- offsets -----------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Sequence[TopicPartition], timeout_ms: float) -> dict[TopicPartition, int]:
        return self._offsets(partitions, _EARLIEST, timeout_ms)

    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_ms: float) -> dict[TopicPartition, int]:
        return self._offsets(partitions, _LATEST, timeout_ms)

    def _offsets(
        self, partitions: Sequence[TopicPartition], which: int, timeout_ms: float
    ) -> dict[TopicPartition, int]:
        with self._errors():
            found = self._consumer.offsets_for_times([self._at(each, which) for each in partitions], timeout_ms / 1000)
        for each in found:
            if each.error is not None:
                raise self._translated(each.error)
        return {_named(each): each.offset for each in found}

    def fetch_committed_offsets(
        self, partitions: Sequence[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, of partitions that have an offset."""
        with self._errors():
            found = self._consumer.committed([self._at(each) for each in partitions], timeout_ms / 1000)
        for each in found:
            if each.error is not None:
                raise self._translated(each.error)
        return {
            _named(each): OffsetAndMetadata(each.offset, each.metadata or "", -1) for each in found if each.offset >= 0
        }

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float = 0) -> None:
        """Returns once the coordinator has answered, at the latest after librdkafka's own timeouts."""
        with self._errors():
            for each in self._consumer.commit(offsets=self._to_commit(offsets), asynchronous=False):
                if each.error is not None:
                    raise self._translated(each.error)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[[object, object], None]
    ) -> None:
        with self._errors():
            self._consumer.commit(offsets=self._to_commit(offsets), asynchronous=True)
        self._commit_callbacks = [callback]

    def _committed_later(self, error: Any, partitions: Sequence[Any]) -> None:
        for callback in self._commit_callbacks:
            response = None if error is None else self._translated(error)
            callback({_named(each): each.offset for each in partitions}, response)

    def _to_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Any]:
        new = self._module.TopicPartition
        return [new(each.topic, each.partition, at.offset, at.metadata) for each, at in offsets.items()]

    # -- topics ------------------------------------------------------------------------------------

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic, of which the brokers are asked; None if it does not exist. Raises KafkaError."""
        with self._errors():
            return self._cluster.partitions(topic)

    def close(self, autocommit: bool = False) -> None:
        """Leave the group; the listener is called for what is revoked. Idempotent."""
        self._consumer.close()
        self._cluster.close()

    # -- errors ------------------------------------------------------------------------------------

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._module.KafkaException as error:
            raise self._translated(error.args[0]) from error

    def _translated(self, problem: Any) -> KafkaError:
        """The error of kafka-python."""
        codes, code = self._module.KafkaError, problem.code()
        if code > 0:
            kind: Any = for_code(code)
        elif code in (codes._AUTHENTICATION, codes._SSL):
            kind = SaslAuthenticationFailedError
        elif code in (codes._TIMED_OUT, codes._TIMED_OUT_QUEUE, codes._WAIT_COORD, codes._WAIT_CACHE):
            kind = KafkaTimeoutError
        elif problem.fatal():
            kind = KafkaError
        else:
            kind = KafkaConnectionError
        # What librdkafka says of a call does not include why no broker was there to answer it.
        why = f" ({self._failures[-1]})" if kind is KafkaConnectionError and self._failures else ""
        error: KafkaError = kind(problem.str() + why)
        return error

    def _at(self, partition: TopicPartition, offset: int | None = None) -> Any:
        new = self._module.TopicPartition
        return new(*partition) if offset is None else new(*partition, offset)


#: Options that are read from `config`, with kafka-python's defaults.
_DEFAULTS = {"max_poll_interval_ms": 300_000, "max_poll_records": 500, "bootstrap_timeout_ms": 30_000}


def _named(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def _lost_offset(partition: TopicPartition, problem: Any) -> KafkaError:
    """The error for an offset that the leader does not have. Only the text says why, and where a log was truncated."""
    text = problem.str()
    error: KafkaError = OffsetOutOfRangeError({partition: None})
    if "log truncation" in text:
        end = re.search(r"broker end offset is (\d+)", text)
        error = LogTruncationError({partition: end and OffsetAndMetadata(int(end[1]), "", UNKNOWN_EPOCH)})
    return error


def _record(message: Any) -> KafkaMessage:
    kind, timestamp = message.timestamp()
    return KafkaMessage(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp,
        max(kind - 1, 0),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        UNKNOWN_EPOCH if (epoch := message.leader_epoch()) is None else epoch,
    )
