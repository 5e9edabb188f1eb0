"""Sinks that stop at a named fault point until they are told to go on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from hive_ingest.faults import ALL_FAULT_POINTS, set_hook
from hive_ingest.streaming.spark import HiveSink

_thread = threading.local()


class HeldSink(HiveSink):
    """Stops in batch `batch_id` at `point`, the first time that it comes there, as long as `go_on` is no file.

    Prints "held <table> <point>" there. Each batch runs on one thread, so several sinks of a process are held each at
    a point of its own.
    """

    def __init__(self, *, point: str, batch_id: int, go_on: Path, **options: Any) -> None:
        super().__init__(**options)
        assert point in ALL_FAULT_POINTS
        self._point, self._held_batch, self._go_on = point, batch_id, go_on

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        _thread.sink = self if batch_id == self._held_batch else None
        super().__call__(df, batch_id)

    def hold(self, point: str) -> None:
        if point != self._point:
            return
        _thread.sink = None
        print("held", self._target.table, point, flush=True)
        while not self._go_on.exists():
            time.sleep(0.02)


def _reached(point: str) -> None:
    sink = getattr(_thread, "sink", None)
    if sink is not None:
        sink.hold(point)


def arm() -> None:
    set_hook(_reached)
