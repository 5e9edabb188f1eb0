"""Takes back the compactions of workers whose processes have certainly ended, without waiting for their timeouts."""

from __future__ import annotations

import logging
from dataclasses import replace

from hive_ingest.compaction.worker_ids import owner_of_worker, worker_name
from hive_ingest.errors import NoSuchCompaction
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionInfo, CompactionState, TxnId, TxnState, TxnType
from hive_ingest.transactions import Owner

_log = logging.getLogger(__name__)
_REASON = "the process of the compaction's worker has ended"


def take_back_from_dead_workers(client: MetastoreClient) -> int:
    """Put the compactions of dead workers of this machine back into the queue.

    A worker is dead if its process ran on this machine, and is gone or from before a reboot (`Owner.is_dead`). Nothing
    can be known of workers on other machines: their transactions time out.

    Returns:
        How many compactions.

    Raises:
        MetastoreError: The metastore cannot be reached, or refuses.
    """
    infos = [info for info in client.show_compactions() if info.state is CompactionState.WORKING and _is_dead(info)]
    for info in infos:
        _log.warning("compaction %d of %s: %s (%s)", info.id, info.table, _REASON, worker_name(info.worker_id))
    if client.has_own_cleaner:
        return sum(_request_again(client, info) for info in infos)
    txn_ids = [
        info.id
        for info in client.get_open_txns_info().transactions
        if info.state is TxnState.OPEN and info.type is TxnType.COMPACTION and _is_dead_owner(info.agent_info)
    ]
    if not infos and not txn_ids:
        return 0
    client.abort_txns(txn_ids, reason=_REASON)
    revoked = client.revoke_timed_out_workers(client.txn_timeout_seconds)
    return revoked + sum(client.revoke_from_local_workers(info.worker_id) for info in infos if info.worker_id)


def _request_again(client: MetastoreClient, info: CompactionInfo) -> int:
    """A server gives a lost compaction back only after a day, so it ends as failed, and is requested again."""
    txn_ids = {lock.txn_id for lock in client.show_locks(info.table) if _is_lock_of(lock.agent_info, info)}
    if info.txn_id is not None:
        txn_ids.add(TxnId(info.txn_id))
    client.abort_txns(sorted(txn_ids), reason=_REASON)
    try:
        client.mark_failed(replace(info, error_message=f"{_REASON}: {worker_name(info.worker_id)}"))
    except NoSuchCompaction:
        return 0  # another compactor was faster
    client.compact(
        info.table,
        compaction_type=info.type,
        partition_name=info.partition_name,
        properties=info.properties,
        initiator_id=info.initiator_id or "",
        initiator_version=info.initiator_version or "",
    )
    return 1


def _is_lock_of(agent_info: str, info: CompactionInfo) -> bool:
    owner = Owner.parse(agent_info)
    return owner is not None and owner == owner_of_worker(info.worker_id)


def _is_dead(info: CompactionInfo) -> bool:
    owner = owner_of_worker(info.worker_id)
    return owner is not None and owner.is_dead()


def _is_dead_owner(agent_info: str) -> bool:
    owner = Owner.parse(agent_info)
    return owner is not None and owner.is_dead()
