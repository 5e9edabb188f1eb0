"""Keeps our open transactions alive, on a separate thread with its own metastore client."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable

from hive_ingest.errors import StreamingError, TxnAborted
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnId

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_BEATS_PER_TIMEOUT = 3

if sys.platform == "linux":

    def now() -> float:
        """Seconds on a clock that runs on while the machine is suspended."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now() -> float:
        """Seconds on a clock that runs on while the machine is suspended."""
        return time.monotonic()


def contiguous_ranges(txn_ids: Iterable[TxnId]) -> list[tuple[TxnId, TxnId]]:
    """Ranges that hold only these ids: `heartbeat_txn_range` would keep other clients' transactions alive too."""
    ranges: list[tuple[TxnId, TxnId]] = []
    for txn_id in sorted(txn_ids):
        if ranges and txn_id == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], txn_id)
        else:
            ranges.append((txn_id, txn_id))
    return ranges


class Heartbeater:
    """Sends heartbeats every third of the timeout, and every second after one that failed.

    One instance serves a connection with several open transactions, or a reader with one.
    """

    def __init__(
        self,
        client: MetastoreClient,
        on_tick: Callable[[MetastoreClient], None] | None = None,
        *,
        name: str = "hive-ingest-heartbeat",
    ) -> None:
        """Does not start the thread yet.

        Args:
            client: Cloned on the thread, at the first tick. Never called directly.
            on_tick: Called on the thread at each tick, with the thread's own client.
            name: The name of the thread.
        """
        self._name = name
        self._client = client
        self._on_tick = on_tick
        self.timeout_seconds = client.txn_timeout_seconds
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._last_good: dict[TxnId, float] = {}
        self._thread: threading.Thread | None = None
        #: Transactions that the metastore reported as gone, and why. Read before each step. The dict is never replaced.
        self.lost: dict[TxnId, str] = {}

    def watch(self, txn_ids: Iterable[TxnId]) -> None:
        """Keep transactions alive that have just been opened, which counts as a heartbeat."""
        opened = now()
        with self._lock:
            self._last_good.update(dict.fromkeys(txn_ids, opened))
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread  # only now: an interrupt may come while it starts, and `stop` joins it

    def forget(self, txn_ids: Iterable[TxnId]) -> None:
        """Stop sending heartbeats for transactions that have ended."""
        with self._lock:
            for txn_id in txn_ids:
                self._last_good.pop(txn_id, None)
                self.lost.pop(txn_id, None)

    def record_heartbeat(self, txn_id: TxnId, sent_at: float) -> None:
        """Record that a heartbeat of the owner, sent at that time, was answered."""
        with self._lock:
            if txn_id in self._last_good:
                self._last_good[txn_id] = max(sent_at, self._last_good[txn_id])

    def age_seconds(self, txn_id: TxnId) -> float:
        """Seconds since the last answered heartbeat was sent.

        Raises:
            TxnAborted: The transaction was ended by another thread, as when the interpreter exits during a commit.
        """
        age = self.age_if_watched(txn_id)
        if age is None:
            raise TxnAborted(
                f"transaction {txn_id} was ended while it was being committed: its connection was closed, or the "
                "process is exiting. Wait for the thread that commits before the process ends"
            )
        return age

    def age_if_watched(self, txn_id: TxnId) -> float | None:
        """The same; None for a transaction that is not kept alive any more."""
        with self._lock:
            sent_at = self._last_good.get(txn_id)
        return None if sent_at is None else now() - sent_at

    def open_transactions(self) -> tuple[int, float | None]:
        """How many are kept alive, and the age of the oldest of their last answered heartbeats. Any thread may ask."""
        with self._lock:
            sent_at = [*self._last_good.values()]
        return len(sent_at), now() - min(sent_at) if sent_at else None

    def raise_if_lost(self, txn_id: TxnId) -> None:
        """Raises TxnAborted if a heartbeat was answered with "aborted" or "no such transaction"."""
        why = self.lost.get(txn_id)
        if why is not None:
            raise TxnAborted(f"transaction {txn_id} is gone: {why}; abort it here and begin another one")

    def give_up(self, txn_id: TxnId, why: str) -> None:
        """Send no more heartbeats for a transaction: it times out, and `raise_if_lost` raises."""
        with self._lock:
            if txn_id in self._last_good:
                self.lost.setdefault(txn_id, why)

    def stop(self) -> None:
        """Stop the thread. Idempotent. Waits for a heartbeat in progress, unless called on the thread itself."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        interval = self.timeout_seconds / _BEATS_PER_TIMEOUT
        client: MetastoreClient | None = None
        due = now() + interval
        try:
            while not self._stop.wait(max(0.01, min(_RETRY_SECONDS, due - now()))):
                # Nobody would notice if this thread ended, and the transactions would time out one after the
                # other. So no error of any kind may end it.
                try:
                    client = client or self._client.clone()
                    if now() >= due:
                        due = now() + (interval if self._send_heartbeat(client) else min(interval, _RETRY_SECONDS))
                    if self._on_tick is not None:
                        self._on_tick(client)
                except Exception as error:  # noqa: BLE001
                    _log_failure("the heartbeat thread", error)
        finally:
            if client is not None:
                client.close()

    def _send_heartbeat(self, client: MetastoreClient) -> bool:
        with self._lock:
            ranges = contiguous_ranges(self._last_good.keys() - self.lost.keys())
        good = True
        for low, high in ranges:  # each on its own: a failed one must not prevent the others
            good &= self._beat_range(client, low, high)
        return good

    def _beat_range(self, client: MetastoreClient, low: TxnId, high: TxnId) -> bool:
        sent_at = now()
        try:
            answer = client.heartbeat_txn_range(low, high)
        except Exception as error:  # noqa: BLE001 (see _run)
            _log_failure(f"a heartbeat of transactions {low} to {high}", error)
            return False
        with self._lock:
            for txn_id in map(TxnId, range(low, high + 1)):
                if txn_id not in self._last_good:
                    continue
                if txn_id in answer.aborted:
                    self.lost[txn_id] = "it was aborted (timed out, or by an operator)"
                elif txn_id in answer.nosuch:
                    self.lost[txn_id] = "the metastore no longer knows it"
                else:
                    self._last_good[txn_id] = sent_at
        return True


def send_heartbeat(client: MetastoreClient, heartbeater: Heartbeater, txn_id: TxnId) -> float:
    """Have the metastore confirm on the owner's thread that a transaction is open.

    In SQLite this also syncs the transaction's ids and locks.

    Returns:
        When it was sent, in seconds of `now`.

    Raises:
        NoSuchTxn, TxnAborted: The transaction has ended.
        MetastoreUnavailable: The metastore cannot be reached.
    """
    sent_at = now()
    client.heartbeat(txn_id=txn_id)
    heartbeater.record_heartbeat(txn_id, sent_at)
    return sent_at


def _log_failure(what: str, error: Exception) -> None:
    is_expected = isinstance(error, StreamingError)
    _log.warning("%s failed, will be retried in 1 s: %s", what, error, exc_info=None if is_expected else error)
