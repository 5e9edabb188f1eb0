"""Named fault points, which do nothing until `hive_ingest.testing` installs a hook.

The code calls `reach("<name>")` where a crash would do the most harm. The names follow the commit order of
`docs/design.md`, so that a test can kill a process at exactly that step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: Of a connection, in the order in which one transaction passes them.
FAULT_POINTS: Final = (
    "after_open_txns",
    "after_write_id",
    "lock_waiting",
    "after_lock_acquired",
    "after_progress_read",
    "after_spill",
    "after_create_partitions",
    "after_add_dynamic_partitions",
    "after_commit_heartbeat",
    "between_renames",
    "after_publish",
    "commit_before_answer",
    "after_commit_txn",
    "after_commit_answer",
)

#: Of a writer that joined somebody else's transaction.
JOINED_FAULT_POINTS: Final = ("after_join", "after_spill", "before_prepare", "after_prepare")

#: Of a sink that runs one transaction for each batch, around those of its connection.
BATCH_FAULT_POINTS: Final = ("before_batch", "after_tasks", "after_batch")

#: Of a compaction's worker. Publish and commit have the same points as a connection's.
WORKER_FAULT_POINTS: Final = (
    "after_find_next_compact",
    "after_compaction_txn",
    "after_update_compactor_state",
    "after_merge",
    "after_commit_heartbeat",
    "between_renames",
    "after_publish",
    "after_mark_compacted",
    "after_commit_txn",
)

#: Of a task of a compaction that is carried out by other processes.
MERGE_TASK_FAULT_POINTS: Final = ("before_merge_task", "after_merge_task")

#: Of a cleaner.
CLEANER_FAULT_POINTS: Final = ("after_find_ready_to_clean", "between_removals", "after_removals", "after_mark_cleaned")

#: Of an ingest from Kafka, around those of its connections.
KAFKA_FAULT_POINTS: Final = (
    "after_assignment",
    "after_seek",
    "after_poll",
    "after_messages_written",
    "before_offset_commit",
    "after_offset_commit",
    "after_revocation",
)

ALL_FAULT_POINTS: Final = frozenset(
    (
        *FAULT_POINTS,
        *JOINED_FAULT_POINTS,
        *BATCH_FAULT_POINTS,
        *WORKER_FAULT_POINTS,
        *MERGE_TASK_FAULT_POINTS,
        *CLEANER_FAULT_POINTS,
        *KAFKA_FAULT_POINTS,
    )
)

_hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Call the hook, if one is installed, with the name of the fault point."""
    if _hook is not None:
        _hook(point)


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Install a hook, or remove it with None. For `hive_ingest.testing` only."""
    global _hook
    _hook = hook
