"""Purging: what was deleted, overwritten or aborted is gone from the disk, or it is said what is left and why."""

from __future__ import annotations

import pytest

import hive_ingest as hi
from hive_ingest.compaction import purge
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from tests.support.compactions import Compacted

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own cleaner"),
    pytest.mark.one_embedded,
]


def test_deleted_and_overwritten_rows_are_gone(parts: Compacted) -> None:
    parts.inserts(1, 3, part="a")
    parts.delete(parts.row_id(2), part="a")
    parts.insert(4, part="b")
    parts.insert(5, part="b", overwrite=True)
    before = parts.rows()
    outcomes = purge(parts.client, parts.name, timeout_seconds=20)
    assert [(outcome.partition_name, outcome.left) for outcome in outcomes] == [("part=a", ()), ("part=b", ())]
    assert (parts.short_folders("a"), parts.short_folders("b")) == (["base_4_v"], ["base_6"])
    assert parts.rows() == before


def test_what_a_reader_needs_is_left_and_the_reader_is_named(table: Compacted) -> None:
    table.inserts(1, 3)
    table.delete(table.row_id(2))
    with hi.scan(table.client, table.name) as reader:
        first = next(iter(reader))
        (outcome,) = purge(table.client, table.name, timeout_seconds=0.1)
        assert first.num_rows
    assert "delete_delta_0000004_0000004_0000" in outcome.left
    assert outcome.reasons[0].startswith("open transactions may read them: ")
    (outcome,) = purge(table.client, table.name, timeout_seconds=20)
    assert (outcome.left, table.short_folders()) == ((), ["base_4_v"])


def test_rows_deleted_above_an_open_write_id_are_reported(table: Compacted) -> None:
    table.inserts(1, 3)
    writer, _ = table.begin()
    table.delete(table.row_id(2))
    (outcome,) = purge(table.client, table.name, timeout_seconds=0.1)
    assert "delete_delta_0000005_0000005_0000" in outcome.left
    assert any("write id 4 is still open" in reason for reason in outcome.reasons)
    table.client.commit_txn(writer)
    assert purge(table.client, table.name, timeout_seconds=20)[0].left == ()
    assert table.short_folders() == ["base_5_v"]


def test_a_property_against_cleaning_is_reported(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"NO_CLEANUP": "true"})
    table.inserts(1, 2)
    (outcome,) = purge(ms, table.name, timeout_seconds=1)
    assert len(outcome.left) == 2
    assert any("NO_CLEANUP" in reason for reason in outcome.reasons)
