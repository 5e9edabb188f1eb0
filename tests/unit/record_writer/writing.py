"""What the tests of the writers share: bind, write, parse, and look at the rows."""

from __future__ import annotations

from typing import Any

from hive_ingest.model import Column
from hive_ingest.record_writer import Parsed, RecordSchema


def schema_of(partition: dict[str, str] | None = None, **types: str) -> RecordSchema:
    keys = tuple(Column(name, type_) for name, type_ in (partition or {}).items())
    return RecordSchema(tuple(Column(name, type_) for name, type_ in types.items()), keys)


def blocks_of(writer: Any, *arguments: Any) -> list[Any]:
    """All blocks of some calls of `write()`, drained."""
    found = [block for argument in arguments for block in writer.write(argument)]
    return [*found, *writer.drain()]


def parse_all(writer: Any, schema: RecordSchema, *arguments: Any) -> list[Parsed]:
    writer.bind(schema)
    writer.discard()
    return [writer.parse(block) for block in blocks_of(writer, *arguments)]


def rows_of(writer: Any, schema: RecordSchema, *arguments: Any) -> list[dict[str, Any]]:
    return [row for parsed in parse_all(writer, schema, *arguments) for row in parsed.batch.to_pylist()]
