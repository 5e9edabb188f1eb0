"""Locks at DB, TABLE and PARTITION level with Hive 4's matrix.

| requested    | waits for                                                                            |
|--------------|--------------------------------------------------------------------------------------|
| SHARED_READ  | EXCLUSIVE, but a database does not wait for one of its tables                         |
| SHARED_WRITE | EXCL_WRITE, EXCLUSIVE                                                                |
| EXCL_WRITE   | SHARED_WRITE, EXCL_WRITE, EXCLUSIVE                                                  |
| EXCLUSIVE    | everything, but a table or partition does not wait for SHARED_READ on its database   |

A lock waits only for locks of requests with a lower id, held or waiting, on the same object or one that holds it or
lies in it, and never for its own transaction. Sources: Hive 4's `CheckLockFunction`, `EnqueueLockFunction`,
`InsertTxnComponentsCommand`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hive_ingest.errors import ConfigurationError, NoSuchLock, TxnOpen
from hive_ingest.identity import this_host, this_user
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.folder_tasks import keeps_lock
from hive_ingest.metastore_client.embedded.housekeeping import Housekeeping
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.metastore_client.embedded.transactions import (
    INSERT_COMPONENT,
    OPERATION_LETTERS,
    Transactions,
    read_only,
    require_open,
)
from hive_ingest.metastore_client.lock_checks import check_component
from hive_ingest.model import (
    DataOperationType,
    LockComponent,
    LockId,
    LockInfo,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    TableName,
    TxnId,
    TxnType,
)

#: Letters of HL_LOCK_TYPE (Hive: `LockTypeUtil`) and HL_LOCK_STATE (Hive: `LockInfo`).
_LETTERS = {LockType.SHARED_READ: "r", LockType.SHARED_WRITE: "w", LockType.EXCL_WRITE: "x", LockType.EXCLUSIVE: "e"}
_TYPES = {letter: lock_type for lock_type, letter in _LETTERS.items()}
_ACQUIRED = "a"

_TAKE_LOCK_ID = "UPDATE NEXT_LOCK_ID SET NL_NEXT = NL_NEXT + 1 RETURNING NL_NEXT - 1"
_WRITE_IDS_OF_TXN = "SELECT T2W_DATABASE, T2W_TABLE, T2W_WRITEID FROM TXN_TO_WRITE_ID WHERE T2W_TXNID = :txn_id"
_INSERT_LOCK = """
    INSERT INTO HIVE_LOCKS
        (HL_LOCK_EXT_ID, HL_LOCK_INT_ID, HL_TXNID, HL_DB, HL_TABLE, HL_PARTITION, HL_LOCK_STATE, HL_LOCK_TYPE,
        HL_LAST_HEARTBEAT, HL_USER, HL_HOST, HL_AGENT_INFO)
    VALUES (:lock_id, :internal_id, CAST(:txn_id AS BIGINT), :database, :table, :partition, 'w', :type,
        CASE WHEN CAST(:txn_id AS BIGINT) = 0 THEN NOW_MS() ELSE 0 END, :user, :host, :agent_info)
"""

# -- the matrix --------------------------------------------------------------------------------------

# `ex` is an existing lock, `req` one that is requested now, in the same database.
_CONFLICTS = """
        (req.HL_TXNID = 0 OR ex.HL_TXNID <> req.HL_TXNID)
        AND CASE req.HL_LOCK_TYPE
            -- SHARED_READ on a database only keeps it from being dropped, whatever happens to its tables.
            WHEN 'r' THEN ex.HL_LOCK_TYPE = 'e' AND NOT (ex.HL_TABLE IS NOT NULL AND req.HL_TABLE IS NULL)
            WHEN 'w' THEN ex.HL_LOCK_TYPE IN ('x', 'e')
            WHEN 'x' THEN ex.HL_LOCK_TYPE <> 'r'
            WHEN 'e' THEN NOT (ex.HL_LOCK_TYPE = 'r' AND ex.HL_TABLE IS NULL AND req.HL_TABLE IS NOT NULL)
        END
