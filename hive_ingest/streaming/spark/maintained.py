"""The maintenance that the sinks of a driver share: one for each metastore, as long as the process lives."""

from __future__ import annotations

import threading

from hive_ingest.compaction import CompactionPolicy, Maintenance, MaintenanceMode
from hive_ingest.streaming.spark.target import HiveTarget

_lock = threading.Lock()
_running: dict[tuple[str, MaintenanceMode, CompactionPolicy | None], Maintenance] = {}


def maintenance_of(target: HiveTarget, mode: MaintenanceMode, policy: CompactionPolicy | None) -> Maintenance:
    """Start it, or take the one that runs.

    A sink has no end that it would know of: Spark calls it for each batch, in Spark Connect in a process of its own.

    Raises:
        MetastoreError: The metastore cannot be reached.
    """
    with target.connect_metastore() as client, _lock:
        key = (client.uri, mode, policy)
        if key not in _running:
            _running[key] = Maintenance(client, mode=mode, policy=policy)
        return _running[key]


def stop_maintenance() -> None:
    """Stop all of this process, such as between tests. The next batch of a sink starts it again."""
    with _lock:
        stopped = [*_running.values()]
        _running.clear()
    for maintenance in stopped:
        maintenance.finish()
        maintenance.close()
