"""What is open and what is aborted, each seen in one SQL statement. Source: Hive 4's `TxnHandler.getOpenTxnsInfo`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.metastore_client.embedded import schema as t
from hive_ingest.metastore_client.embedded.context import Context, abort_reason
from hive_ingest.metastore_client.embedded.sql import one_of
from hive_ingest.model import OpenTxnsInfo, TxnId, TxnInfo, TxnState, TxnType

_TXN = t.TXNS.c
_NOT_COMMITTED = one_of(_TXN.TXN_STATE, TxnState.OPEN.value, TxnState.ABORTED.value)
# The join keeps the high-water mark when nothing is open; one statement, or an id could be in neither.
_FROM = t.NEXT_TXN_ID.outerjoin(t.TXNS, _NOT_COMMITTED)
_SNAPSHOT = select(t.NEXT_TXN_ID.c.NTXN_NEXT - 1, _TXN.TXN_ID, _TXN.TXN_STATE).select_from(_FROM).order_by(_TXN.TXN_ID)
_INFO = (
    select(
        t.NEXT_TXN_ID.c.NTXN_NEXT - 1,
        _TXN.TXN_ID,
        _TXN.TXN_STATE,
        _TXN.TXN_USER,
        _TXN.TXN_HOST,
        _TXN.TXN_AGENT_INFO,
        _TXN.TXN_STARTED,
        _TXN.TXN_LAST_HEARTBEAT,
        _TXN.TXN_TYPE,
        _TXN.TXN_META_INFO,
    )
    .select_from(_FROM)
    .order_by(_TXN.TXN_ID)
)


class Snapshots:
    """The calls that look at all transactions at once."""

    def __init__(self, context: Context) -> None:
        self._db = context.sessions

    def get_valid_txns(self, txn_id: TxnId | None = None) -> ValidTxnList:
        """A snapshot of now. With `txn_id`, that transaction's own id is left out of the exceptions.

        Java's `getValidTxns(long)` also ends the snapshot at that id; this one does not, so that a transaction that
        waited for a lock sees what the holder committed.
        """
        rows = self._db.query(_SNAPSHOT)
        found = [(TxnId(row[1]), row[2]) for row in rows if row[1] is not None and row[1] != txn_id]
        return ValidTxnList(
            TxnId(rows[0][0]),
            tuple(id_ for id_, state in found if state == TxnState.OPEN.value),
            tuple(id_ for id_, state in found if state == TxnState.ABORTED.value),
        )

    def add_write_ids_to_min_history(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Nothing: MIN_HISTORY_LEVEL has had it since the transaction was opened."""

    def get_open_txns_info(self) -> OpenTxnsInfo:
        """All transactions that are open, or aborted and remembered."""
        rows = self._db.query(_INFO)
        return OpenTxnsInfo(TxnId(rows[0][0]), tuple(_info(*row[1:]) for row in rows if row[1] is not None))


def _info(
    txn_id: int,
    state: str,
    user: str,
    host: str,
    agent_info: str | None,
    started: int,
    last_heartbeat: int,
    txn_type: int,
    meta_info: str | None,
) -> TxnInfo:
    return TxnInfo(
        id=TxnId(txn_id),
        state=TxnState(state),
        user=user,
        hostname=host,
        agent_info=agent_info or "",
        started_ms=started,
        last_heartbeat_ms=last_heartbeat,
        type=TxnType(txn_type),
        abort_reason=abort_reason(meta_info, last_heartbeat),
    )
