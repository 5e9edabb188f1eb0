"""Pipelines that write records from a source into a table, exactly once."""

from hive_ingest.streaming.bad_record_file import BadRecordFile
from hive_ingest.streaming.file_seek import FileSeek, seek_file
from hive_ingest.streaming.files import IngestProgress, IngestResult, ingest_files
from hive_ingest.streaming.follow import follow_files
from hive_ingest.streaming.line_file import FilePosition
from hive_ingest.streaming.sample_columns import infer_columns

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
