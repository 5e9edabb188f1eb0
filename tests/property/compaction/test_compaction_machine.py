"""The state machine of compactions, for as long as a gate may take; `tests/soak` runs it for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.compaction.machine import CompactionMachine

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has a cleaner of its own"),
    pytest.mark.one_embedded,
    pytest.mark.on_both,
]

EXAMPLES, A_FEW = 20, 4


def test_any_history_of_compactions_keeps_every_snapshot(request: pytest.FixtureRequest, metastore_kind: str) -> None:
    """On PostgreSQL a few histories gate; with `--metastores=all` there are as many as on SQLite."""
    is_sample = metastore_kind == "postgres" and request.config.getoption("--metastores") == "embedded"
    limits = settings(
        max_examples=A_FEW if is_sample else EXAMPLES,
        stateful_step_count=30,
        suppress_health_check=[HealthCheck.too_slow],
    )
    machine = CompactionMachine if metastore_kind == "sqlite" else _on(request.getfixturevalue("postgres_server"))
    run_state_machine_as_test(machine, settings=limits)


def _on(server: PostgresServer) -> type[CompactionMachine]:
    class OnPostgres(CompactionMachine):
        def __init__(self) -> None:
            super().__init__(server.database)

    return OnPostgres
