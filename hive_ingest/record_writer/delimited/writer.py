"""Records as lines of delimited fields (Java: `StrictDelimitedInputWriter`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from hive_ingest.errors import ConfigurationError, StreamingConnectionError, UnsupportedFeature
from hive_ingest.record_writer.bad_records import BadRecords, OnError
from hive_ingest.record_writer.delimited.blocks import DelimitedBlocks
from hive_ingest.record_writer.delimited.records import (
    DEFAULT_SEPARATORS,
    DelimitedFormat,
    DelimitedRecords,
    separators_needed,
)
from hive_ingest.record_writer.options import check_choice
from hive_ingest.record_writer.partition_texts import EmptyPartitionValues, PartitionTexts
from hive_ingest.record_writer.record_by_record import parse_halving, parse_records
from hive_ingest.record_writer.text.blocks import (
    DEFAULT_BLOCK_BYTES,
    DEFAULT_MAX_RECORD_BYTES,
    TextBlock,
    TextRecordWriter,
)
from hive_ingest.record_writer.typed_columns import TypedColumn, not_bound, typed_columns
from hive_ingest.record_writer.values.coercion import Coerce
from hive_ingest.record_writer.values.text_forms import DecimalPoint, text_forms
from hive_ingest.record_writer.values.timestamp_formats import TimestampOptions
from hive_ingest.record_writer.writer import Parsed, RecordSchema
from hive_ingest.schema import HiveType

MissingFields = Literal["fail", "null"]


class StrictDelimitedInputWriter(TextRecordWriter):
    """Records that are lines of Hive's text format, without quotes (Java: `StrictDelimitedInputWriter`).

    `write()` takes bytes, str, buffers, files opened for reading and paths, which are split at `line_delimiter`; and
    any other iterable of records, which may contain newlines. docs/types.md lists the values that each type accepts.

    Args:
        field_delimiter: The ASCII character between fields.
        collection_delimiter: The ASCII character between the elements of an array, the entries of a map and the fields
            of a struct. Values nested in these have `map_key_delimiter`, then the characters 4 to 8, as in Hive.
        map_key_delimiter: The ASCII character between the key of a map and its value.
        line_delimiter: The ASCII character between records.
        line_delimiter_pattern: Instead, a regular expression that matches what is between records, such as
            `\\r?\\n(?=\\d{4}-)` for records that begin with a date and have several lines.
        null_format: The text of a field that is null (`serialization.null.format`).
        escape: The character before a delimiter that is data (`escape.delim`), or None.
        columns: The columns in the order of the fields. Data columns that are not named are null. Default: the
            table's columns, then its partition columns.
        missing_fields: "fail" (a line must have exactly these fields) or "null" (as in Hive: fields missing at the
            end are null, additional ones are ignored).
        empty_partition_values: "null" (an empty text as the value of a partition column is the default partition) or
            "fail" (the record is bad).
        coerce: "strict", "lossless" (also other forms of the same value, such as " 7" for an int) or "hive" (what
            Hive 4.0's LazySimpleSerDe makes of a value, nulls included). docs/types.md lists the values.
        timestamp_formats: The formats of timestamps (docs/types.md lists them), in the order in which they are
            tried. Default: the table's property `timestamp.formats`, else only `yyyy-mm-dd hh:mm:ss[.fffffffff]`.
        timezone: The zone whose wall clock a timestamp with an offset, or a number since 1970, becomes, such as
            "Europe/Berlin". Default: UTC.
        date_formats: The patterns of dates, such as "dd.MM.yyyy", in the order in which they are tried. Default: only
            yyyy-MM-dd.
        decimal_point: "." or ",": the character before the fraction of a number. Separators of thousands are not
            accepted.
        on_error: "fail" (a bad record fails the transaction) or "skip" (it is skipped and counted).
        block_bytes: Size of the text that is parsed in one call.
        max_record_bytes: Size of the longest record. A longer one fails the transaction, also with on_error="skip".

    Raises:
        ConfigurationError: An option is not valid.
    """

    def __init__(
        self,
        *,
        field_delimiter: str = ",",
        collection_delimiter: str = "\x02",
        map_key_delimiter: str = "\x03",
        line_delimiter: str = "\n",
        line_delimiter_pattern: str | None = None,
        null_format: str = "\\N",
        escape: str | None = None,
        columns: Sequence[str] | None = None,
        missing_fields: MissingFields = "fail",
        empty_partition_values: EmptyPartitionValues = "null",
        coerce: Coerce = "strict",
        timestamp_formats: Sequence[str] | None = None,
        timezone: str | None = None,
        date_formats: Sequence[str] | None = None,
        decimal_point: DecimalPoint = ".",
        on_error: OnError = "fail",
        block_bytes: int = DEFAULT_BLOCK_BYTES,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        super().__init__(
            line_delimiter=line_delimiter,
            line_delimiter_pattern=line_delimiter_pattern,
            block_bytes=block_bytes,
            max_record_bytes=max_record_bytes,
        )
        check_choice("missing_fields", missing_fields, ("fail", "null"))
        check_choice("empty_partition_values", empty_partition_values, ("null", "fail"))
        single = {
            "field_delimiter": field_delimiter,
            "collection_delimiter": collection_delimiter,
            "map_key_delimiter": map_key_delimiter,
        }
        _check_characters(single, line_delimiter, null_format, escape)
        self._format = DelimitedFormat(
            field_delimiter.encode(),
            null_format.encode(),
            text_forms(
                coerce=coerce,
                date_formats=date_formats,
                decimal_point=decimal_point,
                characters={**single, "escape": escape},
            ),
            (escape or "").encode(),
            missing_fields == "null",
            separators=(collection_delimiter + map_key_delimiter).encode() + DEFAULT_SEPARATORS[2:],
        )
        self._empty_partition_values: EmptyPartitionValues = empty_partition_values
        self._timestamps = TimestampOptions(timestamp_formats, timezone)
        self._order = None if columns is None else [name.lower() for name in columns]
        self._bad_records = BadRecords(on_error)
        self._schema: RecordSchema | None = None

    @property
    def on_error(self) -> OnError:
        """What happens to a bad record."""
        return self._bad_records.on_error

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema.

        Raises:
            StreamingConnectionError: `columns` names a column that the table does not have, or one twice, or leaves
                out a partition key.
            UnsupportedFeature: A type is nested deeper than there are delimiters, or a map has keys of a nested type.
            ConfigurationError: The table's property `timestamp.formats` is not valid.
        """
        columns = typed_columns(schema.all_columns)
        order = self._field_order(columns)
        if missing := [key.name for key in schema.partition_columns if key.name not in order]:
            raise StreamingConnectionError(
                f"columns={order} leaves out the partition key {missing[0]!r}: name it, or give its value in "
                "static_partition_values"
            )
        types = dict(columns)
        for name in order:
            _check_nesting(name, types[name])
        forms = replace(self._format.forms, timestamps=self._timestamps.for_schema(schema))
        format_ = replace(self._format, forms=forms)
        self._records = DelimitedRecords(columns, order, format_)
        self._blocks = DelimitedBlocks(columns, order, format_, schema.arrow)
        self._keys = PartitionTexts(schema, self._empty_partition_values)
        self._matched = frozenset(order)
        self._arrow_schema = schema.arrow
        self._schema = schema

    def parse(self, block: Any) -> Parsed:
        """Parse a block of this writer.

        Raises:
            SerializationError: For the first bad record, unless bad records are skipped.
        """
        if self._schema is None:
            raise not_bound(self)
        return parse_halving(block, self._parse_at_once, self._parse_records)

    def _parse_at_once(self, block: TextBlock) -> Parsed | None:
        batch = self._blocks.parse(block)
        if batch is not None and not self._keys.are_named(batch):
            return None
        return None if batch is None else Parsed(batch, block.records, matched_columns=self._matched, is_checked=True)

    def _parse_records(self, block: TextBlock) -> Parsed:
        def row(record: bytes) -> tuple[Any, ...]:
            return self._keys.checked_row(self._records.row(record))

        batch, skipped = parse_records(block, row, self._arrow_schema, self._bad_records)
        return Parsed(
            batch,
            block.records,
            len(skipped),
            matched_columns=self._matched,
            is_checked=True,
            bad_records=skipped,
        )

    def _field_order(self, columns: list[TypedColumn]) -> list[str]:
        names = [name for name, _ in columns]
        if self._order is None:
            return names
        if unknown := [name for name in self._order if name not in names]:
            raise StreamingConnectionError(f"columns={self._order}: the table has no column {', '.join(unknown)}")
        if len(set(self._order)) < len(self._order) or not self._order:
            raise StreamingConnectionError(f"columns={self._order}: name at least one column, and none twice")
        return self._order


def _check_nesting(name: str, type_: HiveType) -> None:
    """Raises UnsupportedFeature for a type that Hive's text format cannot hold either."""
    if separators_needed(type_) > len(DEFAULT_SEPARATORS):
        raise UnsupportedFeature(
            f"column {name!r}: {type_} is nested deeper than there are delimiters; use StrictJsonWriter or ArrowWriter"
        )
    if type_.kind == "map" and type_.children[0][1].children:
        raise UnsupportedFeature(f"column {name!r}: delimited text cannot have map keys of type {type_.children[0][1]}")
    for _, child in type_.children:
        _check_nesting(name, child)


def _check_characters(delimiters: dict[str, str], line_delimiter: str, null_format: str, escape: str | None) -> None:
    single = delimiters | ({} if escape is None else {"escape": escape})
    for name, value in single.items():
        if len(value) != 1 or not value.isascii() or value in "\r\n\0":
            raise ConfigurationError(f"{name}={value!r} is not one ASCII character other than a line end")
    characters = [line_delimiter, *single.values()]
    if len({*characters}) < len(characters):
        raise ConfigurationError(f"line_delimiter, {', '.join([*delimiters])} and escape must differ from each other")
    if any(character in null_format for character in (*delimiters.values(), line_delimiter, "\r", "\n")):
        raise ConfigurationError(f"null_format={null_format!r} has a delimiter in it")