"""
_PAIR = "ex.HL_LOCK_EXT_ID AS by_id, ex.HL_LOCK_INT_ID AS by_internal_id, req.HL_LOCK_INT_ID AS internal_id"
# Where two requests have hundreds of partitions each, as those of Kafka consumers do, comparing all pairs takes long:
# partitions are joined by their names. What is earlier is materialized, and CROSS JOIN fixes the order, because SQLite
# would otherwise search by the primary key, without an index of the names.
_BLOCKER = f"""
    WITH
        earlier AS MATERIALIZED (SELECT * FROM HIVE_LOCKS WHERE HL_LOCK_EXT_ID < :lock_id),
        wider AS MATERIALIZED (SELECT * FROM earlier WHERE HL_PARTITION IS NULL)
    SELECT by_id, by_internal_id, internal_id
    FROM (
        SELECT {_PAIR}
        FROM HIVE_LOCKS AS req CROSS JOIN earlier AS ex
        WHERE req.HL_LOCK_EXT_ID = :lock_id
            AND ex.HL_DB = req.HL_DB AND ex.HL_TABLE = req.HL_TABLE AND ex.HL_PARTITION = req.HL_PARTITION
            AND {_CONFLICTS}
        UNION ALL
        SELECT {_PAIR}
        FROM HIVE_LOCKS AS req CROSS JOIN wider AS ex
        WHERE req.HL_LOCK_EXT_ID = :lock_id AND req.HL_PARTITION IS NOT NULL AND ex.HL_DB = req.HL_DB
            AND (ex.HL_TABLE IS NULL OR ex.HL_TABLE = req.HL_TABLE)
            AND {_CONFLICTS}
        UNION ALL
        SELECT {_PAIR}
        FROM HIVE_LOCKS AS req CROSS JOIN earlier AS ex
        WHERE req.HL_LOCK_EXT_ID = :lock_id AND req.HL_PARTITION IS NULL AND ex.HL_DB = req.HL_DB
            AND (ex.HL_TABLE IS NULL OR req.HL_TABLE IS NULL OR ex.HL_TABLE = req.HL_TABLE)
            AND {_CONFLICTS}
    ) AS pairs
    ORDER BY by_id, by_internal_id
    LIMIT 1
"""
_ACQUIRE = """
    UPDATE HIVE_LOCKS
    SET HL_LOCK_STATE = 'a', HL_ACQUIRED_AT = NOW_MS(), HL_BLOCKEDBY_EXT_ID = NULL, HL_BLOCKEDBY_INT_ID = NULL
    WHERE HL_LOCK_EXT_ID = :lock_id
"""
_NOTE_BLOCKER = """
    UPDATE HIVE_LOCKS SET HL_BLOCKEDBY_EXT_ID = :by, HL_BLOCKEDBY_INT_ID = :by_internal
    WHERE HL_LOCK_EXT_ID = :lock_id AND HL_LOCK_INT_ID = :internal_id
"""

# -- later calls -------------------------------------------------------------------------------------

_GET_LOCK = "SELECT HL_TXNID, HL_LOCK_STATE FROM HIVE_LOCKS WHERE HL_LOCK_EXT_ID = :lock_id LIMIT 1"
_BEAT_LOCK = """
    UPDATE HIVE_LOCKS SET HL_LAST_HEARTBEAT = NOW_MS()
    WHERE HL_LOCK_EXT_ID = :lock_id AND HL_TXNID = 0
    RETURNING HL_LOCK_EXT_ID
"""
_BEAT_TXN = "UPDATE TXNS SET TXN_LAST_HEARTBEAT = NOW_MS() WHERE TXN_ID = :txn_id"
# Inside a transaction only a waiting request can be given up; what is held ends with the transaction.
_UNLOCK = "DELETE FROM HIVE_LOCKS WHERE HL_LOCK_EXT_ID = :lock_id AND (HL_TXNID = 0 OR HL_LOCK_STATE = 'w')"
_FROM_LOCKS = """
    SELECT HL_LOCK_EXT_ID, HL_LOCK_INT_ID, HL_DB, HL_TABLE, HL_PARTITION, HL_LOCK_STATE, HL_LOCK_TYPE, HL_TXNID,
        CASE WHEN HL_TXNID = 0 THEN HL_LAST_HEARTBEAT ELSE TXN_LAST_HEARTBEAT END,
        HL_ACQUIRED_AT, HL_USER, HL_HOST, HL_AGENT_INFO, HL_BLOCKEDBY_EXT_ID, HL_BLOCKEDBY_INT_ID
    FROM HIVE_LOCKS LEFT JOIN TXNS ON TXN_ID = HL_TXNID
