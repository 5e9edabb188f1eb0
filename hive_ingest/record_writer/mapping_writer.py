"""Records of any format, which a function converts to mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hive_ingest.errors import SerializationError, StreamingError
from hive_ingest.record_writer.bad_records import BadRecord, BadValue, OnError
from hive_ingest.record_writer.json.records import UnknownFields
from hive_ingest.record_writer.json.writer import StrictJsonWriter, mapping_to_json
from hive_ingest.record_writer.list_writer import ListBlock, RecordListWriter
from hive_ingest.record_writer.options import MissingPartitionKeys
from hive_ingest.record_writer.partition_texts import EmptyPartitionValues
from hive_ingest.record_writer.text.blocks import TextBlock
from hive_ingest.record_writer.values.coercion import Coerce
from hive_ingest.record_writer.writer import Parsed, RecordSchema


class MappingWriter(RecordListWriter):
    """Records that a function converts to mappings with a key for each column: protobuf, XML, or a custom format.

        writer = MappingWriter(lambda value: MessageToDict(Event.FromString(value)))

    The values of a mapping follow the rules of `StrictJsonWriter`, which also accepts mappings.

    Args:
        to_mapping: Converts one record to a mapping. Any exception means that the record is bad. Several worker
            threads call it at once.
        on_error: "fail" (a bad record fails the transaction) or "skip" (it is skipped and counted).
        unknown_fields: "ignore" (logged once for each field) or "fail" (the record is bad).
        missing_partition_keys: "fail" (a record without the key of a partition column is bad) or "null".
        empty_partition_values: As for `StrictJsonWriter`.
        coerce: As for `StrictJsonWriter`.
        timestamp_formats: As for `StrictJsonWriter`.
        timezone: As for `StrictJsonWriter`.
        date_formats: As for `StrictJsonWriter`.
        block_records: Records that are converted in one call.
        copy_records: As for `RecordListWriter`.

    Raises:
        ConfigurationError: An option is not valid.
    """

    def __init__(
        self,
        to_mapping: Callable[[Any], Mapping[str, Any]],
        *,
        on_error: OnError = "fail",
        unknown_fields: UnknownFields = "ignore",
        missing_partition_keys: MissingPartitionKeys = "fail",
        empty_partition_values: EmptyPartitionValues = "null",
        coerce: Coerce = "strict",
        timestamp_formats: Sequence[str] | None = None,
        timezone: str | None = None,
        date_formats: Sequence[str] | None = None,
        block_records: int = 10_000,
        copy_records: bool = True,
    ) -> None:
        super().__init__(on_error=on_error, block_records=block_records, copy_records=copy_records)
        self._to_mapping = to_mapping
        self._json = StrictJsonWriter(
            on_error=on_error,
            unknown_fields=unknown_fields,
            missing_partition_keys=missing_partition_keys,
            empty_partition_values=empty_partition_values,
            coerce=coerce,
            timestamp_formats=timestamp_formats,
            timezone=timezone,
            date_formats=date_formats,
        )

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema. Raises what `StrictJsonWriter.bind` does."""
        super().bind(schema)
        self._json.bind(schema)

    def to_batch(self, records: list[Any]) -> pa.RecordBatch:
        """The rows of records, none of which may be bad."""
        return self.parse(ListBlock(records, 0)).batch

    def parse(self, block: Any) -> Parsed:
        """Convert a block of this writer.

        Raises:
            SerializationError: For the first bad record, unless bad records are skipped.
        """
        found: list[Parsed] = []
        lines: list[bytes] = []
        first = block.first_record
        for number, record in enumerate(block.records, block.first_record):
            try:
                lines.append(self._line(record))
            except BadValue as bad:
                found += self._parsed(lines, first, block)
                found.append(self._skipped(bad, number, record))
                lines, first = [], number + 1
        found += self._parsed(lines, first, block)
        return _joined(found, self.schema.arrow)

    def _line(self, record: Any) -> bytes:
        try:
            mapping = self._to_mapping(record)
        except StreamingError:
            raise
        except Exception as error:
            raise BadValue(f"{type(error).__name__}: {error}") from error
        if not isinstance(mapping, Mapping):
            raise BadValue(f"a mapping is required, not a {type(mapping).__name__}")
        try:
            return mapping_to_json(mapping)
        except SerializationError as error:
            raise BadValue(str(error)) from error

    def _skipped(self, bad: BadValue, number: int, record: Any) -> Parsed:
        skipped = self._bad_records.skip(bad, number, None, record)
        empty = pa.RecordBatch.from_pylist([], self.schema.arrow)
        return Parsed(empty, 1, 1, matched_columns=frozenset(), is_checked=True, bad_records=(skipped,))

    def _parsed(self, lines: list[bytes], first: int, block: ListBlock) -> list[Parsed]:
        """Consecutive records whose mappings are JSON now."""
        if not lines:
            return []
        try:
            parsed = self._json.parse(TextBlock(b"\n".join([*lines, b""]), len(lines), first, 0))
        except SerializationError as error:
            if error.record is None:
                raise
            # The offset is that in our JSON, not in the caller's record.
            why = str(error).replace(f" (at byte {error.byte_offset})", "", 1)
            raise SerializationError(why, record=error.record) from error
        return [_with_records(parsed, block)]


def _with_records(parsed: Parsed, block: ListBlock) -> Parsed:
    """The same rows; bad records are what was written, not the JSON of their mappings."""
    skipped = tuple(
        BadRecord(bad.record, bad.reason, block.records[bad.record - block.first_record]) for bad in parsed.bad_records
    )
    return Parsed(
        parsed.batch,
        parsed.records,
        parsed.skipped,
        parsed.unknown_fields,
        parsed.matched_columns,
        parsed.is_checked,
        skipped,
    )


def _joined(found: list[Parsed], schema: pa.Schema) -> Parsed:
    return Parsed(
        pa.concat_batches([each.batch for each in found] or [pa.RecordBatch.from_pylist([], schema)]),
        sum(each.records for each in found),
        sum(each.skipped for each in found),
        frozenset().union(*(each.unknown_fields for each in found)),
        frozenset().union(*(each.matched_columns or () for each in found)),
        is_checked=True,
        bad_records=tuple(bad for each in found for bad in each.bad_records),
    )
