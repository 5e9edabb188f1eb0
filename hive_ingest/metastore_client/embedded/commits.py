"""Commits: components remembered, write-write conflicts found, one table parameter set.

Source: Hive 4's `TxnHandler.commitTxn`, `checkForWriteConflict` and `updateKeyValueAssociatedWithTxn`.
"""

from __future__ import annotations

from hive_ingest.errors import InvalidOperation, TxnAborted
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.metastore_client.embedded.transactions import (
    STATE,
    WAS_COMMITTED,
    not_open,
    release,
)
from hive_ingest.model import CommitKeyValue, TxnId, TxnState, TxnType

#: HIVE-20538 lets a commit change only parameters that begin so (`TxnStore.TXN_KEY_START`).
KEY_VALUE_PREFIX = "_meta"

_COMMIT = """
    UPDATE TXNS SET TXN_STATE = 'c', TXN_ENDED = NOW_MS()
    WHERE TXN_ID = :txn_id AND TXN_STATE = 'o'
    RETURNING TXN_TYPE
"""
_HAS_UPDATES = """
    SELECT EXISTS (SELECT 1 FROM TXN_COMPONENTS WHERE TC_TXNID = :txn_id AND TC_OPERATION_TYPE IN ('u', 'd'))
"""
# DISTINCT: add_dynamic_partitions may have been repeated after a lost answer. 'c' is a compaction's, which writes
# nothing new.
_COMPLETE_COMPONENTS = """
    INSERT INTO COMPLETED_TXN_COMPONENTS
        (CTC_TXNID, CTC_DATABASE, CTC_TABLE, CTC_PARTITION, CTC_WRITEID, CTC_TIMESTAMP, CTC_UPDATE_DELETE)
    SELECT TC_TXNID, TC_DATABASE, TC_TABLE, TC_PARTITION, TC_WRITEID, NOW_MS(), :update_delete
    FROM (
        SELECT DISTINCT TC_TXNID, TC_DATABASE, TC_TABLE, TC_PARTITION, TC_WRITEID FROM TXN_COMPONENTS
        WHERE TC_TXNID = :txn_id AND TC_OPERATION_TYPE <> 'c'
    ) AS written
"""
_DELETE_COMPONENTS = "DELETE FROM TXN_COMPONENTS WHERE TC_TXNID = :txn_id"

# What a compaction made obsolete is needed only by transactions below the next one: those that open from now on see
# its result.
_END_COMPACTION = """
    UPDATE COMPACTION_QUEUE SET CQ_NEXT_TXN_ID = :next_txn_id, CQ_COMMIT_TIME = NOW_MS() WHERE CQ_TXN_ID = :txn_id
"""

# -- write-set conflicts -----------------------------------------------------------------------------

_LOCK_TXN_IDS = "SELECT NTXN_NEXT FROM NEXT_TXN_ID FOR UPDATE"
_INSERT_WRITE_SET = """
    INSERT INTO WRITE_SET (WS_DATABASE, WS_TABLE, WS_PARTITION, WS_TXNID, WS_COMMIT_ID, WS_OPERATION_TYPE)
    SELECT DISTINCT TC_DATABASE, TC_TABLE, TC_PARTITION, TC_TXNID, CAST(:commit_id AS BIGINT), TC_OPERATION_TYPE
    FROM TXN_COMPONENTS WHERE TC_TXNID = :txn_id AND TC_OPERATION_TYPE IN ('u', 'd')
"""
# Two transactions overlap when the one was opened before the other committed: txn id <= the other's commit id.
_CONFLICT = """
    SELECT WS_DATABASE, WS_TABLE, WS_PARTITION, WS_TXNID, WS_COMMIT_ID, TC_OPERATION_TYPE, WS_OPERATION_TYPE
    FROM WRITE_SET
    JOIN TXN_COMPONENTS
        ON TC_DATABASE = WS_DATABASE AND TC_TABLE = WS_TABLE AND TC_PARTITION IS NOT DISTINCT FROM WS_PARTITION
    WHERE TC_TXNID = :txn_id AND TC_OPERATION_TYPE IN ('u', 'd') AND WS_OPERATION_TYPE IN ('u', 'd')
        AND WS_TXNID <> :txn_id AND WS_COMMIT_ID >= :txn_id
    ORDER BY WS_COMMIT_ID
    LIMIT 1
"""
_OVERTAKEN = """
    UPDATE TXNS SET TXN_STATE = 'a', TXN_META_INFO = :reason, TXN_ENDED = NOW_MS() WHERE TXN_ID = :txn_id
"""
# An alter_table replaces all parameters: without its row lock this UPDATE might meet neither the old nor the new one.
_LOCK_TABLE = "SELECT TBL_ID FROM TBLS WHERE TBL_ID = :table_id FOR UPDATE"
_SET_PARAMETER = """
    UPDATE TABLE_PARAMS SET PARAM_VALUE = :new_value WHERE TBL_ID = :table_id AND PARAM_KEY = :key
"""


