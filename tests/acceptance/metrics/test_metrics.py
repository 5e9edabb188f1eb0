"""What connections, pipelines and compactions of a process do is counted, on every metastore."""

from __future__ import annotations

import logging
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metrics import HealthLimits, Metrics
from hive_ingest.model import CompactionType
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.services.kinds import Address
from tests.support.connections import connect
from tests.support.metastores import connect_in
from tests.support.tables import create_table
from tests.support.waiting import wait_until

PLAIN = {"table": "web.t", "sink": ""}


@pytest.fixture
def registry() -> Iterator[CollectorRegistry]:
    made = CollectorRegistry()
    with Metrics(made):
        yield made


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_table(metastore)
    return metastore


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"hive_ingest_{name}", labels or PLAIN)


def test_what_connections_commit_and_abort_is_counted(ms: MetastoreClient, registry: CollectorRegistry) -> None:
    with connect(ms, record_writer=hi.StrictJsonWriter(on_error="skip")) as connection:
        with connection.transaction():
            connection.write([b'{"id": 1}', b"not JSON", b'{"id": 2}'])
        connection.begin_transaction()
        connection.write([b'{"id": 3}'])
        connection.abort_transaction()
        size = connection.stats.bytes_committed

    expected = {"commits": 1, "rows": 2, "files": 1, "file_bytes": size, "aborts": 1, "bad_records": 1}
    assert {name: value(registry, f"{name}_total") for name in expected} == expected
    assert value(registry, "commit_duration_seconds_count") == 1
    assert value(registry, "last_commit_timestamp_seconds") is not None


def test_what_pipelines_write_is_counted_without_being_passed_to_them(
    ms: MetastoreClient, registry: CollectorRegistry
) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    hi.append(ms, "web.t", rows, sink="nightly", source="s", position=1)
    hi.append(ms, "web.t", rows, sink="nightly", source="s", position=1)

    assert value(registry, "rows_total", table="web.t", sink="nightly") == 3
    assert value(registry, "commits_total", table="web.t", sink="nightly") == 1
    assert value(registry, "aborts_total", table="web.t", sink="nightly") == 1, "the repeated call wrote nothing"


def test_gauges_are_those_of_open_connections_and_counters_stay(
    ms: MetastoreClient, registry: CollectorRegistry
) -> None:
    with connect(ms, transaction_batch_size=3) as first, connect(ms):
        assert value(registry, "connections") == 2
        assert value(registry, "open_transactions") == 0
        assert value(registry, "heartbeat_age_seconds") is None
        first.begin_transaction()
        first.write([b'{"id": 1}'])
        assert value(registry, "open_transactions") == 3
        age = value(registry, "heartbeat_age_seconds")
        assert age is not None
        assert 0 <= age < ms.txn_timeout_seconds
        assert value(registry, "transaction_timeout_seconds") == ms.txn_timeout_seconds
        first.commit_transaction()
        assert value(registry, "open_transactions") == 2

    assert value(registry, "connections") is None
    assert value(registry, "open_transactions") is None
    assert value(registry, "rows_total") == 1


def test_a_connection_that_was_not_closed_leaves_the_gauges_and_counts_as_an_abort(
    ms: MetastoreClient, registry: CollectorRegistry
) -> None:
    connection = connect(ms)
    connection.begin_transaction()
    assert value(registry, "open_transactions") == 1
    with pytest.warns(ResourceWarning, match="was not closed"):
        del connection
    wait_until(lambda: value(registry, "connections") is None)
    assert value(registry, "aborts_total") == 1


def test_a_connection_that_another_thread_closes_counts_one_abort(
    ms: MetastoreClient, registry: CollectorRegistry
) -> None:
    connection = connect(ms)
    connection.begin_transaction()
    thread = threading.Thread(target=connection.close)
    thread.start()
    thread.join()
    assert value(registry, "connections") is None
    assert value(registry, "aborts_total") == 1


def test_a_commit_whose_response_is_lost_is_counted_as_unknown(
    ms: MetastoreClient, registry: CollectorRegistry
) -> None:
    with connect(ms) as connection:
        connection.begin_transaction()
        connection.write([b'{"id": 1}'])
        with faults(CrashPoint("after_commit_txn")), pytest.raises(FaultError):
            connection.commit_transaction()
    assert value(registry, "unknown_commits_total") == 1
    assert value(registry, "commits_total") == 0


def test_threads_share_the_counters(ms: MetastoreClient, registry: CollectorRegistry) -> None:
    def write(number: int) -> None:
        with connect(ms) as connection:
            for _ in range(3):
                with connection.transaction():
                    connection.write([b'{"id": %d}' % number] * 5)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(registry, "rows_total") == 60
    assert value(registry, "commits_total") == 12


