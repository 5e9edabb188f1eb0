"""Housekeeping by lease, in any client that makes a call: it needs no daemon.

Sources: Hive 4's `PerformTimeoutsFunction`, `CleanEmptyAbortedAndCommittedTxns`, `performWriteSetGC`,
`RemoveDuplicateCompleteTxnComponentsCommand` and, for TXN_TO_WRITE_ID, the rule min(Z, A, N) of HIVE-18747.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.identity import this_host
from hive_ingest.metastore_client.embedded.compaction_history import CompactionHistory
from hive_ingest.metastore_client.embedded.compactions import Compactions
from hive_ingest.metastore_client.embedded.context import TIMED_OUT, Context
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.metastore_client.embedded.transactions import release
from hive_ingest.model import TxnId
from hive_ingest.plurals import counted

_log = logging.getLogger(__name__)

#: How long a process that died with the lease can delay housekeeping.
LEASE_SECONDS = 60.0
#: Transactions that one SQL transaction times out or forgets, so that others get their turn.
BATCH_SIZE = 1_000
#: A commit is remembered for a day at least, for writers that ask late what became of it.
DUPLICATES_KEPT_SECONDS = 86_400.0

# A time further ahead than any interval was written under another clock: it does not count.
_TAKE_LEASE = """
    UPDATE HOUSEKEEPING_LEASE
    SET HKL_HOLDER = :holder, HKL_EXPIRES = NOW_MS() + :lease_ms, HKL_DUE = NOW_MS() + :interval_ms
    WHERE HKL_NAME = 'housekeeper' AND (HKL_EXPIRES <= NOW_MS() OR HKL_EXPIRES > NOW_MS() + :lease_ms)
    RETURNING HKL_NAME
"""
_TAKE_LEASE_IF_DUE = """
    UPDATE HOUSEKEEPING_LEASE
    SET HKL_HOLDER = :holder, HKL_EXPIRES = NOW_MS() + :lease_ms, HKL_DUE = NOW_MS() + :interval_ms
    WHERE HKL_NAME = 'housekeeper' AND (HKL_EXPIRES <= NOW_MS() OR HKL_EXPIRES > NOW_MS() + :lease_ms)
        AND (HKL_DUE <= NOW_MS() OR HKL_DUE > NOW_MS() + :interval_ms)
    RETURNING HKL_NAME
"""
_GIVE_LEASE_BACK = """
    UPDATE HOUSEKEEPING_LEASE SET HKL_EXPIRES = 0 WHERE HKL_NAME = 'housekeeper' AND HKL_HOLDER = :holder
"""

# The clock was set back. Until it shows those times again, they would keep dead transactions open and replaced files on
# the disk. So each of them becomes the time of now, and a whole period begins.
_FROM_FUTURE = (
    "UPDATE TXNS SET TXN_LAST_HEARTBEAT = NOW_MS() WHERE TXN_LAST_HEARTBEAT > NOW_MS() + :timeout_ms",
    "UPDATE TXNS SET TXN_ENDED = NOW_MS() WHERE TXN_ENDED > NOW_MS() + :timeout_ms",
    "UPDATE HIVE_LOCKS SET HL_LAST_HEARTBEAT = NOW_MS() WHERE HL_LAST_HEARTBEAT > NOW_MS() + :timeout_ms",
    "UPDATE COMPACTION_QUEUE SET CQ_COMMIT_TIME = NOW_MS() WHERE CQ_COMMIT_TIME > NOW_MS() + :timeout_ms",
    """
    UPDATE COMPACTION_QUEUE SET CQ_START = NOW_MS()
    WHERE CQ_STATE = 'w' AND CQ_TXN_ID IS NULL AND CQ_START > NOW_MS() + :timeout_ms
    """,
)
_SILENT = f"""
    SELECT TXN_ID FROM TXNS
    WHERE TXN_STATE = 'o' AND TXN_LAST_HEARTBEAT < NOW_MS() - :timeout_ms
    ORDER BY TXN_ID
    LIMIT {BATCH_SIZE}