class Commits:
    """commit_txn."""

    def __init__(self, context: Context) -> None:
        self._db = context.sessions

    def commit_txn(
        self, txn_id: TxnId, *, key_value: CommitKeyValue | None = None, excl_write_enabled: bool = True
    ) -> None:
        """Idempotent while the commit is remembered.

        Raises NoSuchTxn, TxnAborted (timed out, aborted, or a write conflict when `excl_write_enabled` is false),
        InvalidOperation (an invalid key_value; the transaction stays open), MetastoreUnavailable (the outcome is
        unknown).
        """
        if key_value is not None and not key_value.key.startswith(KEY_VALUE_PREFIX):
            raise InvalidOperation(
                f"a commit may only set parameters that begin with {KEY_VALUE_PREFIX!r}, not {key_value.key!r}"
            )
        conflict = self._db.run(lambda session: self._commit(session, txn_id, key_value, excl_write_enabled))
        if conflict is not None:
            raise conflict

    def _commit(
        self, session: Session, txn_id: TxnId, key_value: CommitKeyValue | None, excl_write_enabled: bool
    ) -> TxnAborted | None:
        txn_type = session.scalar(_COMMIT, txn_id=txn_id)
        if txn_type is None:
            _commit_again(session, txn_id)
            return None
        if txn_type != TxnType.READ_ONLY:
            updates = bool(session.scalar(_HAS_UPDATES, txn_id=txn_id))
            conflict = _check_write_set(session, txn_id, excl_write_enabled) if updates else None
            if conflict is not None:
                return conflict
            session.execute(_COMPLETE_COMPONENTS, txn_id=txn_id, update_delete="Y" if updates else "N")
            session.execute(_DELETE_COMPONENTS, txn_id=txn_id)
        if txn_type == TxnType.COMPACTION:
            # Opens wait here until this commit is visible.
            session.execute(_END_COMPACTION, txn_id=txn_id, next_txn_id=session.scalar(_LOCK_TXN_IDS))
        release(session, [txn_id])
        if key_value is not None:
            _set_parameter(session, key_value)
        return None


def _commit_again(session: Session, txn_id: TxnId) -> None:
    """Do nothing if it is committed already: the response to the first call was lost."""
    row = session.row(STATE, txn_id=txn_id)
    if row is not None and row[0] == TxnState.COMMITTED.value:
        return
    if row is None and session.scalar(WAS_COMMITTED, txn_id=txn_id):
        return
    raise not_open(session, txn_id, row)


def _check_write_set(session: Session, txn_id: TxnId, excl_write_enabled: bool) -> TxnAborted | None:
    """First committer wins: abort when another transaction updated the same and committed since this one opened.

    With `excl_write_enabled` writers exclude each other by locks, and nothing is compared (as in Hive). What this
    transaction updated is recorded in either case, for transactions that do compare.
    """
    # Opens and other commits wait here, so commit ids order them.
    commit_id = session.scalar(_LOCK_TXN_IDS) - 1
    conflict = None if excl_write_enabled else session.row(_CONFLICT, txn_id=txn_id)
    if conflict is None:
        session.execute(_INSERT_WRITE_SET, txn_id=txn_id, commit_id=commit_id)
        return None
    database, table, partition, other, other_commit_id, operation, other_operation = conflict
    what = "/".join(part for part in (database, table, partition) if part)
    reason = (
        f"write conflict on {what}: committed by transaction {other} [{other},{other_commit_id}] while this one "
        f"[{txn_id},{commit_id}] was open, {operation}/{other_operation}"
    )
    session.execute(_OVERTAKEN, txn_id=txn_id, reason=reason)
    release(session, [txn_id])
    return TxnAborted(f"transaction {txn_id} is aborted due to a {reason}: begin a new one on a fresh snapshot")


def _set_parameter(session: Session, key_value: CommitKeyValue) -> None:
    session.execute(_LOCK_TABLE, table_id=key_value.table_id)
    touched = session.execute(_SET_PARAMETER, table_id=key_value.table_id, key=key_value.key, new_value=key_value.value)
    if touched != 1:
        raise InvalidOperation(
            f"table id {key_value.table_id} has no parameter {key_value.key!r}, and a commit only changes one that "
            "is there (HIVE-20538): set it at create_table"
        )
