"""A scan that is planned in one process and read in others, none of which reaches the metastore.

The plan is made inside a read transaction: its lock, its snapshot, the files that the snapshot sees. The transaction
ends with the planning, so nothing keeps a cleaner from those files while they are read. Because the files are in the
plan, one that is gone is an error; listed again later, under the old snapshot, its rows would be missing silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import StreamingIOFailure
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, TableName
from hive_ingest.reader.held_snapshot import DEFAULT_AGENT_INFO, DEFAULT_LOCK_WAIT_SECONDS
from hive_ingest.reader.rows import PartitionFiles, Projection, Snapshot, list_files, read_files
from hive_ingest.reader.scan import what_to_read
from hive_ingest.storage import Location
from hive_ingest.transactions import ReadTransaction

DEFAULT_SPLIT_BYTES = 32 << 20
#: What a file costs beside its bytes, so that a split has no thousands of tiny ones.
_OPEN_COST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Split:
    """A share of a planned scan, with all that is needed to read it. Can be pickled."""

    projection: Projection
    snapshot: Snapshot
    files: tuple[PartitionFiles, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Batches by partition, file and stripe. Raises StreamingIOFailure when a file is gone, CorruptFile."""
        for files in self.files:
            try:
                yield from read_files(files, self.projection, self.snapshot)
            except StreamingIOFailure as error:
                _explain_lost_files(files, self.projection.table, error)
                raise


def plan_scan(
    client: MetastoreClient,
    table: str | TableName,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    filter: pc.Expression | None = None,
    row_ids: bool = False,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    verify_checksums: bool = True,
    lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS,
    agent_info: str = DEFAULT_AGENT_INFO,
) -> list[Split]:
    """One snapshot of a table in splits of about `split_bytes` of files; a file is never divided.

    Other arguments and errors are those of `scan`. No split is empty; without files there is none.
    """
    name = TableName.of(table)
    transaction = ReadTransaction(client, name, lock_wait_seconds=lock_wait_seconds, agent_info=agent_info)
    try:
        projection, partitions = what_to_read(client, name, columns, where, filter, row_ids, verify_checksums)
        snapshot = Snapshot(transaction.valid_write_ids, transaction.valid_txns)
        listed = [list_files(partition, snapshot) for partition in partitions]
    except BaseException as error:
        transaction.fail(error)
        raise
    transaction.commit()
    return [Split(projection, snapshot, files) for files in _packed(listed, split_bytes)]


def _packed(listed: Sequence[PartitionFiles], split_bytes: int) -> Iterator[tuple[PartitionFiles, ...]]:
    """Files in their order, a new split where the next one would be too much."""
    split: list[PartitionFiles] = []
    size = 0
    for partition in listed:
        start = 0
        for i, file in enumerate(partition.data):
            if size and size + file.size_bytes > split_bytes:
                yield (*split, *_part(partition, start, i))
                split, size, start = [], 0, i
            size += file.size_bytes + _OPEN_COST_BYTES
        split += _part(partition, start, len(partition.data))
    if split:
        yield tuple(split)


def _part(files: PartitionFiles, start: int, end: int) -> list[PartitionFiles]:
    return [replace(files, data=files.data[start:end])] if start < end else []


def _explain_lost_files(files: PartitionFiles, table: Table, error: StreamingIOFailure) -> None:
    """Raises a clearer StreamingIOFailure, if a file of the plan is not there."""
    store = Location.of(files.partition.location).store
    lost = next((file.path for file in (*files.data, *files.delete_events) if not store.exists(file.path)), None)
    if lost is not None:
        raise StreamingIOFailure(
            f"{lost!r} was in the snapshot of {table.name} when the read was planned, and is not there: it was "
            "compacted and cleaned since then, or its partition was dropped, or this machine does not share the "
            f"location {files.partition.location!r}. Read again, with a new plan"
        ) from error
