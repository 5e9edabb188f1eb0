"""Dead letters: bad messages in a topic or a file, with the reason.

They are durable before the transaction that leaves them out commits. They are written at least once: the messages of a
transaction that was aborted are written again, and so are its dead letters. Topic, partition and offset identify the
copies.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from hive_ingest.errors import ConfigurationError, KafkaFailure
from hive_ingest.record_writer import BadRecord
from hive_ingest.streaming.bad_record_file import BadRecordFile, data_as_json
from hive_ingest.streaming.kafka.client_options import KafkaClientOptions
from hive_ingest.streaming.kafka.clients import check_topic, new_producer
from hive_ingest.streaming.kafka.messages import NO_TIMESTAMP, Message

#: The prefix of the headers that are added.
HEADER_PREFIX: Final = "hive_ingest."
#: The most dead letters that may be unacknowledged at a time.
_MOST_PENDING: Final = 10_000
_REQUEST_TIMEOUT_MS: Final = 30_000


class DeadLetterFile(BadRecordFile):
    """A handler of bad records that appends each bad message to a local file, as a line of JSON.

    A line has the keys `topic`, `partition`, `offset`, `timestamp` (milliseconds since 1970, or null), `reason`, `key`,
    `value`, and `headers` (a list of objects with `name` and `value`). Bytes that are not UTF-8 are base64 under
    `key_base64` and `value_base64`. Several routes may share an object, and several processes a file.
    """

    def as_json(self, record: BadRecord) -> dict[str, Any]:
        """The line of a message, before it is encoded."""
        message: Message = record.data
        return {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": None if message.timestamp == NO_TIMESTAMP else message.timestamp,
            "reason": record.reason,
            **data_as_json("key", message.key),
            **data_as_json("value", message.value),
            "headers": [{"name": name, **data_as_json("value", value)} for name, value in message.headers],
        }


class DeadLetterTopic:
    """A handler of bad records that sends each bad message to a topic, with its key, value, headers and timestamp.

    These headers are added, as text: `hive_ingest.topic`, `hive_ingest.partition`, `hive_ingest.offset` and
    `hive_ingest.reason`. kafka-python cannot send a header without a value, nor a message with neither key nor value:
    such a value is sent empty. All replicas in sync have acknowledged a message before its transaction commits.

    Several routes may share an object.

    Args:
        bootstrap_servers: `host:port`, one or more.
        topic: The topic, which must exist, and must not be one that is ingested.
        kafka_options: Options for kafka-python's producer, as for the consumer.
        timeout_seconds: How long a message may take, including retries, before its transaction fails.

    Raises:
        ConfigurationError: An option is not valid, the topic does not exist, or kafka-python is not installed.
        StreamingConnectionError: No broker could be reached, or none accepted the client.
        KafkaFailure: The topic cannot be looked up.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str,
        *,
        kafka_options: Mapping[str, Any] | None = None,
        timeout_seconds: float = 60.0,
    ) -> None:
        if timeout_seconds <= 0:
            raise ConfigurationError(f"timeout_seconds={timeout_seconds} is not valid: use a number above 0")
        self.topic = topic
        self._timeout_seconds = timeout_seconds
        timeout_ms = int(timeout_seconds * 1000)
        settings = {
            "acks": "all",
            "enable_idempotence": False,  # an idempotent producer is unusable after a message that is refused
            "delivery_timeout_ms": timeout_ms,
            "request_timeout_ms": min(_REQUEST_TIMEOUT_MS, timeout_ms),
            "max_block_ms": timeout_ms,
            "max_request_size": (1 << 31) - 1,  # only the broker's limit counts
            "allow_auto_create_topics": False,
        }
        options = KafkaClientOptions(kafka_options)
        with self._failing("be looked up"):
            check_topic(bootstrap_servers, options, topic, "the topic of the dead letters,")
        self._producer = new_producer(bootstrap_servers, options, settings)
        #: The futures of each thread, which waits for its own messages: a failure belongs to its transaction.
        self._sent = threading.local()

    def handle(self, records: Sequence[BadRecord]) -> None:
        """Send the messages, without waiting for them. Raises KafkaFailure, ConfigurationError."""
        for record in records:
            with self._failing("be written"):
                self._pending.append(self._send(record.data, record.reason))
            if len(self._pending) >= _MOST_PENDING:
                self.flush()

    def flush(self) -> None:
        """Wait until all messages of this thread are acknowledged. Raises KafkaFailure."""
        sent, self._sent.futures = self._pending, []
        if not sent:
            return
        with self._failing("be written"):
            self._producer.flush(self._timeout_seconds)
            for future in sent:
                future.get(timeout=self._timeout_seconds)

    def _send(self, message: Message, reason: str) -> Any:
        if message.topic == self.topic:
            raise ConfigurationError(
                f"topic {self.topic!r} is ingested and takes the dead letters too: use another topic for them"
            )
        about = {"topic": message.topic, "partition": message.partition, "offset": message.offset, "reason": reason}
        headers = [(name, value or b"") for name, value in message.headers]
        headers += [(HEADER_PREFIX + name, str(value).encode()) for name, value in about.items()]
        return self._producer.send(
            self.topic,
            key=message.key,
            value=b"" if message.key is None and message.value is None else message.value,
            headers=headers,
            timestamp_ms=None if message.timestamp < 0 else message.timestamp,
        )

    @property
    def _pending(self) -> list[Any]:
        if not hasattr(self._sent, "futures"):
            self._sent.futures = []
        futures: list[Any] = self._sent.futures
        return futures

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        from kafka.errors import KafkaError, KafkaTimeoutError

        try:
            yield
        except KafkaTimeoutError as error:
            raise KafkaFailure(
                f"the topic of the dead letters, {self.topic!r}, could not {what} within {self._timeout_seconds:g} s: "
                f"{error}. Create it if it does not exist, and check that its brokers can be reached"
            ) from error
        except KafkaError as error:
            raise KafkaFailure(
                f"the topic of the dead letters, {self.topic!r}, could not {what}: {error}. Check the permissions, and "
                "max.message.bytes of the topic, which also counts the headers"
            ) from error

    def close(self) -> None:
        """Close the producer. Idempotent."""
        self._producer.close(timeout=self._timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
