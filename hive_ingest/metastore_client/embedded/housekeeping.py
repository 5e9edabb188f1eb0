"""Housekeeping by lease, in any client that makes a call: it needs no daemon.

Sources: Hive 4's `PerformTimeoutsFunction`, `CleanEmptyAbortedAndCommittedTxns`, `performWriteSetGC` and, for
TXN_TO_WRITE_ID, the rule min(Z, A, N) of HIVE-18747.
"""

# ruff: noqa: SIM300 - columns are written in capitals, and so taken for constants

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass

from sqlalchemy import and_, bindparam, delete, exists, func, or_, select, union_all, update

from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.identity import this_host
from hive_ingest.metastore_client.embedded import schema as t
from hive_ingest.metastore_client.embedded.context import TIMED_OUT, Context
from hive_ingest.metastore_client.embedded.folder_tasks import LOCKS_OF_MOVES
from hive_ingest.metastore_client.embedded.migrations import HOUSEKEEPER
from hive_ingest.metastore_client.embedded.sessions import Session
from hive_ingest.metastore_client.embedded.sql import id_in, now_ms
from hive_ingest.metastore_client.embedded.transactions import release
from hive_ingest.model import TxnId, TxnState

_log = logging.getLogger(__name__)

#: Whoever has died with the lease holds up housekeeping for no longer than this.
LEASE_SECONDS = 60.0
#: Transactions that one SQL transaction times out or forgets, so that others get their turn.
BATCH_SIZE = 1_000

_TXN = t.TXNS.c
_LEASE = t.HOUSEKEEPING_LEASE.c

# A time further ahead than any interval was written under another clock: it does not count.
_IS_FREE = or_(_LEASE.HKL_EXPIRES <= now_ms(), _LEASE.HKL_EXPIRES > now_ms() + bindparam("lease_ms"))
_IS_DUE = or_(_LEASE.HKL_DUE <= now_ms(), _LEASE.HKL_DUE > now_ms() + bindparam("interval_ms"))
_TAKE_LEASE = (
    update(t.HOUSEKEEPING_LEASE)
    .where(_LEASE.HKL_NAME == HOUSEKEEPER, _IS_FREE)
    .values(
        HKL_HOLDER=bindparam("holder"),
        HKL_EXPIRES=now_ms() + bindparam("lease_ms"),
        HKL_DUE=now_ms() + bindparam("interval_ms"),
    )
    .returning(_LEASE.HKL_NAME)
)
_TAKE_LEASE_IF_DUE = _TAKE_LEASE.where(_IS_DUE)
_GIVE_LEASE_BACK = (
    update(t.HOUSEKEEPING_LEASE)
    .where(_LEASE.HKL_NAME == HOUSEKEEPER, _LEASE.HKL_HOLDER == bindparam("holder"))
    .values(HKL_EXPIRES=0)
)

_IS_SILENT = and_(_TXN.TXN_STATE == TxnState.OPEN.value, _TXN.TXN_LAST_HEARTBEAT < now_ms() - bindparam("timeout_ms"))
_SILENT = select(_TXN.TXN_ID).where(_IS_SILENT).order_by(_TXN.TXN_ID).limit(BATCH_SIZE)
# Silence is tested again on the row itself: a heartbeat may have come since the batch was read.
_TIME_OUT = (
    update(t.TXNS)
    .where(id_in(_TXN.TXN_ID, "txn_ids"), _IS_SILENT)
    .values(TXN_STATE=TxnState.ABORTED.value, TXN_META_INFO=TIMED_OUT, TXN_ENDED=now_ms())
    .returning(_TXN.TXN_ID)
)
_TIME_OUT_LOCKS = delete(t.HIVE_LOCKS).where(
    t.HIVE_LOCKS.c.HL_TXNID == 0,
    t.HIVE_LOCKS.c.HL_LAST_HEARTBEAT < now_ms() - bindparam("timeout_ms"),
    t.HIVE_LOCKS.c.HL_LOCK_EXT_ID.not_in(LOCKS_OF_MOVES),
)

# An aborted transaction with components may have files under its write id. Forgotten, it would count as committed.
_WROTE_NOTHING = ~exists().where(t.TXN_COMPONENTS.c.TC_TXNID == _TXN.TXN_ID)
_FORGETTABLE = (
    select(_TXN.TXN_ID)
    .where(
        or_(
            and_(
                _TXN.TXN_STATE == TxnState.COMMITTED.value,
                _TXN.TXN_ENDED < now_ms() - bindparam("committed_retention_ms"),
            ),
            and_(
                _TXN.TXN_STATE == TxnState.ABORTED.value,
                _TXN.TXN_ENDED < now_ms() - bindparam("aborted_retention_ms"),
                _WROTE_NOTHING,
            ),
        )
    )
    .limit(BATCH_SIZE)
)
_FORGET = delete(t.TXNS).where(id_in(_TXN.TXN_ID, "txn_ids"))

