"""A record writer for messages: each message's value is one record of the user's record writer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hive_ingest.record_writer import Block, Parsed, RecordSchema, RecordWriter


class MessageValues:
    """Takes lists of messages. A message without a value is an empty record."""

    def __init__(self, record_writer: RecordWriter) -> None:
        self._record_writer = record_writer

    def bind(self, schema: RecordSchema) -> None:
        self._record_writer.bind(schema)

    def write(self, records: object) -> Iterable[Block]:
        messages: Sequence[Any] = records  # type: ignore[assignment]
        return self._record_writer.write([message.value or b"" for message in messages])

    def drain(self) -> Iterable[Block]:
        return self._record_writer.drain()

    def discard(self) -> None:
        self._record_writer.discard()

    def parse(self, block: Block) -> Parsed:
        return self._record_writer.parse(block)
