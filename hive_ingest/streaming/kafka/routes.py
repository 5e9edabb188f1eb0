"""Routes: which topic is written to which table, and how."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hive_ingest.connection import BadRecordTarget
from hive_ingest.errors import ConfigurationError, StreamingError
from hive_ingest.model import TableName
from hive_ingest.record_writer import RecordWriter
from hive_ingest.streaming.kafka.message_writer import Tombstones, check_record_writer
from hive_ingest.streaming.kafka.messages import MessageColumns

#: Record writers of ingests that run in this process, by their identity.
_writers_in_use: set[int] = set()
_writers_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class KafkaRoute:
    """A topic and the table that its messages are written to.

    Attributes:
        topic: The topic's name.
        table: The table, as `database.table`.
        record_writer: Makes rows of the messages' values. Each route needs one of its own.
        sink: The name under which the positions are kept; by default the table's name.
        columns: The columns that take the metadata of messages.
        tombstones: How messages without a value are handled. See `MessageWriter`.
        static_partition_values: As for `StreamingConnection.connect`.
        bad_records: Takes the messages that a record writer with `on_error="skip"` skips. See
            `StreamingConnection.connect`, also for the limits below.
        max_bad_records: The most messages that may be skipped since the start of `run`.
        max_bad_record_share: The largest share of a transaction's messages that may be skipped.
    """

    topic: str
    table: str
    record_writer: RecordWriter
    sink: str | None = None
    columns: MessageColumns | None = None
    tombstones: Tombstones = "fail"
    static_partition_values: Sequence[str] = ()
    bad_records: BadRecordTarget | None = None
    max_bad_records: int | None = None
    max_bad_record_share: float | None = None

    @property
    def table_name(self) -> TableName:
        return TableName.of(self.table)

    @property
    def note(self) -> str:
        """For an error of this route."""
        return f"in the route of topic {self.topic!r} to {self.table_name}"

    @property
    def sink_name(self) -> str:
        return self.sink or self.table_name.table


def check_routes(routes: Sequence[KafkaRoute]) -> None:
    """Raises ConfigurationError for none at all, a topic that occurs twice, or an unsuitable record writer."""
    if not routes:
        raise ConfigurationError("routes=[] is empty: give at least one KafkaRoute(topic=…, table=…, record_writer=…)")
    topics = [route.topic for route in routes]
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise ConfigurationError(f"topic {twice[0]!r} has two routes: a topic can be written to one table only")
    if len({id(route.record_writer) for route in routes}) < len(routes):
        raise ConfigurationError("two routes share a record writer: give each one of its own")
    for route in routes:
        check_record_writer(route.record_writer)


def check_record_writers(routes: Sequence[KafkaRoute]) -> None:
    """Have each record writer check what it depends on, before the first message, if it has a method `check`.

    Raises:
        StreamingError: What a record writer raises, such as SchemaRegistryUnavailable.
    """
    for route in routes:
        check = getattr(route.record_writer, "check", None)
        if check is None:
            continue
        try:
            check()
        except StreamingError as error:
            error.add_note(route.note)
            raise


@contextmanager
def holding_record_writers(routes: Sequence[KafkaRoute]) -> Iterator[None]:
    """Reserve the record writers while an ingest runs: two that share one would mix their messages.

    Raises:
        ConfigurationError: Another ingest of this process has one of them.
    """
    own = {id(route.record_writer) for route in routes}
    with _writers_lock:
        if own & _writers_in_use:
            raise ConfigurationError(
                "a record writer of these routes serves another KafkaIngest that runs: give each one its own routes, "
                "with record writers of their own"
            )
        _writers_in_use.update(own)
    try:
        yield
    finally:
        with _writers_lock:
            _writers_in_use.difference_update(own)
