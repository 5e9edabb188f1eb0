"""The state machine of compactions, for as long as a gate may take; `tests/soak` runs it for longer."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.property.compaction.machine import CompactionMachine

TestCompactions = CompactionMachine.TestCase
TestCompactions.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
