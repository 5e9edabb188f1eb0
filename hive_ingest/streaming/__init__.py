"""Pipelines that write records from a source into a table, exactly once."""

from hive_ingest.streaming.files import IngestProgress, IngestResult, ingest_files
from hive_ingest.streaming.line_file import FilePosition

__all__ = ["FilePosition", "IngestProgress", "IngestResult", "ingest_files"]
