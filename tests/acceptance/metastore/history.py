"""Invariants of any history of calls to a metastore, whichever processes were killed."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hive_ingest.acid.write_ids import ValidWriteIdList
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import LockState, TxnId, WriteId

#: A call that never answered may have happened at any time after it was made.
NEVER = 2**63


@dataclass(frozen=True)
class Call:
    """One call; `t0` when it was made, `t1` when it answered (NEVER, if the worker was killed in it)."""

    op: str
    t0: int
    t1: int
    about: dict[str, Any]
    result: Any = None
    error: str = ""

    @property
    def answered(self) -> bool:
        return self.t1 != NEVER

    @property
    def succeeded(self) -> bool:
        return self.answered and not self.error

    @property
    def txn(self) -> int:
        return int(self.about["txn"])


@dataclass
class Transaction:
    """What the calls about one transaction prove."""

    id: int
    opened: Call
    calls: list[Call] = field(default_factory=list)

    def last(self, op: str) -> Call | None:
        return next((call for call in reversed(self.calls) if call.op == op), None)

    @cached_property
    def committed(self) -> Call | None:
        call = self.last("commit")
        return call if call is not None and call.succeeded else None

    @cached_property
    def surely_aborted_at(self) -> int:
        """It was aborted by then; NEVER if nothing proves it."""
        proofs = [c.t1 for c in self.calls if c.error == "TxnAborted" or (c.op == "abort" and c.succeeded)]
        return min(proofs, default=NEVER)

    @cached_property
    def surely_not_committed_before(self) -> int:
        commit = self.last("commit")
        return NEVER if commit is None else commit.t0

    @cached_property
    def surely_open_until(self) -> int:
        """Every success but that of abort proves that it was still open when the call was made."""
        return max((c.t0 for c in self.calls if c.succeeded and c.op != "abort"), default=self.opened.t1)


class History:
    """The calls of all workers."""

    def __init__(self, folder: Path) -> None:
        self.calls = sorted(
            (call for file in sorted(folder.glob("*.jsonl")) for call in _read(file)), key=lambda call: call.t0
        )
        self.txns: dict[int, Transaction] = {}
        for call in self.of("open"):
            if call.succeeded:
                for txn_id in call.result:
                    assert txn_id not in self.txns, f"transaction id {txn_id} was given out twice"
                    self.txns[txn_id] = Transaction(txn_id, call)
        for call in self.calls:
            if "txn" in call.about:
                self.txns[call.txn].calls.append(call)

    def of(self, op: str) -> list[Call]:
        return [call for call in self.calls if call.op == op]

    def write_ids(self) -> dict[str, dict[int, int]]:
        """Transaction by write id, for each table."""
        found: dict[str, dict[int, int]] = defaultdict(dict)
        for call in self.of("allocate"):
            if call.succeeded:
                owner = found[call.about["table"]].setdefault(call.result, call.txn)
                assert owner == call.txn, f"write id {call.result} of {call.about['table']} was given out twice"
        return found


def _read(file: Path) -> Iterator[Call]:
    begun: dict[int, dict[str, Any]] = {}
    for text in file.read_text().splitlines():
        line = json.loads(text)
        if "op" in line:
            begun[line["i"]] = line
            continue
        start = begun.pop(line["i"])
        yield _call(start, line["t1"], line.get("result"), line.get("error", ""))
    for start in begun.values():
        yield _call(start, NEVER, None, "")


def _call(start: dict[str, Any], t1: int, result: Any, error: str) -> Call:
    about = {key: value for key, value in start.items() if key not in ("i", "op", "t0")}
    return Call(start["op"], start["t0"], t1, about, result, error)


def check(folder: Path, ms: EmbeddedMetastoreClient) -> History:
    """All promises; `ms` is the metastore after the last worker has ended. Raises AssertionError."""
    history = History(folder)
    check_txn_ids(history, ms)
    check_write_ids(history, ms)
    check_locks(history)
    check_first_committer_wins(history)
    check_snapshots(history)
    check_the_end(history, ms)
    return history


def check_txn_ids(history: History, ms: EmbeddedMetastoreClient) -> None:
    """Unique (History has seen to it) and dense: missing ones were opened by a call that never returned."""
    high = ms.get_valid_txns().high_water_mark
    missing = set(range(1, high + 1)) - set(history.txns)
    lost = sum(not call.answered for call in history.of("open"))
    assert len(missing) <= 3 * lost, f"transactions {sorted(missing)} are missing, and only {lost} calls were lost"
    assert max(history.txns) <= high


def check_write_ids(history: History, ms: EmbeddedMetastoreClient) -> None:
    lost: dict[str, int] = defaultdict(int)
    for call in history.of("allocate"):
        lost[call.about["table"]] += not call.answered
    for table, owners in history.write_ids().items():
        (valid,) = ms.get_valid_write_ids([table])
        missing = set(range(1, valid.high_water_mark + 1)) - set(owners)
        assert len(missing) <= lost[table], f"write ids {sorted(missing)} of {table} are missing"
        assert max(owners) <= valid.high_water_mark


# -- locks -------------------------------------------------------------------------------------------

_CONFLICTS = {
    frozenset(pair)
    for pair in (
        ("EXCLUSIVE", "SHARED_READ"),
        ("EXCLUSIVE", "SHARED_WRITE"),
        ("EXCLUSIVE", "EXCL_WRITE"),
        ("EXCLUSIVE",),
        ("EXCL_WRITE", "SHARED_WRITE"),
        ("EXCL_WRITE",),
    )
}


def check_locks(history: History) -> None:
    """No two incompatible locks are held at once, from when the one is known to be acquired on."""
    held: dict[str, list[tuple[int, int, int, str, str | None]]] = defaultdict(list)
    for txn in history.txns.values():
        for call in txn.calls:
            if call.op in ("lock", "check_lock") and call.succeeded and call.result[1] == LockState.ACQUIRED:
                for type_, table, partition in call.about["components"]:
                    held[table].append((call.t1, txn.surely_open_until, txn.id, type_, partition))
    for table, locks in held.items():
        for one, two in itertools.combinations(sorted(locks), 2):
            together = two[0] < one[1] and one[0] < two[1]
            if together and one[2] != two[2] and _conflict(one[3:], two[3:]):
                raise AssertionError(f"held at once on {table}: {one} and {two}")


def _conflict(one: tuple[str, str | None], two: tuple[str, str | None]) -> bool:
    overlap = one[1] is None or two[1] is None or one[1] == two[1]
    return overlap and frozenset((one[0], two[0])) in _CONFLICTS


# -- conflicts ---------------------------------------------------------------------------------------


def check_first_committer_wins(history: History) -> None:
    """Of two updates of one partition that were open at the same time, at most one is committed."""
    committed: dict[tuple[str, str], list[tuple[Transaction, Call]]] = defaultdict(list)
    for txn in history.txns.values():
        commit = txn.committed
        if commit is not None and "updated" in commit.about:
            table, partition = commit.about["updated"]
            committed[table, partition].append((txn, commit))
    for where, updates in committed.items():
        for (one, one_commit), (two, two_commit) in itertools.combinations(updates, 2):
            overlap = one.opened.t1 < two_commit.t0 and two.opened.t1 < one_commit.t0
            assert not overlap, f"transactions {one.id} and {two.id} both updated {where} and committed"


# -- snapshots ---------------------------------------------------------------------------------------


def check_snapshots(history: History) -> None:
    owners = history.write_ids()
    taken = {call.txn: call for call in history.of("valid_txns")}
    for call in history.of("snapshot") + history.of("snapshot_of"):
        if call.succeeded:
            moment = taken[call.txn] if call.op == "snapshot_of" else call
            protected = call.op == "snapshot" or history.txns[call.txn].surely_open_until > call.t1
            if protected:
                _check_snapshot(history, owners[call.about["table"]], call, moment)


def _check_snapshot(history: History, owners: dict[int, int], call: Call, moment: Call) -> None:
    """`moment` is the call that took the snapshot."""
    valid = ValidWriteIdList.from_string(call.result)
    for write_id, txn_id in owners.items():
        txn = history.txns[txn_id]
        seen = valid.is_valid(WriteId(write_id))
        commit = txn.committed
        if commit is not None and commit.t1 < moment.t0:
            assert seen, f"write id {write_id}, committed before the snapshot, is missing from {call}"
        if txn.surely_not_committed_before > moment.t1 or txn.surely_aborted_at < NEVER:
            assert not seen, f"write id {write_id} of transaction {txn_id}, not committed, is valid in {call}"


def check_the_end(history: History, ms: EmbeddedMetastoreClient) -> None:
    """After the last timeout nothing is open, no lock is left, and each write id is what its transaction says."""
    ms.clock_offset_seconds = 3600
    ms.run_housekeeping()
    assert ms.get_valid_txns().open == ()
    assert ms.show_locks() == []
    aborted = set(ms.get_valid_txns().aborted)
    for table, owners in history.write_ids().items():
        (valid,) = ms.get_valid_write_ids([table])
        assert valid.open == ()
        for write_id, txn_id in owners.items():
            txn = history.txns[txn_id]
            seen = valid.is_valid(WriteId(write_id))
            assert seen == (TxnId(txn_id) not in aborted)
            if txn.committed is not None:
                assert seen, f"write id {write_id} of {table} was committed and is lost"
            elif txn.last("commit") is None or txn.surely_aborted_at < NEVER:
                assert not seen, f"write id {write_id} of {table} was never committed and is valid"
