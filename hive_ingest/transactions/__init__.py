"""Parts that every transaction needs: owner identity, locks, heartbeats, staging, publish and commit."""

from hive_ingest.transactions.committer import Committer, log_failure
from hive_ingest.transactions.heartbeat import Heartbeater, now, send_heartbeat
from hive_ingest.transactions.lock_errors import describe_locks, lock_timeout
from hive_ingest.transactions.lock_plan import LockPlan
from hive_ingest.transactions.lock_wait import LockWait
from hive_ingest.transactions.opener import LockedTransaction, TransactionOpener, newest_overwrite
from hive_ingest.transactions.owner import Owner
from hive_ingest.transactions.read_transaction import ReadTransaction
from hive_ingest.transactions.reaper import Guard
from hive_ingest.transactions.registered_folders import list_registered
from hive_ingest.transactions.repair import (
    WriteIdReport,
    check_write_ids,
    refuse_unknown_compactions,
    refuse_unknown_write_ids,
    repair_write_ids,
)
from hive_ingest.transactions.staging import (
    STAGING_FOLDER,
    StagedFile,
    hidden_copies,
    list_staging,
    new_attempt,
    new_staging,
    remove_attempts,
    remove_leftovers,
    remove_staging,
    stage_version_files,
    staged_transaction,
)
from hive_ingest.transactions.table_write import TableWrite

__all__ = [
    "STAGING_FOLDER",
    "Committer",
    "Guard",
    "Heartbeater",
    "LockPlan",
    "LockWait",
    "LockedTransaction",
    "Owner",
    "ReadTransaction",
    "StagedFile",
    "TableWrite",
    "TransactionOpener",
    "WriteIdReport",
    "check_write_ids",
    "describe_locks",
    "hidden_copies",
    "list_registered",
    "list_staging",
    "lock_timeout",
    "log_failure",
    "new_attempt",
    "new_staging",
    "newest_overwrite",
    "now",
    "refuse_unknown_compactions",
    "refuse_unknown_write_ids",
    "remove_attempts",
    "remove_leftovers",
    "remove_staging",
    "repair_write_ids",
    "send_heartbeat",
    "stage_version_files",
    "staged_transaction",
]
