"""The columns of a table, by the first records of a file."""

from __future__ import annotations

import inspect
import io
import logging
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from hive_ingest.errors import ConfigurationError
from hive_ingest.orc import unwritable_values
from hive_ingest.record_writer import (
    BadValue,
    CsvWriter,
    DecimalPoint,
    RecordSchema,
    StrictJsonWriter,
    TextForms,
    field_converter,
    is_safe_block,
)
from hive_ingest.schema import columns_of_schema, parse_type, schema_of
from hive_ingest.storage import Location, io_errors
from hive_ingest.streaming.files.line_file import LineFile

_log = logging.getLogger(__name__)

DEFAULT_SAMPLE_RECORDS: Final = 10_000

SampleFormat = Literal["csv", "json", "parquet", "orc"]

_SUFFIXES: Final[Mapping[str, SampleFormat]] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".orc": "orc",
}
_COMPRESSED: Final = (".gz", ".zst", ".zstd", ".bz2")
#: What every value of a column must match, and the type to which the texts must then be convertible. A number with a
#: leading zero is a text, such as a postal code, and so is one with more digits before the point than a double keeps.
_NUMBER_TYPES: Final[Sequence[tuple[str, pa.DataType]]] = (
    (r"\A-?(0|[1-9][0-9]{0,18})\z", pa.int64()),
    (r"\A-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]+)?\z", pa.float64()),
)
_BOOLEAN: Final = r"\A(true|false|True|False|TRUE|FALSE)\z"
#: So large a share of texts may be of another form than the others, for a column to be named for them.
_MOST_ODD_TEXTS: Final = 0.1
#: Whole numbers that no bigint holds.
HUGE: Final = pa.decimal128(38, 0)
_FIRST_HUGE: Final = 2.0**63
#: With the kind of Hive's type. The patterns are those of texts without `date_formats` and `timestamp_formats`.
_TIME_TYPES: Final[Sequence[tuple[str, str, pa.DataType]]] = (
    ("date", r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z", pa.date32()),
    (
        "timestamp",
        r"\A[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?\z",
        pa.timestamp("ns"),
    ),
)
#: The forms of a writer's options alone.
_NO_TABLE: Final = RecordSchema(())


def infer_columns(
    path: str | os.PathLike[str],
    *,
    format: SampleFormat | None = None,
    types: Mapping[str, str] | None = None,
    field_delimiter: str = ",",
    quote: str | None = '"',
    escape: str | None = None,
    null_values: Sequence[str] | None = None,
    timestamp_formats: Sequence[str] | None = None,
    timezone: str | None = None,
    date_formats: Sequence[str] | None = None,
    decimal_point: DecimalPoint = ".",
    sample_records: int = DEFAULT_SAMPLE_RECORDS,
) -> dict[str, str]:
    """The columns that hold the first records of a file, as `create_table(columns=…)` takes them.

    Parquet and ORC files have types. In JSON and CSV, numbers become bigint or double, and texts become date or
    timestamp if all of them are written as `2026-11-23` or `2026-11-23 08:30:00`. Whole numbers beyond bigint become
    decimal(38,0) in JSON, and string in CSV. A column that is always null is a string, and so is one of CSV whose
    values are of different kinds. Values after the sample may not fit.

    Give the options with which the records will be read, such as `decimal_point=","`. With `date_formats` and
    `timestamp_formats`, the texts of dates and timestamps have these forms. A column of numbers is one of numbers, also
    if they are seconds since 1970 or dates such as 20261123: give its type in `types`.

    Args:
        path: A file on any file system that tables can be on. JSON and CSV may be compressed by gzip, zstd or bzip2.
        format: "csv" with a header, "json" with an object on each line, "parquet" or "orc". Default: by the end of the
            file's name.
        types: Hive types of some columns, which replace the inferred ones.
        field_delimiter: As in `CsvWriter`, like `quote`, `escape`, `null_values` and `decimal_point`.
        timestamp_formats: As in `CsvWriter` and `StrictJsonWriter`, like `timezone` and `date_formats`.
        sample_records: How many records of JSON and CSV are looked at.

    Returns:
        Hive types by column name, in the order of the file.

    Raises:
        ConfigurationError: The format is not known, or the records cannot be read in it; two columns have one name
            (ignoring case); `types` has another column; an option is not valid, or has no effect on the format.
        StreamingIOFailure: The file cannot be read.
        UnsupportedFeature: A column whose values no Hive type holds.
    """
    location = os.fspath(path)
    if sample_records < 1:
        raise ConfigurationError(f"sample_records={sample_records}: give 1 or more")
    kind = _format_of(location) if format is None else format
    if kind not in get_args(SampleFormat):
        raise ConfigurationError(f"format={kind!r} is unknown: use {', '.join(get_args(SampleFormat))}")
    of_text: dict[str, Any] = {
        "field_delimiter": field_delimiter,
        "quote": quote,
        "escape": escape,
        "null_values": null_values,
        "decimal_point": decimal_point,
    }
    of_times: dict[str, Any] = {
        "timestamp_formats": timestamp_formats,
        "timezone": timezone,
        "date_formats": date_formats,
    }
    _refuse_without_effect(kind, {"csv": {}, "json": of_text}.get(kind, of_text | of_times))
    try:
        if kind == "csv":
            csv = CsvWriter(**of_text, **of_times)
            texts = csv.read_texts(*_csv_sample(location, csv, field_delimiter, sample_records))
            forms = csv.text_forms(_NO_TABLE)
            schema = pa.schema([(name, type_of_texts(texts[name], forms)) for name in texts.column_names])
            _name_odd_texts(location, texts, schema, forms, {name.lower() for name in types or ()})
        elif kind == "json":
            forms = StrictJsonWriter(**of_times).text_forms(_NO_TABLE)
            schema = schema_of_json(location, _json_sample(location, sample_records), forms)
        else:
            schema = _stored_schema(location, kind)
    except pa.ArrowException as error:
        raise ConfigurationError(
            f"{location!r}: no columns can be inferred from the first records as {kind}: {error}. Correct the file, or "
            "give the columns with their types (columns=…)"
        ) from error
    _check_names(location, schema.names)
    return {column.name: column.type for column in columns_of_schema(schema, types)}


def _refuse_without_effect(kind: SampleFormat, options: Mapping[str, Any]) -> None:
    """Raises ConfigurationError if one of the options was chosen."""
    defaults = inspect.signature(infer_columns).parameters
    for name, value in options.items():
        if value != defaults[name].default:
            raise ConfigurationError(f"{name}={value!r} has no effect with format={kind!r}: leave it out")


def _check_names(path: str, names: Iterable[str]) -> None:
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            raise ConfigurationError(
                f"{path!r} has {count} columns named {name!r} (ignoring case): rename them, because a table cannot "
                "have both"
            )


def _format_of(path: str) -> SampleFormat:
    name = path.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    found = _SUFFIXES.get(os.path.splitext(name)[1])
    if found is None:
        raise ConfigurationError(
            f"{path!r}: the end of its name does not say what it is: give its format "
            f"({', '.join(get_args(SampleFormat))})"
        )
    return found


def _stored_schema(path: str, kind: SampleFormat) -> pa.Schema:
    import pyarrow.orc
    import pyarrow.parquet

    with io_errors("read", path), Location.of(path).open_input() as file:
        schema = pyarrow.parquet.read_schema(file) if kind == "parquet" else pyarrow.orc.ORCFile(file).schema
    return schema_of(pa.schema([(each.name, pa.string() if each.type == pa.null() else each.type) for each in schema]))


# -- JSON and CSV --------------------------------------------------------------------------------------


def _csv_sample(path: str, csv: CsvWriter, delimiter: str, most: int) -> tuple[bytes, tuple[str, ...]]:
    """The first records, and the header."""
    with closing(LineFile(path, csv=csv)) as file:
        beginning = file.beginning(0)
        if beginning.header is None:
            raise ConfigurationError(f"{path!r} is empty: a CSV file begins with a header, which names the columns")
        text = b"".join(block.text for block in file.records(beginning.offset, most, beginning.header))
    if not text:
        raise ConfigurationError(f"{path!r} has a header, but no records, from which types could be inferred")
    # The writer matches names without regard to blanks around them, too.
    header = tuple(name.strip() for name in beginning.header)
    _check_names(path, header)
    if len(header) == 1 and (delimiters := [each for each in ";\t|" if each in header[0]]):
        _log.warning(
            "%r has one column, %r: is %r the delimiter of its fields, not %r?",
            path,
            header[0],
            delimiters[0],
            delimiter,
        )
    return text, header


def _json_sample(path: str, most: int) -> bytes:
    with closing(LineFile(path)) as file:
        text = b"".join(block.text for block in file.records(0, most))
    if not text.strip():
        raise ConfigurationError(f"{path!r} has no records, from which columns could be inferred")
    if text.lstrip().startswith(b"["):
        raise ConfigurationError(
            f"{path!r} is a JSON array: write each of its objects on a line, as `jq -c '.[]'` does"
        )
    return text


def schema_of_json(path: str, text: bytes, forms: TextForms) -> pa.Schema:
    """The columns of JSON lines.

    They are Arrow's own, but timestamps only where the writer accepts their texts, and no double for huge whole
    numbers.

    Raises:
        ConfigurationError: The lines are not objects.
        pyarrow.ArrowException: They cannot be read, or a key has values of several kinds.
    """
    inferred = _read_json(text).schema
    plain = pa.schema([field.with_type(_without_times(field.type)) for field in inferred])
    found = _read_json(text, plain)
    lines = sum(1 for line in text.split(b"\n") if line.strip())
    if found.num_rows != lines or not plain.names:
        raise ConfigurationError(
            f"{path!r}: {lines} lines have {found.num_rows} objects with {len(plain.names)} keys: write one object "
            "with its keys on each line, as `jq -c .` does"
        )
    return pa.schema([(field.name, _type_of_json(text, found, plain, field, forms)) for field in plain])


def _read_json(text: bytes, schema: pa.Schema | None = None) -> pa.Table:
    options = pajson.ReadOptions(block_size=len(text) + 1, use_threads=False)
    return pajson.read_json(io.BytesIO(text), options, pajson.ParseOptions(explicit_schema=schema))


def _type_of_json(text: bytes, found: pa.Table, schema: pa.Schema, field: pa.Field, forms: TextForms) -> pa.DataType:
    """The type of one column, by its values as Arrow has read them."""
    if pa.types.is_string(field.type):
        return type_of_times(found[field.name].drop_null(), forms)
    if not pa.types.is_floating(field.type) or not _may_be_huge(found[field.name]):
        return field.type
    place = schema.get_field_index(field.name)
    if not is_safe_block(text):
        return field.type
    try:
        _read_json(text, schema.set(place, field.with_type(HUGE)))
    except pa.ArrowException:  # one of them has a fraction, or more digits
        return field.type
    return HUGE


def _may_be_huge(numbers: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.greater_equal(pc.abs(numbers), _FIRST_HUGE)).as_py())


