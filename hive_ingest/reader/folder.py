"""The files of one partition (or unpartitioned table) that a snapshot sees."""

from __future__ import annotations

from collections.abc import Iterator
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
    is_hidden,
    parse_file_name,
    parse_folder_name,
)
from hive_ingest.errors import PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.model import WriteId
from hive_ingest.orc import FileToRead
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
        """Raises what `acid_directory` does, and UnsupportedFeature for files without the ACID columns."""
        directory = acid_directory(_listing(location), valid_write_ids, valid_txns)
        _check_originals(location, directory)
        return cls(location, directory, valid_write_ids)

    def data_files(self, *, newest_first: bool = False) -> Iterator[FileToRead]:
        """The base's buckets, then each delta's; or the other way round. Raises CorruptFile for a foreign name."""
        base = [self.directory.base] if self.directory.base else []
        folders: list[BaseName | DeltaName] = [*base, *self.directory.deltas]
        for name in reversed(folders) if newest_first else folders:
            yield from _bucket_files(self.location, name, self.valid_write_ids)

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


def _check_originals(location: Location, directory: AcidDirectory) -> None:
    found = [(location / name).path for name in directory.original_files]
    for folder in directory.original_folders:
        below = (location / folder).list(recursive=True)
        found += [
            entry.path for entry in below if not entry.is_folder and not _is_below_hidden(entry.path, location.path)
        ]
    if found:
        raise _is_original(found[0])


def _is_below_hidden(path: str, folder: str) -> bool:
    return any(is_hidden(name) for name in path.removeprefix(folder).strip("/").split("/"))


def _is_original(path: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{path!r} has no ACID columns: it is from before the table was transactional, or from LOAD DATA. "
        "Run a major compaction in Hive, then read again"
    )


def _bucket_files(
    location: Location, name: BaseName | DeltaName, valid_write_ids: ValidWriteIdList
) -> list[FileToRead]:
    folder = location / str(name)
    entries = _files_in(folder)
    check, write_ids = not _is_all_valid(name, valid_write_ids), _write_ids(name)
    found: list[FileToRead] = []
    for entry in entries.values():
        file = parse_file_name(entry.name)
        if isinstance(file, OriginalFileName):
            raise _is_original(entry.path)
        if isinstance(file, BucketFileName):
            side_file = entries.get(str(FlushLengthName(file))) if _may_be_open(name) else None
            length = _committed_length(folder, entry, side_file)
            # Nothing has been flushed yet: a batch of Hive's streaming begins with an empty file.
            if length != 0 and not (entry.size_bytes == 0 and _may_be_open(name)):
                found.append(FileToRead(entry.path, length, check, entry.size_bytes, write_ids))
    return found


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
