"""The long count of `tests/kafka/test_rebalances.py`: a hundred instances of one group die, some after a sleep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.churn import Churn
from tests.kafka.landing import landing_in
from tests.services.kafka import KafkaBroker
from tests.services.kinds import Address


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1])
def test_a_hundred_instances_that_die_and_sleep_lose_and_duplicate_nothing(
    seed: int, kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(20.0), partitions=6) as landing:
        churn = Churn(landing, seed)
        churn.run(deaths=100)
        assert churn.zombies > 5, "hardly any instance slept: the test tests less than it says"
