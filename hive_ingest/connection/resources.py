"""What a connection has to give back. It holds no reference to the connection, so that it can outlive it."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor

from hive_ingest.config import StreamingSettings
from hive_ingest.connection.open_transaction import OpenTransaction, Surroundings
from hive_ingest.connection.progress import SinkProgress
from hive_ingest.metastore_client.client import MetastoreClient
from hive_ingest.transactions.committer import log_failure
from hive_ingest.transactions.heartbeat import Heartbeater
from hive_ingest.transactions.lock_plan import LockPlan
from hive_ingest.transactions.opener import TransactionOpener


class Resources:
    """The transaction under way, those fetched ahead, the heartbeat thread and the worker threads."""

    def __init__(
        self,
        client: MetastoreClient,
        plan: LockPlan,
        settings: StreamingSettings,
        ahead: int,
        progress: SinkProgress | None,
        *,
        is_overwrite: bool,
    ) -> None:
        self.client = client
        self.current: OpenTransaction | None = None
        self._threads = settings.writer_threads
        self._pool: ThreadPoolExecutor | None = None
        self.heartbeater = Heartbeater(client, self._tick)
        self.around = Surroundings(client, settings, self.heartbeater, self.pool, progress, is_overwrite)
        self.opener = TransactionOpener(client, plan, self.heartbeater, settings, ahead)

    def _tick(self, client: MetastoreClient) -> None:
        self.opener.give_back_idle(client)

    def pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="hive-ingest-writer")
        return self._pool

    def close(self) -> None:
        try:
            self.opener.give_back(self.client)
        finally:
            self.heartbeater.stop()
            if self._pool is not None:
                self._pool.shutdown()


def abandon(resources: Resources, table: str, pid: int) -> None:
    if os.getpid() != pid:
        return  # a forked child does not own the parent's transaction
    warnings.warn(
        f"the connection to {table} was not closed; its transaction is aborted", ResourceWarning, stacklevel=2
    )
    current = resources.current
    if current is not None:
        log_failure(lambda: resources.opener.abort(current.txn_id, "its connection was not closed"), "the abort")
        current.clean_up(at_once=True)
    log_failure(resources.close, "closing")
