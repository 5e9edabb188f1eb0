"""The delta folders of a table's partitions, as the current snapshot sees them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.orc as orc

from hive_ingest.acid import (
    AcidDirectory,
    BucketFileName,
    DeltaName,
    ListedEntry,
    ValidTxnList,
    ValidWriteIdList,
    acid_directory,
    parse_file_name,
    parse_folder_name,
    partition_name,
)
from hive_ingest.errors import CorruptFile
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, TableName
from hive_ingest.storage import FileEntry, Location

COLUMNS = (
    "table",
    "partition",
    "base",
    "deltas",
    "delete_deltas",
    "small",
    "open",
    "aborted",
    "obsolete",
    "bytes",
    "rows",
)


@dataclass(frozen=True, slots=True)
class PartitionDeltas:
    """Numbers of folders in one partition; an unpartitioned table counts as one.

    `deltas` and `delete_deltas` are those that a reader opens, and `small` is how many of these have fewer bytes than
    the threshold. `open` ones belong to open transactions; `aborted` and `obsolete` ones wait for a cleaner. `bytes`
    is the size of everything in the folder, `rows` the rows of base and deltas before delete events (None: not
    counted).
    """

    table: str
    partition: str
    base: str | None
    deltas: int
    delete_deltas: int
    small: int
    open: int
    aborted: int
    obsolete: int
    bytes: int
    rows: int | None


def partition_deltas(
    client: MetastoreClient, name: TableName, *, small_bytes: int, count_rows: bool
) -> Iterator[PartitionDeltas]:
    """One report for each partition, by name. Raises NoSuchObject, StreamingIOFailure, CorruptFile."""
    table = client.get_table(name)
    valid_txns = client.get_valid_txns()
    valid_write_ids = client.get_valid_write_ids([name], valid_txns)[0]
    for partition, location in _places(client, table):
        folder = _Folder(Location.of(location), valid_write_ids, valid_txns)
        yield folder.report(str(name), partition, small_bytes, count_rows)


def _places(client: MetastoreClient, table: Table) -> list[tuple[str, str]]:
    if not table.is_partitioned:
        return [("", table.location)]
    keys = [key.name for key in table.partition_keys]
    found = client.list_partitions(table.name)
    return sorted((partition_name(keys, partition.values), partition.location) for partition in found)


class _Folder:
    """The folder of one partition: a listing with all files, and what a snapshot makes of it."""

    def __init__(self, location: Location, valid_write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> None:
        self._location = location
        self._files: dict[str, list[FileEntry]] = defaultdict(list)
        entries = location.list()
        for entry in entries:
            if entry.is_folder:
                files = (location / entry.name).list(missing_ok=True)
                self._files[entry.name] = [file for file in files if not file.is_folder]
        self._bytes = sum(entry.size_bytes for entry in entries) + sum(map(self._size, list(self._files)))
        self._names = [entry.name for entry in entries if entry.is_folder]
        self._directory = acid_directory(map(self._listed, entries), valid_write_ids, valid_txns)

    def _listed(self, entry: FileEntry) -> ListedEntry:
        children = tuple(file.name for file in self._files[entry.name]) if entry.is_folder else ()
        return ListedEntry(entry.name, entry.is_folder, entry.size_bytes, children)

    def _size(self, name: str) -> int:
        return sum(file.size_bytes for file in self._files[name])

    def report(self, table: str, partition: str, small_bytes: int, count_rows: bool) -> PartitionDeltas:
        directory = self._directory
        read = [str(delta) for delta in (*directory.deltas, *directory.delete_deltas)]
        return PartitionDeltas(
            table=table,
            partition=partition,
            base=str(directory.base) if directory.base else None,
            deltas=len(directory.deltas),
            delete_deltas=len(directory.delete_deltas),
            small=sum(self._size(name) < small_bytes for name in read),
            open=self._count_open(directory, read),
            aborted=len(directory.aborted),
            obsolete=len(directory.obsolete),
            bytes=self._bytes,
            rows=self._count_rows() if count_rows else None,
        )

    def _count_open(self, directory: AcidDirectory, read: Iterable[str]) -> int:
        """Those that the snapshot neither reads nor gives to a cleaner."""
        counted = {*read, *directory.aborted, *directory.obsolete}
        return sum(isinstance(parse_folder_name(name), DeltaName) for name in self._names if name not in counted)

    def _count_rows(self) -> int:
        directory = self._directory
        folders = [str(name) for name in (*directory.deltas, *([directory.base] if directory.base else []))]
        files = [self._location / name / file.name for name in folders for file in self._files[name]]
        return sum(_rows(file) for file in files if _holds_rows(file.name))


def _holds_rows(name: str) -> bool:
    return isinstance(parse_file_name(name), BucketFileName)


def _rows(file: Location) -> int:
    with file.open_input() as source:
        try:
            return int(orc.ORCFile(source).nrows)
        except (pa.ArrowException, OSError) as error:
            raise CorruptFile(f"{str(file)!r} cannot be read as ORC: {error}") from error
