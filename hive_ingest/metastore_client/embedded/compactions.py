"""The queue of compactions: requests, and the workers that take them.

Sources: Hive 4's `CompactFunction`, `NextCompactionFunction` and `CompactionTxnHandler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_ingest.errors import InvalidTransactionState, NoSuchCompaction, UnsupportedFeature
from hive_ingest.metastore_client.compaction_values import latest_committed, to_stringable_map
from hive_ingest.metastore_client.embedded.compaction_rows import (
    DELETE_FROM_QUEUE,
    HISTORY_COLUMNS,
    MOVE_TO_HISTORY,
    OF_PARTITION,
    QUEUE_COLUMNS,
    TYPE_LETTERS,
    of_partition,
    to_info,
)
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.metastore_client.embedded.transactions import INSERT_COMPONENT, require_open
from hive_ingest.model import (
    CompactionInfo,
    CompactionResponse,
    CompactionState,
    CompactionType,
    TableName,
    TxnId,
    TxnType,
)

# -- requests ----------------------------------------------------------------------------------------

# Whoever adds or takes a request holds this row: of each table or partition one compaction is in the queue, and at
# most one at work.
_LOCK_QUEUE = "SELECT NCQ_NEXT FROM NEXT_COMPACTION_QUEUE_ID FOR UPDATE"
_TAKE_ID = "UPDATE NEXT_COMPACTION_QUEUE_ID SET NCQ_NEXT = NCQ_NEXT + 1 RETURNING NCQ_NEXT - 1"
#: The highest write id that a compaction of now could take in: none below it is open.
_HIGHEST_WRITE_ID = """
    SELECT min(bound) FROM (
        SELECT NWI_NEXT - 1 AS bound FROM NEXT_WRITE_ID WHERE NWI_DATABASE = :database AND NWI_TABLE = :table
        UNION ALL
        SELECT min(T2W_WRITEID) - 1 FROM TXN_TO_WRITE_ID JOIN TXNS ON TXN_ID = T2W_TXNID
        WHERE T2W_DATABASE = :database AND T2W_TABLE = :table AND TXN_STATE = 'o'
    ) AS bounds
"""
#: Between `mark_compacted` and the commit a compaction is still at work.
_IS_UNCOMMITTED = "CQ_STATE = 'r' AND CQ_TXN_ID IS NOT NULL AND CQ_NEXT_TXN_ID IS NULL"
_FIND_PRESENT = f"""
    SELECT CQ_ID, CQ_STATE FROM COMPACTION_QUEUE
    WHERE {OF_PARTITION} AND CQ_TYPE <> 'c'
        AND (
            CQ_STATE IN ('i', 'w')
            OR {_IS_UNCOMMITTED}
            OR CQ_STATE = 'r' AND CQ_HIGHEST_WRITE_ID = CAST(:highest AS BIGINT) AND CQ_TYPE IN (:type, 'a')
        )
    ORDER BY CQ_ID
    LIMIT 1
"""
_REQUEST = """
    INSERT INTO COMPACTION_QUEUE (
        CQ_ID, CQ_DATABASE, CQ_TABLE, CQ_PARTITION, CQ_STATE, CQ_TYPE, CQ_TBLPROPERTIES, CQ_ENQUEUE_TIME,
        CQ_INITIATOR_ID, CQ_INITIATOR_VERSION, CQ_RETRY_RETENTION
    ) VALUES (
        :id, :database, :table, :partition, 'i', :type, :properties, NOW_MS(), :initiator_id, :initiator_version, 0
    )
"""
_SHOW = f"""
    SELECT {QUEUE_COLUMNS} FROM COMPACTION_QUEUE
    WHERE CAST(:database AS TEXT) IS NULL OR CQ_DATABASE = :database AND CQ_TABLE = :table
    UNION ALL
    SELECT {HISTORY_COLUMNS} FROM COMPLETED_COMPACTIONS
    WHERE CAST(:database AS TEXT) IS NULL OR CC_DATABASE = :database AND CC_TABLE = :table
    ORDER BY 1 DESC
