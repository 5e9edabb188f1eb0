"""Write ids: allocated for each table, and the snapshots over them.

Source: Hive 4's `TxnHandler.allocateTableWriteIds` and `getValidWriteIdsForTable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.sessions import Row, Session
from hive_ingest.metastore_client.embedded.snapshots import Snapshots
from hive_ingest.metastore_client.embedded.transactions import STATE, abort, not_open, read_only
from hive_ingest.model import TableName, TxnId, TxnState, TxnToWriteId, TxnType, WriteId

_STATES = "SELECT TXN_ID, TXN_STATE, TXN_TYPE FROM TXNS WHERE TXN_ID IN ID_LIST(:txn_ids)"
_ALLOCATED = """
    SELECT T2W_TXNID, T2W_WRITEID FROM TXN_TO_WRITE_ID
    WHERE T2W_DATABASE = :database AND T2W_TABLE = :table AND T2W_TXNID IN ID_LIST(:txn_ids)
"""
_TAKE_WRITE_IDS = """
    UPDATE NEXT_WRITE_ID SET NWI_NEXT = NWI_NEXT + :count
    WHERE NWI_DATABASE = :database AND NWI_TABLE = :table
    RETURNING NWI_NEXT
"""
# Two first allocations at once: the second one fails on the primary key, and is made again by Sessions.run.
_FIRST_WRITE_IDS = "INSERT INTO NEXT_WRITE_ID (NWI_DATABASE, NWI_TABLE, NWI_NEXT) VALUES (:database, :table, :next)"
_LOCK_NEXT = "SELECT NWI_NEXT FROM NEXT_WRITE_ID WHERE NWI_DATABASE = :database AND NWI_TABLE = :table FOR UPDATE"
_RAISE = """
    UPDATE NEXT_WRITE_ID SET NWI_NEXT = :at_least
    WHERE NWI_DATABASE = :database AND NWI_TABLE = :table AND NWI_NEXT < :at_least
"""
_RAISE_TXN_IDS = "UPDATE NEXT_TXN_ID SET NTXN_NEXT = :at_least WHERE NTXN_NEXT < :at_least"
# A holder of a lock on the table was granted it together with the EXCLUSIVE one, so it works elsewhere in the table.
_WRITERS_WITHOUT_LOCK = """
    SELECT T2W_TXNID
    FROM TXN_TO_WRITE_ID JOIN TXNS ON TXN_ID = T2W_TXNID
    WHERE T2W_DATABASE = :database AND T2W_TABLE = :table AND TXN_STATE = 'o' AND NOT EXISTS (
        SELECT 1 FROM HIVE_LOCKS
        WHERE HL_TXNID = T2W_TXNID AND HL_DB = :database AND HL_TABLE = :table AND HL_LOCK_STATE = 'a'
    )
"""
_INSERT_WRITE_ID = """
    INSERT INTO TXN_TO_WRITE_ID (T2W_TXNID, T2W_DATABASE, T2W_TABLE, T2W_WRITEID)
    VALUES (:txn_id, :database, :table, :write_id)
"""

# -- snapshots: the table's next write id, beside each one that is not committed (or beside nulls), in one statement --

# The high-water mark is NEXT_WRITE_ID's. Hive takes the highest id left in TXN_TO_WRITE_ID, which loses a committed
# id when its row has been pruned and that of a lower id, of a later and aborted transaction, has not.
_SNAPSHOT_NOW = """
    SELECT NWI_NEXT, T2W_WRITEID, TXN_STATE
    FROM NEXT_WRITE_ID
    LEFT JOIN (
        SELECT T2W_WRITEID, TXN_STATE
        FROM TXN_TO_WRITE_ID JOIN TXNS ON TXN_ID = T2W_TXNID
        WHERE T2W_DATABASE = :database AND T2W_TABLE = :table AND TXN_STATE IN ('o', 'a')
    ) AS uncommitted ON TRUE
    WHERE NWI_DATABASE = :database AND NWI_TABLE = :table
    ORDER BY T2W_WRITEID
"""
# By the snapshot's own exceptions, not by what TXNS says now; and what was allocated after it.
_SNAPSHOT_THEN = """
    SELECT NWI_NEXT, T2W_WRITEID, T2W_TXNID
    FROM NEXT_WRITE_ID
    LEFT JOIN (
        SELECT T2W_WRITEID, T2W_TXNID FROM TXN_TO_WRITE_ID
        WHERE T2W_DATABASE = :database AND T2W_TABLE = :table AND T2W_TXNID IN ID_LIST(:exceptions)
        UNION ALL
        SELECT T2W_WRITEID, T2W_TXNID FROM TXN_TO_WRITE_ID
        WHERE T2W_DATABASE = :database AND T2W_TABLE = :table AND T2W_TXNID > :high
    ) AS uncommitted ON TRUE
    WHERE NWI_DATABASE = :database AND NWI_TABLE = :table
    ORDER BY T2W_WRITEID
"""


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
        return self._db.run(lambda session: _allocate(session, name, ids), is_durable=False) if ids else []

    def get_max_allocated_write_id(self, table: str | TableName) -> WriteId | None:
        """The highest allocated write id; 0 if there is none."""
        return self._valid_now(TableName.of(table)).high_water_mark

    def raise_write_ids(self, table: str | TableName, at_least: WriteId) -> None:
        """Allocate no write id below `at_least` from now on; skipped write ids count as committed."""
        name = TableName.of(table)
        of_table = {"database": name.database, "table": name.table}

        def work(session: Session) -> None:
            if session.scalar(_LOCK_NEXT, **of_table) is None:
                session.execute(_FIRST_WRITE_IDS, next=1, **of_table)
            session.execute(_RAISE, at_least=at_least, **of_table)

        self._db.run(work)

    def raise_txn_ids(self, at_least: TxnId) -> None:
        """Open no transaction below `at_least` from now on; those that are skipped count as committed."""
        self._db.run(lambda session: session.execute(_RAISE_TXN_IDS, at_least=at_least))

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
        found = [(write_id, state) for _, write_id, state in rows if write_id is not None]
        return _write_id_list(
            name,
            rows[0][0] - 1 if rows else 0,
            open_ids=[write_id for write_id, state in found if state == TxnState.OPEN.value],
            aborted_ids=[write_id for write_id, state in found if state == TxnState.ABORTED.value],
        )

    def _valid_then(self, name: TableName, valid: ValidTxnList) -> ValidWriteIdList:
        exceptions = [*valid.open, *valid.aborted]
        of_table = {"database": name.database, "table": name.table}
        rows = self._db.query(_SNAPSHOT_THEN, exceptions=exceptions, high=valid.high_water_mark, **of_table)
        found = [(write_id, TxnId(txn)) for _, write_id, txn in rows if write_id is not None]
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

    Their write ids and their description of the table are older than the statement, so their rows would be lost or
    unreadable, although their commit was acknowledged. Returns the next write id: none above it has been allocated when
    the statement commits.
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
    _require_writable(session, txn_ids, session.rows(_STATES, txn_ids=txn_ids))
    found = session.rows(_ALLOCATED, txn_ids=txn_ids, **of_table)
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
