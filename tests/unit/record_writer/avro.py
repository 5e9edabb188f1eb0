"""Avro in Confluent's wire format, as a producer writes it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro

from hive_ingest.record_writer import BadValue


class Schemas:
    """A registry in memory: `ids` maps each id to its schema."""

    def __init__(self, *schemas: Any) -> None:
        self.texts = {number: [json.dumps(schema)] for number, schema in enumerate(schemas, 1)}
        self.asked: list[int] = []

    def avro_schema(self, schema_id: int) -> Sequence[str]:
        self.asked.append(schema_id)
        if schema_id not in self.texts:
            raise BadValue(f"schema id {schema_id} is unknown in the schema registry")
        return self.texts[schema_id]


def record(name: str = "R", /, **fields: Any) -> dict[str, Any]:
    """The schema of a record."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": type_} for n, type_ in fields.items()]}


def logical(type_: str, logical_type: str, **attributes: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": logical_type, **attributes}


def encoded(schema: Any, value: Any, schema_id: int = 1) -> bytes:
    """One message."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + file.getvalue()
