"""Events become counters, histograms and timestamps."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from hive_ingest.errors import ConfigurationError
from hive_ingest.events import CommitUnknown, CompactionEnded, TransactionAborted, TransactionCommitted, report
from hive_ingest.metrics import Metrics, counters
from hive_ingest.metrics.backlog import Backlog

EVENTS = {"table": "web.events", "sink": "landing"}


def committed(table: str = "web.events", sink: str = "landing", **values: float) -> TransactionCommitted:
    numbers = {"rows": 10, "files": 2, "file_bytes": 500, "bad_records": 1, "begin_seconds": 0.2, "commit_seconds": 0.3}
    return TransactionCommitted(table, sink, txn_id=1, write_id=1, **{**numbers, **values})  # type: ignore[arg-type]


def compacted(state: str) -> CompactionEnded:
    return CompactionEnded("web.events", "", type="major", state=state, file_bytes=700, seconds=2.0)


def test_commits_are_counted_by_table_and_sink(metrics: Metrics, registry: CollectorRegistry) -> None:
    report(committed())
    report(committed(rows=5))
    report(committed("web.other", ""))

    values = {
        "hive_ingest_commits_total": 2,
        "hive_ingest_rows_total": 15,
        "hive_ingest_files_total": 4,
        "hive_ingest_file_bytes_total": 1000,
        "hive_ingest_bad_records_total": 2,
        "hive_ingest_begin_duration_seconds_count": 2,
        "hive_ingest_commit_duration_seconds_sum": 0.6,
    }
    assert {name: registry.get_sample_value(name, EVENTS) for name in values} == pytest.approx(values)
    assert registry.get_sample_value("hive_ingest_rows_total", {"table": "web.other", "sink": ""}) == 10


def test_the_time_of_the_last_commit_is_a_timestamp(registry: CollectorRegistry) -> None:
    made = counters.Counters(registry, Backlog(), clock=lambda: 1234.5)
    made(committed())
    assert registry.get_sample_value("hive_ingest_last_commit_timestamp_seconds", EVENTS) == 1234.5


def test_aborts_and_unknown_commits_are_counted(metrics: Metrics, registry: CollectorRegistry) -> None:
    report(TransactionAborted("web.events", "landing", 1, "aborted by its owner"))
    report(CommitUnknown("web.events", "landing", 2))

    assert registry.get_sample_value("hive_ingest_aborts_total", EVENTS) == 1
    assert registry.get_sample_value("hive_ingest_unknown_commits_total", EVENTS) == 1


def test_the_counters_of_a_table_start_at_zero_together(metrics: Metrics, registry: CollectorRegistry) -> None:
    report(TransactionAborted("web.events", "landing", 1, "aborted by its owner"))
    assert registry.get_sample_value("hive_ingest_rows_total", EVENTS) == 0


def test_compactions_are_counted_by_how_they_ended(metrics: Metrics, registry: CollectorRegistry) -> None:
    for state in ("succeeded", "succeeded", "failed"):
        report(compacted(state))

    labels = {"table": "web.events", "type": "major"}
    assert registry.get_sample_value("hive_ingest_compactions_total", {**labels, "state": "succeeded"}) == 2
    assert registry.get_sample_value("hive_ingest_compactions_total", {**labels, "state": "failed"}) == 1
    assert registry.get_sample_value("hive_ingest_compacted_file_bytes_total", labels) == 1400
    assert registry.get_sample_value("hive_ingest_compaction_duration_seconds_count", {"type": "major"}) == 2


def test_a_process_that_writes_very_many_tables_has_a_limited_number_of_series(
    monkeypatch: pytest.MonkeyPatch, metrics: Metrics, registry: CollectorRegistry
) -> None:
    monkeypatch.setattr(counters, "MAX_TABLES", 3)
    for number in range(5):
        report(committed(f"web.t{number}", ""))

    assert registry.get_sample_value("hive_ingest_rows_total", {"table": "web.t2", "sink": ""}) == 10
    assert registry.get_sample_value("hive_ingest_rows_total", {"table": "web.t3", "sink": ""}) is None
    assert registry.get_sample_value("hive_ingest_rows_total", {"table": "(other)", "sink": ""}) == 20


def test_a_registry_holds_the_metrics_once(metrics: Metrics, registry: CollectorRegistry) -> None:
    with pytest.raises(ConfigurationError, match="this registry has the metrics of hive-ingest already"):
        Metrics(registry)
    report(committed())
    assert registry.get_sample_value("hive_ingest_rows_total", EVENTS) == 10


def test_closed_metrics_leave_the_registry_and_can_be_made_again(registry: CollectorRegistry) -> None:
    first = Metrics(registry)
    report(committed())
    first.close()
    first.close()
    assert not [*registry.collect()]

    with Metrics(registry):
        report(committed())
        assert registry.get_sample_value("hive_ingest_rows_total", EVENTS) == 10


def test_two_registries_each_count_everything(metrics: Metrics, registry: CollectorRegistry) -> None:
    other = CollectorRegistry()
    with Metrics(other):
        report(committed())
        for each in (registry, other):
            assert each.get_sample_value("hive_ingest_rows_total", EVENTS) == 10
