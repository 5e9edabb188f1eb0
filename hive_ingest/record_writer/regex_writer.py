"""Records as lines parsed by a regular expression (Java: `StrictRegexWriter`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hive_ingest.errors import ConfigurationError, StreamingConnectionError, UnsupportedFeature
from hive_ingest.record_writer.bad_records import BadRecords, BadValue, OnError
from hive_ingest.record_writer.csv.layout import ordered_layout
from hive_ingest.record_writer.options import check_choice
from hive_ingest.record_writer.partition_texts import EmptyPartitionValues, PartitionTexts
from hive_ingest.record_writer.record_by_record import parse_records
from hive_ingest.record_writer.text.blocks import DEFAULT_BLOCK_BYTES, DEFAULT_MAX_RECORD_BYTES, TextRecordWriter
from hive_ingest.record_writer.typed_columns import not_bound, typed_columns
from hive_ingest.record_writer.values.coercion import Coerce
from hive_ingest.record_writer.values.strict_values import Converter
from hive_ingest.record_writer.values.text_forms import DecimalPoint, field_converter, text_forms
from hive_ingest.record_writer.values.timestamp_formats import TimestampOptions
from hive_ingest.record_writer.writer import Parsed, RecordSchema

#: A named group as Java writes it; a lookbehind begins with `(?<=` or `(?<!`.
_JAVA_GROUP = re.compile(r"(?<!\\)\(\?<([A-Za-z][A-Za-z0-9_]*)>")


class StrictRegexWriter(TextRecordWriter):
    r"""Records that are lines, of which each group of a regular expression is a field (Java: `StrictRegexWriter`).

        StrictRegexWriter(regex=r'(\S+) \S+ \S+ \[([^\]]+)\] "([^"]*)" (\d+) (\S+)', null_values=["-"])

    `write()` takes what `StrictDelimitedInputWriter` does. The expression must match the whole record; otherwise the
    record is bad (with coerce="hive" it is a row of nulls, as in Hive). A group that takes no part in a match is null.
    Values are those of delimited text, which docs/types.md lists.

    Args:
        regex: The expression, in Python's syntax; named groups may have the form of Java's, `(?<name>…)`. If its groups
            have names, these are the columns. Otherwise the groups have the order of `columns`.
        case_insensitive: Whether the expression ignores case (`input.regex.case.insensitive`).
        columns: The columns in the order of the groups. Data columns that are not named are null. Default: the table's
            columns, then its partition columns.
        null_values: The texts of a group that is null. Default: none.
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
        line_delimiter: The ASCII character between records.
        line_delimiter_pattern: Instead, a regular expression that matches what is between records, such as
            `\r?\n(?=\d{4}-)` for records that begin with a date and have several lines.
        on_error: "fail" (a bad record fails the transaction) or "skip" (it is skipped and counted).
        block_bytes: Size of the text that is parsed in one call.
        max_record_bytes: Size of the longest record. A longer one fails the transaction, also with on_error="skip".

    Raises:
        ConfigurationError: An option is not valid.
    """

    def __init__(
        self,
        *,
        regex: str,
        case_insensitive: bool = False,
        columns: Sequence[str] | None = None,
        null_values: Sequence[str] | None = None,
        empty_partition_values: EmptyPartitionValues = "null",
        coerce: Coerce = "strict",
        timestamp_formats: Sequence[str] | None = None,
        timezone: str | None = None,
        date_formats: Sequence[str] | None = None,
        decimal_point: DecimalPoint = ".",
        line_delimiter: str = "\n",
        line_delimiter_pattern: str | None = None,
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
        check_choice("empty_partition_values", empty_partition_values, ("null", "fail"))
        if isinstance(null_values, str):
            raise ConfigurationError(f"null_values={null_values!r} is not valid: give a list of texts")
        self._pattern = _compiled(regex, case_insensitive=case_insensitive)
        self._order = _order(self._pattern, columns)
        self._null_values = frozenset(null_values or ())
        self._forms = text_forms(coerce=coerce, date_formats=date_formats, decimal_point=decimal_point, characters={})
        self._empty_partition_values: EmptyPartitionValues = empty_partition_values
        self._timestamps = TimestampOptions(timestamp_formats, timezone)
        self._bad_records = BadRecords(on_error)
        self._schema: RecordSchema | None = None

    @property
    def on_error(self) -> OnError:
        """What happens to a bad record."""
        return self._bad_records.on_error

    def bind(self, schema: RecordSchema) -> None:
        """Prepare for a table's schema.

        Raises:
            StreamingConnectionError: The expression has another number of groups than there are columns, or the groups
                or `columns` name a column that the table does not have, or one twice, or leave out a partition key.
            UnsupportedFeature: A column has a nested type.
            ConfigurationError: The table's property `timestamp.formats` is not valid.
        """
        columns = typed_columns(schema.all_columns)
        partition_names = [column.name.lower() for column in schema.partition_columns]
        data_names = [name for name, _ in columns if name not in partition_names]
        names = [str(name) for name in ordered_layout(self._order, data_names, partition_names).fields]
        if len(names) != self._pattern.groups:
            raise StreamingConnectionError(
                f"regex has {self._pattern.groups} group(s) for {len(names)} column(s): give each column a group, or "
                "name the columns of the groups with columns. Write (?:…) for a group that is no field"
            )
        types = dict(columns)
        places = {name: place for place, (name, _) in enumerate(columns)}
        forms = replace(self._forms, timestamps=self._timestamps.for_schema(schema))
        fields: list[tuple[str, int, Converter]] = []
        for name in names:
            if types[name].children:
                raise UnsupportedFeature(
                    f"column {name!r}: {types[name]} cannot be read by a regular expression; use StrictJsonWriter"
                )
            fields.append((name, places[name], field_converter(types[name], forms)))
        self._fields = fields
        self._width = len(columns)
        self._keys = PartitionTexts(schema, self._empty_partition_values)
        self._matched = frozenset(names)
        self._arrow_schema = schema.arrow
        self._schema = schema

    def parse(self, block: Any) -> Parsed:
        """Parse a block of this writer.

        Raises:
            SerializationError: For the first bad record, unless bad records are skipped.
        """
        if self._schema is None:
            raise not_bound(self)
        batch, skipped = parse_records(block, self._row, self._arrow_schema, self._bad_records)
        return Parsed(
            batch,
            block.records,
            len(skipped),
            matched_columns=self._matched,
            is_checked=True,
            bad_records=skipped,
        )

    def _row(self, record: bytes) -> tuple[Any, ...]:
        row: list[Any] = [None] * self._width
        found = self._pattern.fullmatch(_decoded(record))
        if found is None:
            if self._forms.coerce == "hive":
                return tuple(row)
            raise BadValue("the record does not match regex")
        for (name, place, convert), text in zip(self._fields, found.groups(), strict=True):
            if text is None or text in self._null_values:
                continue
            try:
                row[place] = convert(text)
            except BadValue as bad:
                raise bad.inside(name) from bad
        return self._keys.checked_row(tuple(row))


def _compiled(regex: str, *, case_insensitive: bool) -> re.Pattern[str]:
    try:
        found = re.compile(_JAVA_GROUP.sub(r"(?P<\1>", regex), re.DOTALL | (re.IGNORECASE if case_insensitive else 0))
    except re.error as error:
        raise ConfigurationError(f"regex={regex!r} is not a regular expression of Python: {error}") from error
    if not found.groups:
        raise ConfigurationError(f"regex={regex!r} has no groups: put each field in parentheses")
    if found.groupindex and len(found.groupindex) != found.groups:
        raise ConfigurationError(
            f"regex={regex!r} has groups with and without names: name all, or write (?:…) for a group that is no field"
        )
    return found


def _order(pattern: re.Pattern[str], columns: Sequence[str] | None) -> list[str] | None:
    """The columns of the groups, None for those of the table."""
    if pattern.groupindex and columns is not None:
        raise ConfigurationError(f"columns={list(columns)}: the groups of regex have names already, leave it out")
    names = [*pattern.groupindex] if pattern.groupindex else columns
    return None if names is None else [name.lower() for name in names]


def _decoded(record: bytes) -> str:
    try:
        return record.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadValue(f"not UTF-8: {error.reason} at byte {error.start} of the record") from error
