"""Purging: what was deleted, overwritten or aborted is gone from the disk, or it is said what is left and why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.compaction import purge
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import TxnType
from hive_ingest.storage import FileStore, Location
from hive_ingest.testing import faults
from hive_ingest.transactions import new_staging
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
    outcomes = purge(parts.client, parts.name, timeout_seconds=60)
    assert [(outcome.partition_name, outcome.left) for outcome in outcomes] == [("part=a", ()), ("part=b", ())]
    assert (parts.short_folders("a"), parts.short_folders("b")) == (["base_4_v"], ["base_6"])
    assert parts.rows() == before


def test_what_is_reported_as_removed_is_removed_on_the_disk(parts: Compacted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a power failure could bring the folders back."""
    for part in ("a", "b"):
        parts.inserts(1, 2, part=part)
        parts.delete(parts.row_id(2), part=part)
    synced: dict[str, list[str]] = {}
    store = type(Location.of(str(parts.folder)).store)
    sync = store.sync_folders

    def record(self: FileStore, paths: Iterable[str]) -> None:
        for path in (paths := list(paths)):
            part = Path(path).name.partition("=")[2]
            synced[path] = parts.short_folders(part) if part else []
        sync(self, paths)

    monkeypatch.setattr(store, "sync_folders", record)
    outcomes = purge(parts.client, parts.name, timeout_seconds=60)
    assert [outcome.left for outcome in outcomes] == [(), ()]
    assert [synced[Location.of(str(parts.place(part))).path] for part in ("a", "b")] == [["base_3_v"], ["base_6_v"]]


def test_what_a_reader_needs_is_left_and_the_reader_is_named(table: Compacted) -> None:
    table.inserts(1, 3)
    table.delete(table.row_id(2))
    with hi.scan(table.client, table.name) as reader:
        first = next(iter(reader))
        (outcome,) = purge(table.client, table.name, timeout_seconds=0.1)
        assert first.num_rows
    assert "delete_delta_0000004_0000004_0000" in outcome.left
    assert outcome.reasons[0].startswith("open transactions may read them: ")
    (outcome,) = purge(table.client, table.name, timeout_seconds=60)
    assert (outcome.left, table.short_folders()) == ((), ["base_4_v"])


def test_rows_deleted_above_an_open_write_id_are_reported(table: Compacted) -> None:
    table.inserts(1, 3)
    writer, _ = table.begin()
    table.delete(table.row_id(2))
    (outcome,) = purge(table.client, table.name, timeout_seconds=0.1)
    assert "delete_delta_0000005_0000005_0000" in outcome.left
    assert any("write id 4 is still open" in reason for reason in outcome.reasons)
    table.client.commit_txn(writer)
    assert purge(table.client, table.name, timeout_seconds=60)[0].left == ()
    assert table.short_folders() == ["base_5_v"]


def test_a_property_against_cleaning_is_reported(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, properties={"NO_CLEANUP": "true"})
    table.inserts(1, 2)
    (outcome,) = purge(ms, table.name, timeout_seconds=1)
    assert len(outcome.left) == 2
    assert any("NO_CLEANUP" in reason for reason in outcome.reasons)


def test_files_of_a_transaction_that_was_just_aborted_are_reported(table: Compacted) -> None:
    table.inserts(1, 3)
    table.aborted_insert(4)
    (outcome,) = purge(table.client, table.name, timeout_seconds=0.1)
    assert outcome.left == ("delta_0000005_0000005_0000",)
    assert "writers of aborted transactions may not know it yet" in outcome.reasons[0]
    table.client.clock_offset_seconds = 2 * table.client.txn_timeout_seconds
    assert purge(table.client, table.name, timeout_seconds=60)[0].left == ()


def test_replaced_files_of_other_tables_keep_their_retention(ms: EmbeddedMetastoreClient) -> None:
    """Readers that planned their files in another process hold no transaction, only the cleaner's retention."""
    table, other = Compacted(ms), Compacted(ms, "other")
    for each in (table, other):
        each.inserts(1, 2)
    other.compact()
    purge(ms, table.name, timeout_seconds=60)
    assert table.short_folders() == ["base_2_v"]
    assert other.short_folders() == ["delta_1_1", "delta_1_2_v", "delta_2_2"]


def test_copies_of_a_compaction_that_was_killed_are_reported(parts: Compacted) -> None:
    """Its hidden files have the rows of its snapshot, also those that were deleted since."""
    for part in ("a", "b"):
        parts.inserts(1, 2, part=part)
    (killed,) = parts.client.open_txns(txn_type=TxnType.COMPACTION)
    table = parts.client.get_table(parts.name)
    copy = new_staging(table, killed, parts.client.metastore_id)
    copy.parent.make_folder()
    hidden = parts.folder / ".hive_ingest" / f"{copy.name}.0.orc"
    hidden.write_bytes(b"rows")
    (outcome,) = purge(parts.client, parts.name, partition="part=a", timeout_seconds=0.1)
    assert outcome.left[-1] == f".hive_ingest/{hidden.name}"
    assert "compactions that run, or were killed and have not timed out" in outcome.reasons[-1]
    parts.client.abort_txn(killed)
    assert purge(parts.client, parts.name, partition="part=a", timeout_seconds=60)[0].left == ()
    assert not hidden.exists()


def test_files_of_a_writer_that_is_at_work_are_not_taken_for_copies(table: Compacted) -> None:
    table.inserts(1, 2)
    with hi.StreamingConnection.connect(table.client, table=table.name, record_writer=hi.StrictJsonWriter()) as writer:
        writer.begin_transaction()
        assert writer.txn_id is not None
        staging = new_staging(table.client.get_table(table.name), writer.txn_id, table.client.metastore_id)
        staging.parent.make_folder()
        (table.folder / ".hive_ingest" / f"{staging.name}.0.orc").write_bytes(b"rows")
        (outcome,) = purge(table.client, table.name, timeout_seconds=0.1)
        assert not [name for name in outcome.left if "hive_ingest" in name]
        writer.abort_transaction()


def test_a_partition_that_is_dropped_meanwhile_has_nothing_left(parts: Compacted) -> None:
    for part in ("a", "b"):
        parts.inserts(1, 2, part=part)

    def drop(point: str) -> None:
        if point == "after_find_ready_to_clean":
            parts.client.drop_partition(parts.name, ["b"], if_exists=True)

    with faults(observe=drop):
        outcomes = purge(parts.client, parts.name, timeout_seconds=60)
    assert [(outcome.partition_name, outcome.left) for outcome in outcomes] == [("part=a", ()), ("part=b", ())]
