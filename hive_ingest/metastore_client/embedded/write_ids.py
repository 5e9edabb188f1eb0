"""Write ids: allocated for each table, and the snapshots over them.

Source: Hive 4's `TxnHandler.allocateTableWriteIds` and `getValidWriteIdsForTable`.
"""

# ruff: noqa: SIM300 - columns are written in capitals, and so taken for constants

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import CompoundSelect, Select, and_, bindparam, exists, insert, null, select, true, union_all, update

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.metastore_client.embedded import schema as t
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.metastore_client.embedded.snapshots import Snapshots
from hive_ingest.metastore_client.embedded.sql import id_in, one_of
from hive_ingest.metastore_client.embedded.transactions import STATE, abort, not_open, read_only
from hive_ingest.model import TableName, TxnId, TxnState, TxnToWriteId, TxnType, WriteId

_TXN = t.TXNS.c
_WRITE = t.TXN_TO_WRITE_ID.c
_NEXT = t.NEXT_WRITE_ID.c
_THIS_TABLE = and_(_NEXT.NWI_DATABASE == bindparam("database"), _NEXT.NWI_TABLE == bindparam("table"))

_STATES = select(_TXN.TXN_ID, _TXN.TXN_STATE, _TXN.TXN_TYPE).where(id_in(_TXN.TXN_ID, "txn_ids"))
_ALLOCATED = select(_WRITE.T2W_TXNID, _WRITE.T2W_WRITEID).where(
    _WRITE.T2W_DATABASE == bindparam("database"),
    _WRITE.T2W_TABLE == bindparam("table"),
    id_in(_WRITE.T2W_TXNID, "txn_ids"),
)
_TAKE_WRITE_IDS = (
    update(t.NEXT_WRITE_ID)
    .where(_THIS_TABLE)
    .values(NWI_NEXT=_NEXT.NWI_NEXT + bindparam("count"))
    .returning(_NEXT.NWI_NEXT)
)
# Two first allocations at once: the second one fails on the primary key, and is made again by Database.run.
_FIRST_WRITE_IDS = insert(t.NEXT_WRITE_ID).values(
    NWI_DATABASE=bindparam("database"), NWI_TABLE=bindparam("table"), NWI_NEXT=bindparam("next")
)
_LOCK_NEXT = select(_NEXT.NWI_NEXT).where(_THIS_TABLE).with_for_update()
_RAISE = (
    update(t.NEXT_WRITE_ID)
    .where(_THIS_TABLE, _NEXT.NWI_NEXT < bindparam("at_least"))
    .values(NWI_NEXT=bindparam("at_least"))
)
# Whoever holds a lock on the table was granted it beside the EXCLUSIVE one: it is at work elsewhere in the table.
_WRITERS_WITHOUT_LOCK = (
    select(_WRITE.T2W_TXNID)
    .join(t.TXNS, _TXN.TXN_ID == _WRITE.T2W_TXNID)
    .where(
        _WRITE.T2W_DATABASE == bindparam("database"),
        _WRITE.T2W_TABLE == bindparam("table"),
        _TXN.TXN_STATE == TxnState.OPEN.value,
        ~exists().where(
            t.HIVE_LOCKS.c.HL_TXNID == _WRITE.T2W_TXNID,
            t.HIVE_LOCKS.c.HL_DB == bindparam("database"),
            t.HIVE_LOCKS.c.HL_TABLE == bindparam("table"),
            t.HIVE_LOCKS.c.HL_LOCK_STATE == "a",
        ),
    )
)
_INSERT_WRITE_ID = insert(t.TXN_TO_WRITE_ID).values(
    T2W_TXNID=bindparam("txn_id"),
    T2W_DATABASE=bindparam("database"),
    T2W_TABLE=bindparam("table"),
    T2W_WRITEID=bindparam("write_id"),
)


