"""Transactions: opened, kept alive, committed, aborted. Source: Hive 4's `TxnHandler`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hive_ingest.errors import ConfigurationError, InvalidTransactionState, NoSuchTxn, TooManyOpenTxns, TxnAborted
from hive_ingest.identity import this_host, this_user
from hive_ingest.metastore_client.embedded.context import Context, abort_reason
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.model import (
    DataOperationType,
    HeartbeatTxnRange,
    TableName,
    TxnId,
    TxnState,
    TxnType,
    WriteId,
)

_OPEN, _ABORTED = TxnState.OPEN.value, TxnState.ABORTED.value

#: Letters of TC_OPERATION_TYPE (Hive: `OperationType`). SELECT and NO_TXN leave no component.
OPERATION_LETTERS = {
    DataOperationType.INSERT: "i",
    DataOperationType.UPDATE: "u",
    DataOperationType.DELETE: "d",
}

# -- open --------------------------------------------------------------------------------------------

_TAKE_TXN_IDS = "UPDATE NEXT_TXN_ID SET NTXN_NEXT = NTXN_NEXT + :count RETURNING NTXN_NEXT"
_OPEN_TXNS = "SELECT count(*), min(TXN_ID) FROM TXNS WHERE TXN_STATE = 'o'"
_INSERT_TXN = """
    INSERT INTO TXNS
        (TXN_ID, TXN_STATE, TXN_STARTED, TXN_LAST_HEARTBEAT, TXN_USER, TXN_HOST, TXN_AGENT_INFO, TXN_TYPE)
    VALUES (:txn_id, 'o', NOW_MS(), NOW_MS(), :user, :host, :agent_info, :txn_type)
"""
_INSERT_MIN_HISTORY = "INSERT INTO MIN_HISTORY_LEVEL (MHL_TXNID, MHL_MIN_OPEN_TXNID) VALUES (:txn_id, :min_open)"

# -- state -------------------------------------------------------------------------------------------

STATE = "SELECT TXN_STATE, TXN_TYPE, TXN_META_INFO, TXN_LAST_HEARTBEAT FROM TXNS WHERE TXN_ID = :txn_id"
_STATE_LOCKED = f"{STATE} FOR UPDATE"
WAS_COMMITTED = "SELECT EXISTS (SELECT 1 FROM COMPLETED_TXN_COMPONENTS WHERE CTC_TXNID = :txn_id)"
_HEARTBEAT = """
    UPDATE TXNS SET TXN_LAST_HEARTBEAT = NOW_MS()
    WHERE TXN_ID = :txn_id AND TXN_STATE = 'o'
    RETURNING TXN_ID
"""
_HEARTBEAT_RANGE = """
    UPDATE TXNS SET TXN_LAST_HEARTBEAT = NOW_MS()
    WHERE TXN_ID BETWEEN :low AND :high AND TXN_STATE = 'o'
    RETURNING TXN_ID
"""
_ABORTED_IN_RANGE = "SELECT TXN_ID FROM TXNS WHERE TXN_ID BETWEEN :low AND :high AND TXN_STATE = 'a'"

# -- end ---------------------------------------------------------------------------------------------

_ABORT = """
    UPDATE TXNS SET TXN_STATE = 'a', TXN_META_INFO = :reason, TXN_ENDED = NOW_MS()
    WHERE TXN_ID IN ID_LIST(:txn_ids) AND TXN_STATE = 'o'
    RETURNING TXN_ID
"""
_DELETE_LOCKS = "DELETE FROM HIVE_LOCKS WHERE HL_TXNID IN ID_LIST(:txn_ids)"
_DELETE_MIN_HISTORY = "DELETE FROM MIN_HISTORY_LEVEL WHERE MHL_TXNID IN ID_LIST(:txn_ids)"

INSERT_COMPONENT = """
    INSERT INTO TXN_COMPONENTS (TC_TXNID, TC_DATABASE, TC_TABLE, TC_PARTITION, TC_OPERATION_TYPE, TC_WRITEID)
    VALUES (:txn_id, :database, :table, :partition, :operation, :write_id)
"""
# The lock request of a dynamic partition write leaves a row without a partition; from now on the names are known.
_DELETE_MARKER = """
    DELETE FROM TXN_COMPONENTS
    WHERE TC_TXNID = :txn_id AND TC_DATABASE = :database AND TC_TABLE = :table AND TC_PARTITION IS NULL
