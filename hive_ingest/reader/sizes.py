"""Sizes and row counts of partitions by the tails of their files; no row is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TableName
from hive_ingest.orc import AcidFileReader, FileToRead, count_rows
from hive_ingest.reader.held_snapshot import DEFAULT_AGENT_INFO, DEFAULT_LOCK_WAIT_SECONDS, HeldSnapshot
from hive_ingest.reader.html import html_table
from hive_ingest.reader.rows import PartitionFiles, Snapshot, list_files
from hive_ingest.reader.scan import open_scope, what_to_read
from hive_ingest.storage import FileStore, Location


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """What one snapshot sees of a partition, or of a table without partitions.

    Attributes:
        partition: Its name, "k=v/…"; empty for a table without partitions.
        files: Files that a reader opens, those with delete events included.
        bytes: Their size on the disk.
        rows: Rows in these files, deleted ones included.
        delete_events: Deletes and updates of these rows that no compaction has applied yet.
        is_exact: Whether `rows` is what a reader returns: there are no delete events, and no file has rows of
            transactions that the snapshot does not see.
    """

    partition: str
    files: int
    bytes: int
    rows: int
    delete_events: int
    is_exact: bool


class PartitionSizes(list[PartitionSize]):
    """One `PartitionSize` for each partition, by name, and totals; notebooks show a table."""

    @property
    def files(self) -> int:
        """Files of all partitions."""
        return sum(size.files for size in self)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(size.bytes for size in self)

    @property
    def rows(self) -> int:
        """Rows of all partitions, deleted ones included."""
        return sum(size.rows for size in self)

    @property
    def delete_events(self) -> int:
        """Delete events of all partitions."""
        return sum(size.delete_events for size in self)

    @property
    def is_exact(self) -> bool:
        """Whether `rows` is what a reader returns."""
        return all(size.is_exact for size in self)

    def _repr_html_(self) -> str:
        header = ["partition", "files", "bytes", "rows", "delete events"]
        rows = [(size.partition, size.files, size.bytes, size.rows, size.delete_events) for size in self]
        total = [("total", self.files, self.bytes, self.rows, self.delete_events)] if len(self) > 1 else []
        return html_table("Sizes" if self.is_exact else "Sizes (rows include deleted ones)", header, [*rows, *total])


def partition_sizes(
    metastore: MetastoreClient | str,
    table: str | TableName,
    *,
    where: str | None = None,
    snapshot: HeldSnapshot | None = None,
    lock_wait_seconds: float = DEFAULT_LOCK_WAIT_SECONDS,
    agent_info: str = DEFAULT_AGENT_INFO,
) -> PartitionSizes:
    """The size of each partition of a table, by name, with totals; of one without partitions, its own.

    Opens the end of each file and reads no row, so it is fast for few large files and takes about a millisecond for
    each of many.

    Args:
        metastore: A client, or the URI of a metastore.
        table: `"database.table"`.
        where: Leaves out partitions in which no row can pass this filter; conditions on other columns have no effect.
        snapshot: As in `scan`.
        lock_wait_seconds: How long to wait for the lock that keeps the files.
        agent_info: What SHOW LOCKS shows for the reader.

    Raises:
        NoSuchObject, LockTimeout, ConfigurationError, UnsupportedFeature, CorruptFile, StreamingIOFailure: As `scan`.
    """
    name = TableName.of(table)
    client, scope = open_scope(metastore, name, snapshot, lock_wait_seconds=lock_wait_seconds, agent_info=agent_info)
    try:
        _, partitions = what_to_read(client, name, [], where, None, False, True)
        visible = Snapshot(scope.valid_write_ids, scope.valid_txns)
        found = PartitionSizes()
        for partition in partitions:
            scope.check()
            found.append(_size_of(list_files(partition, visible)))
    except BaseException as error:
        scope.fail(error)
        raise
    scope.commit()
    return found


def _size_of(files: PartitionFiles) -> PartitionSize:
    store = Location.of(files.partition.location).store
    deletes = sum(_rows(store, files.delete_events))
    return PartitionSize(
        partition=files.partition.name,
        files=len(files.data) + len(files.delete_events),
        bytes=sum(file.size_bytes for file in (*files.data, *files.delete_events)),
        rows=sum(_rows(store, files.data)),
        delete_events=deletes,
        is_exact=not deletes and not any(file.check_write_ids for file in files.data),
    )


def _rows(store: FileStore, files: tuple[FileToRead, ...]) -> Iterator[int]:
    for file in files:
        if file.length_bytes is None:
            yield count_rows(store, file.path)
        else:  # a batch of Hive's streaming that is still open: the footer ends at the committed length
            with AcidFileReader(store, file) as reader:
                yield reader.tail.footer.rows
