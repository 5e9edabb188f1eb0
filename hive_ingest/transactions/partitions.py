"""The partitions of an INSERT: created if they are missing, and registered with the transaction manager."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hive_ingest.acid import parse_partition_name, partition_name
from hive_ingest.errors import MetastoreError, MetastoreUnavailable, PartitionCreationFailed
from hive_ingest.faults import reach
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnId
from hive_ingest.storage import Location
from hive_ingest.transactions.table_write import TableWrite


def register_partitions(
    client: MetastoreClient, txn_id: TxnId, write: TableWrite, extra_partitions: Iterable[str] = ()
) -> None:
    """Create the partitions of a write that are missing, and register all of them with the transaction.

    From then on the metastore remembers an abort for as long as the transaction's files may exist. Fills in
    `partitions_created` and `partition_locations`.

    Args:
        extra_partitions: Names of further partitions to create, without rows.

    Raises:
        PartitionCreationFailed: The metastore refused.
        MetastoreUnavailable: The metastore cannot be reached.
    """
    if not write.table.is_partitioned:
        write.partition_locations = {"": Location.of(write.table.location)}
        return
    names = list(dict.fromkeys([*write.partition_names(), *extra_partitions]))
    try:
        write.partition_locations = _create(client, write, names)
        reach("after_create_partitions")
        if names:
            client.add_dynamic_partitions(txn_id, write.write_id, write.table.name, names, write.operation)
    except MetastoreUnavailable:
        raise
    except MetastoreError as error:
        raise PartitionCreationFailed(f"partitions of {write.table.name} could not be created: {error}") from error
    reach("after_add_dynamic_partitions")


def _create(client: MetastoreClient, write: TableWrite, names: Sequence[str]) -> dict[str, Location]:
    table = write.table
    if not names:
        return {}
    keys = [key.name for key in table.partition_keys]
    found = client.get_partitions_by_names(table.name, names)
    known = {partition_name(keys, partition.values): partition.location for partition in found}
    missing = [name for name in names if name not in known]
    if missing:
        values = [list(parse_partition_name(name).values()) for name in missing]
        made = client.add_partitions(table.name, values, if_not_exists=True)
        known |= {partition_name(keys, partition.values): partition.location for partition in made}
        write.partitions_created = missing
    return {name: Location.of(known[name]) for name in names}
