"""Kafka messages, and the columns of a table that take their metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

from hive_ingest.errors import ConfigurationError

#: `timestamp` of a message without one.
NO_TIMESTAMP = -1
#: `leader_epoch` of a message whose leader epoch is not known.
UNKNOWN_EPOCH = -1


class Message(Protocol):
    """A message: a `KafkaMessage`, or a `kafka.consumer.fetcher.ConsumerRecord`."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970 (UTC), or -1 if it has none."""
        ...

    @property
    def timestamp_type(self) -> int:
        """0: set by the producer (CreateTime); 1: by the broker (LogAppendTime)."""
        ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None:
        """None for a tombstone, which deletes its key in a compacted topic."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class KafkaMessage(NamedTuple):
    """A message as a value, for tests and for programs that have no consumer of kafka-python."""

    topic: str
    partition: int
    offset: int
    timestamp: int = NO_TIMESTAMP
    timestamp_type: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    leader_epoch: int = UNKNOWN_EPOCH


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Names of the columns that take the metadata of messages. A part without a column is not stored.

    The column's type decides the form. Partition columns are possible too.

    A message whose metadata does not fit its column (a key that is not UTF-8, a timestamp after the year 2262) is bad.

    Args:
        topic: A string column.
        partition: An int or bigint column.
        offset: A bigint column.
        timestamp: A timestamp column (wall clock in UTC), date (the day in UTC) or bigint (milliseconds since 1970).
        timestamp_type: An int column (0: set by the producer, 1: by the broker), or a string one ("CreateTime",
            "LogAppendTime").
        key: A binary column, or a string one, for keys that are UTF-8.
        headers: `array<struct<key:string,value:binary>>`, which keeps all of them in order, or `map<string,binary>`,
            which keeps the last one of a name; the values may be string, if they are UTF-8.
    """

    topic: str | None = None
    partition: str | None = None
    offset: str | None = None
    timestamp: str | None = None
    timestamp_type: str | None = None
    key: str | None = None
    headers: str | None = None

    def __post_init__(self) -> None:
        named = list(self.by_column())
        if len(named) < len([name for name in self._names() if name]):
            raise ConfigurationError(f"{self}: one column is named twice; give each part a column of its own")

    def _names(self) -> list[str | None]:
        return [getattr(self, field.name) for field in fields(self)]

    def by_column(self) -> dict[str, str]:
        """The part of a message that each column takes; columns in lower case."""
        parts = [field.name for field in fields(self)]
        return {name.lower(): part for part, name in zip(parts, self._names(), strict=True) if name}
