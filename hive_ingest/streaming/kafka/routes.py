"""Which topic goes to which table, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import TableName
from hive_ingest.record_writer import RecordWriter


@dataclass(frozen=True, slots=True)
class KafkaRoute:
    """A topic and the table that its messages are written to.

    Attributes:
        topic: The topic's name.
        table: The table, as `database.table`.
        record_writer: Makes rows of the messages' values. Each route needs one of its own.
        sink: The name under which the positions are kept; by default the table's name.
        static_partition_values: As for `StreamingConnection.connect`.
    """

    topic: str
    table: str
    record_writer: RecordWriter
    sink: str | None = None
    static_partition_values: Sequence[str] = ()

    @property
    def table_name(self) -> TableName:
        return TableName.of(self.table)

    @property
    def sink_name(self) -> str:
        return self.sink or self.table_name.table


def check_routes(routes: Sequence[KafkaRoute]) -> None:
    """Raises ConfigurationError for none at all, a topic that occurs twice, or a record writer that two share."""
    if not routes:
        raise ConfigurationError("routes=[] is empty: give at least one KafkaRoute(topic=…, table=…, record_writer=…)")
    topics = [route.topic for route in routes]
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise ConfigurationError(f"topic {twice[0]!r} has two routes: a topic goes to one table")
    if len({id(route.record_writer) for route in routes}) < len(routes):
        raise ConfigurationError("two routes share a record writer: give each one of its own")