def _without_times(type_: pa.DataType) -> pa.DataType:
    """With strings for timestamps and for what is always null."""
    if pa.types.is_list(type_):
        return pa.list_(_without_times(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_without_times(field.type)) for field in type_])
    return pa.string() if pa.types.is_temporal(type_) or pa.types.is_null(type_) else type_


def type_of_texts(texts: pa.ChunkedArray, forms: TextForms) -> pa.DataType:
    """The type of all texts: a number, a boolean, a date or a timestamp, else a string."""
    values = texts.drop_null()
    if not len(values):
        return pa.string()
    numbers = _with_points(values, forms.decimal_point)
    for pattern, type_ in _NUMBER_TYPES if numbers is not None else ():
        if _are_like(numbers, pattern) and _is_castable(numbers, type_):
            return type_
    return pa.bool_() if _are_like(values, _BOOLEAN) else type_of_times(values, forms)


def _name_odd_texts(path: str, texts: pa.Table, schema: pa.Schema, forms: TextForms, chosen: Collection[str]) -> None:
    """Log why a column is a string if nearly all of its texts are values of another type.

    Args:
        path: The file.
        texts: The columns.
        schema: Their inferred types.
        forms: Those of the writer.
        chosen: Names of columns whose types are given.
    """
    for field in schema:
        if not pa.types.is_string(field.type) or field.name.lower() in chosen:
            continue
        values = texts[field.name].drop_null().to_pylist()
        for kind in ("double", "date", "timestamp"):
            odd = _odd_text(values, field_converter(parse_type(kind), replace(forms, coerce="strict")))
            if odd is not None:
                _log.warning(
                    "%r: column %r is a string because of %.60r, while nearly all of its values are like %s: "
                    "correct the file, or choose the type of the column",
                    path,
                    field.name,
                    odd,
                    "numbers" if kind == "double" else f"a {kind}",
                )
                break


