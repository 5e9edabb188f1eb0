"""Write notifications for the server's event listeners, such as replication."""

from __future__ import annotations

from collections.abc import Sequence

from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.part import Part
from hive_ingest.model import TableName, TxnId, WriteId

_DML_EVENTS = "hive.metastore.dml.events"


class Notifications(Part):
    """The calls about events."""

    @property
    def wants_write_notifications(self) -> bool:
        """Whether the server has `hive.metastore.dml.events` on, requested once. Version 3 has no such call."""
        if self._context.wants_notifications is None:
            self._context.wants_notifications = self._version.has_write_notifications and (
                self._channel.call("get_config_value", _DML_EVENTS, "false", is_repeatable=True).lower() == "true"
            )
        return self._context.wants_notifications

    def add_write_notification_log(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        table: str | TableName,
        files: Sequence[str],
        partition_values: Sequence[str] = (),
    ) -> None:
        """Notify listeners of the files (URIs in delta or base folders) of one table or partition, before the commit.

        Sent once. Checksums are left empty, as Java leaves them where the file system has none.
        """
        t, name = idl(), TableName.of(table)
        data = t.InsertEventRequestData(
            replace=True,  # as Java's client sets it for every ACID write
            filesAdded=list(files),
            filesAddedChecksum=[""] * len(files),
            subDirectoryList=[file.rsplit("/", 2)[-2] for file in files],
        )
        request = t.WriteNotificationLogRequest(
            txnId=txn_id, writeId=write_id, db=name.database, table=name.table, fileInfo=data
        )
        if partition_values:
            request.partitionVals = list(partition_values)
        self._channel.call("add_write_notification_log", request, is_repeatable=False)
