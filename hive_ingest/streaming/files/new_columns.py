"""The columns that records of files name and their table lacks (`merge_schema`)."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.json as pajson

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Column
from hive_ingest.record_writer import CsvText, CsvWriter, RecordSchema, RecordWriter, StrictJsonWriter
from hive_ingest.schema import columns_of_schema
from hive_ingest.streaming.files.line_file import Records
from hive_ingest.streaming.files.sample_columns import schema_of_json, type_of_texts


class NewColumns:
    """Finds the columns that records name and a table lacks, with types that hold all their values.

    Args:
        record_writer: The writer of the records.

    Raises:
        ConfigurationError: Its records do not name their columns.
    """

    def __init__(self, record_writer: RecordWriter) -> None:
        self._writer = _naming_writer(record_writer)

    def of(self, records: Mapping[str, Sequence[Records]], schema: RecordSchema) -> tuple[Column, ...]:
        """The columns of records, by their files, that have a value; none whose name the table has.

        Malformed records count for nothing here: the record writer reports them.

        Raises:
            ConfigurationError: No type holds all values of a column.
            UnsupportedFeature: No Hive type does.
        """
        known = {column.name.lower() for column in (*schema.all_columns, *(key for key, _ in schema.static_values))}
        blocks = [block for held in records.values() for block in held]
        try:
            if isinstance(self._writer, CsvWriter):
                found = _columns_of_csv(self._writer, blocks, schema, known)
            else:
                lines = b"".join(line for block in blocks for line in _new_values(block.text, known))
                forms = self._writer.text_forms(schema)
                found = schema_of_json(", ".join(records), lines, forms) if lines else pa.schema([])
        except pa.ArrowException as error:
            raise ConfigurationError(
                f"{', '.join(map(repr, records))}: no type holds all values of a new column: {error}. Correct the "
                "file, or add the column with its type (ALTER TABLE … ADD COLUMNS, hive-ingest alter-table add-column)"
            ) from error
        return tuple(columns_of_schema(found))


def _naming_writer(writer: RecordWriter) -> CsvWriter | StrictJsonWriter:
    if isinstance(writer, StrictJsonWriter) or (isinstance(writer, CsvWriter) and writer.has_header):
        return writer
    raise ConfigurationError(
        "merge_schema=True requires records that name their columns: JSON, or CSV with a header. Other columns can be "
        "added to the table beforehand"
    )


def _columns_of_csv(writer: CsvWriter, blocks: Iterable[Records], schema: RecordSchema, known: set[str]) -> pa.Schema:
    texts: defaultdict[str, list[pa.Array]] = defaultdict(list)
    for block in blocks:
        assert isinstance(block, CsvText)
        names = [name.strip().lower() for name in block.header or ()]
        if known.issuperset(names):
            continue
        # The writer refuses a header that names a column of the table twice.
        places = {str(place): name for place, name in enumerate(names) if name not in known}
        read = writer.read_texts(block.text, [str(place) for place in range(len(names))], skips_malformed=True)
        for place, name in places.items():
            texts[name] += read[place].drop_null().chunks
    forms = writer.text_forms(schema)
    found = {name: pa.chunked_array(chunks, pa.string()) for name, chunks in texts.items()}
    return pa.schema([(name, type_of_texts(values, forms)) for name, values in found.items() if len(values)])


def _new_values(text: bytes, known: set[str]) -> Iterator[bytes]:
    """Lines of JSON with those keys and values alone that the table has no column for."""
    try:
        found = pajson.read_json(io.BytesIO(text), pajson.ReadOptions(block_size=len(text) + 1, use_threads=False))
        if known.issuperset(name.lower() for name in found.schema.names):
            return
    except pa.ArrowException:
        pass  # values of other kinds, or a bad record
    for line in text.split(b"\n"):
        new = {key.lower(): value for key, value in _object(line).items() if key.lower() not in known}
        if new := {key: value for key, value in new.items() if value not in (None, [], {})}:
            yield json.dumps(new).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    """The pairs of an object; none of anything else."""
    try:
        value = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
