"""Transactions, locks, write ids and snapshots: the other half of `IMetaStoreClient`, in snake case.

Every `table` argument is `"database.table"` or a `TableName`. Errors are those of `hive_ingest.errors`; each method
names the ones that a caller must expect. Threads may share a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.model import (
    CommitKeyValue,
    DataOperationType,
    HeartbeatTxnRange,
    LockId,
    LockInfo,
    LockRequest,
    LockResponse,
    OpenTxnsInfo,
    TableName,
    TxnId,
    TxnToWriteId,
    TxnType,
    WriteId,
)


class TransactionCalls(Protocol):
    """The calls about transactions themselves."""

    def open_txns(
        self,
        count: int = 1,
        *,
        user: str = "",
        agent_info: str = "Unknown",
        txn_type: TxnType = TxnType.DEFAULT,
    ) -> list[TxnId]:
        """Open up to `count` transactions (fewer above `hive.txn.max.open.batch`). Raises TooManyOpenTxns."""
        ...

    def heartbeat_txn_range(self, min_txn: TxnId, max_txn: TxnId) -> HeartbeatTxnRange:
        """Beat every open transaction of the closed range; raises nothing about those that are gone."""
        ...

    def add_dynamic_partitions(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        table: str | TableName,
        partition_names: Sequence[str],
        operation_type: DataOperationType = DataOperationType.INSERT,
    ) -> None:
        """Name the partitions *written* (HIVE-24020). Raises NoSuchTxn, TxnAborted."""
        ...

    def abort_txn(self, txn_id: TxnId, *, reason: str = "") -> None:
        """Idempotent. Raises NoSuchTxn (never opened, or "already committed")."""
        ...

    def abort_txns(self, txn_ids: Sequence[TxnId], *, reason: str = "") -> None:
        """Abort those that are open; says nothing of the others."""
        ...


class CommitCalls(Protocol):
    """The call that commits."""

    def commit_txn(
        self, txn_id: TxnId, *, key_value: CommitKeyValue | None = None, excl_write_enabled: bool = True
    ) -> None:
        """Idempotent while the commit is remembered.

        With `excl_write_enabled` false an UPDATE or DELETE is aborted when another one of the same table or partition
        committed since this transaction opened; true (Hive's default) leaves that to EXCL_WRITE locks.
        Raises NoSuchTxn, TxnAborted (timed out, aborted, or such a write conflict), InvalidOperation (a key_value
        that does not fit; the transaction stays open), MetastoreUnavailable (the outcome is unknown).
        """
        ...


class WriteIdCalls(Protocol):
    """The calls about write ids."""

    def allocate_table_write_ids(self, table: str | TableName, txn_ids: Sequence[TxnId]) -> list[TxnToWriteId]:
        """Idempotent for each transaction. Raises NoSuchTxn, TxnAborted."""
        ...

    def get_max_allocated_write_id(self, table: str | TableName) -> WriteId | None:
        """The highest write id that was allocated for a table, 0 if none; None where the server cannot tell.

        Unlike a snapshot's high-water mark it is exact on every server that reports it (HIVE-23103).
        """
        ...

    def raise_write_ids(self, table: str | TableName, at_least: WriteId) -> None:
        """Hand out no write id below `at_least` from now on; those that are skipped count as committed.

        For a metastore that was restored from an older copy, whose tables hold newer deltas.
        """
        ...

    def raise_txn_ids(self, at_least: TxnId) -> None:
        """Open no transaction below `at_least` from now on; those that are skipped count as committed.

        For a metastore that was restored from an older copy, whose tables have newer compactions.
        """
        ...

    def get_valid_write_ids(
        self, tables: Sequence[str | TableName], valid_txns: ValidTxnList | None = None
    ) -> list[ValidWriteIdList]:
        """One list for each table, in order, as of the snapshot (or of now)."""
        ...


class SnapshotCalls(Protocol):
    """The calls about all transactions at once."""

    def get_open_txns_info(self) -> OpenTxnsInfo:
        """All transactions that are open, or aborted and remembered."""
        ...

    def get_valid_txns(self, txn_id: TxnId | None = None) -> ValidTxnList:
        """A snapshot of now. With `txn_id`, that transaction's own id is left out of the exceptions.

        Unlike Java's `getValidTxns(long)` it does not end at that id: a transaction that waited for a lock must see
        what the holder committed.
        """
        ...

    def add_write_ids_to_min_history(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Register what a reader's snapshot still needs, so that no cleaner removes it (HIVE-24291).

        Does nothing where the metastore remembers it by itself, when the transaction is opened.
        """
        ...


class LockCalls(Protocol):
    """The calls about locks."""

    def lock(self, request: LockRequest) -> LockResponse:
        """Raises NoSuchTxn, TxnAborted."""
        ...

    def check_lock(self, lock_id: LockId) -> LockResponse:
        """Try again to acquire a WAITING lock; beats its heart. Raises NoSuchLock, TxnAborted."""
        ...

    def unlock(self, lock_id: LockId) -> None:
        """Release a lock outside a transaction, or give up one that is WAITING. Idempotent, as in Hive.

        Raises TxnOpen (it is held inside a transaction).
        """
        ...

    def heartbeat(self, *, txn_id: TxnId | None = None, lock_id: LockId | None = None) -> None:
        """Raises NoSuchTxn, TxnAborted, NoSuchLock."""
        ...

    def show_locks(self, table: str | TableName | None = None) -> list[LockInfo]:
        """All locks, or those on one table and its partitions, held or waiting, oldest first."""
        ...


class TransactionManager(TransactionCalls, CommitCalls, WriteIdCalls, SnapshotCalls, LockCalls, Protocol):
    """Who writes and reads what, and whose rows are visible."""

    @property
    def txn_timeout_seconds(self) -> float:
        """How long a transaction lives without a heartbeat (`hive.txn.timeout`)."""
        ...

    @property
    def keeps_min_history(self) -> bool:
        """Whether the write ids of all that were open beside an open transaction stay in each high-water mark.

        MIN_HISTORY_LEVEL (HIVE-18747) sees to it. Without it the row of one that is older and has ended may be pruned.
        """
        ...

    @property
    def checks_write_conflicts(self) -> bool:
        """Whether a commit fails for a write conflict also with `excl_write_enabled`, as on Hive 3.

        There the second of two overwrites that were open at the same time is aborted, whatever locks they held.
        """
        ...

    @property
    def wants_write_notifications(self) -> bool:
        """Whether `add_write_notification_log` is to be called before each commit."""
        ...

    def add_write_notification_log(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        table: str | TableName,
        files: Sequence[str],
        partition_values: Sequence[str] = (),
    ) -> None:
        """Notify event listeners of the files (URIs) that a transaction brings into one table or partition.

        Java: `HiveStreamingConnection.addWriteNotificationEvents` (HIVE-19267).
        """
        ...
