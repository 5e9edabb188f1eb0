"""Files without the ACID columns, in the order in which Hive numbers their rows.

The files of one bucket are `000000_0`, `000000_0_copy_1`, …: row ids are counted across them, in the order of their
paths (Hive: `AcidUtils.getAcidState`, `OrcRawRecordMerger.OriginalReaderPairToRead`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hive_ingest.acid import AcidDirectory, OriginalFileName, encode_bucket, is_hidden
from hive_ingest.errors import CorruptFile, PathNotFound
from hive_ingest.orc import FileToRead, OriginalRows, count_rows
from hive_ingest.storage import FileEntry, FileStore, Location
from hive_ingest.transactions import list_registered

#: Of rows from before the table was transactional.
_NO_WRITE_ID = 0


@contextmanager
def errors_naming(folder: str) -> Iterator[None]:
    """Adds the folder to the error about a foreign name in it."""
    try:
        yield
    except CorruptFile as error:
        raise CorruptFile(f"in {folder!r}: {error}") from error


def original_files(location: Location, directory: AcidDirectory) -> list[FileToRead]:
    """The files without the ACID columns in a partition, or in a table without partitions, by path.

    Raises:
        CorruptFile: A file has a name that Hive does not use, or is damaged.
        StreamingIOFailure: A file or folder cannot be read, or is missing.
    """
    entries = _entries(location, directory)
    return numbered(location.store, entries, write_id=_NO_WRITE_ID) if entries else []


def numbered(
    store: FileStore,
    entries: Iterable[FileEntry],
    *,
    write_id: int,
    statement_id: int = 0,
    check_write_ids: bool = False,
) -> list[FileToRead]:
    """Files whose rows are numbered together, with the ids of their rows.

    Args:
        store: The files' store.
        entries: The files, in any order.
        write_id: Of all rows.
        statement_id: Part of their bucket property.
        check_write_ids: As in `FileToRead`.

    Raises:
        CorruptFile, StreamingIOFailure: As for `original_files`.
    """
    files = []
    for entry in sorted(entries, key=lambda entry: entry.path):
        with errors_naming(entry.path.rpartition("/")[0]):
            files.append((entry, OriginalFileName.parse(entry.name)))
    left = Counter(name.bucket for _, name in files)
    next_row_id: Counter[int] = Counter()
    found = []
    for entry, name in files:
        rows = OriginalRows(write_id, encode_bucket(name.bucket, statement_id), next_row_id[name.bucket])
        found.append(FileToRead(entry.path, None, check_write_ids, entry.size_bytes, original=rows))
        left[name.bucket] -= 1
        if left[name.bucket]:  # the last file of a bucket need not be opened: nothing follows it
            next_row_id[name.bucket] += count_rows(store, entry.path)
    return found


def _entries(location: Location, directory: AcidDirectory) -> list[FileEntry]:
    wanted = set(directory.original_files)
    found = [entry for entry in list_registered(location) if entry.name in wanted] if wanted else []
    if len(found) < len(wanted):
        raise PathNotFound(f"files in {str(location)!r} were removed while it was being read. Read again")
    for folder in directory.original_folders:
        below = (location / folder).list(recursive=True)
        found += [entry for entry in below if entry.size_bytes and not _is_below_hidden(entry.path, location.path)]
    return found


def _is_below_hidden(path: str, folder: str) -> bool:
    return any(is_hidden(name) for name in path.removeprefix(folder).strip("/").split("/"))
