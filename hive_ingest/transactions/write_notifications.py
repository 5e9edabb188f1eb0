"""What a server's event listeners are told of a transaction, between publish and commit (HIVE-19267).

Java: `HiveStreamingConnection.addWriteNotificationEvents`. Replication copies what it was told of, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hive_ingest.acid.names import parse_partition_name
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.model import TxnId
from hive_ingest.storage import open_store

if TYPE_CHECKING:
    from hive_ingest.transactions.commit import TableWrite


def add_write_notifications(
    client: MetastoreClient, txn_id: TxnId, writes: Iterable[tuple[TableWrite, Mapping[str, str]]]
) -> None:
    """One call for each partition written; `writes` come with the folders of their partitions, in the store."""
    if not client.wants_write_notifications:
        return
    for write, folders in writes:
        for name, paths in _files(write, folders).items():
            values = list(parse_partition_name(name).values()) if name else []
            client.add_write_notification_log(txn_id, write.write_id, write.table.name, paths, values)


def _files(write: TableWrite, folders: Mapping[str, str]) -> dict[str, list[str]]:
    """URIs of the published files by partition name."""
    location = write.table.location.rstrip("/")
    scheme = location.removesuffix(open_store(location)[1])
    found = defaultdict[str, list[str]](list)
    for file, folder in zip(write.files, write.folders(folders), strict=True):
        found[file.partition_name(write.table)].append(f"{scheme}{folder}/{file.file_name}")
    return found
