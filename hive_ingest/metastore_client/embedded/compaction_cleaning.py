"""What a cleaner may remove, and what is forgotten once it has.

Sources: Hive 4's `ReadyToCleanHandler`, `ReadyToCleanAbortHandler` and `MarkCleanedFunction`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from hive_ingest.errors import NoSuchCompaction
from hive_ingest.metastore_client.compaction_queue import FETCH_SIZE
from hive_ingest.metastore_client.embedded.compaction_rows import (
    DELETE_FROM_QUEUE,
    MOVE_TO_HISTORY,
    OF_PARTITION,
    QUEUE_COLUMNS,
    of_partition,
    to_info,
)
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.model import (
    AbortedComponent,
    CompactionInfo,
    CompactionState,
    CompactionType,
    TableName,
    TxnId,
    WriteId,
)

_LOWEST_OPEN = """
    SELECT min(bound) FROM (
        SELECT min(TXN_ID) AS bound FROM TXNS WHERE TXN_STATE = 'o'
        UNION ALL SELECT NTXN_NEXT FROM NEXT_TXN_ID
    ) AS bounds
"""

# -- compactions -------------------------------------------------------------------------------------

# Of one table or partition in the order of their write ids: what a later one made obsolete an earlier one may not
# know of. One that waits to be tried again does not hold up the others.
_READY = f"""
    SELECT {QUEUE_COLUMNS} FROM COMPACTION_QUEUE AS ready
    WHERE CQ_STATE = 'r' AND CQ_TYPE <> 'c'
        AND (CAST(:database AS TEXT) IS NULL OR CQ_DATABASE = :database AND CQ_TABLE = :table)
        AND (CQ_TXN_ID IS NULL OR CQ_NEXT_TXN_ID <= coalesce(CAST(:min_open AS BIGINT), ({_LOWEST_OPEN})))
        AND (CQ_COMMIT_TIME IS NULL OR CQ_COMMIT_TIME + coalesce(CQ_RETRY_RETENTION, 0) + :retention_ms <= NOW_MS())
        AND NOT EXISTS (
            SELECT 1 FROM COMPACTION_QUEUE AS earlier
            WHERE earlier.CQ_STATE = 'r' AND earlier.CQ_TYPE <> 'c'
                AND earlier.CQ_DATABASE = ready.CQ_DATABASE AND earlier.CQ_TABLE = ready.CQ_TABLE
                AND earlier.CQ_PARTITION IS NOT DISTINCT FROM ready.CQ_PARTITION
                AND (
                    earlier.CQ_COMMIT_TIME IS NULL
                    OR earlier.CQ_COMMIT_TIME + coalesce(earlier.CQ_RETRY_RETENTION, 0) + :retention_ms <= NOW_MS()
                )
                AND (
                    earlier.CQ_HIGHEST_WRITE_ID < ready.CQ_HIGHEST_WRITE_ID
                    OR earlier.CQ_HIGHEST_WRITE_ID IS NOT DISTINCT FROM ready.CQ_HIGHEST_WRITE_ID
                        AND earlier.CQ_ID < ready.CQ_ID
                )
        )
    ORDER BY CQ_ID
    LIMIT :limit
"""
# A rename gives the row its table's new name; under the old one there may be another table.
_CLEANER_START = f"""
    UPDATE COMPACTION_QUEUE SET CQ_CLEANER_START = NOW_MS()
    WHERE CQ_ID = :id AND CQ_STATE = 'r' AND {OF_PARTITION}
"""
# The retention counts from the commit, as in Hive; what is asked for counts from now.
_RETRY_LATER = """
    UPDATE COMPACTION_QUEUE
    SET CQ_RETRY_RETENTION = NOW_MS() - coalesce(CQ_COMMIT_TIME, NOW_MS()) + :retention_ms,
        CQ_COMMIT_TIME = coalesce(CQ_COMMIT_TIME, NOW_MS()), CQ_ERROR_MESSAGE = :error_message
    WHERE CQ_ID = :id AND CQ_STATE = 'r'