"""

# -- the worker --------------------------------------------------------------------------------------

_IS_ANY_WAITING = "SELECT CQ_ID FROM COMPACTION_QUEUE WHERE CQ_STATE = 'i' LIMIT 1"
_TAKE = f"""
    UPDATE COMPACTION_QUEUE
    SET CQ_STATE = 'w', CQ_WORKER_ID = :worker_id, CQ_WORKER_VERSION = :worker_version, CQ_START = NOW_MS()
    WHERE CQ_STATE = 'i' AND CQ_ID = (
        SELECT min(waiting.CQ_ID) FROM COMPACTION_QUEUE AS waiting
        WHERE waiting.CQ_STATE = 'i' AND NOT EXISTS (
            SELECT 1 FROM COMPACTION_QUEUE AS running
            WHERE running.CQ_DATABASE = waiting.CQ_DATABASE AND running.CQ_TABLE = waiting.CQ_TABLE
                AND running.CQ_PARTITION IS NOT DISTINCT FROM waiting.CQ_PARTITION
                AND (
                    running.CQ_STATE = 'w'
                    OR running.CQ_STATE = 'r' AND running.CQ_TXN_ID IS NOT NULL AND running.CQ_NEXT_TXN_ID IS NULL
                )
        )
    )
    RETURNING {QUEUE_COLUMNS}
"""
_IS_MINE = "CQ_ID = :id AND CQ_STATE = 'w' AND CQ_WORKER_ID = CAST(:worker_id AS TEXT)"
_SET_STATE = f"""
    UPDATE COMPACTION_QUEUE SET CQ_HIGHEST_WRITE_ID = :highest_write_id, CQ_RUN_AS = :run_as, CQ_TXN_ID = :txn_id
    WHERE {_IS_MINE}
"""
_DELETE_COMPONENT = "DELETE FROM TXN_COMPONENTS WHERE TC_TXNID = :txn_id AND TC_OPERATION_TYPE = 'c'"
_SET_JOB = "UPDATE COMPACTION_QUEUE SET CQ_HADOOP_JOB_ID = :job_id WHERE CQ_ID = :id"
# Called again after a lost answer, it finds what it did by the time at which the worker took the compaction.
_MARK_COMPACTED = f"""
    UPDATE COMPACTION_QUEUE SET CQ_STATE = 'r', CQ_WORKER_ID = NULL, CQ_META_INFO = :meta_info
    WHERE {_IS_MINE} OR CQ_ID = :id AND CQ_STATE = 'r' AND CQ_START = CAST(:start AS BIGINT)
"""
# A worker that seemed dead ends nothing: it took the compaction at another time, or it is back in the queue.
_SET_ERROR = f"""
    UPDATE COMPACTION_QUEUE SET CQ_ERROR_MESSAGE = :error_message
    WHERE {_IS_MINE} OR CQ_ID = :id AND CQ_STATE <> 'w' AND CQ_START IS NOT DISTINCT FROM CAST(:start AS BIGINT)
"""
_DID_NOT_INITIATE = """
    INSERT INTO COMPLETED_COMPACTIONS (
        CC_ID, CC_DATABASE, CC_TABLE, CC_PARTITION, CC_STATE, CC_TYPE, CC_START, CC_END, CC_ERROR_MESSAGE,
        CC_INITIATOR_ID, CC_INITIATOR_VERSION
    ) VALUES (
        :id, :database, :table, :partition, 'a', :type, NOW_MS(), NOW_MS(), :error_message,
        :initiator_id, :initiator_version
    )
"""

# -- workers that died -------------------------------------------------------------------------------

_PUT_BACK = """
    UPDATE COMPACTION_QUEUE
    SET CQ_STATE = 'i', CQ_WORKER_ID = NULL, CQ_START = NULL, CQ_TXN_ID = NULL, CQ_HIGHEST_WRITE_ID = NULL,
        CQ_NEXT_TXN_ID = NULL, CQ_COMMIT_TIME = NULL, CQ_HADOOP_JOB_ID = NULL, CQ_META_INFO = NULL
