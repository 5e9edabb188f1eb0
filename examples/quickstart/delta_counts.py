"""How many delta folders a reader of the table opens, counted while rows come in."""

from __future__ import annotations

import threading
import time

from examples.quickstart.places import NAME
from hive_ingest.cli.deltas import partition_deltas
from hive_ingest.errors import StreamingError
from hive_ingest.metastore_client import MetastoreClient

_SECONDS_BETWEEN = 0.5


class DeltaCounts:
    """Counts at a fixed interval, on a thread with a client of its own, until the `with` block ends.

    Attributes:
        seen: When was counted (seconds since the epoch), and how many delta folders all partitions had then.
    """

    def __init__(self, client: MetastoreClient) -> None:
        self.seen: list[tuple[float, int]] = []
        self._client = client
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> DeltaCounts:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with self._client.clone() as client:
            while not self._is_over.wait(_SECONDS_BETWEEN):
                self._count(client)
            self._count(client)

    def _count(self, client: MetastoreClient) -> None:
        try:
            reports = partition_deltas(client, NAME, small_bytes=0, count_rows=False)
            self.seen.append((time.time(), sum(report.deltas for report in reports)))
        except StreamingError:
            return  # the snapshot was older than a folder that was cleaned meanwhile: the next count has another one
