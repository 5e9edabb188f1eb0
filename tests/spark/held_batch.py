"""One batch of a held query, run while something goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.streams import Streams


def run_held_batch(
    streams: Streams,
    driver: Driver,
    arms: Arms,
    batch_id: int,
    *,
    point: str | None = None,
    action: str = "",
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Release the batch of `web.numbers`, which is held at `before_batch`, and wait until it is committed.

    Args:
        streams: Has the query.
        driver: Runs it.
        arms: For `point`.
        batch_id: The batch.
        point: A fault point of the tasks, which one of them must reach.
        action: What happens there (see `armed_daemon`). An attempt that sleeps is woken after the commit.
        meanwhile: Called while the batch is held.
    """
    driver.wait_for(f"held web.numbers before_batch {batch_id}")
    if point is not None:
        arms.arm(point, action)
    if meanwhile is not None:
        meanwhile()
    streams.release(batch_id)
    driver.wait_for(f"batch web.numbers {batch_id} committed")
    if point is not None:
        assert arms.is_hit(point), f"no task came to {point}"
        arms.wake(point)
