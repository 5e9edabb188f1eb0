"""What all transactions of a connection share, and what must be released when it ends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from hive_ingest.config import StreamingSettings
from hive_ingest.connection.activity import closed, opened, report_aborted
from hive_ingest.connection.bad_record_table import BadRecordRows
from hive_ingest.connection.bad_records import SkippedRecords
from hive_ingest.connection.progress import SinkProgress
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.transactions import Heartbeater, LockPlan, TransactionOpener, log_failure

if TYPE_CHECKING:
    from hive_ingest.connection.open_transaction import OpenTransaction


class ConnectionContext:
    """The transaction in progress, those opened ahead, the heartbeat thread and the worker threads.

    It holds no reference to the connection, so that it can outlive it.
    """

    def __init__(
        self,
        client: MetastoreClient,
        plan: LockPlan,
        settings: StreamingSettings,
        ahead: int,
        progress: SinkProgress | None,
        skipped: SkippedRecords,
        bad_rows: BadRecordRows | None = None,
        *,
        is_overwrite: bool,
        owns_client: bool,
    ) -> None:
        if not isinstance(ahead, int) or ahead < 1:
            raise ConfigurationError(f"transaction_batch_size={ahead!r}: give 1 or more")
        self.client = client
        self.table = plan.tables[0]
        self.sink = progress.sink if progress is not None else ""
        self._owns_client = owns_client
        self.settings = settings
        self.progress = progress
        self.skipped = skipped
        self.bad_rows = bad_rows
        self.is_overwrite = is_overwrite
        self.current: OpenTransaction | None = None
        #: Held by each call of the owner, so that another thread closes the connection between two of them.
        self.calls = threading.RLock()
        self._pool: ThreadPoolExecutor | None = None
        self.heartbeater = Heartbeater(client, self._tick)
        self.opener = TransactionOpener(client, plan, self.heartbeater, settings, ahead)
        opened(self)

    def _tick(self, client: MetastoreClient) -> None:
        self.opener.abort_idle_prefetched(client)

    def pool(self) -> ThreadPoolExecutor:
        """The worker threads, started at the first use."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.settings.writer_threads, thread_name_prefix="hive-ingest-writer")
        return self._pool

    def pending_stats(self) -> dict[str, Any]:
        """Of the transaction in progress, if there is one. Any thread may ask, also while the transaction ends."""
        current = self.current
        if current is None:
            return {}
        return {
            "rows_pending": current.counts.rows,
            "skipped_pending": current.counts.skipped,
            "last_heartbeat_age_seconds": self.heartbeater.age_if_watched(current.txn_id),
        }

    def close(self, client: MetastoreClient) -> None:
        """Release what no transaction in progress needs."""
        closed(self)
        try:
            self.opener.abort_prefetched(client)
        finally:
            self.heartbeater.stop()
            if self._pool is not None:
                self._pool.shutdown()
            if self._owns_client:
                self.client.close()

    def end(self, client: MetastoreClient) -> None:
        """Abort the transaction in progress and release everything, for an owner that did not.

        Args:
            client: A client of the calling thread; the owner's may be inside a call.

        Raises:
            StreamingError: The metastore did not abort the transaction, which will time out.
        """
        current, self.current = self.current, None
        try:
            if current is not None:
                self._end_transaction(current, client)
        finally:
            self.close(client)

    def _end_transaction(self, current: OpenTransaction, client: MetastoreClient) -> None:
        # An owner on a daemon thread may be committing while the interpreter exits. What it has published must stay,
        # because its commit may take effect before our abort.
        is_idle = self.calls.acquire(blocking=False)
        try:
            if is_idle:
                current.withdraw()
            reason = "its connection was not closed"
            report_aborted(self, current.txn_id, reason)
            self.opener.abort(current.txn_id, reason, client=client)
        finally:
            if is_idle:
                log_failure(lambda: current.clean_up(at_once=True), "removing hidden files")
                self.calls.release()
