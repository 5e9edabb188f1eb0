"""Pipelines that write records from a source into a table, exactly once."""

from hive_ingest.streaming.bad_record_file import BadRecordFile
from hive_ingest.streaming.files import IngestProgress, IngestResult, ingest_files
from hive_ingest.streaming.line_file import FilePosition
from hive_ingest.streaming.sample_columns import infer_columns

__all__ = ["BadRecordFile", "FilePosition", "IngestProgress", "IngestResult", "infer_columns", "ingest_files"]
