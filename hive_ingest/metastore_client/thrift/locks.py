"""Locks and their heartbeats."""

from __future__ import annotations

from typing import Any

from hive_ingest.errors import ConfigurationError, NoSuchLock
from hive_ingest.identity import this_host
from hive_ingest.metastore_client.lock_checks import check_component
from hive_ingest.metastore_client.thrift.convert import to_lock_info, to_lock_response
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.part import Context, Part
from hive_ingest.metastore_client.thrift.transactions import MAX_TEXT, Transactions
from hive_ingest.metastore_client.thrift.versions import ServerVersion
from hive_ingest.model import LockComponent, LockId, LockInfo, LockRequest, LockResponse, TableName, TxnId


class Locks(Part):
    """The calls about locks."""

    def __init__(self, context: Context, transactions: Transactions) -> None:
        super().__init__(context)
        self._transactions = transactions

    def lock(self, request: LockRequest) -> LockResponse:
        """Request a lock: ACQUIRED, or WAITING, then call check_lock. Objects that do not exist can be locked.

        Raises NoSuchTxn, TxnAborted, ConfigurationError (no components).
        """
        if not request.components:
            raise ConfigurationError("a lock request without components: name at least one object to lock")
        for component in request.components:
            check_component(request, component)
        wanted = idl().LockRequest(
            component=[_component(component, self._version) for component in request.components],
            txnid=request.txn_id or None,
            user=(request.user or self._channel.options.effective_user)[:MAX_TEXT],
            hostname=(request.hostname or this_host())[:MAX_TEXT],
            agentInfo=request.agent_info[:MAX_TEXT],
        )
        # Sent once: a repeated request would queue a second lock, which would stay when the first is released.
        return to_lock_response(self._channel.call("lock", wanted, is_repeatable=False))

    def check_lock(self, lock_id: LockId) -> LockResponse:
        """Try again to acquire a WAITING lock; counts as its heartbeat. Raises NoSuchLock, TxnAborted."""
        request = idl().CheckLockRequest(lockid=lock_id)
        return to_lock_response(self._channel.call("check_lock", request, is_repeatable=True))

    def unlock(self, lock_id: LockId) -> None:
        """Release a lock outside a transaction, or withdraw one that is WAITING. Idempotent. Raises TxnOpen."""
        # Hive's own message names the transaction's id, too.
        try:
            self._channel.call("unlock", idl().UnlockRequest(lockid=lock_id), is_repeatable=True)
        except NoSuchLock:
            return

    def heartbeat(self, *, txn_id: TxnId | None = None, lock_id: LockId | None = None) -> None:
        """Send a heartbeat. Raises NoSuchTxn, TxnAborted, NoSuchLock."""
        request = idl().HeartbeatRequest(lockid=lock_id or None, txnid=txn_id or None)
        self._transactions.call_heartbeat("heartbeat", request)

    def show_locks(self, table: str | TableName | None = None) -> list[LockInfo]:
        """All locks, held and waiting, or those on one table."""
        name = None if table is None else TableName.of(table)
        request = idl().ShowLocksRequest(dbname=name and name.database, tablename=name and name.table)
        answer = self._channel.call("show_locks", request, is_repeatable=True)
        found = map(to_lock_info, answer.locks or ())
        return sorted(found, key=lambda lock: (lock.lock_id, lock.internal_id))


def _component(component: LockComponent, version: ServerVersion) -> Any:
    return idl().LockComponent(
        type=int(version.lock_type(component.type)),
        level=int(component.level),
        dbname=component.database.lower(),
        tablename=component.table and component.table.lower(),
        partitionname=component.partition_name,
        operationType=int(component.operation_type),
        isTransactional=component.is_transactional,
        isDynamicPartitionWrite=component.is_dynamic_partition_write,
    )