_OF_TABLE = and_(_WRITE.T2W_DATABASE == bindparam("database"), _WRITE.T2W_TABLE == bindparam("table"))
_NOT_COMMITTED_NOW = (
    select(_WRITE.T2W_WRITEID, _WRITE.T2W_TXNID, _TXN.TXN_STATE)
    .join(t.TXNS, _TXN.TXN_ID == _WRITE.T2W_TXNID)
    .where(_OF_TABLE, one_of(_TXN.TXN_STATE, TxnState.OPEN.value, TxnState.ABORTED.value))
)
# By the snapshot's own exceptions, not by what TXNS says now; and what was allocated after it.
_WRITE_ID_OF_TXN = select(_WRITE.T2W_WRITEID, _WRITE.T2W_TXNID, null().label("TXN_STATE")).where(_OF_TABLE)
_NOT_COMMITTED_THEN = union_all(
    _WRITE_ID_OF_TXN.where(id_in(_WRITE.T2W_TXNID, "exceptions")),
    _WRITE_ID_OF_TXN.where(_WRITE.T2W_TXNID > bindparam("high")),
)


def _with_next(write_ids: Select[Any] | CompoundSelect[Any]) -> Select[Any]:
    """The table's next write id, beside each of `write_ids` (or beside nulls), in one statement.

    The high-water mark is NEXT_WRITE_ID's. Hive takes the highest id left in TXN_TO_WRITE_ID, which loses a committed
    id when its row has been pruned and that of a lower id, of a later and aborted transaction, has not.
    """
    found = write_ids.subquery()
    return (
        select(_NEXT.NWI_NEXT, found.c.T2W_WRITEID, found.c.T2W_TXNID, found.c.TXN_STATE)
        .select_from(t.NEXT_WRITE_ID.outerjoin(found, true()))
        .where(_THIS_TABLE)
        .order_by(found.c.T2W_WRITEID)
    )


_SNAPSHOT_NOW = _with_next(_NOT_COMMITTED_NOW)
_SNAPSHOT_THEN = _with_next(_NOT_COMMITTED_THEN)


class WriteIds:
    """The calls about write ids."""

    def __init__(self, context: Context, snapshots: Snapshots) -> None:
        self._db, self._snapshots = context.sessions, snapshots

    def allocate_table_write_ids(self, table: str | TableName, txn_ids: Sequence[TxnId]) -> list[TxnToWriteId]:
        """Idempotent for each transaction. The table need not exist.

        Raises NoSuchTxn, TxnAborted, InvalidTransactionState (a read-only transaction).
        """
        name = TableName.of(table)
        ids = sorted(set(txn_ids))
        return self._db.run(lambda session: _allocate(session, name, ids)) if ids else []

    def get_max_allocated_write_id(self, table: str | TableName) -> WriteId | None:
        """The highest write id handed out; 0 if there is none."""
        return self._valid_now(TableName.of(table)).high_water_mark

    def raise_write_ids(self, table: str | TableName, at_least: WriteId) -> None:
        """Hand out no write id below `at_least` from now on; those that are skipped count as committed."""
        name = TableName.of(table)
        of_table = {"database": name.database, "table": name.table}

        def work(session: Session) -> None:
            if session.scalar(_LOCK_NEXT, **of_table) is None:
                session.execute(_FIRST_WRITE_IDS, next=1, **of_table)
            session.execute(_RAISE, at_least=at_least, **of_table)

        self._db.run(work)

    def get_valid_write_ids(
        self, tables: Sequence[str | TableName], valid_txns: ValidTxnList | None = None
    ) -> list[ValidWriteIdList]:
        """One list for each table, in order, as of the snapshot (or of now).

        A snapshot holds only while its transaction is open: later its exceptions may have been forgotten.
        """
        names = [TableName.of(table) for table in tables]
        if valid_txns is None and len(names) == 1:
            return [self._valid_now(names[0])]
        # Several tables must be seen at the same moment.
        snapshot = self._snapshots.get_valid_txns() if valid_txns is None else valid_txns
        return [self._valid_then(name, snapshot) for name in names]

    def _valid_now(self, name: TableName) -> ValidWriteIdList:
        rows = self._db.query(_SNAPSHOT_NOW, database=name.database, table=name.table)
        found = [(write_id, state) for _, write_id, _, state in rows if write_id is not None]
        return _write_id_list(
            name,
            rows[0][0] - 1 if rows else 0,
            open_ids=[write_id for write_id, state in found if state == TxnState.OPEN.value],
            aborted_ids=[write_id for write_id, state in found if state == TxnState.ABORTED.value],
        )

    def _valid_then(self, name: TableName, valid: ValidTxnList) -> ValidWriteIdList:
        exceptions = json.dumps([*valid.open, *valid.aborted])
        of_table = {"database": name.database, "table": name.table}
        rows = self._db.query(_SNAPSHOT_THEN, exceptions=exceptions, high=valid.high_water_mark, **of_table)
        found = [(write_id, TxnId(txn)) for _, write_id, txn, _ in rows if write_id is not None]
        high_water_mark = rows[0][0] - 1 if rows else 0
        # Ids that were allocated after the snapshot end the list instead of lengthening it.
        while found and found[-1][0] == high_water_mark and found[-1][1] > valid.high_water_mark:
            found.pop()
            high_water_mark -= 1
        return _write_id_list(
            name,
            high_water_mark,
            open_ids=[w for w, txn in found if not valid.is_aborted(txn)],
            aborted_ids=[w for w, txn in found if valid.is_aborted(txn)],
        )


