"""What the folder of a table or partition holds: base, deltas, and what a cleaner may remove, with their sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hive_ingest.acid import (
    AcidDirectory,
    ListedEntry,
    ValidTxnList,
    ValidWriteIdList,
    acid_directory,
    is_hidden,
)
from hive_ingest.storage import FileEntry, Location


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
        obsolete: Folders and files that what is read makes obsolete.
        aborted: Folders that hold nothing but aborted writes.
        originals: Files without the ACID columns, which are rows too.
    """

    directory: AcidDirectory
    base: FolderSize | None
    deltas: tuple[FolderSize, ...]
    delete_deltas: tuple[FolderSize, ...]
    obsolete: tuple[FolderSize, ...]
    aborted: tuple[FolderSize, ...]
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
        """List the folder once, with all that lies in it.

        Args:
            location: The folder of an unpartitioned table, or of one partition.
            valid_write_ids: The snapshot's write ids of the table.
            valid_txns: The snapshot's transactions.

        Raises:
            PathNotFound: The folder is missing.
            CorruptFile: A folder's name only begins like one of Hive's.
            StreamingIOFailure: It cannot be listed, or the snapshot is too old for it.
        """
        listing = _Listing(location)
        directory = acid_directory(listing.entries(), valid_write_ids, valid_txns)
        originals = (*directory.original_files, *directory.original_folders)
        return cls(
            directory=directory,
            base=listing.size(str(directory.base)) if directory.base else None,
            deltas=listing.sizes(map(str, directory.deltas)),
            delete_deltas=listing.sizes(map(str, directory.delete_deltas)),
            obsolete=listing.sizes(directory.obsolete),
            aborted=listing.sizes(directory.aborted),
            originals=FolderSize("", tuple(size for name in originals for size in listing.size(name).file_bytes)),
        )


class _Listing:
    """A recursive listing, by the first part of each path."""

    def __init__(self, location: Location) -> None:
        self._top: list[FileEntry] = []
        self._below: dict[str, list[FileEntry]] = {}
        start = len(location.path.rstrip("/")) + 1
        for entry in location.list(recursive=True):
            name, slash, rest = entry.path[start:].partition("/")
            if not slash:
                self._top.append(entry)
            elif not any(map(is_hidden, rest.split("/"))) or "/" not in rest:
                self._below.setdefault(name, []).append(entry)

    def entries(self) -> list[ListedEntry]:
        return [
            ListedEntry(
                entry.name,
                entry.is_folder,
                entry.size_bytes,
                tuple(child.name for child in self._below.get(entry.name, ())),
            )
            for entry in self._top
        ]

    def size(self, name: str) -> FolderSize:
        files = self._below.get(name) or [entry for entry in self._top if entry.name == name]
        return FolderSize(
            name,
            tuple(
                file.size_bytes for file in files if not file.is_folder and file.size_bytes and not is_hidden(file.name)
            ),
        )

    def sizes(self, names: Iterable[str]) -> tuple[FolderSize, ...]:
        return tuple(map(self.size, names))
