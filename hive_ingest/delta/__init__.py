"""Rows to delta files: routing, buffers, spills, the delta writer."""

from hive_ingest.delta.delta_writer import DeltaTarget, DeltaWriter, compression_of
from hive_ingest.delta.routing import GroupKey, Router, check_partition_type
from hive_ingest.delta.transaction_writer import TransactionWriter, WriteCounts

__all__ = [
    "DeltaTarget",
    "DeltaWriter",
    "GroupKey",
    "Router",
    "TransactionWriter",
    "WriteCounts",
    "check_partition_type",
    "compression_of",
]
