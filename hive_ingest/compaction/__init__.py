"""Compaction: what a partition's folder holds, which files are merged into which, and the merging itself."""

from hive_ingest.compaction.folder_state import FolderSize, FolderState
from hive_ingest.compaction.merge import MergeProgress, MergeResult, MergeSettings, merge
from hive_ingest.compaction.plan import MergePlan, PlannedFile, plan_major, plan_minor

__all__ = [
    "FolderSize",
    "FolderState",
    "MergePlan",
    "MergeProgress",
    "MergeResult",
    "MergeSettings",
    "PlannedFile",
    "merge",
    "plan_major",
    "plan_minor",
]
