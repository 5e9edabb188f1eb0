"""One compaction in its transaction: lock, snapshot, merge, publish, commit."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.compaction.file_merger import MergeSettings
from hive_ingest.compaction.folder_state import FolderState
from hive_ingest.compaction.kept_delta import MAY_KEEP, KeptDelta
from hive_ingest.compaction.merge import MergeProgress, Merger, merge
from hive_ingest.compaction.overrides import with_overrides
from hive_ingest.compaction.plan import MergePlan, plan_major, plan_minor
from hive_ingest.compaction.target import Target, find_target, refuse_restored
from hive_ingest.compaction.worker_ids import agent_info_of
from hive_ingest.errors import (
    CommitOutcomeUnknown,
    InvalidTable,
    NoSuchTxn,
    StreamingError,
    StreamingIOFailure,
    TxnAborted,
)
from hive_ingest.faults import reach
from hive_ingest.identity import this_host, this_user
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import (
    CompactionInfo,
    CompactionType,
    DataOperationType,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    Table,
    TxnId,
    TxnType,
)
from hive_ingest.plurals import counted
from hive_ingest.storage import Location
from hive_ingest.transactions import (
    Committer,
    Heartbeater,
    LockWait,
    StagedFile,
    TableWrite,
    lock_timeout,
    log_failure,
    new_staging,
    remove_leftovers,
    remove_staging,
)

_log = logging.getLogger(__name__)
_HERE: Merger = merge
#: A job is known by its transaction, which the names of its hidden files begin with.
_JOB_PREFIX = "hive-ingest-txn-"
#: Why a request is refused that there is nothing to do for.
NOTHING_TO_MERGE = "there is nothing to merge"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a worker runs its compactions.

    Attributes:
        merge: Sizes, threads and whether files are synced.
        lock_wait_seconds: How long a compaction waits for its lock, which an overwrite or a DDL statement may hold.
        timeout_seconds: A compaction that takes longer fails (Hive: `hive.compactor.worker.timeout`). One that hangs
            is not kept alive any longer, so that another worker can take it.
        commit_retry_seconds: How long the answer to a commit is asked for again.
        kept: What a minor compaction leaves as it is if its request allows that (`Decision.may_keep_large_delta`).
        merger: What merges the files: the worker's process, unless it is another one's, such as that of
            `SparkCompactor`.
    """

    merge: MergeSettings = field(default_factory=MergeSettings)
    lock_wait_seconds: float = 60.0
    timeout_seconds: float = 24 * 3600.0
    commit_retry_seconds: float = 60.0
    kept: KeptDelta = field(default_factory=KeptDelta)
    merger: Merger = _HERE


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a compaction made: None of these where the old files only wait for the cleaner."""

    files: tuple[StagedFile, ...] = ()
    folders: tuple[str, ...] = ()


class RefusedCompaction(StreamingError):
    """The compaction is not needed, or not possible."""


class CompactionJob:
    """The compaction that a worker has taken from the queue. `run` once."""

    def __init__(
        self, client: MetastoreClient, info: CompactionInfo, settings: JobSettings, is_stopped: Callable[[], bool]
    ) -> None:
        self._client = client
        self.info = info
        self._settings = settings
        self._is_stopped = is_stopped
        self._agent_info = agent_info_of(info)
        self._deadline = time.monotonic() + settings.timeout_seconds
        self._heartbeater = Heartbeater(client, self._give_up_if_it_hangs, name="hive-ingest-compaction-heartbeat")
        self._txn_id = TxnId(0)
        self._table: Table | None = None
        self._committer: Committer | None = None

    def run(self) -> JobResult:
        """Compact, publish and commit.

        Raises:
            RefusedCompaction: There is nothing to do, or it cannot be done. The transaction has ended.
            JobStopped: The worker was asked to stop. Nothing is visible, and the transaction is aborted.
            CommitOutcomeUnknown: The metastore cannot be reached; it will find out what became of the transaction.
            StreamingError: It failed. Nothing is visible, and the transaction is aborted.
        """
        (self._txn_id,) = self._client.open_txns(1, agent_info=self._agent_info, txn_type=TxnType.COMPACTION)
        try:
            reach("after_compaction_txn")
            self._heartbeater.watch([self._txn_id])
            return self._run()
        except RefusedCompaction:
            self._client.commit_txn(self._txn_id)  # it wrote nothing, so that nothing has to be remembered
            raise
        except CommitOutcomeUnknown as error:
            if self._settle():
                return JobResult()
            raise TxnAborted(f"compaction {self.info.id} was not committed") from error
        except BaseException:
            self._abort()
            raise
        finally:
            self._heartbeater.stop()

    def _run(self) -> JobResult:
        self._lock()
        table = self._client.get_table(self.info.table)
        if table.is_partitioned and not self.info.partition_name:
            return self._of_no_partition()
        target = self._target(table)
        remove_leftovers(self._client, Location.of(table.location))
        valid_txns, compactor = self._snapshot()
        plan = self._plan(target, valid_txns, compactor)
        if plan is not None:
            return self._merge(target, plan)
        state = FolderState.read(target.location, compactor, valid_txns)
        if not (state.obsolete or state.aborted):
            raise RefusedCompaction(NOTHING_TO_MERGE)
        return self._leave_to_cleaner()

    def _of_no_partition(self) -> JobResult:
        """A request for what aborted transactions left that had not named their partitions yet, as in Hive."""
        self._snapshot()
        return self._leave_to_cleaner()

    def _leave_to_cleaner(self) -> JobResult:
        self._client.mark_compacted(self.info)
        self._client.commit_txn(self._txn_id)
        return JobResult()

    # -- before the first byte ---------------------------------------------------------------------

    def _lock(self) -> None:
        """SHARED_READ, as in Hive: DDL and overwrites wait, readers and writers do not."""
        name, partition = self.info.table, self.info.partition_name
        component = LockComponent(
            LockType.SHARED_READ,
            LockLevel.PARTITION if partition else LockLevel.TABLE,
            name.database,
            name.table,
            partition,
            operation_type=DataOperationType.SELECT,
        )
        answer = self._client.lock(LockRequest((component,), self._txn_id, this_user(), this_host(), self._agent_info))
        wait = LockWait(self._client, [name], self._settings.lock_wait_seconds, lambda _: self._raise_if_stopped())
        if not wait.acquires(answer):
            raise lock_timeout(
                name, wait.blockers(answer.lock_id), self._settings.lock_wait_seconds, wanted="read lock"
            )

    def _target(self, table: Table) -> Target:
        """Looked up under the lock, so that no DDL statement changes it until the commit."""
        self._table = table
        target = find_target(self._client, self.info.table, self.info.partition_name, table=table)
        if not table.is_transactional or table.is_insert_only:
            raise InvalidTable(f"{table.name} is not a full ACID table: only those are compacted")
        if table.sort_columns:
            raise RefusedCompaction(f"{table.name} is sorted by {', '.join(table.sort_columns)}: not compacted")
        refuse_restored(self._client, target)
        return target

    def _snapshot(self) -> tuple[ValidTxnList, ValidWriteIdList]:
        valid_txns = self._client.get_valid_txns(self._txn_id)
        (snapshot,) = self._client.get_valid_write_ids([self.info.table], valid_txns)
        compactor = snapshot.for_compactor()
        self.info = replace(self.info, highest_write_id=compactor.high_water_mark, run_as=this_user())
        # Before the first byte: from now on the transaction is remembered until a cleaner has removed what it wrote.
        self._client.update_compactor_state(self.info, self._txn_id)
        self._client.set_hadoop_job_id(self.info.id, f"{_JOB_PREFIX}{self._txn_id}")
        reach("after_update_compactor_state")
        return valid_txns, compactor

    def _plan(self, target: Target, valid_txns: ValidTxnList, compactor: ValidWriteIdList) -> MergePlan | None:
        if self.info.type is CompactionType.MAJOR:
            return plan_major(target.location, compactor, valid_txns, txn_id=self._txn_id)
        kept = self._settings.kept if self.info.properties.get(MAY_KEEP) == "true" else None
        return plan_minor(target.location, compactor, valid_txns, txn_id=self._txn_id, kept=kept)

    # -- merge, publish, commit --------------------------------------------------------------------

    def _merge(self, target: Target, plan: MergePlan) -> JobResult:
        staging = new_staging(target.table, self._txn_id, self._client.metastore_id)
        merged = self._settings.merger(
            plan,
            with_overrides(target.table, self.info.properties),
            partition=target.values,
            staging=staging,
            settings=self._settings.merge,
            progress=self._check,
        )
        reach("after_merge")
        write = TableWrite(
            target.table,
            plan.max_write_id,
            merged.files,
            may_be_overtaken=False,
            operation=DataOperationType.NO_TXN,
            extra_folders=[target.location / name for name in merged.folders],
            partition_locations={target.name: target.location},
        )
        self._committer = Committer(
            self._client,
            self._heartbeater,
            self._txn_id,
            [write],
            fsync=self._settings.merge.fsync,
            retry_seconds=self._settings.commit_retry_seconds,
        )
        self.info = replace(self.info, meta_info=_meta_info(plan, merged.files))
        self._committer.commit(before_commit=self._mark_compacted)
        return JobResult(merged.files, merged.folders)

    def _mark_compacted(self) -> None:
        self._client.mark_compacted(self.info)
        reach("after_mark_compacted")

    def _check(self, progress: MergeProgress) -> None:
        """Ends the merge where going on is of no use."""
        self._heartbeater.raise_if_lost(self._txn_id)
        self._raise_if_stopped()
        if time.monotonic() > self._deadline:
            raise StreamingIOFailure(
                f"the compaction took longer than {self._settings.timeout_seconds:g} s, after "
                f"{counted(progress.files_read, 'file')}: raise the timeout, or compact more often"
            )

    def _give_up_if_it_hangs(self, _: MetastoreClient) -> None:
        """A call of a file system that never returns must not keep the lock and the place in the queue for ever.

        Called by the heartbeat's thread. A merge that goes on finds out itself that it is late (`_check`), in time.
        """
        if time.monotonic() > self._deadline + self._heartbeater.timeout_seconds:
            self._heartbeater.give_up(
                self._txn_id, f"its compaction took longer than {self._settings.timeout_seconds:g} s"
            )

    def _raise_if_stopped(self) -> None:
        if self._is_stopped():
            raise JobStopped(f"compaction {self.info.id} was stopped")

    # -- the end -----------------------------------------------------------------------------------

    def _abort(self) -> None:
        if self._committer is not None:
            log_failure(self._committer.withdraw, f"removing what compaction {self.info.id} had published")
        log_failure(
            lambda: self._client.abort_txn(self._txn_id, reason="the compaction failed"),
            f"aborting transaction {self._txn_id} of a compaction",
        )
        if (table := self._table) is not None:
            log_failure(
                lambda: remove_staging(table, self._txn_id, self._client.metastore_id),
                f"removing hidden files of compaction {self.info.id}",
            )

    def _settle(self) -> bool:
        """Whether a transaction with a lost answer was committed: an abort is answered one way or the other.

        Raises MetastoreUnavailable where there is no answer.
        """
        try:
            self._client.abort_txn(self._txn_id, reason="the answer to the compaction's commit was lost")
        except NoSuchTxn:
            return True
        if self._committer is not None:
            self._committer.was_requested = False
            log_failure(self._committer.withdraw, f"removing what compaction {self.info.id} had published")
        return False


class JobStopped(StreamingError):
    """The worker is to stop: the compaction goes back into the queue."""


def sizes_of(info: CompactionInfo) -> dict[str, int]:
    """Files and bytes before and after, as the worker stored them; empty for a compaction of Hive's own worker."""
    try:
        found = json.loads(info.meta_info or "{}")
    except ValueError:
        return {}
    return {name: value for name, value in found.items() if isinstance(value, int)} if isinstance(found, dict) else {}


def _meta_info(plan: MergePlan, files: tuple[StagedFile, ...]) -> str:
    before = plan.input_files
    return json.dumps(
        {
            "files_before": len(before),
            "bytes_before": plan.input_bytes,
            "files_after": len(files),
            "bytes_after": sum(file.size_bytes for file in files),
        }
    )
