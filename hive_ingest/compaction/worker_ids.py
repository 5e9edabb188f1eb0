"""Ids of workers: each names its process, so that another compactor can prove that it is dead."""

from __future__ import annotations

from hive_ingest.model import CompactionInfo
from hive_ingest.transactions import Owner

#: Must not begin with the host's name: a metastore on this host would regard the compactions as its own workers'.
_PREFIX = "hive-ingest-"
_AGENT = "hive-ingest compactor"


def new_worker_id() -> str:
    """An id that no other worker has, as `hive-ingest-<process>-<number>`; it fits into CQ_WORKER_ID."""
    owner = Owner.of_this_process()
    return f"{_PREFIX}{owner.process}-{owner.incarnation:04d}"


def owner_of_worker(worker_id: str | None) -> Owner | None:
    """The process of a worker; None for workers of Hive, and of earlier versions, whose ids do not identify it."""
    if worker_id is None or not worker_id.startswith(_PREFIX):
        return None
    process, _, number = worker_id.removeprefix(_PREFIX).rpartition("-")
    return Owner.parse_process(process, number)


def agent_info_of(info: CompactionInfo) -> str:
    """The agent info of a compaction's transaction and lock, by which they can be traced to its worker."""
    return (owner_of_worker(info.worker_id) or Owner.of_this_process()).to_agent_info(_AGENT)


def is_of_this_process(worker_id: str | None) -> bool:
    """Whether the worker is one of this process."""
    owner = owner_of_worker(worker_id)
    return owner is not None and owner.is_this_process


def worker_name(worker_id: str | None) -> str | None:
    """The host, the process id and the number of the worker in readable form; other ids are returned unchanged."""
    owner = owner_of_worker(worker_id)
    return worker_id if owner is None else f"{_PREFIX}{owner.host}-{owner.pid}-{owner.incarnation:04d}"
