"""ORC files: metadata and tails, statistics, stripe copying, column reading, files of inserts and delete events."""

from hive_ingest.orc.acid_check import ExpectedRows, FileCheck, KeyRun, check_acid_file, row_ids_of
from hive_ingest.orc.acid_schema import BUCKET, DELETE, INSERT, OPERATION, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from hive_ingest.orc.delete_events import DeleteEvents, RowIds
from hive_ingest.orc.format.column_bounds import ColumnBounds, column_bounds
from hive_ingest.orc.format.columns import GREGORIAN_START, OrcColumn, OrcKind, check_timestamps, kinds_of, oldest_date
from hive_ingest.orc.format.file_summary import ColumnSummary, FileSummary, StripeSummary, summarise_file
from hive_ingest.orc.format.stripe_bounds import Bound, StripeBounds, ValueRange
from hive_ingest.orc.merge.event_files import merge_delete_events, read_delete_events
from hive_ingest.orc.merge.parts import RowPart, join_rows, split_rows
from hive_ingest.orc.merge.row_files import MergeOptions, merge_rows
from hive_ingest.orc.merge.runs import StripeSizes
from hive_ingest.orc.merge.stripe_decoder import RowConversion
from hive_ingest.orc.normalise import UNWRITABLE, unreadable_row, unwritable_values
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.reader.joined_files import FileGroup
from hive_ingest.orc.reader.open_ahead import open_ahead
from hive_ingest.orc.reader.original_rows import OriginalRows, count_rows
from hive_ingest.orc.reader.stripe_reader import StripeReader, StripeRows
from hive_ingest.orc.reader.stripe_threads import is_worth_threads, stripes_ahead
from hive_ingest.orc.writer.acid_writer import (
    ACID_VERSION_CONTENT,
    COMPRESSIONS,
    AcidFile,
    AcidOrcWriter,
    write_acid_version,
)
from hive_ingest.orc.writer.delete_writer import DeleteEventWriter
from hive_ingest.orc.writer.file_writer import arrow_compression
from hive_ingest.orc.writer.insert_encoder import InsertEncoder
from hive_ingest.orc.writer.key_columns import InsertedRows
from hive_ingest.orc.writer.stripe_copy import join
from hive_ingest.orc.writer.stripe_encoder import EncodedStripes, StripeEncoder
from hive_ingest.orc.writer.stripe_output import StripeOutput

__all__ = [
    "ACID_VERSION_CONTENT",
    "BUCKET",
    "COMPRESSIONS",
    "DELETE",
    "GREGORIAN_START",
    "INSERT",
    "OPERATION",
    "ORIGINAL_WRITE_ID",
    "ROW_ID",
    "UNWRITABLE",
    "WRITE_ID",
    "AcidFile",
    "AcidFileReader",
    "AcidOrcWriter",
    "Bound",
    "ColumnBounds",
    "ColumnSummary",
    "DeleteEventWriter",
    "DeleteEvents",
    "EncodedStripes",
    "ExpectedRows",
    "FileCheck",
    "FileGroup",
    "FileSummary",
    "FileToRead",
    "InsertEncoder",
    "InsertedRows",
    "KeyRun",
    "MergeOptions",
    "OrcColumn",
    "OrcKind",
    "OriginalRows",
    "RowConversion",
    "RowIds",
    "RowPart",
    "StripeBounds",
    "StripeEncoder",
    "StripeOutput",
    "StripeReader",
    "StripeRows",
    "StripeSizes",
    "StripeSummary",
    "ValueRange",
    "arrow_compression",
    "check_acid_file",
    "check_timestamps",
    "column_bounds",
    "count_rows",
    "is_worth_threads",
    "join",
    "join_rows",
    "kinds_of",
    "merge_delete_events",
    "merge_rows",
    "oldest_date",
    "open_ahead",
    "read_delete_events",
    "row_ids_of",
    "split_rows",
    "stripes_ahead",
    "summarise_file",
    "unreadable_row",
    "unwritable_values",
    "write_acid_version",
]
