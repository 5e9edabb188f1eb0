"""What the initiator looks at in its rounds, beyond Hive's cases."""

from __future__ import annotations

import re
from typing import cast

import pytest

from hive_ingest.compaction import CompactionPolicy, Decision, Initiator, compact
from hive_ingest.errors import MetastoreError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.compaction_queue import FETCH_SIZE
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState
from hive_ingest.testing import CrashPoint, faults
from tests.support.compactions import MAJOR, MINOR, Compacted, initiate, requested
from tests.support.fronts import Front, failing

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own initiator"),
    pytest.mark.one_embedded,
]

HIVE = CompactionPolicy.hive()
NUM = "compactorthreshold.hive.compactor.delta.num.threshold"


def test_an_error_that_repeats_is_noted_once(table: Compacted, caplog: pytest.LogCaptureFixture) -> None:
    table.inserts(1, 2)
    for text in ("cannot be asked", "cannot be asked", "is down", "is down"):
        (found,) = initiate(table, client=Front(table.client, get_valid_write_ids=failing(MetastoreError(text))))
        assert str(found.error) == text
    assert [info.error_message for info in table.history()] == ["is down", "cannot be asked"]
    assert len(caplog.records) == 2


@pytest.mark.on_both
def test_nothing_is_requested_for_a_while_after_repeated_failures(table: Compacted) -> None:
    table.inserts(1, 11)
    for _ in range(2):
        table.request()
        with faults(CrashPoint("after_merge")):
            assert table.work().state is CompactionState.FAILED
    (found,) = initiate(table)
    assert found.is_suspended
    assert found.decision.reason.startswith("the last 2 compactions failed, so none is requested within 604800 s")
    assert table.history()[0].state is CompactionState.DID_NOT_INITIATE
    initiate(table)
    assert len(table.history()) == 3, "it is noted once"
    table.clean()
    table.client.clock_offset_seconds = 8 * 86_400
    initiate(table)
    assert requested(table) == [(None, MAJOR)]


def test_a_folder_is_looked_at_again_only_after_a_commit(table: Compacted) -> None:
    """Thousands of partitions that need no compaction cost one query a round."""
    table.inserts(1, 3)
    front = Front(table.client)
    initiator = Initiator(cast("MetastoreClient", front), CompactionPolicy(max_deltas=3))
    decisions: list[Decision] = []
    for looks in (1, 1, 2, 2):
        if looks == 2 and len(decisions) == 2:
            table.insert(4)
        (found,) = initiator.run_once()
        decisions.append(found.decision)
        assert front.calls["get_valid_write_ids"] == looks
    assert decisions[0] == decisions[1]
    assert decisions[1].type is None
    assert requested(table) == [(None, MAJOR)]


def test_a_folder_below_an_open_transaction_is_looked_at_again(table: Compacted) -> None:
    """It needs a compaction when that ends, also by an abort."""
    (writer, _) = table.begin()
    table.inserts(1, 11)
    initiator = Initiator(table.client, HIVE)
    assert [each.decision.type for each in initiator.run_once()] == [None]
    table.client.abort_txn(writer)
    initiator.run_once()
    assert requested(table) == [(None, MAJOR)]


def test_tables_that_are_not_compacted_keep_no_other_out(ms: EmbeddedMetastoreClient) -> None:
    kept = Compacted(ms, "kept", partition_keys={"part": "string"}, properties={"NO_AUTO_COMPACTION": "true"})
    for _ in range(2):
        (txn_id,) = ms.open_txns()
        write_id = ms.allocate_table_write_ids(kept.name, [txn_id])[0].write_id
        ms.add_dynamic_partitions(txn_id, write_id, kept.name, [f"part={number}" for number in range(FETCH_SIZE)])
        ms.commit_txn(txn_id)
    table = Compacted(ms, properties={NUM: "0"})
    table.insert(1)
    initiate(table)
    assert requested(table) == [(None, MAJOR)]


def test_an_abort_that_no_compaction_removes_is_not_requested_again_and_again(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"NO_CLEANUP": "true"})
    table.inserts(1, 2)
    table.aborted_insert(3)
    ms.clock_offset_seconds = 13 * 3600
    initiate(table)
    assert table.work().state is CompactionState.READY_FOR_CLEANING
    initiate(table)
    table.clean()
    initiate(table)
    assert requested(table) == []
    table.insert(4)
    initiate(table)
    assert requested(table) == [(None, MINOR)]


def test_an_invalid_property_of_one_table_keeps_no_other_out(ms: EmbeddedMetastoreClient) -> None:
    wrong, table = Compacted(ms, "wrong", properties={NUM: "nan"}), Compacted(ms)
    for each in (wrong, table):
        each.inserts(1, 11)
    found = {each.table: each for each in initiate(table)}
    assert "nan" in str(found[wrong.name].error)
    assert requested(table) == [(None, MAJOR)]


@pytest.mark.parametrize("way", ["round", "after a commit", "waiting"])
def test_a_request_that_no_worker_takes_is_a_warning_in_the_log(
    table: Compacted, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    """Once, by whoever requests compactions: a round of an initiator, `Maintenance`, or a call that waits."""
    table.inserts(1, 2)
    table.client.clock_offset_seconds = -61
    table.request()
    initiator = Initiator(table.client)
    for _ in range(2):
        if way == "round":
            initiator.run_once()
        elif way == "after a commit":
            initiator.examine([(table.name, None)])
        else:
            compact(table.client, table.name, kind="minor", wait=True, as_worker=False, timeout_seconds=0.5)
            break
    (record,) = caplog.records
    assert re.match(r"compaction 1 of \S+ has waited for \d+ s and no worker has taken it", record.getMessage())
    table.work()
    initiator.run_once()
    assert len(caplog.records) == 1


RESTING = CompactionPolicy(max_deltas=1, max_time_share=1e-6)


def test_a_table_that_is_written_without_pause_rests_after_a_compaction(table: Compacted) -> None:
    """So that a compactor is not at work all the time; at the end, and in the rounds of an initiator, nothing waits."""
    table.inserts(1, 2)
    assert table.compact().state is CompactionState.READY_FOR_CLEANING
    table.inserts(3, 4)
    front = Front(table.client)
    places = [(table.name, None)]
    for _ in range(2):
        (found,) = Initiator(cast("MetastoreClient", front), RESTING).examine(places)
        assert found.is_resting
        assert found.decision.reason.startswith("rests for ")
    assert front.calls["get_valid_write_ids"] == 0, "its folder is not listed either"
    assert requested(table) == []
    (found,) = Initiator(table.client, RESTING).examine(places, is_hurried=True)
    assert (found.is_resting, requested(table)) == (False, [(None, MAJOR)])


def test_a_table_does_not_rest_in_the_rounds_of_an_initiator(table: Compacted) -> None:
    table.inserts(1, 2)
    table.compact()
    table.inserts(3, 4)
    initiate(table, RESTING)
    assert requested(table) == [(None, MAJOR)]


def test_a_clock_that_is_far_off_lets_no_table_rest(table: Compacted) -> None:
    """That of the metastore's server, an hour ahead."""
    table.client.clock_offset_seconds = 3600
    table.inserts(1, 2)
    table.compact()
    table.inserts(3, 4)
    (found,) = Initiator(table.client, RESTING).examine([(table.name, None)])
    assert not found.is_resting
    assert requested(table) == [(None, MAJOR)]


def test_an_initiator_that_is_stopped_looks_at_no_other_folder(table: Compacted) -> None:
    table.inserts(1, 12)
    assert initiate(table, is_stopped=lambda: True) == []
    assert table.history() == []