"""

# -- aborted transactions ----------------------------------------------------------------------------

#: Tables and partitions with too many aborted transactions, or with old ones; the oldest first.
ABORTS = """
    SELECT TC_DATABASE, TC_TABLE, TC_PARTITION, count(DISTINCT TXN_ID), min(TXN_STARTED) FROM TXNS
    JOIN TXN_COMPONENTS ON TC_TXNID = TXN_ID
    WHERE TXN_STATE = 'a' AND TC_TABLE IS NOT NULL
    GROUP BY TC_DATABASE, TC_TABLE, TC_PARTITION
    HAVING count(DISTINCT TXN_ID) > :threshold OR min(TXN_STARTED) < NOW_MS() - CAST(:age_ms AS BIGINT)
"""
_READY_ABORTS = f"""
    SELECT TC_DATABASE, TC_TABLE, TC_PARTITION,
        (
            SELECT min(writing.TC_TXNID) FROM TXN_COMPONENTS AS writing
            JOIN TXNS ON TXN_ID = writing.TC_TXNID
            WHERE TXN_STATE = 'o' AND writing.TC_DATABASE = aborts.TC_DATABASE AND writing.TC_TABLE = aborts.TC_TABLE
                AND writing.TC_PARTITION IS NOT DISTINCT FROM aborts.TC_PARTITION
        ),
        CQ_ID, CQ_RETRY_RETENTION
    FROM ({ABORTS} ORDER BY min(TXN_STARTED)) AS aborts
    LEFT JOIN COMPACTION_QUEUE
        ON CQ_TYPE = 'c' AND CQ_DATABASE = TC_DATABASE AND CQ_TABLE = TC_TABLE
            AND CQ_PARTITION IS NOT DISTINCT FROM TC_PARTITION
    WHERE (CQ_ID IS NULL OR CQ_COMMIT_TIME + CQ_RETRY_RETENTION <= NOW_MS())
        AND (CAST(:database AS TEXT) IS NULL OR TC_DATABASE = :database AND TC_TABLE = :table)
    LIMIT :limit
"""
_ABORTED_COMPONENTS = """
    SELECT DISTINCT TC_TXNID, TC_WRITEID, TC_OPERATION_TYPE FROM TXN_COMPONENTS
    JOIN TXNS ON TXN_ID = TC_TXNID
    WHERE TXN_STATE = 'a' AND TC_DATABASE = :database AND TC_TABLE = :table
        AND TC_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT)
        AND (CAST(:up_to AS BIGINT) IS NULL OR TC_WRITEID <= :up_to)
        AND (CAST(:silent_ms AS BIGINT) IS NULL OR TXN_LAST_HEARTBEAT <= NOW_MS() - :silent_ms)
    ORDER BY TC_TXNID
"""
_TAKE_ID = "UPDATE NEXT_COMPACTION_QUEUE_ID SET NCQ_NEXT = NCQ_NEXT + 1 RETURNING NCQ_NEXT - 1"
_FIND_RETRY = """
    SELECT CQ_ID FROM COMPACTION_QUEUE
    WHERE CQ_TYPE = 'c' AND CQ_DATABASE = :database AND CQ_TABLE = :table
        AND CQ_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT)
"""
_INSERT_RETRY = """
    INSERT INTO COMPACTION_QUEUE (
        CQ_ID, CQ_DATABASE, CQ_TABLE, CQ_PARTITION, CQ_TYPE, CQ_STATE, CQ_ENQUEUE_TIME, CQ_COMMIT_TIME,
        CQ_RETRY_RETENTION, CQ_ERROR_MESSAGE
    ) VALUES (
        :id, :database, :table, :partition, 'c', 'r', NOW_MS(), NOW_MS(), :retention_ms, :error_message
    )
