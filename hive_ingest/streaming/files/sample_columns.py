"""The columns of a table, by the first records of a file."""

from __future__ import annotations

import io
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from hive_ingest.errors import ConfigurationError
from hive_ingest.orc import unwritable_values
from hive_ingest.record_writer import CsvWriter
from hive_ingest.schema import columns_of_schema, schema_of
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
_TEXT_TYPES: Final[Sequence[tuple[str, pa.DataType]]] = (
    (r"\A-?(0|[1-9][0-9]{0,18})\z", pa.int64()),
    (r"\A-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]+)?\z", pa.float64()),
    (r"\A(true|false|True|False|TRUE|FALSE)\z", pa.bool_()),
)
#: Whole numbers that no bigint holds.
_HUGE: Final = pa.decimal128(38, 0)
_FIRST_HUGE: Final = 2.0**63
_TIME_TYPES: Final[Sequence[tuple[str, pa.DataType]]] = (
    (r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z", pa.date32()),
    (r"\A[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?\z", pa.timestamp("ns")),
)


def infer_columns(
    path: str | os.PathLike[str],
    *,
    format: SampleFormat | None = None,
    types: Mapping[str, str] | None = None,
    field_delimiter: str = ",",
    quote: str | None = '"',
    escape: str | None = None,
    null_values: Sequence[str] | None = None,
    sample_records: int = DEFAULT_SAMPLE_RECORDS,
) -> dict[str, str]:
    """The columns that hold the first records of a file, as `create_table(columns=…)` takes them.

    Parquet and ORC files have types. In JSON and CSV, numbers become bigint or double, and texts become date or
    timestamp if all of them are written as `2026-11-23` or `2026-11-23 08:30:00`. Whole numbers beyond bigint become
    decimal(38,0) in JSON, and string in CSV. A column that is always null is a string, and so is one of CSV whose
    values are of different kinds. Values after the sample may not fit.

    Args:
        path: A file on any file system that tables can be on. JSON and CSV may be compressed by gzip, zstd or bzip2.
        format: "csv" with a header, "json" with an object on each line, "parquet" or "orc". Default: by the end of the
            file's name.
        types: Hive types of some columns, which replace the inferred ones.
        field_delimiter: As in `CsvWriter`, like `quote`, `escape` and `null_values`.
        sample_records: How many records of JSON and CSV are looked at.

    Returns:
        Hive types by column name, in the order of the file.

    Raises:
        ConfigurationError: The format is not known, or the records cannot be read in it; two columns have one name
            (ignoring case); `types` has another column.
        StreamingIOFailure: The file cannot be read.
        UnsupportedFeature: A column whose values no Hive type holds.
    """
    location = os.fspath(path)
    if sample_records < 1:
        raise ConfigurationError(f"sample_records={sample_records}: give 1 or more")
    kind = _format_of(location) if format is None else format
    if kind not in get_args(SampleFormat):
        raise ConfigurationError(f"format={kind!r} is unknown: use {', '.join(get_args(SampleFormat))}")
    try:
        if kind == "csv":
            csv = CsvWriter(field_delimiter=field_delimiter, quote=quote, escape=escape, null_values=null_values)
            parsing = pacsv.ParseOptions(
                delimiter=field_delimiter,
                quote_char=quote or False,
                escape_char=escape or False,
                newlines_in_values=True,
            )
            schema = _csv_schema(*_csv_sample(location, csv, field_delimiter, sample_records), parsing, null_values)
        elif kind == "json":
            schema = _json_schema(location, _json_sample(location, sample_records))
        else:
            schema = _stored_schema(location, kind)
    except pa.ArrowException as error:
        raise ConfigurationError(
            f"{location!r}: no columns can be inferred from the first records as {kind}: {error}. Correct the file, or "
            "give the columns with their types (columns=…)"
        ) from error
    _check_names(location, schema.names)
    return {column.name: column.type for column in columns_of_schema(schema, types)}


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
            "%r has one column, %r: is %r its field_delimiter, not %r?", path, header[0], delimiters[0], delimiter
        )
    return text, header


