"""Write ids of a metastore that was restored from an older copy than the files of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hive_ingest.acid import BaseName, parse_folder_name, parse_partition_name, partition_name
from hive_ingest.errors import ConfigurationError, CorruptFile, InvalidTable
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table, TableName, WriteId
from hive_ingest.storage import Location
from hive_ingest.transactions.registered_folders import list_registered, missing_folder


@dataclass(frozen=True, slots=True)
class WriteIdReport:
    """ACID folders of a table whose write ids the metastore has not allocated yet.

    Attributes:
        highest_allocated: The highest write id that the metastore has allocated.
        highest_found: The highest write id in the name of a folder; 0 if there is none.
        folders: The folders above `highest_allocated`, of registered partitions and of others.
        unregistered_partitions: Names of the partitions of `folders` that the metastore does not know, sorted.
    """

    table: TableName
    highest_allocated: WriteId
    highest_found: WriteId
    folders: tuple[Location, ...]
    unregistered_partitions: tuple[str, ...] = ()


def check_write_ids(client: MetastoreClient, table: str | TableName) -> WriteIdReport:
    """Compare the folders of a table and its partitions with the write ids that its metastore has allocated.

    Takes as long as listing the whole table. Raises NoSuchObject, StreamingIOFailure.
    """
    found = client.get_table(table)
    # The folders come first: a writer may take a higher write id, and publish, at any moment.
    folders = dict(_acid_folders(client, found))
    allocated = client.get_max_allocated_write_id(found.name)
    if allocated is None:
        (snapshot,) = client.get_valid_write_ids([found.name])
        allocated = snapshot.high_water_mark
    unknown = tuple(folder for folder, write_id in folders.items() if write_id > allocated)
    highest = max(folders.values(), default=WriteId(0))
    return WriteIdReport(found.name, allocated, highest, unknown, _unregistered_partitions(client, found, unknown))


#: The highest write id seen of each table, by metastore, table id and location. A partitioned table is scanned
#: once per process; afterwards its metastore is compared with the recorded write id.
_highest_seen: dict[tuple[str, int, str], WriteId] = {}


def refuse_unknown_write_ids(client: MetastoreClient, table: Table) -> None:
    """Refuse a table that has a write id which its metastore has not allocated.

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
        highest = max([highest, *(write_id for _, _, write_id in _below(root, len(table.partition_keys)))])
    if highest > allocated:  # perhaps a writer was given it, and published, during the scan
        allocated = client.get_max_allocated_write_id(table.name) or allocated
    if highest > allocated:
        raise InvalidTable(
            f"{table.name} has write id {highest} in its folders, but its metastore has allocated write ids up to "
            f"{allocated} only: it was restored from an older copy (run hive-ingest repair before any write), "
            f"or another table lies at {table.location!r} too"
        )
    _highest_seen[key] = max(highest, allocated)


def repair_write_ids(client: MetastoreClient, table: str | TableName) -> WriteIdReport:
    """Make the metastore allocate only write ids above those of the existing folders.

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
    if report.folders:
        client.raise_write_ids(report.table, WriteId(report.highest_found + 1))
    return report


def _unregistered_partitions(client: MetastoreClient, table: Table, folders: Iterable[Location]) -> tuple[str, ...]:
    """Names of the partitions in whose folders `folders` lie and which the catalog does not have."""
    if not table.is_partitioned:
        return ()
    root = f"{Location.of(table.location)}/"
    parents = {str(folder).rpartition("/")[0] for folder in folders}
    below = {parent.removeprefix(root) for parent in parents if parent.startswith(root)}
    return tuple(sorted({name for name in below if _is_partition(table, name)} - _registered(client, table)))


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


def _acid_folders(client: MetastoreClient, table: Table) -> Iterator[tuple[Location, WriteId]]:
    root = Location.of(table.location)
    yield from ((parent / name, write_id) for parent, name, write_id in _below(root, len(table.partition_keys)))
    if table.is_partitioned:
        for partition in client.list_partitions(table.name):
            location = Location.of(partition.location)
            if not str(location).startswith(f"{root}/"):
                yield from ((parent / name, write_id) for parent, name, write_id in _below(location, 0))


def _below(root: Location, levels: int) -> Iterator[tuple[Location, str, WriteId]]:
    """The ACID folders `levels` partition folders below `root`: the parent, the name and the write id of each.

    Also those of partitions that the catalog does not know: it may be older than they are.
    """
    folders = [(root, entry.name) for entry in list_registered(root) if entry.is_folder]
    for _ in range(levels):
        partitions = [parent / name for parent, name in folders if "=" in name]
        folders = [
            (parent, entry.name) for parent in partitions for entry in parent.list(missing_ok=True) if entry.is_folder
        ]
    for parent, name in folders:
        write_id = _write_id(name)
        if write_id is not None:
            yield parent, name, write_id


def _write_id(folder: str) -> WriteId | None:
    try:
        name = parse_folder_name(folder)
    except CorruptFile:  # a name with the prefix of an ACID folder that is none
        return None
    if name is None:
        return None
    return name.write_id if isinstance(name, BaseName) else name.max_write_id
