"""Which folders of a table or partition a cleaner may remove."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hive_ingest.acid import (
    BASE_METADATA_FILE,
    BaseName,
    DeltaName,
    ListedEntry,
    OriginalFileName,
    ValidTxnList,
    acid_directory,
    is_hidden,
    parse_folder_name,
)
from hive_ingest.compaction.target import Target
from hive_ingest.errors import CorruptFile
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import AbortedComponent, CompactionInfo, TxnId, WriteId
from hive_ingest.storage import Location
from hive_ingest.transactions import list_registered


def obsolete_leftovers(
    client: MetastoreClient, target: Target, info: CompactionInfo, min_open: TxnId
) -> list[Location]:
    """What the result of a compaction has replaced, as far as every open snapshot sees that result.

    The snapshot ends below the lowest open transaction, and at the compaction's highest write id: what lies above may
    be of transactions that a reader does not see yet. Other folders than ACID folders are left alone, unless they hold
    nothing but files without the ACID columns, whose rows are in the base.
    """
    txns = client.get_valid_txns()
    valid_txns = ValidTxnList(TxnId(min_open - 1), (), tuple(id_ for id_ in txns.aborted if id_ < min_open))
    (snapshot,) = client.get_valid_write_ids([target.table.name], valid_txns)
    highest = info.highest_write_id or WriteId(0)
    snapshot = snapshot.up_to(highest)
    entries = [entry for entry in _entries(target.location) if _highest_write_id(entry) <= highest]
    directory = acid_directory(entries, snapshot, valid_txns)
    is_kept = {entry.name for entry in entries if entry.is_folder and parse_name(entry) is None}
    found = [target.location / name for name in directory.obsolete]
    return [place for place in found if place.name not in is_kept or _holds_only_originals(place)]


def _holds_only_originals(folder: Location) -> bool:
    """Whether all files have names that Hive gives, as in the folders of a UNION ALL; hidden ones do not count."""
    start = len(folder.path.rstrip("/")) + 1
    found = [entry.path[start:] for entry in folder.list(recursive=True, missing_ok=True) if not entry.is_folder]
    names = [path.rpartition("/")[2] for path in found if not any(map(is_hidden, path.split("/")))]
    return bool(names) and all(map(OriginalFileName.matches, names))


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What aborted transactions left.

    Attributes:
        folders: Those that hold nothing else, to be removed.
        shared: Folders that also hold rows of other transactions, by location and range of write ids.
    """

    folders: tuple[Location, ...]
    shared: tuple[tuple[Location, WriteId, WriteId], ...]

    def gone_with(self, removed: Iterable[Location], components: Iterable[AbortedComponent]) -> set[TxnId]:
        """The transactions of which nothing is left once `folders` and `removed` are gone: they may be forgotten."""
        gone = set(removed)
        left = [(low, high) for location, low, high in self.shared if location not in gone]
        return {
            each.txn_id
            for each in components
            if each.is_compaction
            or each.write_id is None
            or not any(low <= each.write_id <= high for low, high in left)
        }


def aborted_leftovers(location: Location, components: Iterable[AbortedComponent]) -> Leftovers:
    """Find the folders that aborted transactions wrote: by write id, or by the suffix `_v` of a compaction's."""
    components = list(components)
    if not components:
        return Leftovers((), ())
    write_ids = {each.write_id for each in components if not each.is_compaction and each.write_id is not None}
    compactions = {each.txn_id for each in components if each.is_compaction}
    folders, shared = [], []
    for entry in _entries(location):
        name = parse_name(entry)
        if name is None:
            continue
        if name.visibility_txn_id is not None:
            if name.visibility_txn_id in compactions:
                folders.append(location / entry.name)
        elif isinstance(name, BaseName):
            if name.write_id in write_ids and BASE_METADATA_FILE not in entry.children:
                folders.append(location / entry.name)
        elif _is_within(name, write_ids):
            folders.append(location / entry.name)
        elif any(name.min_write_id <= write_id <= name.max_write_id for write_id in write_ids):
            shared.append((location / entry.name, name.min_write_id, name.max_write_id))
    return Leftovers(tuple(folders), tuple(shared))


def _is_within(name: DeltaName, write_ids: Collection[WriteId]) -> bool:
    return all(WriteId(write_id) in write_ids for write_id in range(name.min_write_id, name.max_write_id + 1))


def parse_name(entry: ListedEntry) -> BaseName | DeltaName | None:
    """None for what is not an ACID folder. A name that only begins like one is left to whoever made it."""
    try:
        return parse_folder_name(entry.name) if entry.is_folder else None
    except CorruptFile:
        return None


def _highest_write_id(entry: ListedEntry) -> int:
    name = parse_name(entry)
    if name is None:
        return 0
    return name.write_id if isinstance(name, BaseName) else name.max_write_id


def _entries(location: Location) -> Sequence[ListedEntry]:
    """Raises PathNotFound for a missing folder: on a disk that is not mounted, nothing is known to be gone."""
    return [
        ListedEntry(entry.name, entry.is_folder, entry.size_bytes, _children(location, entry.name, entry.is_folder))
        for entry in list_registered(location)
    ]


def _children(location: Location, name: str, is_folder: bool) -> tuple[str, ...]:
    if not is_folder or not name.startswith(BaseName.PREFIX):
        return ()
    return tuple(entry.name for entry in (location / name).list(missing_ok=True))
