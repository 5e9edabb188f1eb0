"""Transactions: opened, kept alive, committed, aborted. Source: Hive 4's `TxnHandler`."""

# ruff: noqa: SIM300 - columns are written in capitals, and so taken for constants

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import bindparam, delete, exists, func, insert, select, update

from hive_ingest.errors import ConfigurationError, InvalidTransactionState, NoSuchTxn, TooManyOpenTxns, TxnAborted
from hive_ingest.identity import this_host, this_user
from hive_ingest.metastore_client.embedded import schema as t
from hive_ingest.metastore_client.embedded.context import Context, abort_reason
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.metastore_client.embedded.sql import id_in, now_ms
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
_TXN = t.TXNS.c
_THIS_TXN = _TXN.TXN_ID == bindparam("txn_id")
_THESE_TXNS = id_in(_TXN.TXN_ID, "txn_ids")
_IS_OPEN = _TXN.TXN_STATE == _OPEN

# -- open --------------------------------------------------------------------------------------------

_TAKE_TXN_IDS = (
    update(t.NEXT_TXN_ID)
    .values(NTXN_NEXT=t.NEXT_TXN_ID.c.NTXN_NEXT + bindparam("count"))
    .returning(t.NEXT_TXN_ID.c.NTXN_NEXT)
)
_OPEN_TXNS = select(func.count(), func.min(_TXN.TXN_ID)).where(_IS_OPEN)
_INSERT_TXN = insert(t.TXNS).values(
    TXN_ID=bindparam("txn_id"),
    TXN_STATE=_OPEN,
    TXN_STARTED=now_ms(),
    TXN_LAST_HEARTBEAT=now_ms(),
    TXN_USER=bindparam("user"),
    TXN_HOST=bindparam("host"),
    TXN_AGENT_INFO=bindparam("agent_info"),
    TXN_TYPE=bindparam("txn_type"),
)
_INSERT_MIN_HISTORY = insert(t.MIN_HISTORY_LEVEL).values(
    MHL_TXNID=bindparam("txn_id"), MHL_MIN_OPEN_TXNID=bindparam("min_open")
)

# -- state -------------------------------------------------------------------------------------------

STATE = select(_TXN.TXN_STATE, _TXN.TXN_TYPE, _TXN.TXN_META_INFO, _TXN.TXN_LAST_HEARTBEAT).where(_THIS_TXN)
_STATE_LOCKED = STATE.with_for_update()
WAS_COMMITTED = select(exists().where(t.COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == bindparam("txn_id")))
_HEARTBEAT = update(t.TXNS).where(_THIS_TXN, _IS_OPEN).values(TXN_LAST_HEARTBEAT=now_ms()).returning(_TXN.TXN_ID)
_HEARTBEAT_RANGE = (
    update(t.TXNS)
    .where(_TXN.TXN_ID.between(bindparam("low"), bindparam("high")), _IS_OPEN)
    .values(TXN_LAST_HEARTBEAT=now_ms())
    .returning(_TXN.TXN_ID)
)
_ABORTED_IN_RANGE = select(_TXN.TXN_ID).where(
    _TXN.TXN_ID.between(bindparam("low"), bindparam("high")), _TXN.TXN_STATE == _ABORTED
)

# -- end ---------------------------------------------------------------------------------------------

ABORT = (
    update(t.TXNS)
    .where(_THESE_TXNS, _IS_OPEN)
    .values(TXN_STATE=_ABORTED, TXN_META_INFO=bindparam("reason"), TXN_ENDED=now_ms())
    .returning(_TXN.TXN_ID)
)
_DELETE_LOCKS = delete(t.HIVE_LOCKS).where(id_in(t.HIVE_LOCKS.c.HL_TXNID, "txn_ids"))
_DELETE_MIN_HISTORY = delete(t.MIN_HISTORY_LEVEL).where(id_in(t.MIN_HISTORY_LEVEL.c.MHL_TXNID, "txn_ids"))

_COMPONENT = t.TXN_COMPONENTS.c
COMPONENTS_OF_TXN = _COMPONENT.TC_TXNID == bindparam("txn_id")
INSERT_COMPONENT = insert(t.TXN_COMPONENTS).values(
    TC_TXNID=bindparam("txn_id"),
    TC_DATABASE=bindparam("database"),
    TC_TABLE=bindparam("table"),
    TC_PARTITION=bindparam("partition"),
    TC_OPERATION_TYPE=bindparam("operation"),
    TC_WRITEID=bindparam("write_id"),
)
# The lock request of a dynamic partition write leaves a row without a partition; from now on the names are known.
_DELETE_MARKER = delete(t.TXN_COMPONENTS).where(
    COMPONENTS_OF_TXN,
    _COMPONENT.TC_DATABASE == bindparam("database"),
    _COMPONENT.TC_TABLE == bindparam("table"),
    _COMPONENT.TC_PARTITION.is_(None),
)


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
    """Abort those that are open; their locks go only together with that change (HIVE-9563)."""
    aborted = [row[0] for row in session.rows(ABORT, txn_ids=json.dumps(list(txn_ids)), reason=reason)]
    if aborted:
        release(session, aborted)
    return aborted


def release(session: Session, txn_ids: Sequence[int]) -> None:
    """Delete the locks and the history level of transactions that have ended."""
    ids = json.dumps(list(txn_ids))
    session.execute(_DELETE_LOCKS, txn_ids=ids)
    session.execute(_DELETE_MIN_HISTORY, txn_ids=ids)


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
        return self._db.run(lambda session: self._open(session, wanted, about))

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
        """Beat every open transaction of the closed range; raises nothing about those that are gone."""
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
        """Abort those that are open; says nothing of the others."""
        if txn_ids:
            self._db.run(lambda session: abort(session, txn_ids, reason))
