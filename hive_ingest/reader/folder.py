"""The files of one partition (or unpartitioned table) that a snapshot sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hive_ingest.acid import (
    BEFORE_ALL_WRITE_IDS,
    AcidDirectory,
    BaseName,
    BucketFileName,
    DeleteDeltaName,
    DeltaName,
    FlushLengthName,
    ListedEntry,
    OriginalFileName,
    RangeResponse,
    ValidTxnList,
    ValidWriteIdList,
    acid_directory,
    parse_file_name,
    parse_folder_name,
)
from hive_ingest.errors import CorruptFile, PathNotFound, StreamingIOFailure
from hive_ingest.model import WriteId
from hive_ingest.orc import FileToRead
from hive_ingest.reader.originals import errors_naming, numbered, original_files
from hive_ingest.storage import FileEntry, Location
from hive_ingest.transactions import list_registered

_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class FolderToRead:
    """The folders of a snapshot; the files in each are listed when they are asked for."""

    location: Location
    directory: AcidDirectory
    valid_write_ids: ValidWriteIdList

    @classmethod
    def of(cls, location: Location, valid_write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> FolderToRead:
        """Raises what `acid_directory` does."""
        with errors_naming(str(location)):
            directory = acid_directory(_listing(location), valid_write_ids, valid_txns)
        return cls(location, directory, valid_write_ids)

    def data_files(self, *, newest_first: bool = False) -> Iterator[FileToRead]:
        """The base's buckets, or the original files, then each delta's buckets; or the other way round.

        Raises CorruptFile for a foreign name.
        """
        base = [self.directory.base] if self.directory.base else []
        folders: list[BaseName | DeltaName] = [*base, *self.directory.deltas]
        if not newest_first:
            yield from original_files(self.location, self.directory)
        for name in reversed(folders) if newest_first else folders:
            yield from _bucket_files(self.location, name, self.valid_write_ids)
        if newest_first:
            yield from reversed(original_files(self.location, self.directory))

    def delete_event_files(self) -> Iterator[FileToRead]:
        for name in self.directory.delete_deltas:
            yield from _bucket_files(self.location, name, self.valid_write_ids)


def _listing(location: Location) -> list[ListedEntry]:
    return [
        ListedEntry(entry.name, entry.is_folder, entry.size_bytes, _children(location, entry))
        for entry in list_registered(location)
    ]


def _children(location: Location, entry: FileEntry) -> tuple[str, ...]:
    """Only a base without a `_v` suffix must be listed: it is a compactor's or an overwrite's."""
    if not entry.is_folder or not entry.name.startswith(BaseName.PREFIX):
        return ()
    name = parse_folder_name(entry.name)
    if name is None or name.visibility_txn_id:
        return ()
    # An obsolete one may be removed meanwhile. One that the snapshot needs is listed again when it is read.
    return tuple(child.name for child in (location / entry.name).list(missing_ok=True) if not child.is_folder)


def _bucket_files(
    location: Location, name: BaseName | DeltaName, valid_write_ids: ValidWriteIdList
) -> list[FileToRead]:
    folder = location / str(name)
    entries = _files_in(folder)
    check, write_ids = not _is_all_valid(name, valid_write_ids), _write_ids(name)
    found: list[FileToRead] = []
    originals: list[FileEntry] = []
    for entry in entries.values():
        with errors_naming(str(folder)):
            file = parse_file_name(entry.name)
        if isinstance(file, OriginalFileName) and entry.size_bytes:
            originals.append(entry)
        if isinstance(file, BucketFileName):
            side_file = entries.get(str(FlushLengthName(file))) if _may_be_open(name) else None
            length = _committed_length(folder, entry, side_file)
            # Nothing has been flushed yet: a batch of Hive's streaming begins with an empty file.
            if length != 0 and not (entry.size_bytes == 0 and _may_be_open(name)):
                found.append(FileToRead(entry.path, length, check, entry.size_bytes, write_ids))
    return found + _loaded(folder, name, originals, check) if originals else found


def _loaded(
    folder: Location, name: BaseName | DeltaName, entries: Sequence[FileEntry], check_write_ids: bool
) -> list[FileToRead]:
    """Files that LOAD DATA put into a folder: without the ACID columns, with the folder's write id.

    Raises CorruptFile where they cannot have one.
    """
    if isinstance(name, DeleteDeltaName) or (isinstance(name, DeltaName) and name.min_write_id != name.max_write_id):
        raise CorruptFile(
            f"{entries[0].path!r} has the name of a file without the ACID columns, which Hive writes into no folder of "
            "this kind: move it out of the table's folder"
        )
    write_id, statement_id = (
        (name.write_id, 0) if isinstance(name, BaseName) else (name.min_write_id, name.statement_id or 0)
    )
    return numbered(
        folder.store, entries, write_id=write_id, statement_id=statement_id, check_write_ids=check_write_ids
    )


def _files_in(folder: Location) -> dict[str, FileEntry]:
    try:
        listed = folder.list()
    except PathNotFound as error:
        raise PathNotFound(f"{str(folder)!r} was removed while it was being read. Read again") from error
    return {entry.name: entry for entry in listed if not entry.is_folder}


def _is_all_valid(name: BaseName | DeltaName, valid_write_ids: ValidWriteIdList) -> bool:
    if isinstance(name, BaseName):
        if name.write_id == BEFORE_ALL_WRITE_IDS:
            return True
        return valid_write_ids.is_range_valid(WriteId(1), name.write_id) is RangeResponse.ALL
    return valid_write_ids.is_range_valid(name.min_write_id, name.max_write_id) is RangeResponse.ALL


def _write_ids(name: BaseName | DeltaName) -> tuple[int, int] | None:
    """The lowest and highest that its rows may have. Rows from before the table was transactional have 0."""
    if isinstance(name, BaseName):
        return None if name.write_id == BEFORE_ALL_WRITE_IDS else (0, name.write_id)
    return name.min_write_id, name.max_write_id


def _may_be_open(name: BaseName | DeltaName) -> bool:
    """Only a batch of several write ids that no compaction has made is written while it is read."""
    if isinstance(name, BaseName | DeleteDeltaName):
        return False
    return name.min_write_id != name.max_write_id and name.visibility_txn_id is None


def _committed_length(folder: Location, entry: FileEntry, side_file: FileEntry | None) -> int | None:
    """The last length in the side file: what follows it is not committed (Hive: `OrcAcidUtils`)."""
    if side_file is None:
        return None
    with (folder / side_file.name).open_input() as source:
        lengths = source.read()
    whole = len(lengths) // _LENGTH_BYTES * _LENGTH_BYTES
    if whole == 0:
        # The side file is written first; nothing is committed, unless its content has been lost.
        return _nothing_committed(entry, side_file)
    length = int.from_bytes(lengths[whole - _LENGTH_BYTES : whole], "big")
    if length > entry.size_bytes:
        raise StreamingIOFailure(
            f"{entry.path!r} has {entry.size_bytes} bytes, its side file counts {length} as committed: "
            "wait until its writer has closed it, then read again"
        )
    return length


def _nothing_committed(entry: FileEntry, side_file: FileEntry) -> int:
    if entry.size_bytes == 0:
        return 0
    raise StreamingIOFailure(
        f"{side_file.path!r} is empty, so it is not known how much of {entry.path!r} is committed: "
        "wait until its writer has closed it, then read again"
    )
