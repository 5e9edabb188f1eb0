"""The queue of compactions and what the cleaner asks for: the calls of Hive's `TxnStore` and `IMetaStoreClient`.

A request waits as INITIATED. A worker takes it (WORKING), names its transaction and its highest write id, publishes,
calls `mark_compacted` (READY FOR CLEANING) and commits its transaction, in this order. A cleaner removes what no
snapshot can see any more and calls `mark_cleaned` (SUCCEEDED).

Every `table` argument is `"database.table"` or a `TableName`. Threads may share a client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from hive_ingest.model import (
    AbortedComponent,
    CompactionCandidate,
    CompactionInfo,
    CompactionResponse,
    CompactionType,
    TableName,
    TxnId,
    WriteId,
)

#: `metastore.compactor.fetch.size`: how many rows a cleaner or an initiator takes at once.
FETCH_SIZE = 1_000
#: `hive.compactor.initiator.failed.compacts.threshold` and `…failed.retry.time`.
FAILED_THRESHOLD, FAILED_RETRY_SECONDS = 2, 7 * 86_400.0


class CompactionQueueCalls(Protocol):
    """Requests, and the workers that take them."""

    def compact(
        self,
        table: str | TableName,
        *,
        compaction_type: CompactionType,
        partition_name: str | None = None,
        properties: Mapping[str, str] | None = None,
        initiator_id: str = "",
        initiator_version: str = "",
    ) -> CompactionResponse:
        """Ask for a compaction of a table without partitions, or of one partition.

        Not accepted while the same one is waiting or at work, or when nothing has been written since one of this type
        that waits for the cleaner.
        """
        ...

    def show_compactions(self, table: str | TableName | None = None) -> list[CompactionInfo]:
        """The queue and the history, newest first."""
        ...

    def get_latest_committed_compactions(
        self, table: str | TableName, partition_names: Sequence[str] = (), *, after_id: int | None = None
    ) -> list[CompactionInfo]:
        """The latest one of the table, or of each partition, whose result can be read (HIVE-25115).

        Args:
            table: Which table.
            partition_names: Which partitions; empty for all.
            after_id: Only those with a higher id.
        """
        ...

    def find_next_compact(self, worker_id: str, *, worker_version: str = "") -> CompactionInfo | None:
        """Take the oldest request that nobody works on; None if there is none."""
        ...

    def update_compactor_state(self, info: CompactionInfo, txn_id: TxnId) -> None:
        """Store `info.highest_write_id`, `info.run_as` and the compaction's transaction; before the first byte.

        From now on the transaction is remembered, if it aborts, until a cleaner has removed what it wrote.

        Raises:
            NoSuchCompaction: It is not this worker's, or no longer.
            NoSuchTxn: The transaction has ended, or was never opened.
            TxnAborted: The transaction is aborted.
        """
        ...

    def set_hadoop_job_id(self, compaction_id: int, job_id: str) -> None:
        """Shown by SHOW COMPACTIONS. Raises NoSuchCompaction."""
        ...

    def mark_compacted(self, info: CompactionInfo) -> None:
        """The result is published: the old files are the cleaner's once the transaction has committed.

        Stores `info.meta_info` too, where the server can. Raises NoSuchCompaction.
        """
        ...

    def mark_failed(self, info: CompactionInfo) -> None:
        """Move it to the history with `info.error_message`; with id 0 as one that was not initiated.

        Raises NoSuchCompaction.
        """
        ...

    def mark_refused(self, info: CompactionInfo) -> None:
        """Move it to the history as one that was not needed or not possible. Raises NoSuchCompaction."""
        ...

    def revoke_from_local_workers(self, hostname: str) -> int:
        """Put what workers whose id begins with `hostname` were working on back into the queue; how many."""
        ...

    def revoke_timed_out_workers(self, timeout_seconds: float) -> int:
        """Put the compactions of dead workers back into the queue; how many.

        A worker is dead when its transaction is no longer open, or when it took the compaction more than
        `timeout_seconds` ago and has not named a transaction yet.
        """
        ...


class CompactionHistoryCalls(Protocol):
    """What an initiator asks, and the history's length."""

    def find_potential_compactions(
        self,
        *,
        aborted_threshold: int,
        aborted_time_threshold_seconds: float | None = None,
        check_interval_seconds: float | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionCandidate]:
        """Tables and partitions that were written since their last compaction, or have many or old aborts.

        A transaction that ended without naming the partitions that it writes is found with the table's name alone.
        It wrote nothing there.

        Args:
            aborted_threshold: More aborted transactions than this are too many.
            aborted_time_threshold_seconds: One that began longer ago is old; None if age does not count.
            check_interval_seconds: Only what was written within this time, or whose last compaction failed.
            limit: The most candidates that were written, and the most with aborts.
        """
        ...

    def check_failed_compactions(
        self,
        table: str | TableName,
        partition_name: str | None = None,
        *,
        threshold: int = FAILED_THRESHOLD,
        retry_seconds: float = FAILED_RETRY_SECONDS,
    ) -> bool:
        """Whether the last `threshold` compactions all failed, the last of them less than `retry_seconds` ago."""
        ...

    def purge_completed_compactions(
        self,
        *,
        succeeded: int = 3,
        failed: int = 3,
        did_not_initiate: int = 2,
        refused: int = 3,
        timeout_seconds: float = 7 * 86_400.0,
    ) -> int:
        """Keep that many of each table's or partition's history, the newest; how many were removed.

        Of those that did not succeed, also the ones that began longer ago than `timeout_seconds` are removed once a
        later compaction succeeded: any that is major, or a minor one when they are minor too.
        """
        ...


