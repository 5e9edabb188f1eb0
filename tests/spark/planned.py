"""Micro-batches without a streaming query: checkpoints as Spark would leave them, for calls of a sink."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

_scratch = tempfile.TemporaryDirectory(prefix="checkpoints-")


def plan_batches(folder: Path, query_id: str = "q", batches: int = 100, *, planned_ms: int = 1) -> str:
    """A checkpoint in which the first batches are planned, at a time of their own; its path."""
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    for batch_id in range(batches):
        metadata = json.dumps({"batchTimestampMs": planned_ms + batch_id})
        (folder / "offsets" / str(batch_id)).write_text(f'v1\n{metadata}\n{{"logOffset":{batch_id}}}')
    return str(folder)


@functools.cache
def checkpoint_of(query_id: str = "q") -> str:
    """The one checkpoint of this query, gone when the process ends."""
    return plan_batches(Path(_scratch.name, query_id), query_id)