"""

# -- forgetting --------------------------------------------------------------------------------------

_LOCK_READY = "SELECT CQ_HIGHEST_WRITE_ID FROM COMPACTION_QUEUE WHERE CQ_ID = :id AND CQ_STATE = 'r' FOR UPDATE"
_WAS_CLEANED = "SELECT CC_ID FROM COMPLETED_COMPACTIONS WHERE CC_ID = :id AND CC_STATE = 's'"
_DELETE_RETRIES = """
    DELETE FROM COMPACTION_QUEUE
    WHERE CQ_TYPE = 'c' AND CQ_DATABASE = :database AND CQ_TABLE = :table
        AND CQ_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT)
"""
_FORGET_COMPLETED = """
    DELETE FROM COMPLETED_TXN_COMPONENTS
    WHERE CTC_DATABASE = :database AND CTC_TABLE = :table
        AND CTC_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT) AND CTC_WRITEID <= :highest
"""
_FORGET_ABORTED = """
    DELETE FROM TXN_COMPONENTS
    WHERE TC_TXNID IN (SELECT TXN_ID FROM TXNS WHERE TXN_STATE = 'a')
        AND TC_DATABASE = :database AND TC_TABLE = :table
        AND TC_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT) AND TC_WRITEID <= :highest
"""
_FORGET_THESE = """
    DELETE FROM TXN_COMPONENTS
    WHERE TC_TXNID IN ID_LIST(:txn_ids) AND TC_TXNID IN (SELECT TXN_ID FROM TXNS WHERE TXN_STATE = 'a')
        AND TC_DATABASE = :database AND TC_TABLE = :table
        AND TC_PARTITION IS NOT DISTINCT FROM CAST(:partition AS TEXT)
