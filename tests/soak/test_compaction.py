"""The state machine of compactions, for many long histories."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.compaction.machine import CompactionMachine

LONG = settings(
    max_examples=400,
    stateful_step_count=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.timeout(7200)
def test_any_long_history_of_compactions_keeps_every_snapshot() -> None:
    run_state_machine_as_test(CompactionMachine, settings=LONG)
