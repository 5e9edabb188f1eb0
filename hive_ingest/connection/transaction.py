"""The states of a streaming transaction, and which call is legal in which.

    INACTIVE ── begin ──▶ OPEN ── commit ──▶ COMMITTED
                           │ ├─── abort ───▶ ABORTED
                           │ └─── the response to a commit is lost ──▶ UNKNOWN
                           └─── an error ──▶ FAILED ── abort ──▶ ABORTED

From COMMITTED, ABORTED and UNKNOWN the next `begin` leads to OPEN. Every state can be closed. A writer that joined
somebody else's transaction starts in OPEN, and goes by `prepare` to PREPARED_FOR_COMMIT: the owner commits.
"""

from __future__ import annotations

import enum

from hive_ingest.errors import InvalidTransactionState


class TransactionState(enum.Enum):
    """State of a connection's current transaction (Java: `HiveStreamingConnection.TxnState`)."""

    INACTIVE = "I"
    OPEN = "O"
    PREPARED_FOR_COMMIT = "P"
    COMMITTED = "C"
    ABORTED = "A"
    FAILED = "F"
    UNKNOWN = "U"


class Action(enum.Enum):
    """A call of the user, or something that happened."""

    BEGIN = "begin_transaction"
    WRITE = "write"
    FLUSH = "flush"
    PREPARE = "prepare"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"
    FAIL = "fail"
    LOSE = "lose the response"


_S = TransactionState
_MOVES: dict[tuple[TransactionState, Action], TransactionState] = {
    **{(state, Action.BEGIN): _S.OPEN for state in (_S.INACTIVE, _S.COMMITTED, _S.ABORTED, _S.UNKNOWN)},
    (_S.OPEN, Action.WRITE): _S.OPEN,
    (_S.OPEN, Action.FLUSH): _S.OPEN,
    (_S.OPEN, Action.PREPARE): _S.PREPARED_FOR_COMMIT,
    (_S.OPEN, Action.COMMIT): _S.COMMITTED,
    (_S.OPEN, Action.ABORT): _S.ABORTED,
    (_S.OPEN, Action.FAIL): _S.FAILED,
    (_S.OPEN, Action.LOSE): _S.UNKNOWN,
    (_S.FAILED, Action.FAIL): _S.FAILED,
    (_S.FAILED, Action.ABORT): _S.ABORTED,
    (_S.PREPARED_FOR_COMMIT, Action.ABORT): _S.ABORTED,
}
_REMEDIES = {
    _S.INACTIVE: "call begin_transaction() first",
    _S.OPEN: "commit or abort the open transaction first",
    _S.PREPARED_FOR_COMMIT: "pass what prepare() returned to the owner of the transaction, who commits it",
    _S.COMMITTED: "call begin_transaction() for the next transaction",
    _S.ABORTED: "call begin_transaction() for the next transaction",
    _S.FAILED: "an earlier call failed: nothing of the transaction will be visible; call abort_transaction()",
    _S.UNKNOWN: "the outcome of the last commit is unknown: find it out, then call begin_transaction() or close()",
}


def next_state(state: TransactionState, action: Action) -> TransactionState:
    """Raises InvalidTransactionState, which names the state and the remedy."""
    try:
        return _MOVES[state, action]
    except KeyError:
        raise InvalidTransactionState(
            f"{action.value}() is not possible while the transaction is {state.name}: {_REMEDIES[state]}"
        ) from None