def abort_writers(session: Session, name: TableName, reason: str) -> int:
    """Within a DDL statement: abort those who write the table without a lock, which would have stopped the statement.

    Their write ids and their idea of the table are from before it, so their rows would be lost or unreadable, although
    their commit was acknowledged. Gives the next write id: none above it was handed out when the statement commits.
    """
    of_table = {"database": name.database, "table": name.table}
    next_write_id: int | None = session.scalar(_LOCK_NEXT, **of_table)  # others allocate after this statement
    writers = [row[0] for row in session.rows(_WRITERS_WITHOUT_LOCK, **of_table)]
    if writers:
        abort(session, writers, reason)
    return next_write_id or 1


def _write_id_list(
    name: TableName, high_water_mark: int, *, open_ids: Iterable[int], aborted_ids: Iterable[int]
) -> ValidWriteIdList:
    return ValidWriteIdList(
        name, WriteId(high_water_mark), tuple(map(WriteId, open_ids)), tuple(map(WriteId, aborted_ids))
    )


def _allocate(session: Session, name: TableName, txn_ids: Sequence[TxnId]) -> list[TxnToWriteId]:
    of_table = {"database": name.database, "table": name.table}
    ids = json.dumps(txn_ids)
    _require_writable(session, txn_ids, session.rows(_STATES, txn_ids=ids))
    found = session.rows(_ALLOCATED, txn_ids=ids, **of_table)
    allocated: dict[TxnId, int] = {row[0]: row[1] for row in found}
    missing = [txn_id for txn_id in txn_ids if txn_id not in allocated]
    if missing:
        first = _take_write_ids(session, len(missing), of_table)
        new = dict(zip(missing, range(first, first + len(missing)), strict=True))
        session.execute_many(_INSERT_WRITE_ID, [{"txn_id": x, "write_id": w, **of_table} for x, w in new.items()])
        allocated |= new
    return [TxnToWriteId(txn_id, WriteId(allocated[txn_id])) for txn_id in txn_ids]


def _take_write_ids(session: Session, count: int, of_table: dict[str, str]) -> int:
    after = session.scalar(_TAKE_WRITE_IDS, count=count, **of_table)
    if after is None:
        session.execute(_FIRST_WRITE_IDS, next=count + 1, **of_table)
        return 1
    return int(after) - count


def _require_writable(session: Session, txn_ids: Sequence[TxnId], states: Sequence[Row]) -> None:
    found = {row[0]: row for row in states}
    for txn_id in txn_ids:
        row = found.get(txn_id)
        if row is None or row[1] != TxnState.OPEN.value:
            raise not_open(session, txn_id, session.row(STATE, txn_id=txn_id))
        if row[2] == TxnType.READ_ONLY:
            raise read_only(txn_id)
