"""Requests that no worker takes: perhaps none runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from hive_ingest.model import CompactionInfo, CompactionState

_log = logging.getLogger(__name__)

#: How long a request may wait before a warning says that perhaps no worker runs.
NO_WORKER_SECONDS = 60.0


class WaitingRequests:
    """Warns of each request once. For one thread."""

    def __init__(self) -> None:
        self._warned: set[int] = set()

    def warn(self, known: Iterable[CompactionInfo]) -> None:
        """Warn of those that have waited for too long, by the clock of this machine."""
        now_ms = time.time() * 1000
        waiting = {info.id: info for info in known if info.state is CompactionState.INITIATED and info.enqueue_time_ms}
        self._warned &= waiting.keys()
        for info in waiting.values():
            seconds = (now_ms - (info.enqueue_time_ms or now_ms)) / 1000
            if seconds > NO_WORKER_SECONDS and info.id not in self._warned:
                self._warned.add(info.id)
                _log.warning(
                    "compaction %d of %s has waited for %.0f s and no worker has taken it: run hive-ingest compactor, "
                    "or the workers of Hive (hive.compactor.worker.threads), or more of them",
                    info.id,
                    f"{info.table} {info.partition_name or ''}".rstrip(),
                    seconds,
                    extra={"compaction": info.id},
                )
