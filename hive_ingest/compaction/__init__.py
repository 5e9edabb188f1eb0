"""Compaction: when a table needs it, the worker that merges its files, and the cleaner that removes old ones."""

from hive_ingest.compaction.cleaner import Cleaner, CleanerSettings, CleanResult
from hive_ingest.compaction.compactor import ROLES, Compactor, CompactorResult, CompactorSettings
from hive_ingest.compaction.distributed import DEFAULT_SPLIT_BUCKET_BYTES, DistributedMerge, MergeTasks, TaskRunner
from hive_ingest.compaction.file_merger import MergeSettings
from hive_ingest.compaction.folder_state import FolderSize, FolderState
from hive_ingest.compaction.initiator import Initiated, Initiator
from hive_ingest.compaction.job import JobSettings, sizes_of
from hive_ingest.compaction.kept_delta import KeptDelta
from hive_ingest.compaction.maintenance import Maintenance, MaintenanceMode, check_mode, hook_of, maintained
from hive_ingest.compaction.merge import MergeProgress, Merger, MergeResult, merge
from hive_ingest.compaction.plan import MergePlan, PlannedFile, plan_major, plan_minor
from hive_ingest.compaction.policy import CompactionPolicy, Decision
from hive_ingest.compaction.purging import PurgeOutcome, purge
from hive_ingest.compaction.requests import CompactionOutcome, compact, requested_partitions
from hive_ingest.compaction.waiting import NO_WORKER_SECONDS
from hive_ingest.compaction.worker import Worker, WorkResult
from hive_ingest.compaction.worker_ids import worker_name

__all__ = [
    "DEFAULT_SPLIT_BUCKET_BYTES",
    "NO_WORKER_SECONDS",
    "ROLES",
    "CleanResult",
    "Cleaner",
    "CleanerSettings",
    "CompactionOutcome",
    "CompactionPolicy",
    "Compactor",
    "CompactorResult",
    "CompactorSettings",
    "Decision",
    "DistributedMerge",
    "FolderSize",
    "FolderState",
    "Initiated",
    "Initiator",
    "JobSettings",
    "KeptDelta",
    "Maintenance",
    "MaintenanceMode",
    "MergePlan",
    "MergeProgress",
    "MergeResult",
    "MergeSettings",
    "MergeTasks",
    "Merger",
    "PlannedFile",
    "PurgeOutcome",
    "TaskRunner",
    "WorkResult",
    "Worker",
    "check_mode",
    "compact",
    "hook_of",
    "maintained",
    "merge",
    "plan_major",
    "plan_minor",
    "purge",
    "requested_partitions",
    "sizes_of",
    "worker_name",
]