"""
_REVOKE_LOCAL = f"{_PUT_BACK} WHERE CQ_STATE = 'w' AND substr(CQ_WORKER_ID, 1, :length) = :hostname"
_REVOKE_TIMED_OUT = f"""
    {_PUT_BACK}
    WHERE CQ_STATE = 'w' AND (CQ_TXN_ID IS NULL OR CQ_NEXT_TXN_ID IS NOT NULL) AND CQ_START < NOW_MS() - :timeout_ms
        OR CQ_STATE IN ('w', 'r') AND CQ_TXN_ID IS NOT NULL AND CQ_NEXT_TXN_ID IS NULL
            AND NOT EXISTS (SELECT 1 FROM TXNS WHERE TXN_ID = CQ_TXN_ID AND TXN_STATE = 'o')
"""


class Compactions:
    """The calls of those who ask for compactions, and of workers."""

    def __init__(self, context: Context) -> None:
        self._db = context.sessions

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
        that waits for the cleaner. Raises UnsupportedFeature for types other than MINOR and MAJOR.
        """
        if compaction_type not in (CompactionType.MINOR, CompactionType.MAJOR):
            raise UnsupportedFeature(f"a compaction is MINOR or MAJOR here, not {compaction_type.name}")
        name = TableName.of(table)
        request = {
            **of_partition(name, partition_name),
            "type": TYPE_LETTERS[compaction_type],
            "properties": to_stringable_map(properties or {}),
            "initiator_id": initiator_id or None,
            "initiator_version": initiator_version or None,
        }
        return self._db.run(lambda session: _request(session, request))

    def show_compactions(self, table: str | TableName | None = None) -> list[CompactionInfo]:
        """The queue and the history, newest first."""
        name = None if table is None else TableName.of(table)
        of_table = {"database": name and name.database, "table": name and name.table}
        return [to_info(row) for row in self._db.query(_SHOW, **of_table)]

    def get_latest_committed_compactions(
        self, table: str | TableName, partition_names: Sequence[str] = (), *, after_id: int | None = None
    ) -> list[CompactionInfo]:
        """The latest one of the table, or of each partition, whose result can be read (HIVE-25115)."""
        return latest_committed(self.show_compactions(table), partition_names, after_id)

    # -- the worker --------------------------------------------------------------------------------

    def find_next_compact(self, worker_id: str, *, worker_version: str = "") -> CompactionInfo | None:
        """Take the oldest request that nobody works on; None if there is none."""
        if not self._db.query(_IS_ANY_WAITING):
            return None

        def work(session: Session) -> CompactionInfo | None:
            session.scalar(_LOCK_QUEUE)
            row = session.row(_TAKE, worker_id=worker_id, worker_version=worker_version or None)
            return None if row is None else to_info(row)

        # Undone by a crash of the machine, it is a request again; the worker has ended too.
        return self._db.run(work, is_durable=False)

    def update_compactor_state(self, info: CompactionInfo, txn_id: TxnId) -> None:
        """Store `info.highest_write_id`, `info.run_as` and the compaction's transaction; before the first byte.

        Raises NoSuchCompaction, NoSuchTxn, TxnAborted, InvalidTransactionState (not of type COMPACTION).
        """
        highest = info.highest_write_id or 0

        def work(session: Session) -> None:
            if require_open(session, txn_id) is not TxnType.COMPACTION:
                raise InvalidTransactionState(f"transaction {txn_id} is not a compaction's: open one of that type")
            mine = {"id": info.id, "worker_id": info.worker_id}
            state = {"highest_write_id": highest, "run_as": info.run_as, "txn_id": txn_id}
            _require(info, session.execute(_SET_STATE, **mine, **state))
            # As any other write: if the transaction aborts, it is remembered until its files are gone.
            session.execute(_DELETE_COMPONENT, txn_id=txn_id)
            of = of_partition(info.table, info.partition_name)
            session.execute(INSERT_COMPONENT, **of, txn_id=txn_id, operation="c", write_id=highest)

        self._db.run(work)

    def set_hadoop_job_id(self, compaction_id: int, job_id: str) -> None:
        """Shown by SHOW COMPACTIONS. Raises NoSuchCompaction."""
        job = {"id": compaction_id, "job_id": job_id}
        if not self._db.run(lambda session: session.execute(_SET_JOB, **job), is_durable=False):
            raise NoSuchCompaction(f"compaction {compaction_id} is not in the queue: it has ended, or never began")

    def mark_compacted(self, info: CompactionInfo) -> None:
        """The result is published: the old files are the cleaner's once the transaction has committed.

        Raises NoSuchCompaction.
        """
        mine = {"id": info.id, "worker_id": info.worker_id, "start": info.start_ms, "meta_info": info.meta_info}
        # The commit of the transaction is durable, and this with it.
        _require(info, self._db.run(lambda session: session.execute(_MARK_COMPACTED, **mine), is_durable=False))

    def mark_failed(self, info: CompactionInfo) -> None:
        """Move it to the history with `info.error_message`; with id 0 as one that was not initiated.

        Raises NoSuchCompaction.
        """
        if info.id:
            self._end(info, CompactionState.FAILED)
        else:
            self._db.run(lambda session: _did_not_initiate(session, info))

    def mark_refused(self, info: CompactionInfo) -> None:
        """Move it to the history as one that was not needed or not possible. Raises NoSuchCompaction."""
        self._end(info, CompactionState.REFUSED)

    def _end(self, info: CompactionInfo, state: CompactionState) -> None:
        mine: dict[str, Any] = {"id": info.id, "worker_id": info.worker_id, "start": info.start_ms}

        def work(session: Session) -> None:
            _require(info, session.execute(_SET_ERROR, **mine, error_message=info.error_message))
            session.execute(MOVE_TO_HISTORY, id=info.id, state=state.value)
            session.execute(DELETE_FROM_QUEUE, id=info.id)

        self._db.run(work)

    def revoke_from_local_workers(self, hostname: str) -> int:
        """Put what workers whose id begins with `hostname` were working on back into the queue; how many."""
        return self._db.run(lambda session: session.execute(_REVOKE_LOCAL, hostname=hostname, length=len(hostname)))

    def revoke_timed_out_workers(self, timeout_seconds: float) -> int:
        """Put the compactions of dead workers back into the queue; how many.

        A worker is dead when its transaction is no longer open, or when it took the compaction more than
        `timeout_seconds` ago and has not named a transaction yet.
        """
        timeout_ms = int(timeout_seconds * 1000)
        return self._db.run(lambda session: session.execute(_REVOKE_TIMED_OUT, timeout_ms=timeout_ms))


