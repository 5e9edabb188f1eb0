"""The checks of `connect`: everything that can be checked before there is a connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hive_ingest.config import StreamingSettings
from hive_ingest.connection.bad_record_table import BadRecordRows, BadRecordTable
from hive_ingest.connection.checks import check_still_fits, check_streamable, existing_table, static_texts
from hive_ingest.connection.progress import SinkProgress
from hive_ingest.errors import PathNotFound
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Table, TableName
from hive_ingest.storage import Location
from hive_ingest.transactions import ReadTransaction, refuse_unknown_write_ids, remove_leftovers


@dataclass(frozen=True, slots=True)
class ConnectedTable:
    """A table that can be streamed into, and the arguments of a connection to it.

    Attributes:
        owns_client: Whether the client was made for the connection, and is closed with it.
        static_values: Values of the leading partition keys, as Hive names their partitions.
        progress: The progress of the sink, if there is one.
    """

    client: MetastoreClient
    owns_client: bool
    table: Table
    static_values: tuple[str, ...]
    settings: StreamingSettings
    progress: SinkProgress | None
    bad_rows: BadRecordRows | None = None

    def close(self) -> None:
        """Release everything if no connection is made."""
        if self.owns_client:
            self.client.close()


def connect_table(
    metastore: MetastoreClient | str,
    table: TableName,
    *,
    static_partition_values: Sequence[str],
    settings: StreamingSettings | Mapping[str, Any] | None,
    sink: str | None,
    sources: Iterable[str],
    bad_records: object = None,
) -> ConnectedTable:
    """Check a table and its sink, and remove what killed writers left in their folders.

    Raises:
        InvalidTable: The table cannot be streamed into.
        StreamingError: What else `StreamingConnection.connect` raises.
    """
    loaded = settings if isinstance(settings, StreamingSettings) else StreamingSettings.load(settings)
    owns_client = isinstance(metastore, str)
    client = connect_metastore(metastore) if isinstance(metastore, str) else metastore
    try:
        loaded = loaded.with_lock_wait(client.txn_timeout_seconds, has_sink=sink is not None)
        found = existing_table(client, table)
        check_streamable(found)
        values = static_texts(found, static_partition_values)
        found = _checked_folder(client, found, loaded)
        progress = SinkProgress(client, found, sink, sources, loaded) if sink is not None else None
        if progress is not None:
            _check_folder(client, progress.table)
        bad_rows = None
        if isinstance(bad_records, BadRecordTable):
            bad_rows = BadRecordRows(client, bad_records, found.name, loaded)
            _check_folder(client, bad_rows.table)
    except BaseException:
        if owns_client:
            client.close()
        raise
    return ConnectedTable(client, owns_client, found, values, loaded, progress, bad_rows)


def _checked_folder(client: MetastoreClient, table: Table, settings: StreamingSettings) -> Table:
    """The table, which may have been renamed or moved meanwhile: then it is looked at again under a lock."""
    try:
        _check_folder(client, table)
        return table
    except PathNotFound:
        transaction = ReadTransaction(
            client, table.name, lock_wait_seconds=settings.lock_wait_seconds, agent_info="hive-ingest connect"
        )
    try:
        found = existing_table(client, table.name)
        check_still_fits(replace(table, location=found.location), found)
        _check_folder(client, found)
    except BaseException as error:
        transaction.fail(error)
        raise
    transaction.close()
    return found


def _check_folder(client: MetastoreClient, table: Table) -> None:
    _ = client.metastore_id  # hidden files are named after it: asked for once, and not in a transaction
    refuse_unknown_write_ids(client, table)
    remove_leftovers(client, Location.of(table.location))
