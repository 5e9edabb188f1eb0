"""The options for record writers, which commands share, and the writers that they select."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from hive_ingest.record_writer import RecordWriter


class Format(enum.StrEnum):
    """Format of the records."""

    JSON = "json"
    DELIMITED = "delimited"
    CSV = "csv"
    REGEX = "regex"


class MessageFormat(enum.StrEnum):
    """Format of messages."""

    JSON = "json"
    DELIMITED = "delimited"
    CSV = "csv"
    REGEX = "regex"
    AVRO = "avro"


class OnError(enum.StrEnum):
    """What happens to a bad record."""

    FAIL = "fail"
    SKIP = "skip"


class UnknownFields(enum.StrEnum):
    """What happens to a field that matches no column."""

    IGNORE = "ignore"
    FAIL = "fail"


class MissingFields(enum.StrEnum):
    """What happens to a record that lacks fields."""

    FAIL = "fail"
    NULL = "null"


class BlankLines(enum.StrEnum):
    """What becomes of an empty line."""

    FAIL = "fail"
    SKIP = "skip"


class EmptyPartitionValues(enum.StrEnum):
    """What becomes of a partition value that is an empty text."""

    NULL = "null"
    FAIL = "fail"


class DecimalPoint(enum.StrEnum):
    """What is before the fraction of a number."""

    POINT = "."
    COMMA = ","


class Coerce(enum.StrEnum):
    """Which forms of values are accepted."""

    STRICT = "strict"
    LOSSLESS = "lossless"
    HIVE = "hive"


FormatOption = Annotated[Format, typer.Option("--format", help="Format of the records.")]
OnErrorOption = Annotated[OnError, typer.Option("--on-error", help="Stop at a bad record, or skip and count it.")]
UnknownFieldsOption = Annotated[
    UnknownFields, typer.Option("--unknown-fields", help="JSON, CSV: names that match no column.")
]
MissingPartitionKeysOption = Annotated[
    MissingFields,
    typer.Option(
        "--missing-partition-keys",
        help="JSON, CSV: a record or header without a partition key is bad, or it is the default partition.",
    ),
]
EmptyPartitionValuesOption = Annotated[
    EmptyPartitionValues,
    typer.Option(
        "--empty-partition-values",
        help="A record with an empty text for a partition key is in the default partition, or it is bad.",
    ),
]
FieldDelimiterOption = Annotated[
    str,
    typer.Option(
        "--field-delimiter", metavar="CHAR", help="Delimited, CSV: the character between fields; \\t is a tab."
    ),
]
CollectionDelimiterOption = Annotated[
    str,
    typer.Option(
        "--collection-delimiter",
        metavar="CHAR",
        help="Delimited: the character between elements of arrays, entries of maps and fields of structs.",
        show_default="character 2",
    ),
]
MapKeyDelimiterOption = Annotated[
    str,
    typer.Option(
        "--map-key-delimiter",
        metavar="CHAR",
        help="Delimited: the character between the key and the value of a map.",
        show_default="character 3",
    ),
]
RegexOption = Annotated[
    str | None,
    typer.Option(
        "--regex", metavar="REGEX", help="Regex: matches a record; its groups are the fields, by order or by name."
    ),
]
CaseInsensitiveOption = Annotated[
    bool, typer.Option("--case-insensitive", help="Regex: ignore the case of letters.", show_default=False)
]
NullFormatOption = Annotated[
    str, typer.Option("--null-format", metavar="TEXT", help="Delimited: the text of a null field.")
]
EscapeOption = Annotated[
    str | None, typer.Option("--escape", metavar="CHAR", help="Delimited, CSV: the character before one that is data.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME,…",
        help="Delimited, regex, CSV without header: the columns in the order of the fields.",
    ),
]
MissingFieldsOption = Annotated[
    MissingFields,
    typer.Option(
        "--missing-fields", help="Delimited, CSV: a record with fewer fields is bad, or has nulls at its end."
    ),
]
HeaderOption = Annotated[
    bool, typer.Option("--header/--no-header", help="CSV: whether the first record names the columns of the fields.")
]
QuoteOption = Annotated[
    str | None,
    typer.Option(
        "--quote", metavar="CHAR", help="CSV: the character around a field with delimiters or newlines; '' for none."
    ),
]
BlankLinesOption = Annotated[
    BlankLines, typer.Option("--blank-lines", help="CSV: an empty line is a record, or it is left out.")
]
NullValuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--null-value",
        metavar="TEXT",
        help="CSV, regex: a field that is null, in CSV without quotes. May be repeated. Default for CSV: ''.",
        show_default=False,
    ),
]
MissingColumnsOption = Annotated[
    MissingFields,
    typer.Option("--missing-columns", help="CSV: a header without a column is an error, or the column is null."),
]
CoerceOption = Annotated[
    Coerce,
    typer.Option(
        "--coerce",
        help="Accept only the usual form of a value, also other forms of it, or what Hive makes of any value.",
    ),
]
TimestampFormatsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--timestamp-format",
        metavar="FORMAT",
        help="Accepted form of timestamps: hive, iso8601, date, rfc1123, seconds, millis, micros, nanos, or a pattern "
        "such as dd/MM/yyyy. May be repeated.",
        show_default=False,
    ),
]
TimezoneOption = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="ZONE",
        help="With --timestamp-format: zone whose wall clock is stored for timestamps with an offset and numbers "
        "since 1970. Default: UTC.",
    ),
]
DateFormatsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--date-format",
        metavar="PATTERN",
        help="Accepted form of dates, such as dd.MM.yyyy. May be repeated. Default: yyyy-MM-dd.",
        show_default=False,
    ),
]
DecimalPointOption = Annotated[
    DecimalPoint,
    typer.Option("--decimal-point", help="Delimited, CSV, regex: the character before the fraction of a number."),
]
MaxRecordBytesOption = Annotated[
    int, typer.Option("--max-record-bytes", metavar="N", min=1, help="Size of the longest record.")
]
BadRecordsOption = Annotated[
    Path | None,
    typer.Option(
        "--bad-records", metavar="FILE", help="With --on-error skip: append the bad records to it, as JSON lines."
    ),
]
BadRecordsTableOption = Annotated[
    str | None,
    typer.Option(
        "--bad-records-table",
        metavar="DB.TABLE",
        help="With --on-error skip: write the bad records to this table, in the same transactions.",
    ),
]
MaxBadRecordsOption = Annotated[
    int | None,
    typer.Option("--max-bad-records", metavar="N", min=0, help="With --on-error skip: stop after more than N."),
]
MaxBadRecordShareOption = Annotated[
    float | None,
    typer.Option(
        "--max-bad-record-share",
        metavar="SHARE",
        min=0,
        max=1,
        help="With --on-error skip: stop at a larger share of bad records in one transaction, such as 0.01.",
    ),
]


def writer_options(format: str) -> tuple[str, ...]:
    """The names of the options that a format has."""
    return tuple(inspect.signature(_class_of(format)).parameters)


def message_options(format: str) -> tuple[str, ...]:
    """The names of the options that a format has for messages, which have neither a header nor lines."""
    others = ("header", "missing_columns", "blank_lines")
    return tuple(name for name in writer_options(format) if name not in others or format == "avro")


def refuse_options_of_other_formats(context: typer.Context, format: str) -> None:
    """Refuse options on the command line that have no effect on a format.

    Raises:
        typer.BadParameter: There is one.
    """
    others = {name for each in Format for name in writer_options(each)} - {*writer_options(format)}
    for name in sorted(others & context.params.keys()):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = next(parameter for parameter in context.command.params if parameter.name == name)
            raise typer.BadParameter(f"has no effect with --format {format}", param_hint=option.opts[0])


def new_record_writer(format: str, options: Mapping[str, Any]) -> RecordWriter:
    """The writer of a format.

    Args:
        format: One of `Format` or `MessageFormat`.
        options: By the names of the writer's arguments.

    Raises:
        ConfigurationError: An invalid value.
    """
    writer: RecordWriter = _class_of(format)(**options)
    return writer


def new_message_writer(format: str, options: Mapping[str, Any]) -> RecordWriter:
    """The writer of a format for messages. As `new_record_writer`, but a message has no header."""
    return new_record_writer(format, {**options, "header": False} if format == MessageFormat.CSV else options)


def writer_from_options(values: Mapping[str, Any]) -> RecordWriter:
    """The writer of `--format`, from all options of a command; those of other formats are left out."""
    options = {
        name: getattr(values[name], "value", values[name])
        for name in writer_options(values["format"])
        if name in values
    }
    for name in {"field_delimiter", "collection_delimiter", "map_key_delimiter"} & options.keys():
        options[name] = options[name].replace("\\t", "\t")
    for name in {"timestamp_formats", "date_formats", "null_values", "quote"} & options.keys():
        options[name] = options[name] or None
    if options.get("columns") is not None:
        options["columns"] = [name.strip() for name in options["columns"].split(",")]
    if "regex" in options and options["regex"] is None:
        raise typer.BadParameter("is missing", param_hint="--regex")
    return new_record_writer(values["format"], options)


def _class_of(format: str) -> Any:
    from hive_ingest.record_writer import CsvWriter, StrictDelimitedInputWriter, StrictJsonWriter, StrictRegexWriter

    classes: dict[str, Any] = {
        MessageFormat.JSON: StrictJsonWriter,
        MessageFormat.DELIMITED: StrictDelimitedInputWriter,
        MessageFormat.CSV: CsvWriter,
        MessageFormat.REGEX: StrictRegexWriter,
        MessageFormat.AVRO: _avro_writer,
    }
    return classes[format]


def _avro_writer(
    schema_registry: str | Mapping[str, Any],
    *,
    reader_schema: str | None = None,
    on_error: Literal["fail", "skip"] = "fail",
    missing_columns: Literal["null", "fail"] = "null",
    missing_partition_keys: Literal["fail", "null"] = "fail",
    unknown_fields: Literal["ignore", "fail"] = "ignore",
) -> RecordWriter:
    """An `AvroWriter`; the registry is given by its URL, or by the arguments of `SchemaRegistry`."""
    from hive_ingest.record_writer import AvroWriter
    from hive_ingest.streaming.kafka import SchemaRegistry

    arguments = {"url": schema_registry} if isinstance(schema_registry, str) else schema_registry
    return AvroWriter(
        SchemaRegistry(**arguments),
        reader_schema=reader_schema,
        on_error=on_error,
        missing_columns=missing_columns,
        missing_partition_keys=missing_partition_keys,
        unknown_fields=unknown_fields,
    )
