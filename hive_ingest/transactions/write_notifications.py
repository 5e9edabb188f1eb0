"""Notifies a server's event listeners of a transaction, between publish and commit (HIVE-19267).

Java: `HiveStreamingConnection.addWriteNotificationEvents`. Replication copies only files that it was notified of,
nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hive_ingest.acid import parse_partition_name
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DataOperationType, TxnId
from hive_ingest.transactions.table_write import TableWrite


def add_write_notifications(client: MetastoreClient, txn_id: TxnId, writes: Iterable[TableWrite]) -> None:
    """One call for each partition written. None for compactions: replication copies what they were made from."""
    if not client.wants_write_notifications:
        return
    for write in writes:
        if write.operation is DataOperationType.NO_TXN:
            continue
        for name, uris in _published(write).items():
            values = list(parse_partition_name(name).values()) if name else []
            client.add_write_notification_log(txn_id, write.write_id, write.table.name, uris, values)


def _published(write: TableWrite) -> dict[str, list[str]]:
    """URIs of the published files by partition name."""
    found = defaultdict[str, list[str]](list)
    for file in write.files:
        found[write.partition_of(file)].append(str(write.folder_of(file) / file.file_name))
    return found
