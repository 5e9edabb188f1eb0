"""Housekeeping of an embedded metastore while nobody writes: a dead worker's compaction goes back into the queue."""

from __future__ import annotations

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnType


def keep_house(client: MetastoreClient) -> None:
    """Have the metastore keep house if that is due: it does so whenever a transaction is opened.

    Does nothing on a real metastore, which has a service for it. Raises MetastoreError.
    """
    if not client.has_own_cleaner:
        client.commit_txn(*client.open_txns(1, agent_info="hive-ingest compactor", txn_type=TxnType.READ_ONLY))
