"""Hidden names for files that have no visible one yet: `<table location>/.hive_ingest/<txn>_<writer uuid>.<n>…`.

They lie on the table's own file system, so that publishing is a rename; and all in one folder, because making and
removing a folder costs more than a small file. What a killed writer left is removed by the next writer on the
table, once the transaction in the name is not open any more.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from hive_ingest.acid.names import partition_name
from hive_ingest.errors import StreamingError
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.model import Table, TxnId
from hive_ingest.storage import Location

_log = logging.getLogger(__name__)

STAGING_FOLDER = ".hive_ingest"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file under its hidden name, and where it goes when its transaction is published.

    Attributes:
        location: The hidden name.
        partition: Values of the partition keys, as text; None for a null. Empty for an unpartitioned table.
        folder_name: The ACID folder, such as `delta_0000004_0000004_0000` or `base_0000004`.
        file_name: The name in that folder, such as `bucket_00000`.
        rows: Number of rows in the file.
        size_bytes: Size of the file.
    """

    location: Location
    partition: tuple[str | None, ...]
    folder_name: str
    file_name: str
    rows: int
    size_bytes: int

    def partition_name(self, table: Table) -> str:
        """The partition's name (`k=v/…`, escaped); empty for an unpartitioned table."""
        return partition_name([key.name for key in table.partition_keys], self.partition)


def staging_folder(location: Location) -> Location:
    """The folder of hidden names in that of a table, or of a partition on a file system of its own."""
    return location / STAGING_FOLDER


def hidden_name(txn_id: TxnId, writer: uuid.UUID) -> str:
    """The beginning of all hidden names of one writer in one transaction."""
    return f"{txn_id}_{writer.hex}"


def new_staging(table: Table, txn_id: TxnId) -> Location:
    """Where a new writer's hidden names begin; a number and a suffix follow."""
    return staging_folder(Location.of(table.location)) / hidden_name(txn_id, uuid.uuid4())


def remove_staging(table: Table, txn_id: TxnId) -> None:
    """Remove the hidden files of all writers of one transaction, which has ended."""
    folder = staging_folder(Location.of(table.location))
    for file in folder.list(missing_ok=True):
        if file.name.startswith(f"{txn_id}_"):
            folder.store.delete_file(file.path)


def remove_leftovers(client: MetastoreClient, table: Table) -> list[str]:
    """Remove the hidden files of transactions that are not open; returns their paths. Never raises."""
    try:
        return _remove_leftovers(client, table)
    except StreamingError as error:
        _log.warning("leftovers in %s were not removed: %s", table.location, error)
        return []


def _remove_leftovers(client: MetastoreClient, table: Table) -> list[str]:
    folder = staging_folder(Location.of(table.location))
    # The listing comes first: a transaction that is in it was opened before the snapshot that follows.
    files = [entry for entry in folder.list(missing_ok=True) if not entry.is_folder]
    if not files:
        return []
    open_txns = set(client.get_valid_txns().open)
    removed = []
    for file in files:
        txn_id, _, _ = file.name.partition("_")
        if txn_id.isdigit() and TxnId(int(txn_id)) not in open_txns:
            folder.store.delete_file(file.path)
            removed.append(file.path)
    if removed:
        _log.info("removed %d hidden files of ended transactions from %s", len(removed), table.location)
    return removed
