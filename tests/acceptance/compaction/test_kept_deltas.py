"""A compaction that the policy requests does not write the large result of an earlier one again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hive_ingest.compaction import CompactionPolicy, KeptDelta, Worker
from hive_ingest.inspection import check_table
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState
from tests.support.compactions import FAST, MAJOR, MINOR, Compacted, initiate

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="the queue of a real metastore has other initiators")

#: The result of any compaction is large enough to be left as it is.
KEEPING = replace(FAST, kept=KeptDelta(least_bytes=0, least_ratio=0))
#: By the number of deltas alone.
POLICY = CompactionPolicy(max_delta_share=1e9)


def with_merged_delta(table: Compacted) -> None:
    """A base of write id 1, `delta_2_3_v`, and then two deltas of writers."""
    table.insert(1, overwrite=True)
    table.inserts(2, 3)
    table.compact(MINOR)
    table.clean()
    table.inserts(4, 5)
    assert table.short_folders() == ["base_1", "delta_2_3_v", "delta_4_4", "delta_5_5"]


@pytest.mark.parametrize(
    ("may_keep", "expected"),
    [(True, ["base_1", "delta_2_3_v", "delta_4_5_v"]), (False, ["base_1", "delta_2_5_v"])],
    ids=["policy", "user"],
)
def test_only_a_request_of_the_policy_leaves_a_large_delta(
    table: Compacted, may_keep: bool, expected: list[str]
) -> None:
    with_merged_delta(table)
    before = table.rows()
    assert table.request(MINOR, may_keep_large_delta=may_keep).accepted
    assert table.work(KEEPING).state is CompactionState.READY_FOR_CLEANING
    assert table.rows() == before
    table.clean()
    assert table.short_folders() == expected
    assert table.rows() == before
    assert not check_table(table.client, table.name).findings


def test_the_default_policy_allows_that(table: Compacted) -> None:
    with_merged_delta(table)
    table.inserts(6, 8)
    initiate(table, POLICY)
    table.work(KEEPING)
    table.clean()
    assert table.short_folders() == ["base_1", "delta_2_3_v", "delta_4_8_v"]


def test_rows_are_deleted_in_a_delta_that_was_left(table: Compacted) -> None:
    with_merged_delta(table)
    table.delete(table.row_id(2))
    table.delete(table.row_id(4))
    table.request(MINOR, may_keep_large_delta=True)
    table.work(KEEPING)
    table.clean()
    assert table.short_folders() == ["base_1", "delete_delta_4_7_v", "delta_2_3_v", "delta_4_7_v"]
    assert table.ids() == [1, 3, 5]
    table.compact(MAJOR)
    table.clean()
    assert table.short_folders() == ["base_7_v"]
    assert table.ids() == [1, 3, 5]


@pytest.mark.parametrize("max_deltas", range(6))
def test_no_more_deltas_are_left_than_the_policy_allows(ms: EmbeddedMetastoreClient, max_deltas: int) -> None:
    """Once the files are cleaned, no initiator looks at the table before the next commit."""
    table = Compacted(ms)
    with_merged_delta(table)
    table.delete(table.row_id(1))
    table.compact(MINOR)
    table.clean()
    table.inserts(7, 8)
    table.delete(table.row_id(2))
    before = table.rows()
    initiate(table, replace(POLICY, max_deltas=max_deltas))
    while Worker(ms, KEEPING).run_once():
        table.clean()
    kinds = [name for name in table.folders() if not name.startswith("base_")]
    assert len(kinds) <= max(2, max_deltas), kinds
    assert table.rows() == before


def test_deltas_that_have_waited_long_enough_are_all_merged(table: Compacted) -> None:
    with_merged_delta(table)
    initiate(table, replace(POLICY, max_age_seconds=0))
    table.work(KEEPING)
    table.clean()
    assert table.short_folders() == ["base_1", "delta_2_5_v"]
