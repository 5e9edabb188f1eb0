"""The compaction queue and the open transactions of a metastore, which a thread polls."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import CompactionInfo, CompactionState, OpenTxnsInfo, TableName, TxnState

_log = logging.getLogger(__name__)

REFRESH_SECONDS = 15.0
_JOIN_SECONDS = 5.0
_IN_QUEUE = (CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)


@dataclass(frozen=True, slots=True)
class MetastoreState:
    """The queue and the transactions of a metastore at one moment.

    Attributes:
        queue: Compactions by state: `initiated`, `working`, `ready_for_cleaning`.
        oldest_request_seconds: How long the oldest compaction that no worker has taken has waited; 0 if there is none.
        failing_partitions: Partitions, and tables without partitions, whose latest compaction has failed.
        open_transactions: Of all clients.
        oldest_transaction_seconds: The age of the oldest open one; 0 if there is none.
        aborted_transactions: Those that are remembered until their files are removed.
    """

    queue: dict[str, int]
    oldest_request_seconds: float
    failing_partitions: int
    open_transactions: int
    oldest_transaction_seconds: float
    aborted_transactions: int

    @classmethod
    def of(cls, compactions: Iterable[CompactionInfo], transactions: OpenTxnsInfo, now_ms: float) -> MetastoreState:
        """Count what a metastore shows.

        Args:
            compactions: Newest first.
            transactions: Open and aborted ones.
            now_ms: The time, in milliseconds since 1970.
        """
        known = [*compactions]
        queue = {_name(state): sum(each.state is state for each in known) for state in _IN_QUEUE}
        waiting = [each.enqueue_time_ms for each in known if each.state is CompactionState.INITIATED]
        found = transactions.transactions
        started = [each.started_ms for each in found if each.state is TxnState.OPEN]
        return cls(
            queue=queue,
            oldest_request_seconds=_age([at for at in waiting if at is not None], now_ms),
            failing_partitions=sum(each.state is CompactionState.FAILED for each in _latest(known)),
            open_transactions=len(started),
            oldest_transaction_seconds=_age(started, now_ms),
            aborted_transactions=len(found) - len(started),
        )


def _name(state: CompactionState) -> str:
    return state.name.lower()


def _age(times_ms: list[int], now_ms: float) -> float:
    return max(0.0, (now_ms - min(times_ms)) / 1000) if times_ms else 0.0


def _latest(compactions: Iterable[CompactionInfo]) -> list[CompactionInfo]:
    """The latest compaction of each partition. One that was not initiated has changed nothing."""
    found: dict[tuple[TableName, str | None], CompactionInfo] = {}
    for each in compactions:
        if each.state is not CompactionState.DID_NOT_INITIATE:
            found.setdefault((each.table, each.partition_name), each)
    return [*found.values()]


class MetastoreWatch:
    """Asks a metastore every `REFRESH_SECONDS`, so that a scrape never waits for it."""

    def __init__(self, metastore: MetastoreClient | str) -> None:
        """Start the thread.

        Args:
            metastore: A client, which is cloned; or the URI of a metastore.

        Raises:
            MetastoreError: The metastore of the URI cannot be reached.
        """
        self._client = connect_metastore(metastore) if isinstance(metastore, str) else metastore.clone()
        self._pid = os.getpid()
        self._stop = threading.Event()
        #: The latest answer, and the error of the latest attempt.
        self.state: MetastoreState | None = None
        self.error: str | None = None
        self._thread = threading.Thread(target=self._run, name="hive-ingest-metastore-metrics", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.refresh()
            self._stop.wait(REFRESH_SECONDS)
        self._client.close()

    def refresh(self) -> None:
        """Ask now. Does not raise."""
        try:
            compactions = self._client.show_compactions()
            transactions = self._client.get_open_txns_info()
        except Exception as error:  # noqa: BLE001 (nobody would notice that the thread has ended)
            _log.warning("the metastore gave no answer for the metrics: %s", error)
            self.error = str(error)
        else:
            self.state, self.error = MetastoreState.of(compactions, transactions, time.time() * 1000), None

    def close(self) -> None:
        """Stop the thread, which may be inside a call for a while longer. Idempotent."""
        self._stop.set()
        if os.getpid() == self._pid:
            self._thread.join(_JOIN_SECONDS)
