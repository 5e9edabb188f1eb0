"""What the folder of a table or partition holds: base and deltas with their sizes, and what a cleaner may remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hive_ingest.acid import AcidDirectory, ValidTxnList, ValidWriteIdList, is_hidden
from hive_ingest.reader import FolderToRead
from hive_ingest.storage import FileEntry, Location

#: What a file of a few rows has in addition to their bytes, in a table of five columns: a merge leaves it out.
FILE_OVERHEAD_BYTES = 3072


def content_bytes(file_bytes: Iterable[int], overhead_bytes: int = FILE_OVERHEAD_BYTES) -> int:
    """About the bytes that the rows of files take once they are merged."""
    return sum(max(0, size - overhead_bytes) for size in file_bytes)


@dataclass(frozen=True, slots=True)
class FolderSize:
    """One ACID folder. Hidden and empty files are not counted.

    Attributes:
        name: Its name, such as `delta_0000004_0000004_0000`.
        file_bytes: The size of each data file in it.
    """

    name: str
    file_bytes: tuple[int, ...]

    @property
    def files(self) -> int:
        return len(self.file_bytes)

    @property
    def size_bytes(self) -> int:
        return sum(self.file_bytes)

    def small_files(self, limit_bytes: int) -> int:
        """How many files are smaller than that."""
        return sum(size < limit_bytes for size in self.file_bytes)


@dataclass(frozen=True, slots=True)
class FolderState:
    """A partition's folder as a snapshot sees it.

    Attributes:
        directory: Which folders are read, and which are left over.
        base: The base, if there is one.
        deltas: The deltas that are read, in order.
        delete_deltas: The same of delete events.
        obsolete: The names of folders and files that what is read makes obsolete.
        aborted: The names of folders that hold nothing but aborted writes.
        originals: Files without the ACID columns, which are rows too.
    """

    directory: AcidDirectory
    base: FolderSize | None
    deltas: tuple[FolderSize, ...]
    delete_deltas: tuple[FolderSize, ...]
    obsolete: tuple[str, ...]
    aborted: tuple[str, ...]
    originals: FolderSize

    @property
    def delta_count(self) -> int:
        """Deltas and delete deltas, as Hive counts them for `hive.compactor.delta.num.threshold`."""
        return len(self.deltas) + len(self.delete_deltas)

    @property
    def delta_bytes(self) -> int:
        return sum(folder.size_bytes for folder in (*self.deltas, *self.delete_deltas))

    @property
    def base_bytes(self) -> int:
        """The size of the base; without one, that of the original files."""
        return self.base.size_bytes if self.base else self.originals.size_bytes

    @classmethod
    def read(cls, location: Location, valid_write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> FolderState:
        """List the folder, and the folders in it that are read; others are only named.

        Args:
            location: The folder of an unpartitioned table, or of one partition.
            valid_write_ids: The snapshot's write ids of the table.
            valid_txns: The snapshot's transactions.

        Raises:
            PathNotFound: The folder is missing.
            CorruptFile: A folder's name only begins like one of Hive's.
            StreamingIOFailure: It cannot be listed, or the snapshot is too old for it.
        """
        directory = FolderToRead.of(location, valid_write_ids, valid_txns).directory
        files = _listing_of(location)

        def size(name: str) -> FolderSize:
            return FolderSize(name, tuple(_sizes(files(name))))

        originals = [location.store.file_size((location / name).path) for name in directory.original_files]
        for name in directory.original_folders:
            originals += _sizes((location / name).list(recursive=True, missing_ok=True))
        return cls(
            directory=directory,
            base=size(str(directory.base)) if directory.base else None,
            deltas=tuple(size(str(name)) for name in directory.deltas),
            delete_deltas=tuple(size(str(name)) for name in directory.delete_deltas),
            obsolete=directory.obsolete,
            aborted=directory.aborted,
            originals=FolderSize("", tuple(originals)),
        )


def _sizes(files: Iterable[FileEntry]) -> list[int]:
    return [file.size_bytes for file in files if file.size_bytes and not file.is_folder and not is_hidden(file.name)]


def _listing_of(location: Location) -> Callable[[str], Iterable[FileEntry]]:
    """What lists the files in a folder of `location`."""
    if location.store.can_rename_folders:
        # What is obsolete is not listed: while a writer commits without pause, that is the most. A folder that a
        # cleaner removes meanwhile counts as empty.
        return lambda name: (location / name).list(missing_ok=True)
    below: dict[str, list[FileEntry]] = {}  # an object store lists a thousand files by one request
    start = len(location.path.rstrip("/")) + 1
    for entry in location.list(recursive=True):
        folder, _, rest = entry.path[start:].partition("/")
        if rest and "/" not in rest:
            below.setdefault(folder, []).append(entry)
    return lambda name: below.get(name, ())