def test_a_scrape_during_commits_sees_whole_transactions(ms: MetastoreClient) -> None:
    with Metrics(CollectorRegistry()) as metrics, metrics.serve(0) as server, connect(ms) as connection:
        for _ in range(5):
            with connection.transaction():
                connection.write([b'{"id": 1}'] * 10)
            with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        assert 'hive_ingest_rows_total{sink="",table="web.t"} 50.0' in text
        with urllib.request.urlopen(f"{server.url}/health", timeout=60) as answer:
            assert answer.status == 200


@pytest.mark.one_embedded
def test_a_process_is_unhealthy_while_its_heartbeats_are_not_answered(
    metastore_timing_out: Callable[[float], Address], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = metastore_timing_out(12)
    with (
        connect_in(tmp_path, address.uri, **address.options) as client,
        Metrics(CollectorRegistry(), limits=HealthLimits(max_heartbeat_age_seconds=5)) as metrics,
    ):
        create_table(client)
        with connect(client) as connection:
            connection.begin_transaction()
            assert metrics.health().is_healthy
            with monkeypatch.context() as outage:
                outage.setattr(type(client), "heartbeat_txn_range", _unreachable)
                wait_until(lambda: not metrics.health().is_healthy)
                [problem] = metrics.health().problems
                assert (problem.check, problem.subject) == ("heartbeat_age", "web.t")
            wait_until(lambda: metrics.health().is_healthy)
            connection.write([b'{"id": 1}'])
            connection.commit_transaction()


def _unreachable(*_: object) -> None:
    raise hi.MetastoreUnavailable("no route to host")


def test_commits_and_aborts_are_logged_with_the_fields_of_their_transaction(
    ms: MetastoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hive_ingest.connection")
    with connect(ms, sink="landing", sources=["s"]) as connection:
        connection.begin_transaction()
        committed, write_id = connection.txn_id, connection.write_id
        connection.write([b'{"id": 1}'])
        connection.commit_transaction(positions={"s": 1})
        connection.begin_transaction()
        aborted = connection.txn_id
        connection.abort_transaction()

    first, second = (record.__dict__ for record in caplog.records if record.name == "hive_ingest.connection.activity")
    assert {name: first[name] for name in ("table", "sink", "transaction", "write_id", "rows", "files")} == {
        "table": "web.t",
        "sink": "landing",
        "transaction": committed,
        "write_id": write_id,
        "rows": 1,
        "files": 1,
    }
    assert second["transaction"] == aborted
    assert caplog.records[-1].getMessage() == f"transaction {aborted} of web.t is aborted: aborted by its owner"


@pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has its own initiator")
def test_maintenance_shows_the_backlog_and_its_compactions(ms: MetastoreClient, registry: CollectorRegistry) -> None:
    policy = hi.CompactionPolicy(max_deltas=3)
    with (
        hi.Maintenance(ms, policy=policy, pause_seconds=0.01) as maintenance,
        connect(ms, on_commit=maintenance.on_commit) as connection,
    ):
        with connection.transaction():
            connection.write([b'{"id": 1}'])
        assert maintenance.finish()
        assert value(registry, "deltas", table="web.t") == 1
        for _ in range(5):
            with connection.transaction():
                connection.write([b'{"id": 1}'])
        assert maintenance.finish()

    kinds = [value(registry, "compactions_total", table="web.t", type=kind, state="succeeded") for kind in TYPES]
    assert sum(each or 0 for each in kinds) >= 1
    deltas = value(registry, "deltas", table="web.t")
    assert deltas is None or deltas <= 3


TYPES = ("minor", "major")


def test_the_queue_and_the_transactions_of_a_metastore_are_shown(ms: MetastoreClient) -> None:
    registry = CollectorRegistry()
    with connect(ms) as connection:
        connection.begin_transaction()
        ms.compact("web.t", compaction_type=CompactionType.MAJOR)
        with Metrics(registry, metastore=ms):
            wait_until(lambda: metastore_value(registry, "metastore_up") == 1)
            assert metastore_value(registry, "metastore_open_transactions") == 1
            assert metastore_value(registry, "metastore_oldest_transaction_age_seconds") is not None
            queue = registry.get_sample_value("hive_ingest_compaction_queue", {"state": "initiated"})
            assert queue is not None
    assert not [*registry.collect()]


def test_a_metastore_that_gives_no_answer_is_down_and_a_problem() -> None:
    class Unreachable:
        def clone(self) -> Unreachable:
            return self

        def show_compactions(self) -> None:
            raise hi.MetastoreUnavailable("no route to host")

        def close(self) -> None:
            pass

    registry = CollectorRegistry()
    with Metrics(registry, metastore=Unreachable()) as metrics:  # type: ignore[arg-type]
        wait_until(lambda: metastore_value(registry, "metastore_up") == 0)
        [problem] = metrics.health().problems
        assert (problem.check, problem.message) == ("metastore", "it gave no answer: no route to host")


def metastore_value(registry: CollectorRegistry, name: str) -> float | None:
    return registry.get_sample_value(f"hive_ingest_{name}")
