"""Outages and zombies: what an ingest waits for, what it gives up, and what it never writes twice."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.connection import CommitInfo
from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.streaming.kafka import KafkaIngest, KafkaRoute, MessageColumns
from hive_ingest.testing import CrashPoint
from tests.kafka.landing import Landing, landing_in
from tests.services.kafka import KafkaBroker
from tests.services.kinds import Address
from tests.support.rows import ids
from tests.support.warehouses import store_path, warehouse_in


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.one_embedded
@pytest.mark.parametrize("point", ["after_progress_read", "after_messages_written", "between_renames"])
def test_a_zombie_is_replaced_after_the_grace_and_writes_nothing_when_it_wakes_up(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path, point: str
) -> None:
    """Its transaction would stay open for minutes: the group has assigned its partitions to another instance."""
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(300.0), partitions=2) as landing:
        landing.produce(100)
        zombie = landing.start(CrashPoint(point, 1, signal.SIGSTOP))
        landing.wait_until(lambda: is_stopped(zombie.process.pid), "the first instance stops")
        other = landing.start()
        landing.wait_for_all(other)
        zombie.process.send_signal(signal.SIGCONT)
        landing.produce(100)
        landing.wait_for_all(zombie, other)
        for instance in (zombie, other):
            assert instance.stop() == 0, instance.log[-3000:]
        landing.check()
        assert "of a previous owner" in other.log
        leftovers = [
            path for path in store_path(warehouse_in(landing.folder)).rglob(".hive_ingest/*") if path.is_file()
        ]
        assert leftovers == [], "the zombie left files behind"


@pytest.mark.one_embedded
def test_a_broker_that_is_killed_and_started_again_interrupts_and_loses_nothing(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(20.0), partitions=2) as landing:
        instance = landing.start()
        landing.produce(100)
        landing.wait_for_all(instance)
        kafka_broker.stop()
        kafka_broker.start()
        landing.produce(100)
        landing.wait_for_all(instance)
        assert instance.stop() == 0, instance.log[-3000:]
        landing.check()


class Outage:
    """A client whose calls fail while the metastore is away; clones have the same metastore."""

    def __init__(self, client: Any, calls: list[int]) -> None:
        self._client = client
        self._failing = calls

    def clone(self) -> Outage:
        return Outage(self._client.clone(), self._failing)

    def __enter__(self) -> Outage:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found) or name == "close":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._failing[0] > 0:
                self._failing[0] -= 1
                raise MetastoreUnavailable(f"no answer to {name} (on purpose)")
            return found(*args, **kwargs)

        return call


def in_process(landing: Landing, client: Any, **options: Any) -> KafkaIngest:
    return KafkaIngest(
        metastore=client,
        bootstrap_servers=landing.broker.bootstrap_servers,
        group_id=f"group-{landing.topic}",
        routes=[
            KafkaRoute(
                topic=landing.topic,
                table="web.events",
                record_writer=hi.StrictJsonWriter(),
                columns=MessageColumns(partition="kafka_partition", offset="kafka_offset"),
            )
        ],
        **options,
    )


@pytest.mark.one_embedded
@pytest.mark.parametrize("commits_before", [0, 1, 2])
def test_an_outage_of_the_metastore_at_any_time_interrupts_and_loses_nothing(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path, commits_before: int
) -> None:
    failing = [0 if commits_before else 3]
    commits: list[CommitInfo] = []

    def on_commit(info: CommitInfo) -> None:
        commits.append(info)
        if len(commits) == commits_before:
            failing[0] = 4

    with landing_in(tmp_path, kafka_broker, metastore_timing_out(20.0), partitions=2) as landing:
        landing.produce(100)
        client = Outage(landing.client, failing)
        in_process(landing, client, max_rows=20, on_commit=on_commit).run(until_end=True)
        assert failing == [0]
        landing.check()


@pytest.mark.one_embedded
def test_an_outage_of_the_metastore_that_does_not_end_is_raised(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    with landing_in(tmp_path, kafka_broker, metastore_timing_out(20.0)) as landing:
        landing.produce(10)
        failing = [1_000_000]
        with pytest.raises(MetastoreUnavailable) as error:
            in_process(landing, Outage(landing.client, failing), retry_seconds=1).run(until_end=True)
        assert any("retry_seconds" in note for note in error.value.__notes__)


@pytest.mark.one_embedded
def test_messages_wait_in_bounded_memory_while_a_commit_takes_long_and_the_group_keeps_its_member(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    queued: list[int] = []

    with landing_in(tmp_path, kafka_broker, metastore_timing_out(60.0)) as landing:
        landing.produce(5_000)
        ended = threading.Event()

        def on_commit(info: CommitInfo) -> None:
            """Longer than the group waits for a poll."""
            if not queued:
                ended.wait(9.0)
            queued.append(running.stats.queue_bytes)

        running = in_process(
            landing,
            landing.client,
            max_rows=100,
            queue_max_bytes=100_000,
            on_commit=on_commit,
            kafka_options={
                "max_poll_interval_ms": 6_000,
                "session_timeout_ms": 6_000,
                "heartbeat_interval_ms": 500,
                "max_poll_records": 50,
            },
        )
        running.run(until_end=True)
        landing.check()
    assert max(queued) <= 100_000 + 50 * 1_000
    assert running.stats.rebalances <= 2, "the group expelled it"


@pytest.mark.one_embedded
def test_a_bad_message_stops_the_ingest_and_names_the_message(
    kafka_broker: KafkaBroker, metastore_timing_out: Callable[[float], Address], tmp_path: Path
) -> None:
    from kafka import KafkaProducer

    with landing_in(tmp_path, kafka_broker, metastore_timing_out(60.0)) as landing:
        landing.produce(10)
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
        producer.send(landing.topic, b"{", partition=0).get(timeout=60)
        producer.close()
        with pytest.raises(hi.SerializationError, match=f"offset 10 of {landing.topic}-0"):
            in_process(landing, landing.client).run(until_end=True)
        assert ids(landing.client, "web.events") == []
        assert landing.client.show_locks() == []
