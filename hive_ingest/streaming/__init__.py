"""Pipelines that write records from a source into a table, exactly once."""

from hive_ingest.streaming.bad_record_file import BadRecordFile
from hive_ingest.streaming.files.follow import follow_files
from hive_ingest.streaming.files.ingest import IngestResult, ingest_files
from hive_ingest.streaming.files.ingestion import IngestProgress
from hive_ingest.streaming.files.line_file import FilePosition
from hive_ingest.streaming.files.sample_columns import infer_columns
from hive_ingest.streaming.files.seek import FileSeek, seek_file

__all__ = [
    "BadRecordFile",
    "FilePosition",
    "FileSeek",
    "IngestProgress",
    "IngestResult",
    "follow_files",
    "infer_columns",
    "ingest_files",
    "seek_file",
]
