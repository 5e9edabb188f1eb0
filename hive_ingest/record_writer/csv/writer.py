"""Records as CSV with quotes and a header (RFC 4180)."""

from __future__ import annotations

import functools
import io
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv

from hive_ingest.errors import ConfigurationError, SerializationError, UnsupportedFeature
from hive_ingest.record_writer.bad_records import BadRecords, BadValue, OnError
from hive_ingest.record_writer.csv.blocks import CsvBlock, CsvBlocks
from hive_ingest.record_writer.csv.fields import CsvFields, CsvFormat, CsvRows
from hive_ingest.record_writer.csv.framing import CsvFraming, CsvText
from hive_ingest.record_writer.csv.input import CsvInput, with_newline
from hive_ingest.record_writer.csv.layout import CsvLayout, HeaderRules, ordered_layout
from hive_ingest.record_writer.options import MissingPartitionKeys, check_choice
from hive_ingest.record_writer.partition_texts import EmptyPartitionValues, PartitionTexts
from hive_ingest.record_writer.record_by_record import parse_halving, parse_records
from hive_ingest.record_writer.static_keys import StaticKeys
from hive_ingest.record_writer.text.blocks import DEFAULT_BLOCK_BYTES, DEFAULT_MAX_RECORD_BYTES
from hive_ingest.record_writer.typed_columns import not_bound, typed_columns
from hive_ingest.record_writer.values.coercion import Coerce
from hive_ingest.record_writer.values.text_forms import DecimalPoint, TextForms, text_forms
from hive_ingest.record_writer.values.timestamp_formats import TimestampOptions
from hive_ingest.record_writer.writer import Parsed, RecordSchema

logger = logging.getLogger("hive_ingest.record_writer")