def _odd_text(values: Sequence[str], convert: Callable[[str], object]) -> str | None:
    """The first text that cannot be converted, if nearly all others can."""
    odd: list[str] = []
    for text in values:
        try:
            convert(text)
        except BadValue:
            odd.append(text)
            if len(odd) > len(values) * _MOST_ODD_TEXTS:
                return None
    return odd[0] if odd else None


def type_of_times(values: pa.ChunkedArray, forms: TextForms) -> pa.DataType:
    for kind, pattern, type_ in _TIME_TYPES if len(values) else ():
        is_usual = forms.dates is None if kind == "date" else forms.timestamps.is_strict
        if is_usual and _are_like(values, pattern) and _is_castable(values, type_):
            return type_
        if not is_usual and _are_converted(values, kind, type_, forms):
            return type_
    return pa.string()


def _with_points(values: pa.ChunkedArray, decimal_point: str) -> pa.ChunkedArray | None:
    """Texts of numbers with a point before their fraction; None if one of them has another point already."""
    if decimal_point == ".":
        return values
    if pc.any(pc.match_substring(values, ".")).as_py():
        return None
    return pc.replace_substring(values, decimal_point, ".")


def _are_like(values: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, pattern)).as_py())


def _are_converted(values: pa.ChunkedArray, kind: str, type_: pa.DataType, forms: TextForms) -> bool:
    """Whether the writer reads all texts as values of the kind."""
    convert = field_converter(parse_type(kind), replace(forms, coerce="strict"))
    try:
        found = [convert(text) for text in pc.unique(values).to_pylist()]
    except BadValue:
        return False
    return unwritable_values(pa.array(found, type_)) is None


def _is_castable(texts: pa.ChunkedArray, type_: pa.DataType) -> bool:
    """Whether a column of the type holds the values of all texts."""
    try:
        values = texts.cast(type_).combine_chunks()
    except pa.ArrowInvalid:
        return False
    if pa.types.is_floating(type_):
        return bool(pc.all(pc.is_finite(values)).as_py())
    return unwritable_values(values) is None
