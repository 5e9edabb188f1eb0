"""Every call is allowed in some states only, and an error names the state."""

from __future__ import annotations

import pytest

from hive_ingest.connection.transaction import Action, TransactionState, next_state
from hive_ingest.errors import InvalidTransactionState

S = TransactionState


@pytest.mark.parametrize("state", [S.INACTIVE, S.COMMITTED, S.ABORTED, S.UNKNOWN])
def test_a_transaction_begins_where_none_is_open(state: TransactionState) -> None:
    assert next_state(state, Action.BEGIN) is S.OPEN


@pytest.mark.parametrize("state", [S.OPEN, S.FAILED])
def test_no_transaction_begins_while_one_is_open(state: TransactionState) -> None:
    with pytest.raises(InvalidTransactionState, match=state.name):
        next_state(state, Action.BEGIN)


@pytest.mark.parametrize("action", [Action.WRITE, Action.FLUSH, Action.COMMIT])
@pytest.mark.parametrize("state", [s for s in S if s is not S.OPEN])
def test_only_an_open_transaction_is_written_flushed_and_committed(state: TransactionState, action: Action) -> None:
    with pytest.raises(InvalidTransactionState) as caught:
        next_state(state, action)
    assert action.value in str(caught.value)
    assert state.name in str(caught.value)


@pytest.mark.parametrize("action", [Action.BEGIN, Action.WRITE, Action.FLUSH, Action.COMMIT])
def test_after_a_failure_only_abort_is_legal(action: Action) -> None:
    with pytest.raises(InvalidTransactionState, match=r"call abort_transaction\(\)"):
        next_state(S.FAILED, action)
    assert next_state(S.FAILED, Action.ABORT) is S.ABORTED
