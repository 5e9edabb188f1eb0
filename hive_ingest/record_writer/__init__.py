"""Record writers, which convert records to Arrow rows, and the protocol for custom ones."""

from hive_ingest.record_writer.arrow.python_rows import python_row
from hive_ingest.record_writer.arrow.rows import schema_of_rows, stream_of
from hive_ingest.record_writer.arrow.writer import ArrowWriter, MissingColumns, ZonedTimestamps
from hive_ingest.record_writer.avro.writer import AvroSchemas, AvroWriter
from hive_ingest.record_writer.bad_records import BadRecord, BadRecords, BadValue, OnError, named_records
from hive_ingest.record_writer.csv.framing import CsvFraming, CsvText
from hive_ingest.record_writer.csv.writer import CsvWriter
from hive_ingest.record_writer.delimited.writer import StrictDelimitedInputWriter
from hive_ingest.record_writer.json.leaves import NumberText
from hive_ingest.record_writer.json.records import UnknownFields
from hive_ingest.record_writer.json.writer import StrictJsonWriter
from hive_ingest.record_writer.list_writer import RecordListWriter
from hive_ingest.record_writer.mapping_writer import MappingWriter
from hive_ingest.record_writer.options import MissingPartitionKeys, check_choice
from hive_ingest.record_writer.partition_texts import EmptyPartitionValues
from hive_ingest.record_writer.record_by_record import divided_blocks
from hive_ingest.record_writer.regex_writer import StrictRegexWriter
from hive_ingest.record_writer.typed_columns import typed_columns
from hive_ingest.record_writer.values.coercion import Coerce
from hive_ingest.record_writer.values.decimal_texts import is_safe_block
from hive_ingest.record_writer.values.text_forms import DecimalPoint, TextForms, field_converter
from hive_ingest.record_writer.writer import Block, Parsed, RecordSchema, RecordWriter

__all__ = [
    "ArrowWriter",
    "AvroSchemas",
    "AvroWriter",
    "BadRecord",
    "BadRecords",
    "BadValue",
    "Block",
    "Coerce",
    "CsvFraming",
    "CsvText",
    "CsvWriter",
    "DecimalPoint",
    "EmptyPartitionValues",
    "MappingWriter",
    "MissingColumns",
    "MissingPartitionKeys",
    "NumberText",
    "OnError",
    "Parsed",
    "RecordListWriter",
    "RecordSchema",
    "RecordWriter",
    "StrictDelimitedInputWriter",
    "StrictJsonWriter",
    "StrictRegexWriter",
    "TextForms",
    "UnknownFields",
    "ZonedTimestamps",
    "check_choice",
    "divided_blocks",
    "field_converter",
    "is_safe_block",
    "named_records",
    "python_row",
    "schema_of_rows",
    "stream_of",
    "typed_columns",
]