def _json_sample(path: str, most: int) -> bytes:
    with closing(LineFile(path)) as file:
        text = b"".join(block.text for block in file.records(0, most))
    if not text.strip():
        raise ConfigurationError(f"{path!r} has no records, from which columns could be inferred")
    return text


def _csv_schema(
    text: bytes, header: Sequence[str], parsing: pacsv.ParseOptions, null_values: Sequence[str] | None
) -> pa.Schema:
    found = pacsv.read_csv(
        io.BytesIO(text),
        pacsv.ReadOptions(column_names=list(header), block_size=len(text) + 1, use_threads=False),
        parsing,
        pacsv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            null_values=[""] if null_values is None else list(null_values),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return pa.schema([(name, _type_of_texts(found[name], (*_TEXT_TYPES, *_TIME_TYPES))) for name in header])


def _json_schema(path: str, text: bytes) -> pa.Schema:
    """Arrow's own, but timestamps only where the writer accepts their texts, and no double for huge whole numbers."""
    inferred = _read_json(text).schema
    plain = pa.schema([field.with_type(_without_times(field.type)) for field in inferred])
    found = _read_json(text, plain)
    lines = sum(1 for line in text.split(b"\n") if line.strip())
    if found.num_rows != lines or not plain.names:
        raise ConfigurationError(
            f"{path!r}: {lines} lines have {found.num_rows} objects with {len(plain.names)} keys: write one object "
            "with its keys on each line, as `jq -c .` does"
        )
    return pa.schema([(field.name, _type_of_json(text, found, plain, field)) for field in plain])


def _read_json(text: bytes, schema: pa.Schema | None = None) -> pa.Table:
    options = pajson.ReadOptions(block_size=len(text) + 1, use_threads=False)
    return pajson.read_json(io.BytesIO(text), options, pajson.ParseOptions(explicit_schema=schema))


def _type_of_json(text: bytes, found: pa.Table, schema: pa.Schema, field: pa.Field) -> pa.DataType:
    """The type of one column, by its values as Arrow has read them."""
    if pa.types.is_string(field.type):
        return _type_of_texts(found[field.name], _TIME_TYPES)
    if not pa.types.is_floating(field.type) or not _may_be_huge(found[field.name]):
        return field.type
    place = schema.get_field_index(field.name)
    try:
        _read_json(text, schema.set(place, field.with_type(_HUGE)))
    except pa.ArrowException:  # one of them has a fraction, or more digits
        return field.type
    return _HUGE


def _may_be_huge(numbers: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.greater_equal(pc.abs(numbers), _FIRST_HUGE)).as_py())


def _without_times(type_: pa.DataType) -> pa.DataType:
    """With strings for timestamps and for what is always null."""
    if pa.types.is_list(type_):
        return pa.list_(_without_times(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_without_times(field.type)) for field in type_])
    return pa.string() if pa.types.is_temporal(type_) or pa.types.is_null(type_) else type_


def _type_of_texts(texts: pa.ChunkedArray, candidates: Sequence[tuple[str, pa.DataType]]) -> pa.DataType:
    values = texts.drop_null()
    if len(values):
        for pattern, type_ in candidates:
            if pc.all(pc.match_substring_regex(values, pattern)).as_py() and _is_castable(values, type_):
                return type_
    return pa.string()


def _is_castable(texts: pa.ChunkedArray, type_: pa.DataType) -> bool:
    """Whether a column of the type holds the values of all texts."""
    try:
        values = texts.cast(type_).combine_chunks()
    except pa.ArrowInvalid:
        return False
    if pa.types.is_floating(type_):
        return bool(pc.all(pc.is_finite(values)).as_py())
    return unwritable_values(values) is None