"""


def require_open(session: Session, txn_id: TxnId) -> TxnType:
    """The type of an open transaction, whose row stays locked. Raises NoSuchTxn, TxnAborted."""
    row = session.row(_STATE_LOCKED, txn_id=txn_id)
    if row is None or row[0] != _OPEN:
        raise not_open(session, txn_id, row)
    return TxnType(row[1])


def require_writable(session: Session, txn_id: TxnId) -> None:
    """As `require_open`. Raises InvalidTransactionState too: a read-only transaction leaves nothing to remember."""
    if require_open(session, txn_id) is TxnType.READ_ONLY:
        raise read_only(txn_id)


def read_only(txn_id: TxnId) -> InvalidTransactionState:
    return InvalidTransactionState(f"transaction {txn_id} is read-only: open one of type DEFAULT to write")


def not_open(session: Session, txn_id: TxnId, row: Row | None) -> NoSuchTxn | TxnAborted:
    """The error for a transaction that is not open; `row` is its state, if it has one."""
    if row is not None and row[0] == _ABORTED:
        reason = abort_reason(row[2], row[3]) or "by a call of abort_txn"
        return TxnAborted(f"transaction {txn_id} is aborted ({reason}): nothing of it is visible, begin a new one")
    if row is not None or session.scalar(WAS_COMMITTED, txn_id=txn_id):
        return NoSuchTxn(f"transaction {txn_id} is already committed: begin a new one")
    return NoSuchTxn(f"transaction {txn_id} is not there: it was never opened, or is no longer remembered")


def abort(session: Session, txn_ids: Sequence[int], reason: str) -> list[int]:
    """Abort those that are open; their locks are deleted only together with that change (HIVE-9563)."""
    aborted = [row[0] for row in session.rows(_ABORT, txn_ids=txn_ids, reason=reason)]
    if aborted:
        release(session, aborted)
    return aborted


def release(session: Session, txn_ids: Sequence[int]) -> None:
    """Delete the locks and the history level of transactions that have ended."""
    session.execute(_DELETE_LOCKS, txn_ids=txn_ids)
    session.execute(_DELETE_MIN_HISTORY, txn_ids=txn_ids)


class Transactions:
    """The calls about transactions themselves."""

    def __init__(self, context: Context, keep_house_if_due: Callable[[], None]) -> None:
        self._db, self._options = context.sessions, context.options
        self._keep_house_if_due = keep_house_if_due

    def open_txns(
        self,
        count: int = 1,
        *,
        user: str = "",
        agent_info: str = "Unknown",
        txn_type: TxnType = TxnType.DEFAULT,
    ) -> list[TxnId]:
        """Open up to `count` transactions (fewer above `max_open_batch`). Raises TooManyOpenTxns."""
        if count < 1:
            raise ConfigurationError(f"count={count}: open at least one transaction")
        self._keep_house_if_due()
        wanted = min(count, self._options.max_open_batch)
        about = {"user": user or this_user(), "host": this_host(), "agent_info": agent_info, "txn_type": int(txn_type)}
        return self._db.run(lambda session: self._open(session, wanted, about), is_durable=False)

    def _open(self, session: Session, count: int, about: Mapping[str, object]) -> list[TxnId]:
        # Taken first: the row stays locked until the commit, so no snapshot sees a later id without these.
        first = session.scalar(_TAKE_TXN_IDS, count=count) - count
        open_now, min_open = session.rows(_OPEN_TXNS)[0]
        if open_now + count > self._options.max_open_txns:
            raise TooManyOpenTxns(
                f"{open_now} transactions are open and max_open_txns is {self._options.max_open_txns}: "
                "commit or abort some"
            )
        ids = [TxnId(txn_id) for txn_id in range(first, first + count)]
        session.execute_many(_INSERT_TXN, [{"txn_id": txn_id, **about} for txn_id in ids])
        lowest = first if min_open is None else min_open
        session.execute_many(_INSERT_MIN_HISTORY, [{"txn_id": txn_id, "min_open": lowest} for txn_id in ids])
        return ids

    def heartbeat(self, txn_id: TxnId) -> None:
        """Raises NoSuchTxn, TxnAborted."""
        if not self._db.query(_HEARTBEAT, txn_id=txn_id):
            self._db.run(lambda session: require_open(session, txn_id))

    def heartbeat_txn_range(self, min_txn: TxnId, max_txn: TxnId) -> HeartbeatTxnRange:
        """Send a heartbeat for every open transaction of the closed range; others are ignored."""
        alive = {row[0] for row in self._db.query(_HEARTBEAT_RANGE, low=min_txn, high=max_txn)}
        if len(alive) == max_txn - min_txn + 1:
            return HeartbeatTxnRange()
        aborted = {row[0] for row in self._db.query(_ABORTED_IN_RANGE, low=min_txn, high=max_txn)} - alive
        gone = set(range(min_txn, max_txn + 1)) - alive - aborted
        return HeartbeatTxnRange(frozenset(map(TxnId, aborted)), frozenset(map(TxnId, gone)))

    def add_dynamic_partitions(
        self,
        txn_id: TxnId,
        write_id: WriteId,
        table: str | TableName,
        partition_names: Sequence[str],
        operation_type: DataOperationType = DataOperationType.INSERT,
    ) -> None:
        """Name the partitions *written* (HIVE-24020). Raises NoSuchTxn, TxnAborted, InvalidTransactionState."""
        name = TableName.of(table)
        if operation_type not in OPERATION_LETTERS:
            raise ConfigurationError(f"{operation_type.name} writes no partition: say INSERT, UPDATE or DELETE")
        of = {"txn_id": txn_id, "database": name.database, "table": name.table}
        rest = {"operation": OPERATION_LETTERS[operation_type], "write_id": write_id}
        rows = [{**of, **rest, "partition": partition} for partition in partition_names]

        def work(session: Session) -> None:
            require_writable(session, txn_id)
            session.execute_many(INSERT_COMPONENT, rows)
            session.execute(_DELETE_MARKER, **of)

        self._db.run(work)

    def abort_txn(self, txn_id: TxnId, *, reason: str = "") -> None:
        """Idempotent. Raises NoSuchTxn (never opened, or "already committed")."""

        def work(session: Session) -> None:
            if not abort(session, [txn_id], reason):
                row = session.row(STATE, txn_id=txn_id)
                if row is None or row[0] != _ABORTED:
                    raise not_open(session, txn_id, row)

        self._db.run(work)

    def abort_txns(self, txn_ids: Sequence[TxnId], *, reason: str = "") -> None:
        """Abort those that are open; others are ignored."""
        if txn_ids:
            self._db.run(lambda session: abort(session, txn_ids, reason))
