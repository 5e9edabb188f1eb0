"""What an initiator asks: which tables and partitions were written, what failed before; and the history's length.

Sources: Hive 4's `CompactionCandidateHandler`, `AbortedTxnHandler`, `CheckFailedCompactionsHandler` and
`PurgeCompactionHistoryFunction`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hive_ingest.metastore_client.compaction_queue import FAILED_RETRY_SECONDS, FAILED_THRESHOLD, FETCH_SIZE
from hive_ingest.metastore_client.compaction_values import failed_too_often
from hive_ingest.metastore_client.embedded.compaction_cleaning import ABORTS
from hive_ingest.metastore_client.embedded.compaction_rows import HISTORY_COLUMNS, of_partition, to_info
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.model import CompactionCandidate, CompactionInfo, CompactionState, CompactionType, TableName

# The most written first: a limit leaves out those that can wait.
_WRITTEN = """
    SELECT CTC_DATABASE, CTC_TABLE, CTC_PARTITION, count(*), max(CTC_WRITEID) FROM COMPLETED_TXN_COMPONENTS
    WHERE CTC_TABLE IS NOT NULL
        AND (
            CAST(:interval_ms AS BIGINT) IS NULL
            OR CTC_TIMESTAMP >= NOW_MS() - :interval_ms
            OR EXISTS (
                SELECT 1 FROM COMPLETED_COMPACTIONS
                WHERE CC_STATE IN ('a', 'f') AND CC_ID = (
                    SELECT max(last.CC_ID) FROM COMPLETED_COMPACTIONS AS last
                    WHERE last.CC_DATABASE = CTC_DATABASE AND last.CC_TABLE = CTC_TABLE
                        AND last.CC_PARTITION IS NOT DISTINCT FROM CTC_PARTITION
                )
            )
        )
    GROUP BY CTC_DATABASE, CTC_TABLE, CTC_PARTITION
    ORDER BY count(*) DESC
    LIMIT :limit
"""
_ABORTS = f"{ABORTS} ORDER BY min(TXN_STARTED) LIMIT :limit"
_HISTORY_OF = f"""
    SELECT {HISTORY_COLUMNS} FROM COMPLETED_COMPACTIONS
    WHERE CC_DATABASE = :database AND CC_TABLE = :table
        AND CC_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT)
    ORDER BY CC_ID DESC
"""
_NOW = "SELECT NOW_MS()"
_HISTORY = f"SELECT {HISTORY_COLUMNS} FROM COMPLETED_COMPACTIONS ORDER BY CC_ID DESC"
_PURGE = "DELETE FROM COMPLETED_COMPACTIONS WHERE CC_ID IN ID_LIST(:ids)"


class CompactionHistory:
    """The calls of an initiator, and of housekeeping."""

    def __init__(self, context: Context) -> None:
        self._db = context.sessions

    def find_potential_compactions(
        self,
        *,
        aborted_threshold: int,
        aborted_time_threshold_seconds: float | None = None,
        check_interval_seconds: float | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionCandidate]:
        """Tables and partitions that were written since their last compaction, or have many or old aborts."""
        interval_ms = None if check_interval_seconds is None else int(check_interval_seconds * 1000)
        age_ms = None if aborted_time_threshold_seconds is None else int(aborted_time_threshold_seconds * 1000)
        found: dict[tuple[str, str, str | None], CompactionCandidate] = {}
        for row in self._db.query(_WRITTEN, interval_ms=interval_ms, limit=limit):
            database, table, partition, commits, highest = row
            found[database, table, partition] = CompactionCandidate(
                TableName(database, table), partition, commits=commits, highest_write_id=highest
            )
        now_ms = self._now_ms()
        for row in self._db.query(_ABORTS, threshold=aborted_threshold, age_ms=age_ms, limit=limit):
            database, table, partition, aborts, oldest_ms = row
            found[database, table, partition] = CompactionCandidate(
                TableName(database, table),
                partition,
                too_many_aborts=aborts > aborted_threshold,
                has_old_abort=age_ms is not None and oldest_ms < now_ms - age_ms,
            )
        return list(found.values())

    def check_failed_compactions(
        self,
        table: str | TableName,
        partition_name: str | None = None,
        *,
        threshold: int = FAILED_THRESHOLD,
        retry_seconds: float = FAILED_RETRY_SECONDS,
    ) -> bool:
        """Whether the last `threshold` compactions all failed, the last of them less than `retry_seconds` ago."""
        history = self._db.query(_HISTORY_OF, **of_partition(TableName.of(table), partition_name))
        return failed_too_often(
            map(to_info, history),
            partition_name,
            threshold=threshold,
            retry_seconds=retry_seconds,
            now_ms=self._now_ms(),
        )

    def purge_completed_compactions(
        self,
        *,
        succeeded: int = 3,
        failed: int = 3,
        did_not_initiate: int = 2,
        refused: int = 3,
        timeout_seconds: float = 7 * 86_400.0,
    ) -> int:
        """Keep that many of each table's or partition's history, the newest; how many were removed."""
        kept = {
            CompactionState.SUCCEEDED: succeeded,
            # Fewer, and `check_failed_compactions` could not count them.
            CompactionState.FAILED: max(failed, FAILED_THRESHOLD),
            CompactionState.DID_NOT_INITIATE: did_not_initiate,
            CompactionState.REFUSED: refused,
        }
        oldest_ms = self._now_ms() - timeout_seconds * 1000
        ids = [info.id for info in superfluous(map(to_info, self._db.query(_HISTORY)), kept, oldest_ms)]
        return self._db.run(lambda session: session.execute(_PURGE, ids=ids)) if ids else 0

    def _now_ms(self) -> int:
        return int(self._db.query(_NOW)[0][0])


def superfluous(
    newest_first: Iterable[CompactionInfo], kept: Mapping[CompactionState, int], oldest_ms: float
) -> Iterable[CompactionInfo]:
    """Those of a history that are to go: too many of a state, or out of date since a later one succeeded."""
    seen: Counter[tuple[TableName, str | None, CompactionState]] = Counter()
    succeeded: set[tuple[TableName, str | None, CompactionType]] = set()
    for info in newest_first:
        of = (info.table, info.partition_name)
        seen[(*of, info.state)] += 1
        if info.state is CompactionState.SUCCEEDED:
            succeeded.add((*of, info.type))
            is_out_of_date = False
        else:
            is_superseded = (*of, CompactionType.MAJOR) in succeeded or (*of, info.type) in succeeded
            is_out_of_date = is_superseded and (info.start_ms or 0) < oldest_ms
        if info.state in kept and (seen[(*of, info.state)] > kept[info.state] or is_out_of_date):
            yield info
