"""What is open and what is aborted, each seen in one SQL statement. Source: Hive 4's `TxnHandler.getOpenTxnsInfo`."""

from __future__ import annotations

from collections.abc import Sequence

from hive_ingest.acid import ValidTxnList, ValidWriteIdList
from hive_ingest.metastore_client.embedded.context import Context, abort_reason
from hive_ingest.model import OpenTxnsInfo, TxnId, TxnInfo, TxnState, TxnType

# The join keeps the high-water mark when nothing is open; one statement, or an id could be in neither.
_SNAPSHOT = """
    SELECT NTXN_NEXT - 1, TXN_ID, TXN_STATE
    FROM NEXT_TXN_ID LEFT JOIN TXNS ON TXN_STATE IN ('o', 'a')
    ORDER BY TXN_ID
"""
_INFO = """
    SELECT NTXN_NEXT - 1, TXN_ID, TXN_STATE, TXN_USER, TXN_HOST, TXN_AGENT_INFO, TXN_STARTED, TXN_LAST_HEARTBEAT,
        TXN_TYPE, TXN_META_INFO
    FROM NEXT_TXN_ID LEFT JOIN TXNS ON TXN_STATE IN ('o', 'a')
    ORDER BY TXN_ID
"""


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
