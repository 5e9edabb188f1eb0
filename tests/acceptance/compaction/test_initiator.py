"""Hive's own cases of the initiator (`TestInitiator`), each with the name of Hive's in snake case."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hive_ingest.compaction import CompactionPolicy, Worker
from hive_ingest.errors import MetastoreError
from hive_ingest.identity import this_host
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionCandidate, CompactionResponse, CompactionState
from tests.support.compactions import FAST, MAJOR, MINOR, Compacted, initiate, requested
from tests.support.fronts import Front, failing
from tests.support.hive_cases import check_ported
from tests.support.metastores import housekeeping

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own initiator"),
    pytest.mark.one_embedded,
]

CASES = (
    "test_nothing",
    "test_recover_failed_local_workers",
    "test_recover_failed_remote_workers",
    "test_major_compact_on_table_too_many_aborts",
    "test_major_compact_on_partition_too_many_aborts",
    "test_no_compact_on_many_different_partition_aborts",
    "test_compact_expired_aborted_txns",
    "test_no_compact_when_no_compact_set",
    "test_no_compact_when_no_compact_set_lower_case",
    "test_no_compact_when_compact_already_scheduled",
    "test_compact_table_high_delta_pct",
    "test_compact_partition_high_delta_pct",
    "test_compact_camel_case_partition_value",
    "test_no_compact_table_delta_pct_not_high_enough",
    "test_compact_table_too_many_deltas",
    "test_compact_partition_too_many_deltas",
    "test_no_compact_table_not_enough_deltas",
    "test_choose_major_over_minor_when_both_valid",
    "test_enough_deltas_no_base",
    "test_two_txns_on_same_partition_generate_one_compaction_request",
    "test_no_compact_table_dynamic_partitioning",
    "test_drop_table",
    "test_drop_partition",
    "test_process_compaction_candidates_in_parallel",
    "test_compact_table_with_multiple_base",
    "test_initiator_failure",
    "test_no_compact_for_insert_only",
    "test_initiator_host_and_version",
    "test_meta_cache",
)
#: Cases that are left out, and why.
LEFT_OUT = {
    "test_find_user_to_run_as": "Hadoop's proxy users: a compaction runs as the user of its process",
    "test_resolve_user_to_run_as": "Hadoop's proxy users",
}

HIVE = CompactionPolicy.hive()
FEW_ABORTS = CompactionPolicy(aborted_threshold=3)
PCT = "compactorthreshold.hive.compactor.delta.pct.threshold"
NUM = "compactorthreshold.hive.compactor.delta.num.threshold"
#: The size of deltas does not matter.
ANY_SIZE = {PCT: "1000000"}


def abort(table: Compacted, times: int, part: str | None = None) -> None:
    for _ in range(times):
        txn_id, _ = table.begin(part)
        table.client.abort_txn(txn_id)


def test_nothing(table: Compacted) -> None:
    assert initiate(table) == []
    assert table.history() == []


@pytest.mark.on_both
def test_recover_failed_local_workers(ms: EmbeddedMetastoreClient) -> None:
    """A worker that is interrupted gives its compaction back itself; that of another machine's is left alone."""
    table, other = Compacted(ms), Compacted(ms, "other")
    other.request()
    assert ms.find_next_compact("nosuchhost-193892") is not None
    table.inserts(1, 2)
    table.request()
    front = Front(ms, update_compactor_state=failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        Worker(cast("MetastoreClient", front), FAST).run_once()
    assert requested(table) == [(None, MINOR)]
    (info,) = other.history()
    assert (info.state, info.worker_id) == (CompactionState.WORKING, "nosuchhost-193892")


@pytest.mark.on_both
def test_recover_failed_remote_workers(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request()
    assert table.client.find_next_compact("elsewhere-1") is not None
    table.client.clock_offset_seconds = 2 * table.client.txn_timeout_seconds
    assert housekeeping(table.client).revoked_compactions == 1
    assert requested(table) == [(None, MINOR)]


def test_major_compact_on_table_too_many_aborts(table: Compacted) -> None:
    abort(table, 4)
    (found,) = initiate(table, FEW_ABORTS)
    assert requested(table) == [(None, MAJOR)]
    assert "aborted" in found.decision.reason


@pytest.mark.on_both
def test_major_compact_on_partition_too_many_aborts(parts: Compacted) -> None:
    parts.insert(1, part="today")
    abort(parts, 4, "today")
    initiate(parts, FEW_ABORTS)
    assert requested(parts) == [("part=today", MAJOR)]


def test_no_compact_on_many_different_partition_aborts(parts: Compacted) -> None:
    for number in range(5):
        parts.insert(number, part=f"p{number}")
        abort(parts, 1, f"p{number}")
    initiate(parts, FEW_ABORTS)
    assert requested(parts) == []


@pytest.mark.on_both
def test_compact_expired_aborted_txns(table: Compacted) -> None:
    table.insert(1)
    abort(table, 1)
    initiate(table)
    assert requested(table) == []
    table.client.clock_offset_seconds = 13 * 3600
    initiate(table, replace(HIVE, aborted_age_seconds=None))
    assert table.history() == [], "the age does not count"
    initiate(table)
    assert requested(table) == [(None, MINOR)]


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_no_compact_when_no_compact_set(ms: EmbeddedMetastoreClient, value: str) -> None:
    table = Compacted(ms, properties={"NO_AUTO_COMPACTION": value})
    table.inserts(1, 11)
    abort(table, 4)
    (found,) = initiate(table, FEW_ABORTS)
    assert table.history() == []
    assert "NO_AUTO_COMPACTION" in found.decision.reason


def test_no_compact_when_no_compact_set_lower_case(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"no_auto_compaction": "true"})
    table.inserts(1, 11)
    abort(table, 4)
    initiate(table, FEW_ABORTS)
    assert table.history() == []


def test_no_compact_when_compact_already_scheduled(table: Compacted) -> None:
    table.inserts(1, 11)
    abort(table, 4)
    request = table.request(MAJOR)
    (found,) = initiate(table, FEW_ABORTS)
    assert found.decision.reason == f"compaction {request.id} is initiated"
    assert [(info.id, info.state, info.type) for info in table.history()] == [
        (request.id, CompactionState.INITIATED, MAJOR)
    ]


def test_compact_table_high_delta_pct(table: Compacted) -> None:
    table.insert(1, overwrite=True)
    table.insert(*range(50))
    (found,) = initiate(table)
    assert requested(table) == [(None, MAJOR)]
    assert "of the base's bytes" in found.decision.reason


def test_compact_partition_high_delta_pct(parts: Compacted) -> None:
    parts.insert(1, part="today", overwrite=True)
    parts.insert(*range(50), part="today")
    initiate(parts)
    assert requested(parts) == [("part=today", MAJOR)]


def test_compact_camel_case_partition_value(parts: Compacted) -> None:
    parts.insert(1, part="ToDay", overwrite=True)
    parts.insert(*range(50), part="ToDay")
    initiate(parts)
    assert requested(parts) == [("part=ToDay", MAJOR)]


def test_no_compact_table_delta_pct_not_high_enough(table: Compacted) -> None:
    table.insert(*range(20_000), overwrite=True)
    table.insert(1)
    (found,) = initiate(table)
    assert requested(table) == []
    assert "below thresholds" in found.decision.reason


def test_compact_table_too_many_deltas(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties=ANY_SIZE)
    table.insert(0, overwrite=True)
    table.inserts(1, 11)
    (found,) = initiate(table)
    assert requested(table) == [(None, MINOR)]
    assert found.decision.reason == "11 deltas (> 10)"


def test_compact_partition_too_many_deltas(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties=ANY_SIZE | {NUM: "2"}, partition_keys={"part": "string"})
    table.insert(0, part="today", overwrite=True)
    table.inserts(1, 3, part="today")
    initiate(table)
    assert requested(table) == [("part=today", MINOR)]


def test_no_compact_table_not_enough_deltas(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties=ANY_SIZE)
    table.insert(0, overwrite=True)
    table.inserts(1, 10)
    initiate(table)
    assert requested(table) == []


def test_choose_major_over_minor_when_both_valid(table: Compacted) -> None:
    table.insert(0, overwrite=True)
    table.inserts(1, 11)
    initiate(table)
    assert requested(table) == [(None, MAJOR)]


def test_enough_deltas_no_base(table: Compacted) -> None:
    table.inserts(1, 11)
    (found,) = initiate(table)
    assert requested(table) == [(None, MAJOR)]
    assert found.decision.reason == "11 deltas (> 10), and there is no base"


@pytest.mark.on_both
def test_two_txns_on_same_partition_generate_one_compaction_request(parts: Compacted) -> None:
    parts.insert(1, part="today", overwrite=True)
    parts.insert(*range(50), part="today")
    parts.insert(*range(50), part="today")
    initiate(parts)
    initiate(parts)
    assert requested(parts) == [("part=today", MAJOR)]


def test_no_compact_table_dynamic_partitioning(parts: Compacted) -> None:
    """A transaction that named no partition is found with the table alone."""
    txn_id, _ = parts.begin()
    parts.client.commit_txn(txn_id)
    assert [each.partition_name for each in parts.client.find_potential_compactions(aborted_threshold=9)] == [None]
    assert initiate(parts) == []
    assert requested(parts) == []


def test_drop_table(table: Compacted) -> None:
    candidate = CompactionCandidate(table.name, None)
    table.client.drop_table(table.name)
    front = Front(table.client, find_potential_compactions=lambda **_: [candidate])
    assert initiate(table, client=front) == []
    assert table.history() == []


def test_drop_partition(parts: Compacted) -> None:
    parts.insert(1, part="today")
    candidate = CompactionCandidate(parts.name, "part=today")
    parts.client.drop_partition(parts.name, ["today"])
    front = Front(parts.client, find_potential_compactions=lambda **_: [candidate])
    assert initiate(parts, client=front) == []
    assert parts.history() == []


def test_process_compaction_candidates_in_parallel(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, partition_keys={"part": "string"}, properties={NUM: "1"})
    for number in range(10):
        table.inserts(1, 2, part=f"p{number}")
    threads = set()

    def compact(*args: Any, **options: Any) -> CompactionResponse:
        threads.add(threading.current_thread().name)
        return ms.compact(*args, **options)

    initiate(table, threads=4, client=Front(ms, compact=compact))
    assert sorted(requested(table)) == [(f"part=p{number}", MAJOR) for number in range(10)]
    assert all(name.startswith("initiator") for name in threads)


def test_compact_table_with_multiple_base(table: Compacted) -> None:
    table.insert(1, overwrite=True)
    table.insert(2, overwrite=True)
    (found,) = initiate(table)
    assert requested(table) == [(None, MAJOR)]
    assert found.decision.reason == "1 obsolete base"
    assert table.work().state is CompactionState.READY_FOR_CLEANING
    table.clean()
    assert table.short_folders() == ["base_2"]


def test_initiator_failure(table: Compacted) -> None:
    table.inserts(1, 11)
    front = Front(table.client, get_valid_write_ids=failing(MetastoreError("cannot be asked")))
    (found,) = initiate(table, client=front)
    assert isinstance(found.error, MetastoreError)
    (info,) = table.history()
    assert (info.state, info.error_message) == (CompactionState.DID_NOT_INITIATE, "cannot be asked")


def test_no_compact_for_insert_only(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"transactional": "true", "transactional_properties": "insert_only"})
    for _ in range(11):
        txn_id, _ = table.begin()
        ms.commit_txn(txn_id)
    abort(table, 4)
    (found,) = initiate(table, FEW_ABORTS)
    assert found.decision.reason == "only full ACID tables are compacted"
    assert table.history() == []


def test_initiator_host_and_version(table: Compacted) -> None:
    table.inserts(1, 11)
    initiate(table)
    (info,) = table.history()
    assert (info.initiator_id, info.initiator_version) == (f"{this_host()}-initiator", "0.1")


def test_meta_cache(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, partition_keys={"part": "string"}, properties={NUM: "1"})
    for number in range(5):
        table.inserts(1, 2, part=f"p{number}")
    front = Front(ms)
    assert len(initiate(table, client=front)) == 5
    assert front.calls["get_table"] == 1


# -- what is ported ----------------------------------------------------------------------------------


def test_every_case_of_hive_is_ported_or_left_out_with_a_reason() -> None:
    assert len(CASES) == 29
    check_ported("TestInitiator", CASES, LEFT_OUT, [Path(__file__)])
