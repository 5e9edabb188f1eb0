"""Which files of a partition a compaction merges, and into which.

Files are merged bucket by bucket, all statements of a write id together. The range of the output's write ids is that
of the folders merged (Hive: `CompactorMR`), so that it never overlaps a delta which is not merged: one with a write id
that is still open, or one that is large and merged already (`kept_delta`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hive_ingest.acid import (
    BEFORE_ALL_WRITE_IDS,
    AcidDirectory,
    BaseName,
    BucketFileName,
    DeleteDeltaName,
    DeltaName,
    OriginalFileName,
    ValidTxnList,
    ValidWriteIdList,
    parse_file_name,
)
from hive_ingest.compaction.folder_state import content_bytes
from hive_ingest.compaction.kept_delta import KeptDelta, can_merge
from hive_ingest.model import TxnId, WriteId
from hive_ingest.orc import FileToRead
from hive_ingest.reader import FolderToRead
from hive_ingest.storage import Location


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to write.

    Attributes:
        folder_name: The ACID folder that it goes to.
        bucket: The number in its name.
        inputs: The files that it is made from, in Hive's order of folders.
        is_delete_events: It holds delete events, not rows.
    """

    folder_name: str
    bucket: int
    inputs: tuple[FileToRead, ...]
    is_delete_events: bool = False

    @property
    def file_name(self) -> str:
        """Such as `bucket_00000`."""
        return str(BucketFileName(self.bucket))

    @property
    def input_bytes(self) -> int:
        return sum(file.size_bytes for file in self.inputs)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """One compaction of one partition.

    Attributes:
        location: The partition's folder, or the table's.
        is_major: A base is written, without the rows that were deleted.
        valid_write_ids: The compactor's snapshot: rows of aborted write ids are left out.
        max_write_id: The highest write id of what is merged.
        input_folders: The folders that the output makes obsolete, and files without the ACID columns, by name.
        folders: The output's folders, by name. Each has to be published, also one that no file goes to: it covers
            the write ids.
        files: The files to write. One that would have no rows is not written.
        delete_events: All files of delete events that a major compaction applies.
    """

    location: Location
    is_major: bool
    valid_write_ids: ValidWriteIdList
    max_write_id: WriteId
    input_folders: tuple[str, ...]
    folders: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    delete_events: tuple[FileToRead, ...] = ()

    @property
    def input_files(self) -> tuple[FileToRead, ...]:
        """Every file that is read, once."""
        return (*(file for output in self.files for file in output.inputs), *self.delete_events)

    @property
    def input_bytes(self) -> int:
        return sum(file.size_bytes for file in self.input_files)


def plan_minor(
    location: Location,
    valid_write_ids: ValidWriteIdList,
    valid_txns: ValidTxnList,
    *,
    txn_id: TxnId,
    kept: KeptDelta | None = None,
) -> MergePlan | None:
    """Deltas into one delta, delete deltas into one delete delta.

    Args:
        location: The folder of an unpartitioned table, or of one partition.
        valid_write_ids: The compactor's snapshot, which ends below the lowest open write id.
        valid_txns: The same of transactions.
        txn_id: The compaction's transaction, for the suffix `_v`.
        kept: When the result of an earlier minor compaction is left as it is. None: never.

    Returns:
        None where there are not two deltas, or two delete deltas, to merge.

    Raises:
        CorruptFile: A file or folder has a name that only begins like one of Hive's.
        StreamingIOFailure: A folder is missing or cannot be listed, or the snapshot is too old for it.
    """
    folder = _closed_folder(location, valid_write_ids, valid_txns)
    directory = folder.directory
    merged = [*directory.deltas, *directory.delete_deltas]
    if not can_merge(merged):
        return None
    deltas = replace(directory, base=None, original_files=(), original_folders=())
    rows = list(replace(folder, directory=deltas).data_files())
    events = list(folder.delete_event_files())
    if kept is not None:
        merged = kept.without_kept(merged, _sizes_by_folder([*rows, *events]))
    low = WriteId(min(name.min_write_id for name in merged))
    high = WriteId(max(name.max_write_id for name in merged))
    delta = str(DeltaName(low, high, visibility_txn_id=txn_id))
    delete_delta = str(DeleteDeltaName(low, high, visibility_txn_id=txn_id))
    names = {*map(str, merged)}
    return MergePlan(
        location,
        is_major=False,
        valid_write_ids=valid_write_ids,
        max_write_id=high,
        input_folders=tuple(map(str, merged)),
        folders=(delta, delete_delta) if any(isinstance(name, DeleteDeltaName) for name in merged) else (delta,),
        files=(
            *_by_bucket(delta, (file for file in rows if _folder_of(file) in names)),
            *_by_bucket(delete_delta, (file for file in events if _folder_of(file) in names), is_delete_events=True),
        ),
    )


