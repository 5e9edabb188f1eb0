"""The error for a lock that was not granted names the command that ends its holders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hive_ingest.model import LockId, LockInfo, LockState, LockType, TxnId
from hive_ingest.transactions.lock_errors import lock_timeout


def held_by(txn_id: int, internal_id: int) -> LockInfo:
    return LockInfo(
        *(LockId(1), internal_id, "web", "t", None, LockState.ACQUIRED, LockType.EXCLUSIVE),
        *(TxnId(txn_id), 0, None, "me", "host", "nightly"),
    )


@pytest.mark.parametrize(
    ("blockers", "command"),
    [
        ([held_by(17, 1)], "(hive-ingest abort 17)"),
        ([held_by(21, 1), held_by(17, 1), held_by(17, 2)], "(hive-ingest abort 17 21)"),
        ([held_by(0, 1)], "(hive-ingest abort)"),
        ([], "(hive-ingest abort)"),
    ],
)
def test_the_command_has_the_ids_of_the_transactions(blockers: Sequence[LockInfo], command: str) -> None:
    assert f"abort it {command}, or raise" in str(lock_timeout("web.t", blockers, 180.0))
