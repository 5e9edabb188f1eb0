"""A query that is killed again and again, at points that a seed chooses; workers are killed meanwhile."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from hive_ingest.faults import BATCH_FAULT_POINTS, FAULT_POINTS, JOINED_FAULT_POINTS
from hive_ingest.testing import CrashPoint
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.spark.numbers import assert_once
from tests.spark.streams import Stream, Streams, streams_in

#: That a batch of an undisturbed query passes.
POINTS = tuple(point for point in (*FAULT_POINTS, *BATCH_FAULT_POINTS) if point not in ("lock_waiting", "after_spill"))
ROWS_A_BATCH = 40


def crash_points(chance: random.Random) -> Iterator[CrashPoint]:
    """All of them in one order, then in another: in the first or the second batch after a restart."""
    while True:
        for point in chance.sample(POINTS, len(POINTS)):
            yield CrashPoint(point, chance.randint(1, 2), signal.SIGKILL)


def check_restarts(
    seed: int,
    restarts: int,
    *,
    folder: Path,
    metastore_uri: str,
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
) -> None:
    """After each kill whole batches are visible and none is gone; after the last start every row is there once."""
    chance = random.Random(seed)
    arms = Arms(folder / "arms")
    installation = install_spark(master="local[2,8]", conf=arms.conf)
    with streams_in(folder / "streams", metastore_uri) as streams:
        stream = streams.add("numbers", "both")
        seen = 0
        for _, crash in zip(range(restarts), crash_points(chance), strict=False):
            streams.input.add_batches(2)
            arms.arm(chance.choice(JOINED_FAULT_POINTS), "kill")
            driver = streams.drive(start_driver, installation, environ=arms.environ | crash.to_environment())
            assert driver.wait().returncode == -signal.SIGKILL, f"seed {seed}: {crash} was never hit\n{driver.err}"
            seen = visible_batches(streams, stream, seen)
        assert streams.drive(start_driver, installation, environ=arms.environ).wait().returncode == 0
        streams.assert_all_once()
        assert streams.tables.hidden(stream.table) == []


def visible_batches(streams: Streams, stream: Stream, before: int) -> int:
    """How many there are; fails when one is there in part, or gone."""
    found = streams.ids(stream)
    batches = len(found) // ROWS_A_BATCH
    assert_once(found, streams.input.ids[: batches * ROWS_A_BATCH])
    assert batches >= before, "a committed batch is gone"
    return batches
