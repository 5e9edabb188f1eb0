"""Tasks that die at every step: Spark runs them again, and every row is there once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hive_ingest.faults import JOINED_FAULT_POINTS
from tests.spark.arms import Arms
from tests.spark.driver import Driver
from tests.spark.installation import LOCAL_CLUSTER, Installation
from tests.spark.streams import Streams, streams_in

pytestmark = pytest.mark.one_embedded

Install = Callable[..., Installation]
Start = Callable[..., Driver]

#: So small that every task spills.
SINK = {"settings": {"spill_chunk_bytes": 4096, "min_spill_bytes": 4096}}


@pytest.fixture
def arms(tmp_path: Path) -> Arms:
    return Arms(tmp_path / "arms")


@pytest.fixture
def streams(metastore_uri: str, tmp_path: Path) -> Iterator[Streams]:
    with streams_in(tmp_path / "streams", metastore_uri, rows_per_file=2000) as streams:
        yield streams


def fail_once_a_batch(streams: Streams, driver: Driver, arms: Arms, plan: Sequence[tuple[str, str]]) -> None:
    """In each batch one attempt of a task has the accident that `plan` says: (fault point, action)."""
    for batch_id, (point, action) in enumerate(plan):
        driver.wait_for(f"held web.numbers before_batch {batch_id}")
        arms.arm(point, action)
        streams.release(batch_id)
        driver.wait_for(f"batch web.numbers {batch_id} committed")
        assert arms.is_hit(point), f"no task came to {point}"


@pytest.mark.parametrize(
    ("where", "actions"),
    [("local[2,4]", ("kill", "raise")), (LOCAL_CLUSTER, ("kill", "kill-executor"))],
    ids=["local", "cluster"],
)
def test_a_task_that_dies_at_any_step_is_run_again_and_every_row_is_there_once(
    install_spark: Install, start_driver: Start, streams: Streams, arms: Arms, where: str, actions: Sequence[str]
) -> None:
    plan = list(itertools.product(JOINED_FAULT_POINTS, actions))
    streams.add("numbers", "both", point="before_batch", batch_id=None)
    streams.input.add_batches(len(plan))
    installation = install_spark(master=where, conf=arms.conf)

    driver = streams.drive(start_driver, installation, environ=arms.environ, sink=SINK)
    fail_once_a_batch(streams, driver, arms, plan)

    assert driver.wait().returncode == 0
    streams.assert_all_once()
    assert streams.tables.hidden("web.numbers") == []
