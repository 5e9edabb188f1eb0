"""Looks into tables and files for operators: `check_table` finds what is broken, `inspect_path` shows what there is."""

from hive_ingest.inspection.file_summary import UnreadableFile, inspect_path
from hive_ingest.inspection.findings import Finding, Severity, TableCheck
from hive_ingest.inspection.table_check import check_table

__all__ = [
    "Finding",
    "Severity",
    "TableCheck",
    "UnreadableFile",
    "check_table",
    "inspect_path",
]
