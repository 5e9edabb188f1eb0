"""Takes back the compactions of workers whose processes have certainly ended, without waiting for their timeouts."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from hive_ingest.compaction.worker_ids import owner_of_worker, worker_name
from hive_ingest.errors import NoSuchCompaction, NoSuchTxn
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
    shown = client.show_compactions()
    infos = [info for info in shown if info.state is CompactionState.WORKING and _is_dead(info)]
    for info in infos:
        _log.warning("compaction %d of %s: %s (%s)", info.id, info.table, _REASON, worker_name(info.worker_id))
    if client.has_own_cleaner:
        again = sum(_fail_and_request_again(client, info) for info in infos)
        return again + sum(_abort_and_request_again(client, info) for info in _marked_and_not_committed(client, shown))
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


def _fail_and_request_again(client: MetastoreClient, info: CompactionInfo) -> int:
    """A server gives a lost compaction back only after a day, so it ends as failed, and is requested again."""
    txn_ids = {lock.txn_id for lock in client.show_locks(info.table) if _is_lock_of(lock.agent_info, info)}
    if info.txn_id is not None:
        txn_ids.add(TxnId(info.txn_id))
    client.abort_txns(sorted(txn_ids), reason=_REASON)
    return _replace(client, info, worker_name(info.worker_id))


def _marked_and_not_committed(client: MetastoreClient, shown: Iterable[CompactionInfo]) -> list[CompactionInfo]:
    """Compactions between `mark_compacted` and the commit."""
    ready = CompactionState.READY_FOR_CLEANING
    found = [info for info in shown if info.state is ready and info.txn_id and not info.next_txn_id]
    is_open = set(client.get_valid_txns().open) if found else set()
    return [info for info in found if info.txn_id in is_open]


def _abort_and_request_again(client: MetastoreClient, info: CompactionInfo) -> int:
    """The row no longer has the worker; its lock names it. What was published becomes visible only by the commit."""
    agents = [lock.agent_info for lock in client.show_locks(info.table) if lock.txn_id == info.txn_id]
    if info.txn_id is None or not any(map(_is_dead_owner, agents)):
        return 0
    try:
        client.abort_txn(info.txn_id, reason=_REASON)
    except NoSuchTxn:
        return 0  # the server was still carrying out the commit
    _log.warning("compaction %d of %s: %s", info.id, info.table, _REASON)
    return _replace(client, info, agents[0])


def _replace(client: MetastoreClient, info: CompactionInfo, worker: str | None) -> int:
    try:
        client.mark_failed(replace(info, error_message=f"{_REASON}: {worker}"))
    except NoSuchCompaction:
        return 0  # another compactor was faster, or the server's cleaner
    response = client.compact(
        info.table,
        compaction_type=info.type,
        partition_name=info.partition_name,
        properties=info.properties,
        initiator_id=info.initiator_id or "",
        initiator_version=info.initiator_version or "",
    )
    return int(response.accepted)


def _is_lock_of(agent_info: str, info: CompactionInfo) -> bool:
    owner = Owner.parse(agent_info)
    return owner is not None and owner == owner_of_worker(info.worker_id)


def _is_dead(info: CompactionInfo) -> bool:
    owner = owner_of_worker(info.worker_id)
    return owner is not None and owner.is_dead()


def _is_dead_owner(agent_info: str) -> bool:
    owner = Owner.parse(agent_info)
    return owner is not None and owner.is_dead()
