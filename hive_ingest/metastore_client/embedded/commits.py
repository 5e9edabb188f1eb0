"""Commits: components remembered, write-write conflicts found, one table parameter set.

Source: Hive 4's `TxnHandler.commitTxn`, `checkForWriteConflict` and `updateKeyValueAssociatedWithTxn`.
"""

# ruff: noqa: SIM300 - columns are written in capitals, and so taken for constants

from __future__ import annotations

from sqlalchemy import and_, bindparam, delete, exists, insert, select, update

from hive_ingest.errors import InvalidOperation, TxnAborted
from hive_ingest.metastore_client.embedded import schema as t
from hive_ingest.metastore_client.embedded.context import Context
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.metastore_client.embedded.sql import now_ms, one_of
from hive_ingest.metastore_client.embedded.transactions import (
    COMPONENTS_OF_TXN,
    STATE,
    WAS_COMMITTED,
    not_open,
    release,
)
from hive_ingest.model import CommitKeyValue, TxnId, TxnState, TxnType

#: HIVE-20538 lets a commit change only parameters that begin so (`TxnStore.TXN_KEY_START`).
KEY_VALUE_PREFIX = "_meta"

_COMPACTION_LETTER = "c"
_CONFLICTING = ("u", "d")

_TXN = t.TXNS.c
_THIS_TXN = _TXN.TXN_ID == bindparam("txn_id")
_COMPONENT = t.TXN_COMPONENTS.c
_IS_CONFLICTING = one_of(_COMPONENT.TC_OPERATION_TYPE, *_CONFLICTING)

_COMMIT = (
    update(t.TXNS)
    .where(_THIS_TXN, _TXN.TXN_STATE == TxnState.OPEN.value)
    .values(TXN_STATE=TxnState.COMMITTED.value, TXN_ENDED=now_ms())
    .returning(_TXN.TXN_TYPE)
)
_HAS_UPDATES = select(exists().where(COMPONENTS_OF_TXN, _IS_CONFLICTING))
# DISTINCT: add_dynamic_partitions may have been repeated after a lost answer.
_DISTINCT_COMPONENTS = (
    select(
        _COMPONENT.TC_TXNID, _COMPONENT.TC_DATABASE, _COMPONENT.TC_TABLE, _COMPONENT.TC_PARTITION, _COMPONENT.TC_WRITEID
    )
    .where(COMPONENTS_OF_TXN, _COMPONENT.TC_OPERATION_TYPE != _COMPACTION_LETTER)
    .distinct()
    .subquery()
)
_COMPLETE_COMPONENTS = insert(t.COMPLETED_TXN_COMPONENTS).from_select(
    ["CTC_TXNID", "CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION", "CTC_WRITEID", "CTC_TIMESTAMP", "CTC_UPDATE_DELETE"],
    select(_DISTINCT_COMPONENTS, now_ms(), bindparam("update_delete")),
)
_DELETE_COMPONENTS = delete(t.TXN_COMPONENTS).where(COMPONENTS_OF_TXN)

# -- write-set conflicts -----------------------------------------------------------------------------

_LOCK_TXN_IDS = select(t.NEXT_TXN_ID.c.NTXN_NEXT).with_for_update()
_INSERT_WRITE_SET = insert(t.WRITE_SET).from_select(
    ["WS_DATABASE", "WS_TABLE", "WS_PARTITION", "WS_TXNID", "WS_COMMIT_ID", "WS_OPERATION_TYPE"],
    select(
        _COMPONENT.TC_DATABASE,
        _COMPONENT.TC_TABLE,
        _COMPONENT.TC_PARTITION,
        _COMPONENT.TC_TXNID,
        bindparam("commit_id"),
        _COMPONENT.TC_OPERATION_TYPE,
    )
    .where(COMPONENTS_OF_TXN, _IS_CONFLICTING)
    .distinct(),
)
_WRITTEN = t.WRITE_SET.c
# Two transactions overlap when the one was opened before the other committed: txn id <= the other's commit id.
_CONFLICT = (
    select(
        _WRITTEN.WS_DATABASE,
        _WRITTEN.WS_TABLE,
        _WRITTEN.WS_PARTITION,
        _WRITTEN.WS_TXNID,
        _WRITTEN.WS_COMMIT_ID,
        _COMPONENT.TC_OPERATION_TYPE,
        _WRITTEN.WS_OPERATION_TYPE,
    )
    .join(
        t.TXN_COMPONENTS,
        and_(
            _COMPONENT.TC_DATABASE == _WRITTEN.WS_DATABASE,
            _COMPONENT.TC_TABLE == _WRITTEN.WS_TABLE,
            _COMPONENT.TC_PARTITION.is_not_distinct_from(_WRITTEN.WS_PARTITION),
        ),
    )
    .where(
        COMPONENTS_OF_TXN,
        _IS_CONFLICTING,
        one_of(_WRITTEN.WS_OPERATION_TYPE, *_CONFLICTING),
        _WRITTEN.WS_TXNID != bindparam("txn_id"),
        _WRITTEN.WS_COMMIT_ID >= bindparam("txn_id"),
    )
    .order_by(_WRITTEN.WS_COMMIT_ID)
    .limit(1)
)
_OVERTAKEN = (
    update(t.TXNS)
    .where(_THIS_TXN)
    .values(TXN_STATE=TxnState.ABORTED.value, TXN_META_INFO=bindparam("reason"), TXN_ENDED=now_ms())
)
# An alter_table replaces all parameters: without its row lock this UPDATE might meet neither the old nor the new one.
_LOCK_TABLE = select(t.TBLS.c.TBL_ID).where(t.TBLS.c.TBL_ID == bindparam("table_id")).with_for_update()
_SET_PARAMETER = (
    update(t.TABLE_PARAMS)
    .where(t.TABLE_PARAMS.c.TBL_ID == bindparam("table_id"), t.TABLE_PARAMS.c.PARAM_KEY == bindparam("key"))
    .values(PARAM_VALUE=bindparam("new_value"))
)


class Commits:
    """commit_txn."""

    def __init__(self, context: Context) -> None:
        self._db = context.sessions

    def commit_txn(
        self, txn_id: TxnId, *, key_value: CommitKeyValue | None = None, excl_write_enabled: bool = True
    ) -> None:
        """Idempotent while the commit is remembered.

        Raises NoSuchTxn, TxnAborted (timed out, aborted, or a write conflict when `excl_write_enabled` is false),
        InvalidOperation (a key_value that does not fit; the transaction stays open), MetastoreUnavailable (the
        outcome is unknown).
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
        release(session, [txn_id])
        if key_value is not None:
            _set_parameter(session, key_value)
        return None


def _commit_again(session: Session, txn_id: TxnId) -> None:
    """Nothing to do when it is committed already: the answer to the first call was lost."""
    row = session.row(STATE, txn_id=txn_id)
    if row is not None and row[0] == TxnState.COMMITTED.value:
        return
    if row is None and session.scalar(WAS_COMMITTED, txn_id=txn_id):
        return
    raise not_open(session, txn_id, row)


def _check_write_set(session: Session, txn_id: TxnId, excl_write_enabled: bool) -> TxnAborted | None:
    """First committer wins: abort when another transaction updated the same and committed since this one opened.

    With `excl_write_enabled` writers exclude each other by lock, and nothing is compared (as in Hive). What this
    transaction updated is written down either way, for those that compare.
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