"""
# Silence is tested again on the row itself: a heartbeat may have come since the batch was read.
_TIME_OUT = f"""
    UPDATE TXNS SET TXN_STATE = 'a', TXN_META_INFO = '{TIMED_OUT}', TXN_ENDED = NOW_MS()
    WHERE TXN_ID IN ID_LIST(:txn_ids) AND TXN_STATE = 'o' AND TXN_LAST_HEARTBEAT < NOW_MS() - :timeout_ms
    RETURNING TXN_ID
"""
# The lock of a rename is kept until the table's folder is moved.
_TIME_OUT_LOCKS = """
    DELETE FROM HIVE_LOCKS
    WHERE HL_TXNID = 0 AND HL_LAST_HEARTBEAT < NOW_MS() - :timeout_ms
        AND HL_LOCK_EXT_ID NOT IN (SELECT FT_LOCK_ID FROM FOLDER_TASKS WHERE FT_LOCK_ID IS NOT NULL)
"""

# An aborted transaction with components may have files under its write id. Forgotten, it would count as committed.
_FORGETTABLE = f"""
    SELECT TXN_ID FROM TXNS
    WHERE TXN_STATE = 'c' AND TXN_ENDED < NOW_MS() - :committed_retention_ms
        OR TXN_STATE = 'a' AND TXN_ENDED < NOW_MS() - :aborted_retention_ms
            AND NOT EXISTS (SELECT 1 FROM TXN_COMPONENTS WHERE TC_TXNID = TXN_ID)
    LIMIT {BATCH_SIZE}
"""
_FORGET = "DELETE FROM TXNS WHERE TXN_ID IN ID_LIST(:txn_ids)"

# The lock of a dynamic partition write leaves a row without a partition, which goes when partitions are named, before a
# file is published. Where it is still there, the transaction wrote nothing into the table.
_FORGET_UNNAMED_COMMITTED = """
    DELETE FROM COMPLETED_TXN_COMPONENTS
    WHERE CTC_PARTITION IS NULL AND CTC_TIMESTAMP < NOW_MS() - :committed_retention_ms
        AND EXISTS (
            SELECT 1 FROM TBLS WHERE DB_NAME = CTC_DATABASE AND TBL_NAME = CTC_TABLE AND PARTITION_KEYS <> '[]'
        )
"""
_FORGET_UNNAMED_ABORTED = """
    DELETE FROM TXN_COMPONENTS
    WHERE TC_PARTITION IS NULL
        AND TC_TXNID IN (
            SELECT TXN_ID FROM TXNS WHERE TXN_STATE = 'a' AND TXN_ENDED < NOW_MS() - :aborted_retention_ms
        )
        AND EXISTS (
            SELECT 1 FROM TBLS WHERE DB_NAME = TC_DATABASE AND TBL_NAME = TC_TABLE AND PARTITION_KEYS <> '[]'
        )
"""

# min(Z, A, N): the oldest snapshot's lowest open transaction, the lowest aborted one, the next one.
_LOWER_BOUND = """
    SELECT min(bound) FROM (
        SELECT min(MHL_MIN_OPEN_TXNID) AS bound FROM MIN_HISTORY_LEVEL
        UNION ALL SELECT min(TXN_ID) FROM TXNS WHERE TXN_STATE = 'a'
        UNION ALL SELECT NTXN_NEXT FROM NEXT_TXN_ID
    ) AS bounds
"""
_PRUNE_WRITE_IDS = "DELETE FROM TXN_TO_WRITE_ID WHERE T2W_TXNID < :low"
_LOWEST_OPEN = """
    SELECT min(bound) FROM (
        SELECT min(TXN_ID) AS bound FROM TXNS WHERE TXN_STATE = 'o'
        UNION ALL SELECT NTXN_NEXT FROM NEXT_TXN_ID
    ) AS bounds
