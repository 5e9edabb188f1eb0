"""Snapshot reads: `scan` gives batches, `read_table` a table, `partition_sizes` sizes and row counts.

`hold_snapshot` lets several of them see the same snapshot.
"""

from hive_ingest.reader.evolution import ColumnSource, column_sources
from hive_ingest.reader.folder import FolderToRead
from hive_ingest.reader.held_snapshot import DEFAULT_LOCK_WAIT_SECONDS, HeldSnapshot, hold_snapshot
from hive_ingest.reader.newest import newest_rows
from hive_ingest.reader.partitions import PartitionToRead
from hive_ingest.reader.rows import ROW_ID_COLUMN, Snapshot
from hive_ingest.reader.scan import Scan, check_readable, partitions_of, read_table, scan
from hive_ingest.reader.scan_plan import DEFAULT_SPLIT_BYTES, Split, plan_scan
from hive_ingest.reader.sizes import PartitionSize, PartitionSizes, partition_sizes

__all__ = [
    "DEFAULT_LOCK_WAIT_SECONDS",
    "DEFAULT_SPLIT_BYTES",
    "ROW_ID_COLUMN",
    "ColumnSource",
    "FolderToRead",
    "HeldSnapshot",
    "PartitionSize",
    "PartitionSizes",
    "PartitionToRead",
    "Scan",
    "Snapshot",
    "Split",
    "check_readable",
    "column_sources",
    "hold_snapshot",
    "newest_rows",
    "partition_sizes",
    "partitions_of",
    "plan_scan",
    "read_table",
    "scan",
]
