"""Records as JSON objects (Java: `StrictJsonWriter`)."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import json
import logging
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import SerializationError, UnsupportedFeature
from hive_ingest.record_writer.bad_records import BadRecords, BadValue, OnError
from hive_ingest.record_writer.json.blocks import JsonBlocks
from hive_ingest.record_writer.json.leaves import BinaryFormat, JsonForms
from hive_ingest.record_writer.json.records import JsonRecords, UnknownFields, decode
from hive_ingest.record_writer.json.shapes import may_have_other_keys
from hive_ingest.record_writer.options import MissingPartitionKeys, check_choice
from hive_ingest.record_writer.partition_texts import EmptyPartitionValues, PartitionTexts
from hive_ingest.record_writer.record_by_record import parse_halving, parse_records
from hive_ingest.record_writer.static_keys import StaticKeys
from hive_ingest.record_writer.text.blocks import (
    DEFAULT_BLOCK_BYTES,
    DEFAULT_MAX_RECORD_BYTES,
    TextBlock,
    TextRecordWriter,
)
from hive_ingest.record_writer.typed_columns import not_bound, typed_columns
from hive_ingest.record_writer.values.coercion import COERCIONS, Coerce
from hive_ingest.record_writer.values.text_forms import DateFormats, TextForms
from hive_ingest.record_writer.values.timestamp_formats import TimestampOptions
from hive_ingest.record_writer.writer import Parsed, RecordSchema
from hive_ingest.schema import HiveType

logger = logging.getLogger("hive_ingest.record_writer")

#: Names of unknown fields that a writer remembers (and logs once each).
MAX_NAMED_FIELDS = 1_000


class StrictJsonWriter(TextRecordWriter):
    """Records that are JSON objects, with a key for each column (Java: `StrictJsonWriter`).

    `write()` takes bytes, str, buffers, files opened for reading and paths, which are split at `line_delimiter`; a
    mapping, which is one record; and any other iterable of records, each of them text or a mapping.

    Keys match columns, and fields of structs, without regard to case. Missing keys are null, except those of partition
    columns. docs/types.md lists the values that each type accepts.

    Args:
        on_error: "fail" (a bad record fails the transaction) or "skip" (it is skipped and counted).
        unknown_fields: "ignore" (logged once for each field) or "fail" (the record is bad).
        missing_partition_keys: "fail" (a record without the key of a partition column is bad; null is the default
            partition) or "null" (such a record goes to the default partition, as in Hive).
        empty_partition_values: "null" (an empty text as the value of a partition column is the default partition) or
            "fail" (the record is bad).
        binary_format: "base64" or "rawstring", as the SerDe property `json.binary.format`.
        coerce: "strict", "lossless" (also other forms of the same value, such as "7" for an int) or "hive" (what
            Hive 4.0's JsonSerDe makes of a value, nulls included). docs/types.md lists the values.
        timestamp_formats: The formats of timestamps (docs/types.md lists them), in the order in which they are
            tried. Default: the table's property `timestamp.formats`, else only `yyyy-mm-dd hh:mm:ss[.fffffffff]`.
        timezone: The zone whose wall clock a timestamp with an offset, or a number since 1970, becomes, such as
            "Europe/Berlin". Default: UTC.
        date_formats: The patterns of dates, such as "dd.MM.yyyy", in the order in which they are tried. Default: only
            yyyy-MM-dd.
        line_delimiter: The ASCII character between records.
        line_delimiter_pattern: Instead, a regular expression that matches what is between records, such as
            `\\r?\\n(?=\\d{4}-)` for records that begin with a date and have several lines.
        block_bytes: Size of the text that is parsed in one call.
        max_record_bytes: Size of the longest record. A longer one fails the transaction, also with on_error="skip".

    Raises:
        ConfigurationError: An option is not valid.
    """

    # JSON allows both outside strings, as white space, and neither inside: so the meaning stays the same.
    newline_replacement = b"\r"

    def __init__(
        self,
        *,
        on_error: OnError = "fail",
        unknown_fields: UnknownFields = "ignore",
        missing_partition_keys: MissingPartitionKeys = "fail",
        empty_partition_values: EmptyPartitionValues = "null",
        binary_format: BinaryFormat = "base64",
        coerce: Coerce = "strict",
        timestamp_formats: Sequence[str] | None = None,
        timezone: str | None = None,
        date_formats: Sequence[str] | None = None,
        line_delimiter: str = "\n",
        line_delimiter_pattern: str | None = None,
        block_bytes: int = DEFAULT_BLOCK_BYTES,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        super().__init__(
            line_delimiter=line_delimiter,
            line_delimiter_pattern=line_delimiter_pattern,
            block_bytes=block_bytes,
            max_record_bytes=max_record_bytes,
        )
        check_choice("unknown_fields", unknown_fields, ("ignore", "fail"))
        check_choice("missing_partition_keys", missing_partition_keys, ("fail", "null"))
        check_choice("binary_format", binary_format, ("base64", "rawstring"))
        check_choice("empty_partition_values", empty_partition_values, ("null", "fail"))
        check_choice("coerce", coerce, COERCIONS)
        self._bad_records = BadRecords(on_error)
        self._unknown_fields = unknown_fields
        self._requires_keys = missing_partition_keys == "fail"
        self._empty_partition_values: EmptyPartitionValues = empty_partition_values
        self._binary_format = binary_format
        self._coerce = coerce
        self._timestamps = TimestampOptions(timestamp_formats, timezone)
        self._dates = None if date_formats is None else DateFormats(date_formats)
        self._named: set[str] = set()
        self._schema: RecordSchema | None = None

    @property
    def on_error(self) -> OnError:
        """What happens to a bad record."""
        return self._bad_records.on_error

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema.

        Raises:
            StreamingConnectionError: The names of two columns differ only in case.
            UnsupportedFeature: A map has keys that are not primitive.
            ConfigurationError: The table's property `timestamp.formats` is not valid.
        """
        columns = typed_columns(schema.all_columns)
        for name, type_ in columns:
            _check_map_keys(name, type_)
        if schema != self._schema:
            self._static = StaticKeys(schema)
            self._keys = PartitionTexts(schema, self._empty_partition_values)
            self._columns = [*columns, *self._static.columns]
            self._required = frozenset(c.name for c in schema.partition_columns) if self._requires_keys else frozenset()
            self._arrow_schema = schema.arrow
            parsed = pa.schema([*schema.arrow, *self._static.fields])
            timestamps = self._timestamps.for_schema(schema)
            self._forms = JsonForms(self._binary_format, timestamps, self._coerce, self._dates)
            self._blocks = JsonBlocks(self._columns, parsed, self._unknown_fields, self._forms)
            self._schema = schema

    def text_forms(self, schema: RecordSchema) -> TextForms:
        """The forms of dates and timestamps in strings, for a table. Raises ConfigurationError, as `bind` does."""
        return TextForms(self._timestamps.for_schema(schema), self._coerce, self._dates)

    def unknown_pairs(self, lines: bytes, names: Set[str]) -> Iterator[tuple[tuple[str, Any], ...]]:
        """Of each record, the keys that are none of the names, with their values as `decode` returns them.

        Malformed records have none.

        Args:
            lines: The records.
            names: Names in lower case.
        """
        if not may_have_other_keys(lines, names):
            return
        for record in lines.split(b"\n"):
            try:
                value = decode(record)
            except BadValue:
                continue
            if isinstance(value, tuple) and (pairs := tuple(pair for pair in value if pair[0].lower() not in names)):
                yield pairs

    def parse(self, block: Any) -> Parsed:
        """Parse a block of this writer.

        Raises:
            SerializationError: For the first bad record, unless bad records are skipped.
        """
        if self._schema is None:
            raise not_bound(self)
        if not self._blocks.is_possible:
            return self._parse_records(block)
        return parse_halving(block, self._parse_at_once, self._parse_records)

    def _parse_at_once(self, block: TextBlock) -> Parsed | None:
        found = self._blocks.parse(block)
        if found is None:
            return None
        batch = self._checked(found.batch)
        if batch is None:
            return None
        self._name_unknown(found.unknown_fields)
        return Parsed(
            batch,
            block.records,
            unknown_fields=found.unknown_fields,
            matched_columns=found.matched_columns - self._static.names,
            is_checked=True,
        )

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows in the table's schema; None if a record may be bad because of its partition keys."""
        width = len(self._arrow_schema)
        try:
            self._static.check(batch.columns[width:])
            self._keys.check(batch)
        except BadValue:
            return None
        # A null may be given or missing: only the record itself shows which.
        if any(batch.column(name).null_count for name in self._required) or _may_match_nothing(batch):
            return None
        return batch if width == batch.num_columns else batch.select(list(range(width)))

    def _parse_records(self, block: TextBlock) -> Parsed:
        records = JsonRecords(
            self._columns,
            unknown_fields=self._unknown_fields,
            forms=self._forms,
            required=self._required,
        )

        def row(record: bytes) -> tuple[Any, ...]:
            return self._keys.checked_row(self._static.checked_row(records.row(record)))

        batch, skipped = parse_records(block, row, self._arrow_schema, self._bad_records)
        unknown = frozenset(records.seen.unknown)
        self._name_unknown(unknown)
        return Parsed(
            batch,
            block.records,
            len(skipped),
            unknown,
            frozenset(records.seen.columns) - self._static.names,
            is_checked=True,
            bad_records=skipped,
        )

    def _name_unknown(self, fields: frozenset[str]) -> None:
        if new := sorted(fields - self._named):
            remaining = max(MAX_NAMED_FIELDS - len(self._named), 0)
            self._named.update(new[:remaining])
            for name in new[:remaining]:
                logger.warning("field %s matches no column and is ignored", ascii(name))

    def _item_bytes(self, item: object) -> bytes | None:
        return mapping_to_json(item) if isinstance(item, Mapping) else None


def mapping_to_json(mapping: Mapping[str, Any]) -> bytes:
    """A mapping as a JSON object on one line. Raises SerializationError."""
    try:
        text = json.dumps(mapping if isinstance(mapping, dict) else dict(mapping), allow_nan=False, default=_json_form)
    except (TypeError, ValueError, RecursionError) as error:
        raise SerializationError(
            f"a mapping cannot be converted to JSON: {error}. Use str, int, float, bool, None, "
            "Decimal, date, datetime without a zone, bytes (as base64), lists and mappings"
        ) from error
    if '"null":' in text and _has_null_key(mapping):
        raise SerializationError('a mapping has the key None, which JSON would have as the text "null"')
    return text.encode()


def _has_null_key(value: Any) -> bool:
    if isinstance(value, Mapping):
        return None in value or any(map(_has_null_key, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_null_key, value))


def _json_form(value: Any) -> Any:
    """The JSON form of Python values that JSON has no type for."""
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            raise TypeError(f"{value!r} has a time zone, a Hive timestamp has none: convert it first")
        return value.isoformat(" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _may_match_nothing(batch: pa.RecordBatch) -> bool:
    """Whether a row has nulls only: its record may have no key of a column."""
    if not batch.num_columns or any(column.null_count == 0 for column in batch.columns):
        return False
    is_null = functools.reduce(pc.and_, (column.is_null() for column in batch.columns))
    return bool(pc.any(is_null).as_py())


def _check_map_keys(name: str, type_: HiveType) -> None:
    if type_.kind == "map" and type_.children[0][1].children:
        raise UnsupportedFeature(f"column {name!r}: a JSON object cannot have keys of type {type_.children[0][1]}")
    for _, child in type_.children:
        _check_map_keys(name, child)
