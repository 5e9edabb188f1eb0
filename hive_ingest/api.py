"""The short way in: connect to a metastore, append a table, read it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_ingest.connection import ConnectionStats, StreamingConnection, StreamingSettings
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import TableName
from hive_ingest.reader import Scan, read_table, scan
from hive_ingest.record_writer import ArrowWriter

__all__ = ["Scan", "append", "connect_metastore", "read_table", "scan"]


def append(
    client: MetastoreClient,
    table: str | TableName,
    data: Any,
    *,
    static_partition_values: Sequence[str] = (),
    settings: StreamingSettings | Mapping[str, Any] | None = None,
) -> ConnectionStats:
    """Append a `pyarrow.Table`, or anything with the Arrow interface, in one transaction.

    Columns match by name, without regard to case; partition columns come last or anywhere. Raises what
    `StreamingConnection` raises; then nothing of `data` is visible.
    """
    name = TableName.of(table)
    with StreamingConnection.connect(
        client,
        database=name.database,
        table=name.table,
        static_partition_values=static_partition_values,
        record_writer=ArrowWriter(),
        agent_info="hive-ingest append",
        settings=settings,
    ) as connection:
        with connection.transaction():
            connection.write(data)
        return connection.stats
