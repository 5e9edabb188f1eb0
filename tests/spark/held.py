"""Sinks that stop at a named fault point until they are released."""

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
    """Stops in batch `batch_id`, or in each, the first time that it comes to `point`: see `Streams.release`.

    Prints "held <table> <point> <batch>" there. Each batch runs on one thread, so several sinks of a process are held
    each at a point of its own.
    """

    def __init__(self, *, point: str, batch_id: int | None, resume_file: Path, **options: Any) -> None:
        super().__init__(**options)
        assert point in ALL_FAULT_POINTS
        self._point, self._held_batch, self._resume_file = point, batch_id, resume_file

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        is_held = self._held_batch is None or batch_id == self._held_batch
        _thread.held = (self, batch_id) if is_held else None
        super().__call__(df, batch_id)

    def hold(self, point: str, batch_id: int) -> None:
        if point != self._point:
            return
        _thread.held = None
        print("held", self._target.table, point, batch_id, flush=True)
        signs = (self._resume_file, self._resume_file.with_name(f"{self._resume_file.name}-{batch_id}"))
        while not any(sign.exists() for sign in signs):
            time.sleep(0.02)


def _reached(point: str) -> None:
    held = getattr(_thread, "held", None)
    if held is not None:
        sink, batch_id = held
        sink.hold(point, batch_id)


def arm() -> None:
    set_hook(_reached)
