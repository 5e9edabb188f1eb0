"""The table or partition that a compaction is about, as the catalog has it now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hive_ingest.acid import EXACT_KINDS, normalised_text, parse_partition_name, partition_name
from hive_ingest.errors import ConfigurationError, NoSuchObject
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Column, Table, TableName
from hive_ingest.schema import parse_type
from hive_ingest.storage import Location
from hive_ingest.transactions import list_registered, refuse_unknown_compactions


@dataclass(frozen=True, slots=True)
class Target:
    """An unpartitioned table, or one partition.

    Attributes:
        name: The partition's name; empty for an unpartitioned table.
        values: The values of the partition keys, as text.
        properties: Of the partition; of the table where there is none.
    """

    table: Table
    name: str
    values: tuple[str, ...]
    location: Location
    properties: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.table.name} {self.name}".rstrip()


def find_target(
    client: MetastoreClient, name: TableName, partition: str | None, *, table: Table | None = None
) -> Target:
    """Look it up.

    Args:
        table: Looked up already.

    Raises:
        NoSuchObject: There is no such table, or no such partition.
        ConfigurationError: The table is partitioned and no partition is named, or the other way round.
    """
    table = table or client.get_table(name)
    if not table.is_partitioned:
        if partition:
            raise ConfigurationError(f"{name} has no partitions: leave out {partition!r}")
        return Target(table, "", (), Location.of(table.location), table.properties)
    if not partition:
        raise ConfigurationError(f"{name} is partitioned: name one partition, such as {_example(table)!r}")
    found = client.get_partitions_by_names(table.name, [partition])
    if not found:
        raise NoSuchObject(f"{name} has no partition {partition!r}")
    values = found[0].values
    keys = [key.name for key in table.partition_keys]
    return Target(table, partition_name(keys, values), values, Location.of(found[0].location), found[0].properties)


def refuse_restored(client: MetastoreClient, target: Target) -> None:
    """Refuse to merge or remove anything beside a compaction that the metastore does not know.

    Raises:
        InvalidTable: The metastore was restored from an older copy.
        PathNotFound: The folder is missing.
    """
    names = [entry.name for entry in list_registered(target.location) if entry.is_folder]
    refuse_unknown_compactions(client, [target.location / name for name in names])


def partition_names_of(client: MetastoreClient, table: Table, partition: str | None) -> list[str | None]:
    """What to compact of a table: the partitions that begin with `partition`, all without it; [None] unpartitioned."""
    if not table.is_partitioned:
        return [find_target(client, table.name, partition, table=table).name or None]
    if partition is not None and not isinstance(partition, str):
        raise ConfigurationError(f"partition={partition!r}: give its name as text, such as {_example(table)!r}")
    keys = [key.name for key in table.partition_keys]
    wanted = {key.lower(): value for key, value in parse_partition_name(partition).items()} if partition else {}
    if unknown := wanted.keys() - set(keys):
        raise ConfigurationError(f"{table.name} has no partition key {sorted(unknown)[0]!r}, only {', '.join(keys)}")
    texts = {key.name: _normalised(wanted[key.name], key) for key in table.partition_keys if key.name in wanted}
    found = [
        each.values
        for each in client.list_partitions(table.name)
        if texts.items() <= dict(zip(keys, each.values, strict=True)).items()
    ]
    if partition and not found:
        raise NoSuchObject(f"{table.name} has no partition {partition!r}")
    return [*sorted(partition_name(keys, values) for values in found)]


def _normalised(value: str, key: Column) -> str:
    """As the folder has it: `01` is the partition 1 of an int key. Raises ConfigurationError."""
    type_ = parse_type(key.type)
    return normalised_text(value, type_) if type_.kind in EXACT_KINDS else value


def _example(table: Table) -> str:
    return "/".join(f"{key.name}=…" for key in table.partition_keys)
