"""A metastore that was restored from an older copy than the files of its tables.

It would allocate write ids again that folders have already. And it does not know the transactions of later
compactions, which their folders name (`_v<transaction>`): until it has opened so many again, it shows neither these
folders nor what a cleaner has removed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hive_ingest.acid import BaseName, DeltaName, parse_folder_name, parse_partition_name, partition_name
from hive_ingest.errors import ConfigurationError, CorruptFile, InvalidTable
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, TableName, TxnId, WriteId
from hive_ingest.storage import Location
from hive_ingest.transactions.registered_folders import list_registered, missing_folder


@dataclass(frozen=True, slots=True)
class WriteIdReport:
    """ACID folders of a table whose write ids the metastore has not allocated, or whose transactions it does not know.

    Attributes:
        highest_allocated: The highest write id that the metastore has allocated.
        highest_found: The highest write id in the name of a folder; 0 if there is none.
        highest_opened: The highest transaction that the metastore has opened.
        highest_compaction: The highest transaction of a compaction in the name of a folder; 0 if there is none.
        folders: The folders above `highest_allocated`, of registered partitions and of others.
        compactions: The same of folders above `highest_opened`.
        unregistered_partitions: Names of the partitions of these folders that the metastore does not know, sorted.
        unread_partitions: The same of all other folders: nobody reads their rows.
    """

    table: TableName
    highest_allocated: WriteId
    highest_found: WriteId
    highest_opened: TxnId
    highest_compaction: TxnId
    folders: tuple[Location, ...]
    compactions: tuple[Location, ...] = ()
    unregistered_partitions: tuple[str, ...] = ()
    unread_partitions: tuple[str, ...] = ()


def check_write_ids(client: MetastoreClient, table: str | TableName) -> WriteIdReport:
    """Compare the folders of a table and its partitions with what its metastore has allocated and opened.

    Takes as long as listing the whole table. Raises NoSuchObject, StreamingIOFailure.
    """
    found = client.get_table(table)
    # The folders come first: a writer may take a higher write id, and publish, at any moment.
    folders = list(_acid_folders(client, found))
    allocated = client.get_max_allocated_write_id(found.name)
    if allocated is None:
        (snapshot,) = client.get_valid_write_ids([found.name])
        allocated = snapshot.high_water_mark
    opened = client.get_valid_txns().high_water_mark
    above = tuple(each.location for each in folders if each.write_id > allocated)
    compactions = tuple(each.location for each in folders if each.txn_id > opened)
    registered = _registered(client, found) if found.is_partitioned else set()
    unregistered = _partition_names(found, (*above, *compactions)) - registered
    unread = _partition_names(found, (each.location for each in folders)) - registered - unregistered
    return WriteIdReport(
        table=found.name,
        highest_allocated=allocated,
        highest_found=max((each.write_id for each in folders), default=WriteId(0)),
        highest_opened=opened,
        highest_compaction=max((each.txn_id for each in folders), default=TxnId(0)),
        folders=above,
        compactions=compactions,
        unregistered_partitions=tuple(sorted(unregistered)),
        unread_partitions=tuple(sorted(unread)),
    )


#: The highest write id seen of each table, by metastore, table id and location. A partitioned table is scanned
#: once per process; afterwards its metastore is compared with the recorded write id.
_highest_seen: dict[tuple[str, int, str], WriteId] = {}


def refuse_unknown_write_ids(client: MetastoreClient, table: Table) -> None:
    """Refuse a table that has a write id which its metastore has not allocated, or a compaction that it does not know.

    Scans the folder of the table and, once per process, those of the partitions below it, also of partitions that the
    catalog does not know. Hive 3 does not report which write ids it has allocated, so there nothing is scanned.

    Raises:
        InvalidTable: The metastore was restored from an older copy, or another table has the same location.
        PathNotFound: The table's folder is missing.
    """
    root = Location.of(table.location)
    allocated = client.get_max_allocated_write_id(table.name)
    if allocated is None:
        if not root.exists():
            raise missing_folder(str(root))
        return
    key = (client.metastore_id, table.id, str(root))
    highest = _highest_seen.get(key, WriteId(0))
    if not table.is_partitioned or key not in _highest_seen:
        folders = list(_below(root, len(table.partition_keys)))
        refuse_unknown_compactions(client, (each.location for each in folders))
        highest = max([highest, *(each.write_id for each in folders)])
    if highest > allocated:  # perhaps a writer was given it, and published, during the scan
        allocated = client.get_max_allocated_write_id(table.name) or allocated
    if highest > allocated:
        raise InvalidTable(
            f"{table.name} has write id {highest} in its folders, but its metastore has allocated write ids up to "
            f"{allocated} only: it was restored from an older copy (run hive-ingest repair before any write), "
            f"or another table lies at {table.location!r} too"
        )
    _highest_seen[key] = max(highest, allocated)


def refuse_unknown_compactions(client: MetastoreClient, folders: Iterable[Location]) -> None:
    """Refuse folders if a compaction made one of them in a transaction that the metastore has not opened yet.

    Args:
        client: The metastore.
        folders: ACID folders, which must have been listed before this call.

    Raises:
        InvalidTable: The metastore was restored from an older copy.
    """
    folder = max(folders, key=_compaction_of, default=None)
    if folder is None or not _compaction_of(folder):
        return
    opened = client.get_valid_txns().high_water_mark
    if _compaction_of(folder) > opened:
        raise InvalidTable(
            f"{str(folder)!r} was made by a compaction in transaction {_compaction_of(folder)}, but the metastore has "
            f"opened transactions up to {opened} only: it was restored from an older copy. Run hive-ingest repair "
            "before any write, or the rows that were compacted are lost"
        )


def repair_write_ids(client: MetastoreClient, table: str | TableName) -> WriteIdReport:
    """Make the metastore allocate only write ids, and open only transactions, above those of the existing folders.

    Partitions of the reported folders that the restored metastore does not know are registered first: until the write
    ids are raised, their rows stay hidden and writers are refused, so that a repair which is interrupted can be
    repeated. The rows in the reported folders, which no reader saw, become visible: those that were committed after the
    copy was made, and those of transactions that were aborted since and whose files are still there.

    Raises:
        NoSuchObject, StreamingIOFailure, UnsupportedFeature: No write id was raised.
    """
    report = check_write_ids(client, table)
    if report.unregistered_partitions:
        values = [list(parse_partition_name(name).values()) for name in report.unregistered_partitions]
        client.add_partitions(report.table, values, if_not_exists=True, allow_acid_files=True)
    if report.compactions:
        client.raise_txn_ids(TxnId(report.highest_compaction + 1))
    if report.folders:
        client.raise_write_ids(report.table, WriteId(report.highest_found + 1))
    return report


def _partition_names(table: Table, folders: Iterable[Location]) -> set[str]:
    """Names of the partitions in whose folders `folders` lie, by where they lie below the table's."""
    if not table.is_partitioned:
        return set()
    root = f"{Location.of(table.location)}/"
    parents = {str(folder).rpartition("/")[0] for folder in folders}
    below = {parent.removeprefix(root) for parent in parents if parent.startswith(root)}
    return {name for name in below if _is_partition(table, name)}