"""


class CompactionCleaning:
    """The calls of a cleaner."""

    def __init__(self, context: Context, forget_and_prune: Callable[[], object]) -> None:
        self._db = context.sessions
        self._forget_and_prune = forget_and_prune

    def find_min_open_txn_id_for_cleaner(self) -> TxnId:
        """The lowest open transaction, or the next one to be opened where none is open."""
        return TxnId(self._db.query(_LOWEST_OPEN)[0][0])

    def find_ready_to_clean(
        self,
        *,
        min_open_txn_id: TxnId | None = None,
        retention_seconds: float = 0.0,
        table: str | TableName | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionInfo]:
        """Compactions whose old files no open transaction can need, at most one for each table or partition."""
        retention_ms = int(retention_seconds * 1000)
        of = _of_table(table)
        rows = self._db.query(_READY, **of, min_open=min_open_txn_id, retention_ms=retention_ms, limit=limit)
        return [to_info(row) for row in rows]

    def find_ready_to_clean_aborts(
        self,
        *,
        aborted_threshold: int,
        aborted_time_threshold_seconds: float | None = None,
        table: str | TableName | None = None,
        limit: int = FETCH_SIZE,
    ) -> list[CompactionInfo]:
        """Tables and partitions with many or old aborted transactions, as infos of type ABORT_TXN_CLEANUP."""
        age_ms = None if aborted_time_threshold_seconds is None else int(aborted_time_threshold_seconds * 1000)
        of = _of_table(table)
        rows = self._db.query(_READY_ABORTS, **of, threshold=aborted_threshold, age_ms=age_ms, limit=limit)
        return [_to_cleanup(row) for row in rows]

    def get_aborted_components(
        self,
        table: str | TableName,
        partition_name: str | None = None,
        *,
        up_to: WriteId | None = None,
        silent_seconds: float = 0.0,
    ) -> list[AbortedComponent]:
        """What aborted transactions may have left in the folder."""
        of = of_partition(TableName.of(table), partition_name)
        silent_ms = int(silent_seconds * 1000) or None
        rows = self._db.query(_ABORTED_COMPONENTS, **of, up_to=up_to, silent_ms=silent_ms)
        return [AbortedComponent(row[0], row[1], is_compaction=row[2] == "c") for row in rows]

    def mark_cleaner_start(self, info: CompactionInfo) -> None:
        """Shown by SHOW COMPACTIONS. Raises NoSuchCompaction."""
        of = of_partition(info.table, info.partition_name)
        found = self._db.run(lambda session: session.execute(_CLEANER_START, id=info.id, **of), is_durable=False)
        _require_ready(info, found == 1)

    def set_cleaner_retry_retention(self, info: CompactionInfo, retention_seconds: float) -> None:
        """Something could not be removed (`info.error_message`): find it again only after `retention_seconds`."""
        retry = {"retention_ms": int(retention_seconds * 1000), "error_message": info.error_message}

        def work(session: Session) -> None:
            of = of_partition(info.table, info.partition_name)
            compaction_id = info.id
            if info.type is CompactionType.ABORT_TXN_CLEANUP:
                new_id = session.scalar(_TAKE_ID)  # locks the queue: one row for each table or partition
                session.execute(_DELETE_RETRIES, **of)
                session.execute(_INSERT_RETRY, id=compaction_id or new_id, **of, **retry)
            else:
                _require_ready(info, session.execute(_RETRY_LATER, id=compaction_id, **retry) == 1)

        self._db.run(work)

    def mark_cleaned(self, info: CompactionInfo, *, removed_txn_ids: Collection[TxnId] | None = None) -> None:
        """Move it to the history, and forget what was written up to its highest write id. Raises NoSuchCompaction."""
        # Undone by a crash of the machine, it is cleaned again, and nothing is found.
        if self._db.run(lambda session: _mark_cleaned(session, info, removed_txn_ids), is_durable=False):
            self._forget_and_prune()  # HIVE-18747: right after the aborted metadata is cleaned


def _mark_cleaned(session: Session, info: CompactionInfo, removed_txn_ids: Collection[TxnId] | None) -> int:
    """How many components of aborted transactions are forgotten."""
    of = of_partition(info.table, info.partition_name)
    if info.type is CompactionType.ABORT_TXN_CLEANUP:
        session.execute(_DELETE_RETRIES, **of)
        return _forget_these(session, of, removed_txn_ids or ())
    ready = session.row(_LOCK_READY, id=info.id)
    if ready is None:
        _require_ready(info, session.row(_WAS_CLEANED, id=info.id) is not None)
        return 0
    session.execute(MOVE_TO_HISTORY, id=info.id, state=CompactionState.SUCCEEDED.value)
    session.execute(DELETE_FROM_QUEUE, id=info.id)
    session.execute(_DELETE_RETRIES, **of)
    highest = ready[0] or 0
    session.execute(_FORGET_COMPLETED, **of, highest=highest)
    if removed_txn_ids is not None:
        return _forget_these(session, of, removed_txn_ids)
    return session.execute(_FORGET_ABORTED, **of, highest=highest)


def _forget_these(session: Session, of: dict[str, str | None], txn_ids: Collection[TxnId]) -> int:
    return session.execute(_FORGET_THESE, **of, txn_ids=txn_ids) if txn_ids else 0


def _of_table(table: str | TableName | None) -> dict[str, str | None]:
    if table is None:
        return {"database": None, "table": None}
    name = TableName.of(table)
    return {"database": name.database, "table": name.table}


def _to_cleanup(row: Row) -> CompactionInfo:
    database, table, partition, lowest_writer, retry_id, retry_retention = row
    return CompactionInfo(
        id=retry_id or 0,
        table=TableName(database, table),
        partition_name=partition,
        type=CompactionType.ABORT_TXN_CLEANUP,
        state=CompactionState.READY_FOR_CLEANING,
        min_open_write_txn_id=lowest_writer,
        retry_retention_ms=retry_retention or 0,
    )


def _require_ready(info: CompactionInfo, is_ready: bool) -> None:
    if not is_ready:
        raise NoSuchCompaction(
            f"compaction {info.id} of {info.table} is not ready for cleaning: its table was dropped, or it has ended"
        )
