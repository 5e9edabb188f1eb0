"""Events of this process, for metrics: connections, workers and initiators report them to listeners.

Reporting costs next to nothing without a listener, and a listener that fails affects nothing else. Table names are
strings here, because this module is below the model.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TransactionCommitted:
    """A transaction of a connection has been committed.

    Attributes:
        table: As `database.table`.
        sink: Empty for a connection without one.
        txn_id: Of the transaction.
        write_id: Its write id in the table.
        rows: Rows committed.
        files: ORC files committed.
        file_bytes: Their size.
        bad_records: Records that were skipped.
        begin_seconds: How long its begin took, with the wait for locks.
        commit_seconds: How long its commit took.
    """

    table: str
    sink: str
    txn_id: int
    write_id: int
    rows: int
    files: int
    file_bytes: int
    bad_records: int
    begin_seconds: float
    commit_seconds: float


@dataclass(frozen=True, slots=True)
class TransactionAborted:
    """A transaction of a connection has been aborted, or cannot be committed any more."""

    table: str
    sink: str
    txn_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommitUnknown:
    """The response to a commit was lost: whether the transaction is committed is not known."""

    table: str
    sink: str
    txn_id: int


@dataclass(frozen=True, slots=True)
class PartitionExamined:
    """An initiator has looked at the folder of a partition, or of a table without partitions.

    Attributes:
        table: As `database.table`.
        partition: The partition's name; empty for a table without partitions.
        deltas: Deltas and delete deltas that a reader opens.
        delta_bytes: Their size.
        base_bytes: The size of the base.
    """

    table: str
    partition: str
    deltas: int
    delta_bytes: int
    base_bytes: int


@dataclass(frozen=True, slots=True)
class CompactionEnded:
    """A worker of this process has finished a compaction, or stopped it.

    Attributes:
        table: As `database.table`.
        partition: The partition's name; empty for a table without partitions.
        type: `minor` or `major`.
        state: `succeeded`, `refused`, `failed`, `initiated` where it went back into the queue, or `working` where the
            metastore could not be reached.
        file_bytes: The size of the files that it wrote.
        seconds: How long it took.
    """

    table: str
    partition: str
    type: str
    state: str
    file_bytes: int
    seconds: float


Event: TypeAlias = TransactionCommitted | TransactionAborted | CommitUnknown | PartitionExamined | CompactionEnded
Listener: TypeAlias = Callable[[Event], None]

_lock = threading.Lock()
#: Replaced as a whole, so that `report` needs no lock.
_listeners: tuple[Listener, ...] = ()


def report(event: Event) -> None:
    """Pass an event to all listeners. Does not raise."""
    for listener in _listeners:
        try:
            listener(event)
        except Exception:  # noqa: BLE001 (what happened has happened, whether or not it can be counted)
            _log.warning("a listener failed at %s", event, exc_info=True)


def listen(listener: Listener) -> None:
    """Call the listener at each event from now on, on the thread where it happens. It should return at once."""
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)


def stop_listening(listener: Listener) -> None:
    """Stop calling the listener. Idempotent."""
    global _listeners
    with _lock:
        _listeners = tuple(each for each in _listeners if each != listener)


def _forked() -> None:
    """Drop the parent's listeners in a forked child: what they count, and what they hold locked, is the parent's."""
    global _listeners, _lock
    _listeners, _lock = (), threading.Lock()


os.register_at_fork(after_in_child=_forked)
