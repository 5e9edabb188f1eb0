"""ORC files: metadata and tails, statistics, stripe copying, column reading, files of inserts and delete events."""

from hive_ingest.orc.acid_reader import AcidFileReader, FileToRead, StripeRows
from hive_ingest.orc.acid_schema import BUCKET, DELETE, INSERT, OPERATION, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from hive_ingest.orc.acid_writer import COMPRESSIONS, AcidFile, AcidOrcWriter, write_acid_version
from hive_ingest.orc.columns import OrcColumn, OrcKind, check_timestamps, oldest_date
from hive_ingest.orc.delete_events import DeleteEvents, RowIds
from hive_ingest.orc.normalise import unreadable_row, unwritable_values
from hive_ingest.orc.stripe_copy import join

__all__ = [
    "BUCKET",
    "COMPRESSIONS",
    "DELETE",
    "INSERT",
    "OPERATION",
    "ORIGINAL_WRITE_ID",
    "ROW_ID",
    "WRITE_ID",
    "AcidFile",
    "AcidFileReader",
    "AcidOrcWriter",
    "DeleteEvents",
    "FileToRead",
    "OrcColumn",
    "OrcKind",
    "RowIds",
    "StripeRows",
    "check_timestamps",
    "join",
    "oldest_date",
    "unreadable_row",
    "unwritable_values",
    "write_acid_version",
]
