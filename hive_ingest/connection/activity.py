"""The state and the commits of this process's connections, for metrics, health checks and logs."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_ingest.delta import WriteCounts
from hive_ingest.events import CommitUnknown, TransactionAborted, TransactionCommitted, report
from hive_ingest.model import TableName, TxnId
from hive_ingest.plurals import counted

if TYPE_CHECKING:
    from hive_ingest.connection.context import ConnectionContext
    from hive_ingest.connection.open_transaction import CommitInfo

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionActivity:
    """An open connection.

    Attributes:
        table: Its table.
        sink: The name of its sink; empty without one.
        open_seconds: How long it has been open.
        open_transactions: Those that it keeps alive, with those opened ahead.
        heartbeat_age_seconds: The age of the last heartbeat that was answered, of the transaction where that is the
            longest ago. None without an open transaction.
        txn_timeout_seconds: The metastore's transaction timeout.
    """

    table: TableName
    sink: str
    open_seconds: float
    open_transactions: int
    heartbeat_age_seconds: float | None
    txn_timeout_seconds: float


_lock = threading.Lock()
_open: weakref.WeakKeyDictionary[ConnectionContext, float] = weakref.WeakKeyDictionary()


def open_connections() -> list[ConnectionActivity]:
    """The connections of this process that are open now. Any thread may call this."""
    with _lock:
        found = [*_open.items()]
    now = time.monotonic()
    return [_activity(context, now - since) for context, since in found]


def _activity(context: ConnectionContext, open_seconds: float) -> ConnectionActivity:
    heartbeater = context.heartbeater
    count, age = heartbeater.open_transactions()
    return ConnectionActivity(
        context.table, context.sink, open_seconds, count, age, txn_timeout_seconds=heartbeater.timeout_seconds
    )


def opened(context: ConnectionContext) -> None:
    """Add a connection to the open ones."""
    with _lock:
        _open[context] = time.monotonic()


def closed(context: ConnectionContext) -> None:
    """Remove a connection from the open ones. Idempotent."""
    with _lock:
        _open.pop(context, None)


def _forked() -> None:
    """A forked child has none of its parent's connections."""
    global _lock, _open
    _lock, _open = threading.Lock(), weakref.WeakKeyDictionary()


os.register_at_fork(after_in_child=_forked)


def report_committed(
    context: ConnectionContext, info: CommitInfo, counts: WriteCounts, *, begin_seconds: float, commit_seconds: float
) -> None:
    """Log a commit, and report it to the listeners of `events`."""
    _log.info(
        "transaction %d of %s is committed: %s in %s, commit %.3f s",
        info.txn_id,
        info.table,
        counted(info.rows, "row"),
        counted(info.files, "file"),
        commit_seconds,
        extra={
            **_fields(context, info.txn_id),
            "write_id": info.write_id,
            "rows": info.rows,
            "files": info.files,
            "file_bytes": info.file_bytes,
            "bad_records": counts.skipped,
            "partitions": len(info.partitions),
            "begin_seconds": round(begin_seconds, 6),
            "commit_seconds": round(commit_seconds, 6),
        },
    )
    report(
        TransactionCommitted(
            table=str(info.table),
            sink=context.sink,
            txn_id=info.txn_id,
            write_id=info.write_id,
            rows=info.rows,
            files=info.files,
            file_bytes=info.file_bytes,
            bad_records=counts.skipped,
            begin_seconds=begin_seconds,
            commit_seconds=commit_seconds,
        )
    )


def report_aborted(context: ConnectionContext, txn_id: TxnId, reason: str) -> None:
    """Log an abort, and report it to the listeners of `events`."""
    _log.info("transaction %d of %s is aborted: %s", txn_id, context.table, reason, extra=_fields(context, txn_id))
    report(TransactionAborted(str(context.table), context.sink, txn_id, reason))


def report_unknown(context: ConnectionContext, txn_id: TxnId) -> None:
    """Log that the outcome of a commit is unknown, and report it to the listeners of `events`."""
    _log.info(
        "transaction %d of %s: the outcome of its commit is unknown",
        txn_id,
        context.table,
        extra=_fields(context, txn_id),
    )
    report(CommitUnknown(str(context.table), context.sink, txn_id))


def _fields(context: ConnectionContext, txn_id: TxnId) -> dict[str, object]:
    """For logs in JSON."""
    return {"table": str(context.table), "sink": context.sink, "transaction": int(txn_id)}
