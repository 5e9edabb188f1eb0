"""Health checks of the writers of this process: heartbeats, commits, and Kafka consumers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from hive_ingest.connection import ConnectionActivity
from hive_ingest.errors import ConfigurationError

if TYPE_CHECKING:
    from hive_ingest.streaming.kafka import KafkaIngestStats, KafkaRouteStats


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """When `/health` reports a problem.

    Attributes:
        max_heartbeat_age_seconds: The last answered heartbeat of an open transaction is older. None: half the
            transaction timeout, after which nothing can be committed.
        max_commit_age_seconds: A connection has been open for this time and has not committed within it; for a route
            from Kafka, only while it has a lag. None: not checked, as an input may have nothing to write.
        max_poll_age_seconds: A Kafka consumer has not polled for this time. None: the group's `max.poll.interval.ms`.
    """

    max_heartbeat_age_seconds: float | None = None
    max_commit_age_seconds: float | None = None
    max_poll_age_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise ConfigurationError(f"HealthLimits({name}={value!r}): give a number of seconds above 0, or None")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a process is not healthy.

    Attributes:
        check: `heartbeat_age`, `commit_age`, `poll_age`, `not_consuming`, `kafka_stats` or `metastore`.
        subject: The table, with its sink in parentheses; or the consumer group.
        message: What is wrong, with the limit.
    """

    check: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of `/health`. Healthy without problems."""

    problems: tuple[Problem, ...] = ()
    connections: tuple[ConnectionActivity, ...] = ()
    kafka: tuple[KafkaIngestStats, ...] = ()
    commit_ages: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def is_healthy(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """As `/health` shows it."""
        return {
            "status": "ok" if self.is_healthy else "failing",
            "problems": [asdict(each) for each in self.problems],
            "connections": [
                {
                    "table": str(each.table),
                    "sink": each.sink,
                    "open_transactions": each.open_transactions,
                    "heartbeat_age_seconds": _rounded(each.heartbeat_age_seconds),
                    "commit_age_seconds": _rounded(self.commit_ages.get((str(each.table), each.sink))),
                }
                for each in self.connections
            ],
            "kafka": [
                {
                    "group": each.group_id,
                    "is_running": each.is_running,
                    "assigned_partitions": len(each.partitions),
                    "lag": each.lag,
                    "poll_age_seconds": _rounded(each.poll_age_seconds),
                }
                for each in self.kafka
            ],
        }


class HealthChecks:
    """Applies the limits. Its only state is since when each route has had a lag without a commit."""

    def __init__(self, limits: HealthLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        #: By group, topic and table: the number of commits, and when they were first seen with a lag.
        self._lagging: dict[tuple[str, str, str], tuple[int, float]] = {}

    def check(
        self,
        connections: Iterable[ConnectionActivity],
        commit_ages: dict[tuple[str, str], float],
        kafka: Iterable[KafkaIngestStats],
        errors: Iterable[Problem] = (),
    ) -> Health:
        """Apply the limits.

        Args:
            connections: Those that are open.
            commit_ages: Seconds since the last commit, by table and sink.
            kafka: The ingests that are watched.
            errors: Problems that occurred while these were read.
        """
        open_now, ingests = tuple(connections), tuple(kafka)
        of_kafka = {(each.table, each.sink) for stats in ingests for each in stats.routes}
        problems = [
            *errors,
            *(problem for each in open_now for problem in self._heartbeat(each)),
            *(
                problem
                for each in open_now
                if (str(each.table), each.sink) not in of_kafka
                for problem in self._commit(each, commit_ages.get((str(each.table), each.sink)))
            ),
            *(problem for each in ingests for problem in self._ingest(each)),
        ]
        return Health(tuple(problems), open_now, ingests, commit_ages)

    def _heartbeat(self, connection: ConnectionActivity) -> Iterator[Problem]:
        age, limit = connection.heartbeat_age_seconds, self._limits.max_heartbeat_age_seconds
        if limit is None:
            limit = connection.txn_timeout_seconds / 2
        if age is not None and age > limit:
            yield Problem(
                "heartbeat_age",
                _subject(str(connection.table), connection.sink),
                f"the metastore answered the last heartbeat {age:.0f} s ago, the limit is {limit:.0f} s: check that "
                "the metastore can be reached",
            )

    def _commit(self, connection: ConnectionActivity, age: float | None) -> Iterator[Problem]:
        limit = self._limits.max_commit_age_seconds
        age = connection.open_seconds if age is None else min(age, connection.open_seconds)
        if limit is not None and age > limit:
            yield Problem(
                "commit_age",
                _subject(str(connection.table), connection.sink),
                f"no commit for {age:.0f} s, the limit is {limit:.0f} s",
            )

    def _ingest(self, stats: KafkaIngestStats) -> Iterator[Problem]:
        if not stats.is_running:
            yield Problem("not_consuming", stats.group_id, "the consumer is not running: see the log")
            return
        limit = self._limits.max_poll_age_seconds or stats.max_poll_interval_seconds
        if limit is not None and stats.poll_age_seconds is not None and stats.poll_age_seconds > limit:
            yield Problem(
                "poll_age",
                stats.group_id,
                f"the last poll was {stats.poll_age_seconds:.0f} s ago, the limit is {limit:.0f} s: the group gives "
                "the partitions to other instances",
            )
        for route in stats.routes:
            yield from self._route(stats, route)

    def _route(self, stats: KafkaIngestStats, route: KafkaRouteStats) -> Iterator[Problem]:
        limit, now = self._limits.max_commit_age_seconds, self._clock()
        lag = sum(each.lag or 0 for each in stats.partitions if (each.topic, each.table) == (route.topic, route.table))
        key = stats.group_id, route.topic, route.table
        with self._lock:
            if not lag:
                self._lagging.pop(key, None)
                return
            commits, since = self._lagging.get(key, (-1, now))
            if commits != route.commits:
                since = now
            self._lagging[key] = route.commits, since
        if limit is not None and now - since > limit:
            yield Problem(
                "commit_age",
                _subject(route.table, route.sink),
                f"no commit for {now - since:.0f} s with a lag of {lag} on topic {route.topic}, the limit is "
                f"{limit:.0f} s",
            )


def _subject(table: str, sink: str) -> str:
    return f"{table} ({sink})" if sink else table


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