"""
_SHOW = f"{_FROM_LOCKS} ORDER BY HL_LOCK_EXT_ID, HL_LOCK_INT_ID"
_SHOW_TABLE = f"""
    {_FROM_LOCKS} WHERE HL_DB = :database AND HL_TABLE = :table ORDER BY HL_LOCK_EXT_ID, HL_LOCK_INT_ID
"""


class Locks:
    """The calls about locks."""

    def __init__(self, context: Context, transactions: Transactions, housekeeping: Housekeeping) -> None:
        self._db = context.sessions
        self._folder_tasks = context.folder_tasks
        self._transactions = transactions
        self._housekeeping = housekeeping

    def lock(self, request: LockRequest) -> LockResponse:
        """ACQUIRED, or WAITING for others: then call check_lock. Objects that do not exist can be locked.

        Raises NoSuchTxn, TxnAborted, InvalidTransactionState (a read-only transaction that writes),
        ConfigurationError (an invalid component).
        """
        if not request.components:
            raise ConfigurationError("a lock request without components: name at least one thing to lock")
        rows = [_row(request, number, component) for number, component in enumerate(request.components, 1)]
        response = self._db.run(lambda session: _enqueue(session, request, rows), is_durable=False)
        if response.state is LockState.WAITING:
            self._housekeeping.run_if_due()
        return response

    def check_lock(self, lock_id: LockId) -> LockResponse:
        """Try again to acquire a WAITING lock; counts as a heartbeat. Raises NoSuchLock, TxnAborted."""
        response = self._db.run(lambda session: _check_again(session, lock_id), is_durable=False)
        if response.state is LockState.WAITING:
            # Whoever is in the way may be dead, and nobody else may come by to time it out, or to finish its rename.
            self._folder_tasks.finish()
            self._housekeeping.run_if_due()
        return response

    def unlock(self, lock_id: LockId) -> None:
        """Release a lock outside a transaction, or withdraw one that is WAITING. Idempotent. Raises TxnOpen.

        The lock of a rename stays until the table's folder is moved.
        """

        def work(session: Session) -> None:
            if keeps_lock(session, lock_id):
                return
            if session.execute(_UNLOCK, lock_id=lock_id) == 0:
                row = session.row(_GET_LOCK, lock_id=lock_id)
                if row is not None:
                    raise TxnOpen(f"lock {lock_id} belongs to transaction {row[0]}: commit or abort that instead")

        self._db.run(work, is_durable=False)  # undone by a crash of the machine, the lock times out

    def heartbeat(self, *, txn_id: TxnId | None = None, lock_id: LockId | None = None) -> None:
        """Raises NoSuchTxn, TxnAborted, NoSuchLock."""
        if lock_id is not None and not self._db.query(_BEAT_LOCK, lock_id=lock_id):
            row = self._db.query(_GET_LOCK, lock_id=lock_id)
            if not row:
                raise _no_such_lock(lock_id)
            txn_id = txn_id or TxnId(row[0][0])
        if txn_id is not None:
            self._transactions.heartbeat(txn_id)

    def show_locks(self, table: str | TableName | None = None) -> list[LockInfo]:
        """All locks, or those on one table and its partitions, held or waiting, oldest first."""
        if table is None:
            return [_lock_info(row) for row in self._db.query(_SHOW)]
        name = TableName.of(table)
        return [_lock_info(row) for row in self._db.query(_SHOW_TABLE, database=name.database, table=name.table)]


def _enqueue(session: Session, request: LockRequest, rows: list[dict[str, Any]]) -> LockResponse:
    if request.txn_id:
        txn_type = require_open(session, request.txn_id)
        _insert_components(session, request, txn_type)
    lock_id = LockId(session.scalar(_TAKE_LOCK_ID))
    session.execute_many(_INSERT_LOCK, [{**row, "lock_id": lock_id} for row in rows])
    return _check(session, lock_id)


def _check(session: Session, lock_id: LockId) -> LockResponse:
    """All components of a request are granted together, or none."""
    blocker = session.row(_BLOCKER, lock_id=lock_id)
    if blocker is None:
        session.execute(_ACQUIRE, lock_id=lock_id)
        return LockResponse(lock_id, LockState.ACQUIRED)
    by, by_internal, internal_id = blocker
    session.execute(_NOTE_BLOCKER, lock_id=lock_id, internal_id=internal_id, by=by, by_internal=by_internal)
    return LockResponse(lock_id, LockState.WAITING, f"waits for lock {by}")


def _check_again(session: Session, lock_id: LockId) -> LockResponse:
    row = session.row(_GET_LOCK, lock_id=lock_id)
    if row is None:
        raise _no_such_lock(lock_id)
    txn_id, state = row
    if txn_id:
        require_open(session, txn_id)
        session.execute(_BEAT_TXN, txn_id=txn_id)
    elif not session.rows(_BEAT_LOCK, lock_id=lock_id):
        raise _no_such_lock(lock_id)
    return LockResponse(lock_id, LockState.ACQUIRED) if state == _ACQUIRED else _check(session, lock_id)


def require_lock(session: Session, lock_id: LockId | None) -> None:
    """Within a DDL statement: its EXCLUSIVE lock is still held. Raises NoSuchLock."""
    row = None if lock_id is None else session.row(_GET_LOCK, lock_id=lock_id)
    if row is None or row[1] != _ACQUIRED:
        raise NoSuchLock("the EXCLUSIVE lock timed out, or the object was changed meanwhile: make the call again")


def _no_such_lock(lock_id: LockId) -> NoSuchLock:
    return NoSuchLock(f"lock {lock_id} is not there: it was released, it ended with its transaction, or it timed out")


# -- rows of a request -------------------------------------------------------------------------------


def _row(request: LockRequest, number: int, component: LockComponent) -> dict[str, Any]:
    check_component(request, component)
    return {
        "internal_id": number,
        "txn_id": request.txn_id,
        "database": component.database.lower(),
        "table": _lower(component.table),
        "partition": _partition(component.partition_name),
        "type": _LETTERS[component.type],
        "user": request.user or this_user(),
        "host": request.hostname or this_host(),
        "agent_info": request.agent_info,
    }


def _lower(name: str | None) -> str | None:
    return None if name is None else name.lower()


def _partition(name: str | None) -> str | None:
    """Keys in lower case, values as they are (Hive: `TxnUtils.normalizePartitionCase`)."""
    if name is None:
        return None
    parts = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{key.lower()}{equals}{value}" for key, equals, value in parts)


def _insert_components(session: Session, request: LockRequest, txn_type: TxnType) -> None:
    """What the transaction says it will write. Of dynamic partitions only that there are some is known yet."""
    writing = [c for c in request.components if c.is_transactional and c.operation_type in OPERATION_LETTERS]
    if writing and txn_type is TxnType.READ_ONLY:
        raise read_only(request.txn_id)
    if writing:
        rows = session.rows(_WRITE_IDS_OF_TXN, txn_id=request.txn_id)
        write_ids = {(database, table): write_id for database, table, write_id in rows}
        session.execute_many(INSERT_COMPONENT, list(_components(request.txn_id, writing, write_ids)))


def _components(
    txn_id: TxnId, writing: list[LockComponent], write_ids: dict[tuple[str, str], int]
) -> Iterator[dict[str, Any]]:
    changing = (DataOperationType.UPDATE, DataOperationType.DELETE)
    dynamic = [c for c in writing if c.is_dynamic_partition_write]
    updated = {_key(c) for c in dynamic if c.operation_type in changing}
    seen: set[tuple[str, str]] = set()
    for component in writing:
        key = _key(component)
        letter = OPERATION_LETTERS[component.operation_type]
        if component.is_dynamic_partition_write:
            if key in seen:
                continue
            letter = OPERATION_LETTERS[DataOperationType.UPDATE if key in updated else DataOperationType.INSERT]
        seen.add(key)
        yield {
            "txn_id": txn_id,
            "database": key[0],
            "table": _lower(component.table),
            "partition": None if component.is_dynamic_partition_write else _partition(component.partition_name),
            "operation": letter,
            "write_id": write_ids.get(key),
        }


def _key(component: LockComponent) -> tuple[str, str]:
    return component.database.lower(), (component.table or "").lower()


def _lock_info(row: Row) -> LockInfo:
    return LockInfo(
        lock_id=LockId(row[0]),
        internal_id=row[1],
        database=row[2],
        table=row[3],
        partition_name=row[4],
        state=LockState.ACQUIRED if row[5] == _ACQUIRED else LockState.WAITING,
        type=_TYPES[row[6]],
        txn_id=TxnId(row[7]),
        last_heartbeat_ms=row[8] or 0,
        acquired_at_ms=row[9],
        user=row[10],
        hostname=row[11],
        agent_info=row[12] or "",
        blocked_by_lock_id=None if row[13] is None else LockId(row[13]),
        blocked_by_internal_id=row[14],
    )
