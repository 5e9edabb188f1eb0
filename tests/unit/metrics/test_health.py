"""When a process is healthy, and what its problems are called."""

from __future__ import annotations

from typing import Any

import pytest

from hive_ingest.connection import ConnectionActivity
from hive_ingest.errors import ConfigurationError
from hive_ingest.metrics import HealthLimits
from hive_ingest.metrics.health import HealthChecks
from hive_ingest.model import TableName
from tests.support.kafka_stats import Ingest

KEY = "web.events", "landing"


def connection(**values: Any) -> ConnectionActivity:
    numbers = {"open_seconds": 100.0, "open_transactions": 1, "heartbeat_age_seconds": 5.0, "txn_timeout_seconds": 60.0}
    return ConnectionActivity(TableName.of("web.events"), "landing", **{**numbers, **values})


def problems(checks: HealthChecks, *connections: ConnectionActivity, **values: Any) -> list[tuple[str, str]]:
    arguments: dict[str, Any] = {"commit_ages": {}, "kafka": (), **values}
    return [(each.check, each.subject) for each in checks.check(connections, **arguments).problems]


def test_a_process_without_connections_is_healthy() -> None:
    health = HealthChecks(HealthLimits(max_commit_age_seconds=1)).check([], {}, [])
    assert health.is_healthy
    assert health.to_json() == {"status": "ok", "problems": [], "connections": [], "kafka": []}


@pytest.mark.parametrize(
    ("age", "limit", "is_healthy"),
    [(29.0, None, True), (31.0, None, False), (31.0, 40.0, True), (12.0, 10.0, False), (None, 10.0, True)],
)
def test_a_heartbeat_may_be_as_old_as_half_the_timeout_or_as_the_limit(
    age: float | None, limit: float | None, is_healthy: bool
) -> None:
    checks = HealthChecks(HealthLimits(max_heartbeat_age_seconds=limit))
    expected = [] if is_healthy else [("heartbeat_age", "web.events (landing)")]
    assert problems(checks, connection(heartbeat_age_seconds=age)) == expected


@pytest.mark.parametrize(
    ("open_seconds", "commit_age", "is_healthy"),
    [(5.0, None, True), (15.0, None, False), (100.0, 5.0, True), (100.0, 15.0, False), (5.0, 100.0, True)],
)
def test_a_connection_must_commit_within_the_limit_since_it_was_opened(
    open_seconds: float, commit_age: float | None, is_healthy: bool
) -> None:
    checks = HealthChecks(HealthLimits(max_commit_age_seconds=10))
    ages = {} if commit_age is None else {KEY: commit_age}
    expected = [] if is_healthy else [("commit_age", "web.events (landing)")]
    assert problems(checks, connection(open_seconds=open_seconds), commit_ages=ages) == expected


def test_commits_may_take_any_time_without_a_limit() -> None:
    assert problems(HealthChecks(HealthLimits()), connection(open_seconds=1e6)) == []


def test_a_route_must_commit_within_the_limit_only_while_it_has_a_lag() -> None:
    now, ingest = [0.0], Ingest()
    checks = HealthChecks(HealthLimits(max_commit_age_seconds=10), clock=lambda: now[0])

    def found() -> list[tuple[str, str]]:
        return problems(checks, connection(open_seconds=1000.0), commit_ages={KEY: 500.0}, kafka=[ingest.stats])

    assert found() == [], "the first look at a lag"
    now[0] = 11
    assert found() == [("commit_age", "web.events (landing)")]
    lagging = ingest.partitions
    ingest.commit_all()
    assert found() == []
    now[0] = 1000
    assert found() == [], "a quiet night"
    ingest.partitions = lagging
    assert found() == [], "the first message of the morning"
    now[0] = 1011
    assert found() == [("commit_age", "web.events (landing)")]


def test_a_commit_that_leaves_a_lag_is_a_commit() -> None:
    now, ingest = [0.0], Ingest()
    checks = HealthChecks(HealthLimits(max_commit_age_seconds=10), clock=lambda: now[0])
    left = ingest.partitions
    for seconds in range(0, 60, 6):
        now[0] = seconds
        assert problems(checks, kafka=[ingest.stats]) == []
        ingest.commit_all()
        ingest.partitions = left


def test_a_consumer_must_run_and_poll() -> None:
    checks = HealthChecks(HealthLimits())
    assert problems(checks, kafka=[Ingest().stats]) == []
    assert problems(checks, kafka=[Ingest(is_running=False).stats]) == [("not_consuming", "landing")]
    assert problems(checks, kafka=[Ingest(poll_age_seconds=301.0).stats]) == [("poll_age", "landing")]
    strict = HealthChecks(HealthLimits(max_poll_age_seconds=0.1))
    assert problems(strict, kafka=[Ingest().stats]) == [("poll_age", "landing")]


def test_the_answer_names_problems_and_shows_ages() -> None:
    checks = HealthChecks(HealthLimits())
    health = checks.check([connection(heartbeat_age_seconds=45.6789)], {KEY: 7.25}, [Ingest().stats])

    answer = health.to_json()
    assert answer["status"] == "failing"
    [problem] = answer["problems"]
    assert problem["message"].startswith("the metastore answered the last heartbeat 46 s ago, the limit is 30 s")
    assert answer["connections"] == [
        {
            "table": "web.events",
            "sink": "landing",
            "open_transactions": 1,
            "heartbeat_age_seconds": 45.679,
            "commit_age_seconds": 7.25,
        }
    ]
    assert answer["kafka"][0]["lag"] == 10


@pytest.mark.parametrize("limit", ["max_heartbeat_age_seconds", "max_commit_age_seconds", "max_poll_age_seconds"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "5"])
def test_a_limit_is_a_number_above_zero(limit: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=limit):
        HealthLimits(**{limit: value})