"""
_PRUNE_WRITE_SET = "DELETE FROM WRITE_SET WHERE WS_COMMIT_ID < :low"


# Tables and partitions that were written and not compacted, with their last write ids: of any kind, and of an update.
_WRITTEN_SEVERAL_TIMES = """
    SELECT CTC_DATABASE, CTC_TABLE, CTC_PARTITION, max(CTC_WRITEID),
        max(CASE WHEN CTC_UPDATE_DELETE = 'Y' THEN CTC_WRITEID END)
    FROM COMPLETED_TXN_COMPONENTS
    WHERE CTC_TABLE IS NOT NULL
    GROUP BY CTC_DATABASE, CTC_TABLE, CTC_PARTITION
    HAVING min(CTC_WRITEID) < max(CTC_WRITEID) AND min(CTC_TIMESTAMP) < NOW_MS() - :kept_ms
"""
_FORGET_EARLIER = """
    DELETE FROM COMPLETED_TXN_COMPONENTS
    WHERE CTC_DATABASE = :database AND CTC_TABLE = :table
        AND CTC_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT)
        AND CTC_WRITEID < :highest AND CTC_WRITEID IS DISTINCT FROM CAST(:highest_update AS BIGINT)
        AND CTC_TIMESTAMP < NOW_MS() - :kept_ms