class CsvWriter(CsvInput):
    """Records that are CSV as RFC 4180 has it: fields with quotes, newlines in quotes, and a header.

    `write()` takes bytes, str, buffers, files opened for reading and paths. With `header=True` the first record of each
    of them is a header, whose names match columns without regard to case. With `header=False` it also takes any other
    iterable of records, each of which may contain newlines. A byte order mark at the beginning is dropped.
    docs/types.md lists the values that each type accepts.

    Args:
        header: Whether the first record names the fields. Otherwise they have the order of `columns`.
        columns: With `header=False`, the columns in the order of the fields. Data columns that are not named are null.
            Default: the table's columns, then its partition columns.
        field_delimiter: The ASCII character between fields.
        quote: The ASCII character around a field that has a delimiter, a newline or a quote in it, where a quote is
            doubled. None: quotes are ordinary characters, and every newline ends a record.
        escape: The character before a quote, a delimiter, a newline or itself that is data, or None.
        null_values: The texts of a field without quotes that is null. Default: the empty text. A quoted field is never
            null.
        blank_lines: "fail" (an empty line is a record with one empty field, which is bad unless the table has one
            column) or "skip" (it is no record).
        missing_fields: "fail" (a record must have all fields of the header, or of `columns`) or "null" (fields missing
            at the end are null, additional ones are ignored).
        missing_columns: "fail" (the header must name every data column) or "null".
        missing_partition_keys: The same for partition columns; null is the default partition.
        unknown_fields: "ignore" (a name of the header that matches no column is logged) or "fail".
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
        header: bool = True,
        columns: Sequence[str] | None = None,
        field_delimiter: str = ",",
        quote: str | None = '"',
        escape: str | None = None,
        null_values: Sequence[str] | None = None,
        blank_lines: Literal["fail", "skip"] = "fail",
        missing_fields: Literal["fail", "null"] = "fail",
        missing_columns: Literal["fail", "null"] = "fail",
        missing_partition_keys: MissingPartitionKeys = "fail",
        unknown_fields: Literal["ignore", "fail"] = "ignore",
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
        _check_characters(field_delimiter, quote, escape)
        nulls = [""] if null_values is None else null_values
        _check_null_values(nulls)
        for name, value in (
            ("missing_fields", missing_fields),
            ("missing_columns", missing_columns),
            ("missing_partition_keys", missing_partition_keys),
        ):
            check_choice(name, value, ("fail", "null"))
        check_choice("unknown_fields", unknown_fields, ("ignore", "fail"))
        check_choice("blank_lines", blank_lines, ("fail", "skip"))
        check_choice("empty_partition_values", empty_partition_values, ("null", "fail"))
        if header and columns is not None:
            raise ConfigurationError(
                f"columns={list(columns)} is the order of fields without a header: set header=False, or leave it out"
            )
        self._empty_partition_values: EmptyPartitionValues = empty_partition_values
        self._timestamps = TimestampOptions(timestamp_formats, timezone)
        self._format = CsvFormat(
            field_delimiter.encode(),
            (quote or "").encode(),
            (escape or "").encode(),
            tuple(text.encode() for text in nulls),
            text_forms(
                coerce=coerce,
                date_formats=date_formats,
                decimal_point=decimal_point,
                characters={"quote": quote, "escape": escape},
            ),
            missing_fields == "null",
        )
        super().__init__(
            framing=CsvFraming(self._format.field_delimiter, self._format.quote, self._format.escape),
            has_header=header,
            block_bytes=block_bytes,
            max_record_bytes=max_record_bytes,
        )
        self._order = None if columns is None else [name.lower() for name in columns]
        #: Whether an empty line is no record.
        self.skips_blank_lines = blank_lines == "skip"
        self._choices = (missing_columns, missing_partition_keys, unknown_fields)
        self._bad_records = BadRecords(on_error)
        self._named: set[str] = set()
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
            UnsupportedFeature: A column has a nested type.
            ConfigurationError: The table's property `timestamp.formats` is not valid.
        """
        columns = typed_columns(schema.all_columns)
        partition_names = tuple(column.name.lower() for column in schema.partition_columns)
        data_names = tuple(name for name, _ in columns if name not in partition_names)
        static = StaticKeys(schema)
        layout = None if self.has_header else ordered_layout(self._order, data_names, partition_names)
        for name, type_ in columns:
            if type_.children and (layout is None or name in layout.columns):
                raise UnsupportedFeature(
                    f"column {name!r}: {type_} cannot be read from CSV; use StrictJsonWriter or ArrowWriter"
                )
        parsers = _Parsers(schema, self._format, self.framing, self._timestamps, static)
        rules = HeaderRules(data_names, partition_names, tuple(static.names), *self._choices)
        #: By the header, None without one. Files of one table have few different headers.
        self._parsers = functools.lru_cache(maxsize=100)(
            lambda header: parsers.of(rules.layout(header) if layout is None else layout)
        )
        self._arrow_schema = schema.arrow
        self._static = static
        self._keys = PartitionTexts(schema, self._empty_partition_values)
        self._schema = schema

    def text_forms(self, schema: RecordSchema) -> TextForms:
        """The forms of values, for a table. Raises ConfigurationError, as `bind` does."""
        return replace(self._format.forms, timestamps=self._timestamps.for_schema(schema))

    def read_texts(self, text: bytes, header: Sequence[str]) -> pa.Table:
        """All fields as strings, and null where the writer has null.

        Args:
            text: Whole records.
            header: The names of the fields, each different.

        Raises:
            pyarrow.ArrowException: The text cannot be read.
        """
        return pa_csv.read_csv(
            io.BytesIO(text),
            pa_csv.ReadOptions(column_names=list(header), block_size=len(text) + 1, use_threads=False),
            pa_csv.ParseOptions(
                delimiter=self._format.field_delimiter.decode(),
                quote_char=self._format.quote.decode() or False,
                escape_char=self._format.escape.decode() or False,
                newlines_in_values=True,
            ),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[each.decode() for each in self._format.null_values],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def fields_of(self, records: CsvText) -> Iterator[list[bytes | None]]:
        """The fields of each record under the names of its header, and None where the writer has null.

        Malformed records are left out. Those with other numbers of fields, if the writer accepts them, are cut, or have
        None for what is missing.
        """
        fields = CsvFields(self._format)
        width = len(records.header or ())
        ended = records if records.text.endswith(b"\n") else with_newline(records)
        for record in CsvBlock(ended, 0, 0).split():
            try:
                found = fields.split(record)
            except BadValue:
                continue
            if (len(found) == width or self._format.is_lenient) and (record or not self.skips_blank_lines):
                texts = [None if raw in self._format.null_values else text for text, raw in found[:width]]
                yield texts + [None] * (width - len(texts))

    def parse(self, block: Any) -> Parsed:
        """Parse a block of this writer.

        Raises:
            SerializationError: For the first bad record, unless bad records are skipped; or for a header.
        """
        if self._schema is None:
            raise not_bound(self)
        blocks, rows, layout = self._parsers(block.text.header)
        matched = layout.columns - self._static.names
        self._name_unknown(layout.unknown)

        def at_once(part: CsvBlock) -> Parsed | None:
            if self.skips_blank_lines:
                part = part.without_blank_lines()
            found = blocks.parse(part)
            batch = None if found is None else self._without_static_keys(found)
            if batch is None:
                return None
            return Parsed(batch, part.records, 0, layout.unknown, matched, is_checked=True)

        def one_by_one(part: CsvBlock) -> Parsed:
            def row(record: bytes) -> tuple[Any, ...] | None:
                if self.skips_blank_lines and not record:
                    return None
                return self._keys.checked_row(self._static.checked_row(rows.row(record)))

            batch, skipped = parse_records(part, row, self._arrow_schema, self._bad_records)
            records = part.records - (part.text.blank_lines if self.skips_blank_lines else 0)
            return Parsed(batch, records, len(skipped), layout.unknown, matched, is_checked=True, bad_records=skipped)

        return parse_halving(block, at_once, one_by_one)

    def header_of(self, record: bytes) -> tuple[str, ...]:
        """The names in a header, without the end of its line.

        Raises:
            SerializationError: It is malformed.
        """
        try:
            fields = CsvFields(self._format).split(record)
            if any(b"\r" in raw for _, raw in fields if raw is not None):
                # Of such a file, all records would be taken for names.
                raise SerializationError(
                    "the header has a carriage return outside quotes, as in a file whose lines end with carriage "
                    "returns alone. Convert the file, for example by `tr '\\r' '\\n'`"
                )
            return tuple(text.decode() for text, _ in fields)
        except BadValue as error:
            raise SerializationError(f"the header cannot be read: {error}") from error
        except UnicodeDecodeError as error:
            raise SerializationError(
                f"the header is not UTF-8: {error.reason} at byte {error.start}. Convert the file, for example by "
                "`iconv -f WINDOWS-1252 -t UTF-8` or `iconv -f UTF-16 -t UTF-8`"
            ) from error

    def _without_static_keys(self, batch: Any) -> Any:
        """The rows in the table's schema, or None if the partition keys of a record may be wrong."""
        width = len(self._arrow_schema)
        try:
            self._static.check(batch.columns[width:])
            self._keys.check(batch)
        except BadValue:
            return None
        return batch if width == batch.num_columns else batch.select(list(range(width)))

    def _name_unknown(self, fields: frozenset[str]) -> None:
        new = sorted(fields - self._named)
        self._named.update(new)
        for name in new:
            logger.warning("field %s of the header matches no column and is ignored", ascii(name))

    def _check_header(self, header: tuple[str, ...]) -> None:
        if self._schema is not None:
            self._parsers(header)

    def _header_of_items(self) -> ConfigurationError:
        return ConfigurationError(
            "CsvWriter(header=True) takes text, files and paths, which begin with a header: for single records set "
            "header=False, and columns for the order of their fields"
        )


class _Parsers:
    """Makes the parsers of layouts for one schema."""

    def __init__(
        self,
        schema: RecordSchema,
        format_: CsvFormat,
        framing: CsvFraming,
        timestamps: TimestampOptions,
        static: StaticKeys,
    ) -> None:
        self._columns = [*typed_columns(schema.all_columns), *static.columns]
        self._schema = pa.schema([*schema.arrow, *static.fields])
        forms = replace(format_.forms, timestamps=timestamps.for_schema(schema))
        self._format = replace(format_, forms=forms)
        self._framing = framing

    def of(self, layout: CsvLayout) -> tuple[CsvBlocks, CsvRows, CsvLayout]:
        """The parsers of blocks and of records."""
        return (
            CsvBlocks(self._columns, layout, self._format, self._framing, self._schema),
            CsvRows(self._columns, layout, self._format),
            layout,
        )


def _check_characters(field_delimiter: str, quote: str | None, escape: str | None) -> None:
    given = {"field_delimiter": field_delimiter, "quote": quote, "escape": escape}
    single = {name: value for name, value in given.items() if value is not None}
    for name, value in single.items():
        if len(value) != 1 or not value.isascii() or value in "\r\n\0":
            raise ConfigurationError(f"{name}={value!r} is not one ASCII character other than a line end")
    if len({*single.values()}) < len(single):
        raise ConfigurationError("field_delimiter, quote and escape must differ from each other")


def _check_null_values(null_values: Sequence[str]) -> None:
    if isinstance(null_values, str):
        raise ConfigurationError(f"null_values={null_values!r} is not valid: give a list of texts")
    for text in null_values:
        if "\n" in text or "\r" in text:
            raise ConfigurationError(f"null_values: {text!r} has a line end in it")