_Z_OLDEST_SNAPSHOT = select(func.min(t.MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID).label("id"))
_A_LOWEST_ABORTED = select(func.min(_TXN.TXN_ID)).where(_TXN.TXN_STATE == TxnState.ABORTED.value)
_N_NEXT_TXN = select(t.NEXT_TXN_ID.c.NTXN_NEXT)
_LOWER_BOUND = select(func.min(union_all(_Z_OLDEST_SNAPSHOT, _A_LOWEST_ABORTED, _N_NEXT_TXN).subquery().c.id))
_PRUNE_WRITE_IDS = delete(t.TXN_TO_WRITE_ID).where(t.TXN_TO_WRITE_ID.c.T2W_TXNID < bindparam("low"))

_MIN_OPEN = union_all(
    select(func.min(_TXN.TXN_ID).label("id")).where(_TXN.TXN_STATE == TxnState.OPEN.value), _N_NEXT_TXN
)
_LOWEST_OPEN = select(func.min(_MIN_OPEN.subquery().c.id))
_PRUNE_WRITE_SET = delete(t.WRITE_SET).where(t.WRITE_SET.c.WS_COMMIT_ID < bindparam("low"))


@dataclass(frozen=True, slots=True)
class HousekeepingResult:
    """What one run did."""

    timed_out_txns: tuple[TxnId, ...] = ()
    timed_out_lock_rows: int = 0
    forgotten_txns: int = 0
    pruned_write_ids: int = 0
    pruned_write_sets: int = 0


class Housekeeping:
    """Time-outs, and the forgetting of what nobody can ask for any more."""

    def __init__(self, context: Context) -> None:
        self._db, self._options, self._folder_tasks = context.sessions, context.options, context.folder_tasks
        self._next_look_seconds = 0.0

    def run(self) -> HousekeepingResult | None:
        """Keep house now, due or not. None: another process is at it, and holds the lease."""
        return self._keep_house() if self._db.query(_TAKE_LEASE, **self._lease()) else None

    def run_if_due(self) -> None:
        """Cheap when it is not due."""
        # The lease is in the database; this process looks there once an interval, not at every call.
        now = time.monotonic()
        if now < self._next_look_seconds:
            return
        self._next_look_seconds = now + self._options.housekeeping_interval_seconds
        try:
            if self._db.query(_TAKE_LEASE_IF_DUE, **self._lease()):
                self._keep_house()
        except MetastoreUnavailable as error:
            # The caller wanted something else, which may well succeed; the next who comes by tries again.
            _log.warning("housekeeping put off: %s", error)

    def _lease(self) -> dict[str, str | int]:
        return {
            "holder": f"{this_host()}:{os.getpid()}",
            "lease_ms": _ms(LEASE_SECONDS),
            "interval_ms": _ms(self._options.housekeeping_interval_seconds),
        }

    def _keep_house(self) -> HousekeepingResult:
        try:
            self._folder_tasks.finish()  # before the lock of a killed rename times out
            result = HousekeepingResult(
                timed_out_txns=self._time_out_txns(),
                timed_out_lock_rows=self._db.run(
                    lambda session: session.execute(_TIME_OUT_LOCKS, timeout_ms=self._timeout_ms)
                ),
                forgotten_txns=self._forget_txns(),
                pruned_write_ids=self._db.run(_prune_write_ids),
                pruned_write_sets=self._db.run(_prune_write_set),
            )
        finally:
            lease = self._lease()
            self._db.run(lambda session: session.execute(_GIVE_LEASE_BACK, holder=lease["holder"]))
        if result != HousekeepingResult():
            _log.info("housekeeping on %s: %s", self._db.backend.uri, result)
        return result

    @property
    def _timeout_ms(self) -> int:
        return _ms(self._options.txn_timeout_seconds)

    def _time_out_txns(self) -> tuple[TxnId, ...]:
        found: list[TxnId] = []
        while batch := self._db.run(self._time_out_batch):
            found += batch
        return tuple(sorted(found))

    def _time_out_batch(self, session: Session) -> list[TxnId]:
        silent = [row[0] for row in session.rows(_SILENT, timeout_ms=self._timeout_ms)]
        if not silent:
            return []
        rows = session.rows(_TIME_OUT, txn_ids=json.dumps(silent), timeout_ms=self._timeout_ms)
        timed_out = [TxnId(row[0]) for row in rows]
        if timed_out:
            release(session, timed_out)
        return timed_out

    def _forget_txns(self) -> int:
        retention = {
            "committed_retention_ms": _ms(self._options.committed_txn_retention_seconds),
            "aborted_retention_ms": _ms(self._options.aborted_txn_retention_seconds),
        }

        def work(session: Session) -> int:
            ids = [row[0] for row in session.rows(_FORGETTABLE, **retention)]
            return session.execute(_FORGET, txn_ids=json.dumps(ids)) if ids else 0

        forgotten = 0
        while count := self._db.run(work):
            forgotten += count
        return forgotten


def _prune_write_ids(session: Session) -> int:
    return session.execute(_PRUNE_WRITE_IDS, low=session.scalar(_LOWER_BOUND))


def _prune_write_set(session: Session) -> int:
    return session.execute(_PRUNE_WRITE_SET, low=session.scalar(_LOWEST_OPEN))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
