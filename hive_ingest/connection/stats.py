"""Statistics of a connection (Java: `ConnectionStats`)."""

from __future__ import annotations

from dataclasses import dataclass

from hive_ingest.connection.open_transaction import CommitInfo
from hive_ingest.delta import WriteCounts


@dataclass(slots=True)
class ConnectionStats:
    """Counts since connect. Rows, files and bytes are those of committed transactions only."""

    transactions_committed: int = 0
    transactions_aborted: int = 0
    records_written: int = 0
    records_skipped: int = 0
    rows_committed: int = 0
    files_committed: int = 0
    bytes_committed: int = 0
    partitions_created: int = 0
    spills: int = 0
    #: Of the open transaction: the rows that its records have become so far. After `flush`, those of all records.
    rows_pending: int = 0
    #: Of the open transaction: the records that have been skipped so far.
    skipped_pending: int = 0
    #: Age of the last heartbeat that the metastore answered, while a transaction is open.
    last_heartbeat_age_seconds: float | None = None

    def add(self, counts: WriteCounts, info: CommitInfo) -> None:
        """Count a committed transaction."""
        self.transactions_committed += 1
        self.records_written += counts.records - counts.skipped
        self.records_skipped += counts.skipped
        self.rows_committed += info.rows
        self.files_committed += info.files
        self.bytes_committed += info.file_bytes
        self.partitions_created += len(info.partitions_created)
        self.spills += counts.spills