def plan_major(
    location: Location, valid_write_ids: ValidWriteIdList, valid_txns: ValidTxnList, *, txn_id: TxnId
) -> MergePlan | None:
    """Base and deltas into one base, without the rows that were deleted.

    Arguments and errors are those of `plan_minor`.

    Returns:
        None where there are not two folders to merge, and no files without the ACID columns to give them.
    """
    folder = _closed_folder(location, valid_write_ids, valid_txns)
    directory = folder.directory
    originals = (*directory.original_files, *directory.original_folders)
    base = (directory.base,) if directory.base else ()
    deltas = (*directory.deltas, *directory.delete_deltas)
    if not originals and len(base) + len(deltas) < 2:
        return None
    write_ids = (*(name.write_id for name in base), *(name.max_write_id for name in deltas))
    high = WriteId(max(write_ids, default=BEFORE_ALL_WRITE_IDS))
    output = str(BaseName(high, visibility_txn_id=txn_id))
    return MergePlan(
        location,
        is_major=True,
        valid_write_ids=valid_write_ids,
        max_write_id=high,
        input_folders=(*originals, *map(str, (*base, *deltas))),
        folders=(output,),
        files=_by_bucket(output, folder.data_files()),
        delete_events=tuple(folder.delete_event_files()),
    )


def _closed_folder(location: Location, valid_write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> FolderToRead:
    """Without deltas that reach beyond the snapshot: another transaction of their batch may still be open.

    Hive: `ValidCompactorWriteIdList.isWriteIdRangeValid`.
    """
    folder = FolderToRead.of(location, valid_write_ids, valid_txns)
    last = valid_write_ids.high_water_mark
    return replace(folder, directory=_up_to(folder.directory, last))


def _up_to(directory: AcidDirectory, last: WriteId) -> AcidDirectory:
    return replace(
        directory,
        deltas=tuple(name for name in directory.deltas if name.max_write_id <= last),
        delete_deltas=tuple(name for name in directory.delete_deltas if name.max_write_id <= last),
    )


def _by_bucket(
    folder_name: str, files: Iterable[FileToRead], *, is_delete_events: bool = False
) -> tuple[PlannedFile, ...]:
    """Hive's attempt numbers are left out: the files of all attempts that were published hold rows."""
    found: dict[int, list[FileToRead]] = {}
    for file in files:
        found.setdefault(_bucket_of(file.path.rpartition("/")[2]), []).append(file)
    return tuple(
        PlannedFile(folder_name, bucket, tuple(inputs), is_delete_events) for bucket, inputs in sorted(found.items())
    )


def _folder_of(file: FileToRead) -> str:
    return file.path.rsplit("/", 2)[-2]


def _sizes_by_folder(files: Iterable[FileToRead]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for file in files:
        sizes[_folder_of(file)] = sizes.get(_folder_of(file), 0) + content_bytes([file.size_bytes])
    return sizes


def _bucket_of(file_name: str) -> int:
    name = parse_file_name(file_name)
    assert isinstance(name, BucketFileName | OriginalFileName), file_name
    return name.bucket
