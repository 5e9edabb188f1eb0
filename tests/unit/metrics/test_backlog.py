"""Deltas of partitions, as initiators see them."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from hive_ingest.events import CompactionEnded, PartitionExamined, report
from hive_ingest.metrics import Metrics, backlog
from hive_ingest.metrics.backlog import Backlog


def examined(partition: str, deltas: int, table: str = "web.t") -> PartitionExamined:
    return PartitionExamined(table, partition, deltas=deltas, delta_bytes=deltas * 100, base_bytes=1000)


def compacted(partition: str, state: str = "succeeded") -> CompactionEnded:
    return CompactionEnded("web.t", partition, type="minor", state=state, file_bytes=1, seconds=1.0)


def test_the_latest_look_at_each_partition_counts() -> None:
    seen = Backlog()
    for event in (examined("p=1", 9), examined("p=2", 4), examined("p=1", 2), examined("", 1, "web.u")):
        seen.examined(event)

    found = seen.tables()
    assert (found["web.t"].deltas, found["web.t"].delta_bytes, found["web.t"].max_deltas) == (6, 600, 4)
    assert found["web.t"].partitions == {"p=1": 2, "p=2": 4}
    assert found["web.u"].deltas == 1


@pytest.mark.parametrize(("state", "left"), [("succeeded", {}), ("failed", {"p=1": 9}), ("initiated", {"p=1": 9})])
def test_a_partition_is_forgotten_once_it_is_compacted(state: str, left: dict[str, int]) -> None:
    seen = Backlog()
    seen.examined(examined("p=1", 9))
    seen.compacted(compacted("p=1", state))
    assert {name: count for each in seen.tables().values() for name, count in each.partitions.items()} == left


def test_a_partition_that_nobody_looks_at_any_more_is_forgotten() -> None:
    now = [0.0]
    seen = Backlog(clock=lambda: now[0])
    seen.examined(examined("p=1", 9))
    now[0] = backlog.FORGET_SECONDS - 1
    seen.examined(examined("p=2", 4))
    assert seen.tables()["web.t"].deltas == 13
    now[0] += 2
    assert seen.tables()["web.t"].deltas == 4


def test_the_number_of_partitions_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "MAX_PARTITIONS", 2)
    seen = Backlog()
    for number in range(4):
        seen.examined(examined(f"p={number}", number))
    assert set(seen.tables()["web.t"].partitions) == {"p=2", "p=3"}


def test_partitions_have_series_of_their_own_only_if_asked(registry: CollectorRegistry) -> None:
    labels = {"table": "web.t", "partition": "p=1"}
    with Metrics(registry):
        report(examined("p=1", 9))
        assert registry.get_sample_value("hive_ingest_deltas", {"table": "web.t"}) == 9
        assert registry.get_sample_value("hive_ingest_max_deltas", {"table": "web.t"}) == 9
        assert registry.get_sample_value("hive_ingest_delta_bytes", {"table": "web.t"}) == 900
        assert registry.get_sample_value("hive_ingest_partition_deltas", labels) is None
    with Metrics(registry, partition_labels=True):
        report(examined("p=1", 9))
        assert registry.get_sample_value("hive_ingest_partition_deltas", labels) == 9