class CompactionCleaningCalls(Protocol):
    """What a cleaner may remove, and what it has removed."""

    def find_min_open_txn_id_for_cleaner(self) -> TxnId:
        """The lowest open transaction, or the next one to be opened where none is open."""
        ...

    def find_ready_to_clean(
        self,
        *,
        min_open_txn_id: TxnId | None = None,
        retention_seconds: float = 0.0,
        table: str | TableName | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionInfo]:
        """Compactions whose old files no open transaction can need, at most one for each table or partition.

        Args:
            min_open_txn_id: An earlier answer of `find_min_open_txn_id_for_cleaner`; None for that of now.
            retention_seconds: Only those whose commit is older than this.
            table: Only those of this table.
            limit: The most that are returned.
        """
        ...

    def find_ready_to_clean_aborts(
        self,
        *,
        aborted_threshold: int,
        aborted_time_threshold_seconds: float | None = None,
        table: str | TableName | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionInfo]:
        """Tables and partitions with many or old aborted transactions, as infos of type ABORT_TXN_CLEANUP.

        A transaction that was aborted before it named the partitions that it writes is found with the table's name
        alone. It has published nothing.
        """
        ...

    def get_aborted_components(
        self,
        table: str | TableName,
        partition_name: str | None = None,
        *,
        up_to: WriteId | None = None,
        silent_seconds: float = 0.0,
    ) -> list[AbortedComponent]:
        """What aborted transactions may have left in the folder.

        No snapshot ever shows it, so it may be removed once its writers have stopped.

        Args:
            table: Which table.
            partition_name: Which partition.
            up_to: Only write ids up to this one.
            silent_seconds: Only of transactions whose last heartbeat is older than this, by the metastore's clock.
        """
        ...

    def mark_cleaner_start(self, info: CompactionInfo) -> None:
        """Shown by SHOW COMPACTIONS. Raises NoSuchCompaction."""
        ...

    def set_cleaner_retry_retention(self, info: CompactionInfo, retention_seconds: float) -> None:
        """Something could not be removed (`info.error_message`): find it again only after `retention_seconds`."""
        ...

    def mark_cleaned(self, info: CompactionInfo, *, removed_txn_ids: Collection[TxnId] | None = None) -> None:
        """Move it to the history, and forget what was written up to its highest write id.

        Aborted transactions are forgotten here too, so their files must be gone.

        Args:
            info: What was cleaned.
            removed_txn_ids: The aborted transactions whose files are gone from this table or partition. None: all
                that wrote up to the compaction's highest write id; in a clean-up of aborts, none.

        Raises:
            NoSuchCompaction: It is neither ready for cleaning nor cleaned already.
        """
        ...


class CompactionQueue(CompactionQueueCalls, CompactionHistoryCalls, CompactionCleaningCalls, Protocol):
    """Who compacts what, and what may be cleaned."""

    @property
    def runs_compactions(self) -> bool:
        """Whether a worker outside the server can take compactions.

        False for servers of version 3, whose own worker does all of them: the calls of a worker raise
        UnsupportedFeature.
        """
        ...

    @property
    def has_own_cleaner(self) -> bool:
        """Whether the server has an initiator and a cleaner of its own, as every real Hive Metastore has.

        Then the calls of an initiator, of a cleaner and of housekeeping raise UnsupportedFeature.
        """
        ...
