"""The compaction queue of a real metastore: requests, what a worker outside the server needs, and the history.

The server has an initiator, a cleaner and housekeeping of its own; their calls are not in its interface.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hive_ingest.errors import MetastoreError, MetastoreUnavailable, NoSuchCompaction, UnsupportedFeature
from hive_ingest.metastore_client.compaction_queue import FAILED_RETRY_SECONDS, FAILED_THRESHOLD, FETCH_SIZE
from hive_ingest.metastore_client.compaction_values import failed_too_often, latest_committed
from hive_ingest.metastore_client.thrift.convert_compactions import (
    from_compaction_info,
    to_compaction_info,
    to_compaction_state,
    to_shown_compaction,
)
from hive_ingest.metastore_client.thrift.idl import idl
from hive_ingest.metastore_client.thrift.part import Part
from hive_ingest.model import (
    AbortedComponent,
    CompactionCandidate,
    CompactionInfo,
    CompactionResponse,
    CompactionState,
    CompactionType,
    TableName,
    TxnId,
    WriteId,
)

_IN_QUEUE = (CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)


class Compactions(Part):
    """The calls about compactions."""

    @property
    def runs_compactions(self) -> bool:
        """Whether a worker outside the server can take compactions (HIVE-23512 and others came with version 4)."""
        return self._version.runs_compactions

    # -- requests ----------------------------------------------------------------------------------

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

        A request whose answer is lost is sent again; then it may be its own first one that is in the way.
        """
        name = TableName.of(table)
        request = idl().CompactionRequest(
            dbname=name.database,
            tablename=name.table,
            partitionname=partition_name,
            type=int(compaction_type),
            properties=dict(properties or {}) or None,
            initiatorId=initiator_id or None,
            initiatorVersion=initiator_version or None,
        )
        answer = self._channel.call("compact2", request, is_repeatable=True)
        if answer.accepted or answer.id > 0:
            return CompactionResponse(answer.id, to_compaction_state(answer.state), answer.accepted)
        # Servers from 4.0.1 on say only in words which one is in the way.
        for info in self.show_compactions(name):
            if info.partition_name == partition_name and info.state in _IN_QUEUE:
                return CompactionResponse(info.id, info.state, accepted=False)
        return CompactionResponse(0, CompactionState.REFUSED, accepted=False)

    def show_compactions(self, table: str | TableName | None = None) -> list[CompactionInfo]:
        """The queue and the history, newest first."""
        name = None if table is None else TableName.of(table)
        request = idl().ShowCompactRequest()
        if name is not None:  # version 3 does not know the fields, and shows all
            request.dbName, request.tbName = name.database, name.table
        answer = self._channel.call("show_compact", request, is_repeatable=True)
        found = map(to_shown_compaction, answer.compacts)
        return sorted((info for info in found if name in (None, info.table)), key=lambda info: -info.id)

    def get_latest_committed_compactions(
        self, table: str | TableName, partition_names: Sequence[str] = (), *, after_id: int | None = None
    ) -> list[CompactionInfo]:
        """The latest one of the table, or of each partition, whose result can be read (HIVE-25115)."""
        return latest_committed(self.show_compactions(table), partition_names, after_id)

    def check_failed_compactions(
        self,
        table: str | TableName,
        partition_name: str | None = None,
        *,
        threshold: int = FAILED_THRESHOLD,
        retry_seconds: float = FAILED_RETRY_SECONDS,
    ) -> bool:
        """Whether the last `threshold` compactions all failed, the last of them less than `retry_seconds` ago."""
        return failed_too_often(
            self.show_compactions(table),
            partition_name,
            threshold=threshold,
            retry_seconds=retry_seconds,
            now_ms=time.time() * 1000,
        )

    # -- the worker --------------------------------------------------------------------------------

    def find_next_compact(self, worker_id: str, *, worker_version: str = "") -> CompactionInfo | None:
        """Take the oldest request that nobody works on; None if there is none.

        When the answer is lost, what was taken waits for the server's `hive.compactor.worker.timeout`. A worker id that
        begins with the server's host name is taken for a thread of the server, and is revoked when that starts.
        """
        self._require_worker_calls("find_next_compact2")
        request = idl().FindNextCompactRequest(workerId=worker_id, workerVersion=worker_version or None)
        found = self._channel.call("find_next_compact2", request, is_repeatable=False).ci
        if found is None:
            return None
        info = to_compaction_info(found)
        return replace(info, worker_id=worker_id, worker_version=worker_version, state=CompactionState.WORKING)

    def update_compactor_state(self, info: CompactionInfo, txn_id: TxnId) -> None:
        """Store `info.highest_write_id`, `info.run_as` and the compaction's transaction; before the first byte."""
        self._call_for("update_compactor_state", info.id, from_compaction_info(info), txn_id, is_repeatable=True)

    def set_hadoop_job_id(self, compaction_id: int, job_id: str) -> None:
        """Shown by SHOW COMPACTIONS."""
        self._call_for("set_hadoop_jobid", compaction_id, job_id, compaction_id, is_repeatable=True)

    def mark_compacted(self, info: CompactionInfo) -> None:
        """The result is published: the server's cleaner removes the old files once the transaction has committed."""
        self._call_for("mark_compacted", info.id, from_compaction_info(info), is_repeatable=True)

    def mark_failed(self, info: CompactionInfo) -> None:
        """Move it to the history with `info.error_message`; with id 0 as one that was not initiated."""
        self._call_for("mark_failed", info.id, from_compaction_info(info), is_repeatable=False)

    def mark_refused(self, info: CompactionInfo) -> None:
        """Move it to the history as one that was not needed or not possible."""
        self._call_for("mark_refused", info.id, from_compaction_info(info), is_repeatable=False)

    def mark_cleaned(self, info: CompactionInfo, *, removed_txn_ids: Collection[TxnId] | None = None) -> None:
        """Move it to the history; for tests: the server's own cleaner does so.

        Raises UnsupportedFeature with `removed_txn_ids`, which the call cannot carry.
        """
        if removed_txn_ids is not None:
            raise self._left_to_server("mark_cleaned with removed_txn_ids", "cleaner")
        self._call_for("mark_cleaned", info.id, from_compaction_info(info), is_repeatable=False)

    def _call_for(self, call: str, compaction_id: int, *arguments: Any, is_repeatable: bool) -> None:
        """A call that changes one row of the queue; a server fails inside it when the row is not there."""
        self._require_worker_calls(call)
        try:
            self._channel.call(call, *arguments, is_repeatable=is_repeatable)
        except MetastoreUnavailable:
            raise
        except MetastoreError as error:
            if any(info.id == compaction_id and info.state in _IN_QUEUE for info in self.show_compactions()):
                raise
            raise NoSuchCompaction(f"compaction {compaction_id} is not in the queue: {error}") from error

    def _require_worker_calls(self, call: str) -> None:
        if not self.runs_compactions:
            raise UnsupportedFeature(
                f"{call}: a metastore of version {self._version.text} has no calls for a worker outside it, and cannot "
                "read what one of Hive 4 would write. Request the compaction, and let Hive's own worker do it"
            )

    # -- what the server keeps to itself -----------------------------------------------------------

    def revoke_from_local_workers(self, hostname: str) -> int:
        """Raises UnsupportedFeature: the server does so when it starts."""
        raise self._left_to_server("revoke_from_local_workers", "initiator")

    def revoke_timed_out_workers(self, timeout_seconds: float) -> int:
        """Raises UnsupportedFeature: the server's initiator does so."""
        raise self._left_to_server("revoke_timed_out_workers", "initiator")

    def find_potential_compactions(
        self,
        *,
        aborted_threshold: int,
        aborted_time_threshold_seconds: float | None = None,
        check_interval_seconds: float | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionCandidate]:
        """Raises UnsupportedFeature: the server's initiator does so."""
        raise self._left_to_server("find_potential_compactions", "initiator")

    def find_min_open_txn_id_for_cleaner(self) -> TxnId:
        """Raises UnsupportedFeature: the server's cleaner does so."""
        raise self._left_to_server("find_min_open_txn_id_for_cleaner", "cleaner")

    def find_ready_to_clean(
        self,
        *,
        min_open_txn_id: TxnId | None = None,
        retention_seconds: float = 0.0,
        table: str | TableName | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionInfo]:
        """Raises UnsupportedFeature: the server's cleaner does so."""
        raise self._left_to_server("find_ready_to_clean", "cleaner")

    def find_ready_to_clean_aborts(
        self,
        *,
        aborted_threshold: int,
        aborted_time_threshold_seconds: float | None = None,
        table: str | TableName | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionInfo]:
        """Raises UnsupportedFeature: the server's cleaner does so."""
        raise self._left_to_server("find_ready_to_clean_aborts", "cleaner")

    def get_aborted_components(
        self,
        table: str | TableName,
        partition_name: str | None = None,
        *,
        up_to: WriteId | None = None,
        silent_seconds: float = 0.0,
    ) -> list[AbortedComponent]:
        """Raises UnsupportedFeature: the server's cleaner does so."""
        raise self._left_to_server("get_aborted_components", "cleaner")

    def mark_cleaner_start(self, info: CompactionInfo) -> None:
        """Raises UnsupportedFeature: the server's cleaner does so."""
        raise self._left_to_server("mark_cleaner_start", "cleaner")

    def set_cleaner_retry_retention(self, info: CompactionInfo, retention_seconds: float) -> None:
        """Raises UnsupportedFeature: the server's cleaner does so."""
        raise self._left_to_server("set_cleaner_retry_retention", "cleaner")

    def purge_completed_compactions(
        self,
        *,
        succeeded: int = 3,
        failed: int = 3,
        did_not_initiate: int = 2,
        refused: int = 3,
        timeout_seconds: float = 7 * 86_400.0,
    ) -> int:
        """Raises UnsupportedFeature: the server's housekeeping does so."""
        raise self._left_to_server("purge_completed_compactions", "housekeeping")

    def _left_to_server(self, call: str, role: str) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"{call} is not in the interface of a Hive Metastore: the server's own {role} does it. Turn it on there "
            "(metastore.housekeeping.threads.on, metastore.compactor.initiator.on, metastore.compactor.cleaner.on)"
        )