def _request(session: Session, request: Mapping[str, Any]) -> CompactionResponse:
    session.scalar(_LOCK_QUEUE)
    of = {key: request[key] for key in ("database", "table", "partition")}
    highest = session.scalar(_HIGHEST_WRITE_ID, database=of["database"], table=of["table"])
    present = session.row(_FIND_PRESENT, **of, type=request["type"], highest=highest)
    if present is not None:
        return CompactionResponse(present[0], CompactionState(present[1]), accepted=False)
    new_id = session.scalar(_TAKE_ID)
    session.execute(_REQUEST, id=new_id, **request)
    return CompactionResponse(new_id, CompactionState.INITIATED, accepted=True)


def _did_not_initiate(session: Session, info: CompactionInfo) -> None:
    session.execute(
        _DID_NOT_INITIATE,
        id=session.scalar(_TAKE_ID),
        **of_partition(info.table, info.partition_name),
        type=TYPE_LETTERS[info.type],
        error_message=info.error_message,
        initiator_id=info.initiator_id,
        initiator_version=info.initiator_version,
    )


def _require(info: CompactionInfo, changed_rows: int) -> None:
    if changed_rows != 1:
        raise NoSuchCompaction(
            f"compaction {info.id} of {info.table} is not being carried out by {info.worker_id or 'anybody'}: "
            "it has ended, its table was dropped, or it was taken from a worker that seemed dead. Abort its transaction"
        )