def _is_partition(table: Table, folder: str) -> bool:
    """Whether the table's partition of that name would have that folder."""
    keys = [key.name for key in table.partition_keys]
    try:
        values = parse_partition_name(folder)
    except ConfigurationError:
        return False
    return list(values) == keys and partition_name(keys, list(values.values())) == folder


def _registered(client: MetastoreClient, table: Table) -> set[str]:
    """The folders of the table's partitions, as names."""
    root = f"{Location.of(table.location)}/"
    return {
        *client.list_partition_names(table.name),
        *(str(Location.of(each.location)).removeprefix(root) for each in client.list_partitions(table.name)),
    }


@dataclass(frozen=True, slots=True)
class _Folder:
    """An ACID folder; `txn_id` is that of the compaction that made it, or 0."""

    location: Location
    write_id: WriteId
    txn_id: TxnId


def _acid_folders(client: MetastoreClient, table: Table) -> Iterator[_Folder]:
    root = Location.of(table.location)
    yield from _below(root, len(table.partition_keys))
    if table.is_partitioned:
        for partition in client.list_partitions(table.name):
            location = Location.of(partition.location)
            if not str(location).startswith(f"{root}/"):
                yield from _below(location, 0)


def _below(root: Location, levels: int) -> Iterator[_Folder]:
    """The ACID folders `levels` partition folders below `root`.

    Also those of partitions that the catalog does not know: it may be older than they are.
    """
    folders = [(root, entry.name) for entry in list_registered(root) if entry.is_folder]
    for _ in range(levels):
        partitions = [parent / name for parent, name in folders if "=" in name]
        folders = [
            (parent, entry.name) for parent in partitions for entry in parent.list(missing_ok=True) if entry.is_folder
        ]
    for parent, name in folders:
        found = _parsed(name)
        if found is not None:
            write_id = found.write_id if isinstance(found, BaseName) else found.max_write_id
            yield _Folder(parent / name, write_id, found.visibility_txn_id or TxnId(0))


def _compaction_of(folder: Location) -> TxnId:
    """The transaction of the compaction that made it, or 0."""
    found = _parsed(folder.name)
    return (found.visibility_txn_id if found else None) or TxnId(0)


def _parsed(folder: str) -> BaseName | DeltaName | None:
    try:
        return parse_folder_name(folder)
    except CorruptFile:  # a name with the prefix of an ACID folder that is none
        return None
