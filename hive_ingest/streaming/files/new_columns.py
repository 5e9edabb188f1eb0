"""The columns that records of files name and their table lacks (`merge_schema`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import Column
from hive_ingest.record_writer import CsvText, CsvWriter, RecordSchema, RecordWriter, StrictJsonWriter
from hive_ingest.schema import columns_of_schema
from hive_ingest.streaming.files.json_types import JsonTypes, check_name
from hive_ingest.streaming.files.line_file import Records
from hive_ingest.streaming.files.sample_columns import type_of_texts


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

        Records that the writer cannot read count for nothing here: it reports them.

        Raises:
            ConfigurationError: No column can have such a name, or no type holds all values of one.
        """
        known = {column.name.lower() for column in (*schema.all_columns, *(key for key, _ in schema.static_values))}
        blocks = [(file, block) for file, held in records.items() for block in held]
        if isinstance(self._writer, CsvWriter):
            return tuple(columns_of_schema(_schema_of_csv(self._writer, blocks, schema, known)))
        types = JsonTypes(self._writer.text_forms(schema))
        for file, block in blocks:
            for pairs in self._writer.unknown_pairs(block.text, known):
                types.add(file, pairs)
        return tuple(columns_of_schema(types.schema()))


def _naming_writer(writer: RecordWriter) -> CsvWriter | StrictJsonWriter:
    if isinstance(writer, StrictJsonWriter) or (isinstance(writer, CsvWriter) and writer.has_header):
        return writer
    raise ConfigurationError(
        "merge_schema=True requires records that name their columns: JSON, or CSV with a header. Other columns can be "
        "added to the table beforehand"
    )


def _schema_of_csv(
    writer: CsvWriter, blocks: Iterable[tuple[str, Records]], schema: RecordSchema, known: set[str]
) -> pa.Schema:
    found: dict[str, list[pa.Array]] = {}
    for file, block in blocks:
        assert isinstance(block, CsvText)
        names = [name.strip().lower() for name in block.header or ()]
        # The writer refuses a header that names a column of the table twice.
        places = [(place, name) for place, name in enumerate(names) if name not in known]
        fields = [*writer.fields_of(block)] if places else []
        for place, name in places:
            values = [text for each in fields if (text := each[place]) is not None]
            if not values:
                continue
            check_name(file, name)
            if names.count(name) > 1:
                raise ConfigurationError(
                    f"the header of {file!r} names {name!r} twice (ignoring case), and a table cannot have two columns "
                    "of one name: rename one of them"
                )
            found.setdefault(name, []).append(_texts(values))
    forms = writer.text_forms(schema)
    return pa.schema([(name, type_of_texts(pa.chunked_array(texts), forms)) for name, texts in found.items()])


def _texts(values: Iterable[bytes]) -> pa.Array:
    """Without those that are not UTF-8, which the writer reports."""
    texts = []
    for value in values:
        try:
            texts.append(value.decode())
        except UnicodeDecodeError:
            continue
    return pa.array(texts, pa.string())
