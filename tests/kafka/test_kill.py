"""Whatever step an instance dies at, and however often: every message is a row once, in order."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hive_ingest.faults import FAULT_POINTS, KAFKA_FAULT_POINTS
from hive_ingest.testing import CrashPoint
from tests.kafka.landing import landing_in
from tests.services.kafka import KafkaBroker
from tests.services.kinds import Address

MESSAGES = 200
#: That an undisturbed instance passes.
POINTS = tuple(
    point
    for point in (*KAFKA_FAULT_POINTS, *FAULT_POINTS)
    if point
    not in (
        "lock_waiting",
        "after_spill",
        "after_create_partitions",
        "after_add_dynamic_partitions",
        "commit_before_answer",
    )
)


@pytest.mark.one_embedded
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_step_and_restarted_every_message_is_there_once(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path, point: str
) -> None:
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(5.0), partitions=2) as landing:
        landing.produce(MESSAGES)
        occurrence = 1 if point in ("after_assignment", "after_seek", "after_revocation", "after_poll") else 2
        killed = landing.start(CrashPoint(point, occurrence, signal.SIGKILL), until_end=True)
        assert killed.wait() == -signal.SIGKILL, f"{point} was never hit: {killed.log[-3000:]}"
        assert landing.check_so_far() >= killed.committed, "rows that were reported as committed are gone"
        restarted = landing.start(until_end=True)
        assert restarted.wait() == 0, restarted.log[-3000:]
        landing.check()
