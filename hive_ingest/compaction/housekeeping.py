"""Housekeeping while there are no writers: what dead workers and cleaners held is taken from them."""

from __future__ import annotations

import time

from hive_ingest.compaction.cleaner_lock import release_locks_of_dead_cleaners
from hive_ingest.compaction.dead_workers import take_back_from_dead_workers
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnType

_PAUSE_SECONDS = 10.0


class Housekeeper:
    """Regularly takes back what dead workers and cleaners held, and runs the housekeeping of an embedded metastore.

    An embedded metastore does so, if it is due, whenever a transaction is opened. A real one has a service for it.
    """

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._due = 0.0

    def run_if_due(self) -> None:
        """Cheap when it is not due. Raises MetastoreError."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _PAUSE_SECONDS
        take_back_from_dead_workers(self._client)
        if self._client.has_own_cleaner:
            return
        release_locks_of_dead_cleaners(self._client)
        (txn_id,) = self._client.open_txns(1, agent_info="hive-ingest compactor", txn_type=TxnType.READ_ONLY)
        self._client.commit_txn(txn_id)
