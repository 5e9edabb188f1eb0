"""Several instances share a topic: partitions move between them, and every message is a row once, in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.churn import Churn
from tests.kafka.landing import landing_in
from tests.services.kafka import KafkaBroker
from tests.services.kinds import Address


def test_instances_that_die_and_sleep_at_any_step_lose_and_duplicate_nothing(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(20.0), partitions=6) as landing:
        Churn(landing, seed=20261122).run(deaths=5)


@pytest.mark.one_embedded
def test_partitions_move_to_instances_that_come_and_back_from_those_that_go(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(20.0), partitions=4) as landing:
        first = landing.start()
        landing.produce(100)
        landing.wait_for_all(first)
        second = landing.start()
        landing.wait_until(lambda: "assigned: topic" in second.log, "the second instance gets partitions")
        landing.produce(100)
        landing.wait_for_all(first, second)
        assert first.stop() == 0, first.log[-3000:]
        landing.produce(100)
        landing.wait_for_all(second)
        assert second.committed > 0
        assert second.stop() == 0, second.log[-3000:]
        landing.check()