"""


@dataclass(frozen=True, slots=True)
class HousekeepingResult:
    """Counts of one run."""

    timed_out_txns: tuple[TxnId, ...] = ()
    timed_out_lock_rows: int = 0
    forgotten_txns: int = 0
    pruned_write_ids: int = 0
    pruned_write_sets: int = 0
    pruned_components: int = 0
    revoked_compactions: int = 0
    purged_compactions: int = 0

    def as_text(self) -> str:
        """The counts that are not 0, for the log."""
        counts = (
            (len(self.timed_out_txns), "transaction", "timed out"),
            (self.timed_out_lock_rows, "lock", "timed out"),
            (self.revoked_compactions, "compaction", "of dead workers put back into the queue"),
            (self.forgotten_txns, "aborted transaction", "forgotten"),
            (self.pruned_write_ids, "row", "of write ids removed"),
            (self.pruned_write_sets, "row", "of write sets removed"),
            (self.pruned_components, "row", "of committed writes removed"),
            (self.purged_compactions, "compaction", "removed from the history"),
        )
        return "; ".join(f"{counted(count, noun)} {what}" for count, noun, what in counts if count) or "nothing to do"


class Housekeeping:
    """Timeouts, and the forgetting of what nobody can ask for any more."""

    def __init__(self, context: Context) -> None:
        self._db, self._options, self._folder_tasks = context.sessions, context.options, context.folder_tasks
        self._compactions, self._compaction_history = Compactions(context), CompactionHistory(context)
        self._next_look_seconds = 0.0

    def run(self) -> HousekeepingResult | None:
        """Run now, due or not. None: another process is running it and holds the lease."""
        return self._keep_house() if self._db.query(_TAKE_LEASE, **self._lease()) else None

    def forget_and_prune(self) -> None:
        """Forget transactions that have ended, and prune TXN_TO_WRITE_ID; needs no lease, since it is idempotent."""
        self._forget_txns()
        self._db.run(_prune_write_ids)

    def run_if_due(self) -> None:
        """Cheap when it is not due."""
        # The lease is in the database; this process looks there once an interval, not at every call.
        now = time.monotonic()
        if now < self._next_look_seconds:
            return
        self._next_look_seconds = now + self._options.housekeeping_interval_seconds
        try:
            if self._db.query(_TAKE_LEASE_IF_DUE, **self._lease()):
                self._keep_house()
        except MetastoreUnavailable as error:
            # The caller wanted something else, which may well succeed; the next who comes by tries again.
            _log.warning("housekeeping put off: %s", error)

    def _lease(self) -> dict[str, str | int]:
        return {
            "holder": f"{this_host()}:{os.getpid()}",
            "lease_ms": _ms(LEASE_SECONDS),
            "interval_ms": _ms(self._options.housekeeping_interval_seconds),
        }

    def _keep_house(self) -> HousekeepingResult:
        try:
            self._folder_tasks.finish()  # before the lock of a killed rename times out
            self._db.run(self._correct_times)
            result = HousekeepingResult(
                timed_out_txns=self._time_out_txns(),
                timed_out_lock_rows=self._db.run(
                    lambda session: session.execute(_TIME_OUT_LOCKS, timeout_ms=self._timeout_ms)
                ),
                revoked_compactions=self._compactions.revoke_timed_out_workers(self._options.txn_timeout_seconds),
                forgotten_txns=self._forget_txns(),
                pruned_write_ids=self._db.run(_prune_write_ids),
                pruned_write_sets=self._db.run(_prune_write_set),
                pruned_components=self._prune_components(),
                purged_compactions=self._compaction_history.purge_completed_compactions(),
            )
        finally:
            lease = self._lease()
            self._db.run(lambda session: session.execute(_GIVE_LEASE_BACK, holder=lease["holder"]))
        if result != HousekeepingResult():
            _log.info("housekeeping on %s: %s", self._db.backend.uri, result.as_text())
        return result

    @property
    def _timeout_ms(self) -> int:
        return _ms(self._options.txn_timeout_seconds)

    def _correct_times(self, session: Session) -> None:
        for statement in _FROM_FUTURE:
            session.execute(statement, timeout_ms=self._timeout_ms)

    def _time_out_txns(self) -> tuple[TxnId, ...]:
        found: list[TxnId] = []
        while batch := self._db.run(self._time_out_batch):
            found += batch
        return tuple(sorted(found))

    def _time_out_batch(self, session: Session) -> list[TxnId]:
        silent = [row[0] for row in session.rows(_SILENT, timeout_ms=self._timeout_ms)]
        if not silent:
            return []
        rows = session.rows(_TIME_OUT, txn_ids=silent, timeout_ms=self._timeout_ms)
        timed_out = [TxnId(row[0]) for row in rows]
        if timed_out:
            release(session, timed_out)
        return timed_out

    def _forget_txns(self) -> int:
        retention = {
            "committed_retention_ms": _ms(self._options.committed_txn_retention_seconds),
            "aborted_retention_ms": _ms(self._options.aborted_txn_retention_seconds),
        }

        def work(session: Session) -> int:
            ids = [row[0] for row in session.rows(_FORGETTABLE, **retention)]
            return session.execute(_FORGET, txn_ids=ids) if ids else 0

        def forget_unnamed(session: Session) -> None:
            committed_ms, aborted_ms = retention["committed_retention_ms"], retention["aborted_retention_ms"]
            session.execute(_FORGET_UNNAMED_COMMITTED, committed_retention_ms=committed_ms)
            session.execute(_FORGET_UNNAMED_ABORTED, aborted_retention_ms=aborted_ms)

        self._db.run(forget_unnamed)
        forgotten = 0
        while count := self._db.run(work):
            forgotten += count
        return forgotten

    def _prune_components(self) -> int:
        """Keep of each table or partition the last write alone: it is what says that a compaction may be due."""
        kept_ms = _ms(DUPLICATES_KEPT_SECONDS)
        found = self._db.query(_WRITTEN_SEVERAL_TIMES, kept_ms=kept_ms)

        def work(batch: Sequence[Row], session: Session) -> int:
            names = ("database", "table", "partition", "highest", "highest_update")
            return sum(
                session.execute(_FORGET_EARLIER, **dict(zip(names, row, strict=True)), kept_ms=kept_ms) for row in batch
            )

        batches = (found[at : at + BATCH_SIZE] for at in range(0, len(found), BATCH_SIZE))
        return sum(self._db.run(partial(work, batch)) for batch in batches)


def _prune_write_ids(session: Session) -> int:
    return session.execute(_PRUNE_WRITE_IDS, low=session.scalar(_LOWER_BOUND))


def _prune_write_set(session: Session) -> int:
    return session.execute(_PRUNE_WRITE_SET, low=session.scalar(_LOWEST_OPEN))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
