"""Snapshot reads: `scan` gives batches, `read_table` a table."""

from hive_ingest.reader.scan import Scan, read_table, scan

__all__ = ["Scan", "read_table", "scan"]
