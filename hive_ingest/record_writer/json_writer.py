"""Records as JSON objects (Java: `StrictJsonWriter`)."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import logging
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from hive_ingest.errors import ConfigurationError, SerializationError, UnsupportedFeature
from hive_ingest.record_writer.bad_records import BadRecords, OnError
from hive_ingest.record_writer.json_blocks import JsonBlocks
from hive_ingest.record_writer.json_records import BinaryFormat, JsonRecords, UnknownFields
from hive_ingest.record_writer.record_by_record import parse_halving, parse_records
from hive_ingest.record_writer.text_blocks import (
    DEFAULT_BLOCK_BYTES,
    DEFAULT_MAX_RECORD_BYTES,
    TextBlock,
    TextRecordWriter,
)
from hive_ingest.record_writer.typed_columns import not_bound, typed_columns
from hive_ingest.record_writer.writer import Parsed, RecordSchema
from hive_ingest.schema import HiveType

logger = logging.getLogger("hive_ingest.record_writer")

#: Names of unknown fields that a writer remembers (and logs once each).
MAX_NAMED_FIELDS = 1_000


class StrictJsonWriter(TextRecordWriter):
    """One JSON object a record, one key a column (Java: `StrictJsonWriter`).

    `write()` takes bytes, str, buffers, files opened for reading and paths, split at `line_delimiter`; any
    other iterable, each item one record: text, or a mapping; and a single mapping as one record.

    Keys match columns, and fields of structs, without regard to case. Missing keys are null. What each type
    accepts stands in docs/records.md.

    - `on_error`: "fail" (a bad record fails the transaction) or "skip" (it is left out and counted).
    - `unknown_fields`: "ignore" (named once in the log) or "fail" (a record that has one is bad).
    - `binary_format`: "base64" or "rawstring", as the SerDe property `json.binary.format`.
    - `block_bytes`: text that is parsed in one call, in bytes.
    - `max_record_bytes`: the longest record that is accepted; a longer one fails the transaction, whatever `on_error`
      says, and at most about that much of a record that never ends is read.
    """

    # White space to JSON outside a string, and as forbidden inside: so nothing changes.
    newline_stand_in = b"\r"

    def __init__(
        self,
        *,
        on_error: OnError = "fail",
        unknown_fields: UnknownFields = "ignore",
        binary_format: BinaryFormat = "base64",
        line_delimiter: str = "\n",
        block_bytes: int = DEFAULT_BLOCK_BYTES,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        super().__init__(line_delimiter=line_delimiter, block_bytes=block_bytes, max_record_bytes=max_record_bytes)
        _check_option("unknown_fields", unknown_fields, ("ignore", "fail"))
        _check_option("binary_format", binary_format, ("base64", "rawstring"))
        self._bad_records = BadRecords(on_error)
        self._unknown_fields = unknown_fields
        self._binary_format = binary_format
        self._named: set[str] = set()
        self._schema: RecordSchema | None = None

    def bind(self, schema: RecordSchema) -> None:
        """Raises StreamingConnectionError for two columns that differ only by case, or a map without simple keys."""
        columns = typed_columns(schema.all_columns)
        for name, type_ in columns:
            _check_map_keys(name, type_)
        if schema != self._schema:
            self._columns = columns
            self._arrow_schema = schema.arrow
            self._blocks = JsonBlocks(columns, self._arrow_schema, self._unknown_fields, self._binary_format)
            self._schema = schema

    def parse(self, block: Any) -> Parsed:
        """Parse a block of this writer. Raises SerializationError, which names its first bad record."""
        if self._schema is None:
            raise not_bound(self)
        if not self._blocks.is_possible:
            return self._parse_records(block)
        return parse_halving(block, self._parse_at_once, self._parse_records)

    def _parse_at_once(self, block: TextBlock) -> Parsed | None:
        found = self._blocks.parse(block)
        if found is None:
            return None
        self._name_unknown(found.unknown_fields)
        return Parsed(
            found.batch,
            block.records,
            unknown_fields=found.unknown_fields,
            matched_columns=found.matched_columns,
            is_checked=True,
        )

    def _parse_records(self, block: TextBlock) -> Parsed:
        records = JsonRecords(self._columns, unknown_fields=self._unknown_fields, binary_format=self._binary_format)
        batch = parse_records(block, records.row, self._arrow_schema, self._bad_records)
        unknown = frozenset(records.seen.unknown)
        self._name_unknown(unknown)
        skipped = block.records - batch.num_rows
        return Parsed(batch, block.records, skipped, unknown, frozenset(records.seen.columns), is_checked=True)

    def _name_unknown(self, fields: frozenset[str]) -> None:
        if new := sorted(fields - self._named):
            room = max(MAX_NAMED_FIELDS - len(self._named), 0)
            self._named.update(new[:room])
            for name in new[:room]:
                logger.warning("field %s matches no column and is ignored", ascii(name))

    def _item_bytes(self, item: object) -> bytes | None:
        if not isinstance(item, Mapping):
            return None
        try:
            text = json.dumps(item if isinstance(item, dict) else dict(item), allow_nan=False, default=_json_form)
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(
                f"a record given as a mapping cannot be written as JSON: {error}. Use str, int, float, bool, None, "
                "Decimal, date, datetime without a zone, bytes (as base64), lists and mappings"
            ) from error
        return text.encode()


def _json_form(value: Any) -> Any:
    """The JSON form of Python's values for types that JSON has none for."""
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            raise TypeError(f"{value!r} has a zone, a Hive timestamp has none: convert it first")
        return value.isoformat(" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def _check_option(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{name}={value!r} is unknown: use {' or '.join(map(repr, allowed))}")


def _check_map_keys(name: str, type_: HiveType) -> None:
    if type_.kind == "map" and type_.children[0][1].children:
        raise UnsupportedFeature(f"column {name!r}: a JSON object has no keys of type {type_.children[0][1]}")
    for _, child in type_.children:
        _check_map_keys(name, child)
