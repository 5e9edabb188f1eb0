"""Compactions on demand: what is read stays the same, and the files become few."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.compaction import CompactionOutcome, Compactor, compact, purge
from hive_ingest.compaction.worker_ids import is_of_this_process
from hive_ingest.errors import ConfigurationError, InvalidTable, NoSuchObject
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionInfo, CompactionResponse, CompactionState, TableName
from hive_ingest.testing import faults
from tests.support.compactions import MAJOR, MINOR, Compacted
from tests.support.fronts import Front
from tests.support.warehouses import NEEDS_FOLDER_RENAMES
from tests.unit.compaction.folders import tail_of

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore has Hive's own queue")


def test_a_minor_compaction_merges_deltas_and_changes_no_row(table: Compacted) -> None:
    table.inserts(1, 4)
    before = table.rows()
    (outcome,) = compact(table.client, table.name, kind="minor", wait=True)
    assert (outcome.accepted, outcome.state) == (True, CompactionState.READY_FOR_CLEANING)
    assert table.rows() == before
    assert table.short_folders() == ["delta_1_1", "delta_1_4_v", "delta_2_2", "delta_3_3", "delta_4_4"]
    table.clean()
    assert table.short_folders() == ["delta_1_4_v"]
    assert table.rows() == before
    assert table.history()[0].state is CompactionState.SUCCEEDED


def test_a_major_compaction_leaves_deleted_rows_out(table: Compacted) -> None:
    table.inserts(1, 4)
    table.delete(table.row_id(2))
    before = table.rows()
    assert [row[1] for row in before] == [1, 3, 4]
    (outcome,) = compact(table.client, table.name, kind="major", wait=True)
    assert outcome.state is CompactionState.READY_FOR_CLEANING
    table.clean()
    assert table.short_folders() == ["base_5_v"]
    assert table.rows() == before


def test_a_minor_compaction_keeps_delete_events(table: Compacted) -> None:
    table.inserts(1, 4)
    table.delete(table.row_id(2))
    table.delete(table.row_id(3))
    before = table.rows()
    table.compact(MINOR)
    table.clean()
    assert table.short_folders() == ["delete_delta_1_6_v", "delta_1_6_v"]
    assert table.rows() == before


def test_every_partition_is_compacted_by_itself(parts: Compacted) -> None:
    for part in ("a", "b", "c/d"):
        parts.inserts(1, 3, part=part)
    before = parts.rows()
    outcomes = compact(parts.client, parts.name, kind="major", wait=True)
    assert [outcome.partition_name for outcome in outcomes] == ["part=a", "part=b", "part=c%2Fd"]
    assert {outcome.state for outcome in outcomes} == {CompactionState.READY_FOR_CLEANING}
    parts.clean()
    assert parts.short_folders("a") == ["base_3_v"]
    assert parts.short_folders("c%2Fd") == ["base_9_v"]
    assert parts.rows() == before


def test_one_partition_can_be_named(parts: Compacted) -> None:
    parts.inserts(1, 2, part="a")
    parts.inserts(3, 4, part="b")
    (outcome,) = compact(parts.client, parts.name, partition="part=b", kind="minor", wait=True)
    assert outcome.partition_name == "part=b"
    assert parts.short_folders("a") == ["delta_1_1", "delta_2_2"]
    with pytest.raises(NoSuchObject, match="part=c"):
        compact(parts.client, parts.name, partition="part=c")
    with pytest.raises(ConfigurationError, match="no partition key"):
        compact(parts.client, parts.name, partition="day=c")


@pytest.mark.parametrize(
    ("type_", "value", "key", "name"),
    [
        ("int", 1, "01", "1"),
        ("string", None, "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        ("string", "a:b c%", "a%3Ab c%25", "a%3Ab c%25"),
        ("char(4)", "ab", "ab", "ab  "),
    ],
)
def test_a_partition_is_found_by_any_text_of_its_value(
    ms: EmbeddedMetastoreClient, type_: str, value: Any, key: str, name: str
) -> None:
    table = Compacted(ms, partition_keys={"part": type_})
    for i in range(2):
        hi.append(ms, table.name, pa.record_batch({"id": pa.array([i], pa.int32()), "text": [""], "part": [value]}))
    (outcome,) = compact(ms, table.name, partition=f"part={key}", wait=True)
    assert (outcome.partition_name, outcome.state) == (f"part={name}", CompactionState.READY_FOR_CLEANING)


def test_the_uri_of_a_metastore_will_do(table: Compacted, tmp_path: Path) -> None:
    table.inserts(1, 2)
    client = table.client
    uri, before = client.uri, table.rows()
    (outcome,) = compact(uri, table.name, wait=True)
    assert not outcome.is_problem
    (purged,) = purge(uri, table.name)
    assert purged.left == ()
    with pytest.raises(ConfigurationError, match="pass a client, from connect_metastore"):
        Compactor(uri)
    assert table.rows() == before


@pytest.mark.parametrize("partition", [["part=a"], {"part": "a"}])
def test_a_partition_that_is_not_text_is_refused(parts: Compacted, partition: Any) -> None:
    with pytest.raises(ConfigurationError, match="give its name as text, such as 'part=…'"):
        compact(parts.client, parts.name, partition=partition)


def test_a_request_that_is_in_the_queue_already_is_not_made_twice(table: Compacted) -> None:
    table.inserts(1, 2)
    (first,) = compact(table.client, table.name, kind="major")
    (second,) = compact(table.client, table.name, kind="minor")
    assert (first.accepted, second.accepted, second.id) == (True, False, first.id)
    assert first.state is CompactionState.INITIATED


def test_a_major_compaction_follows_a_minor_one_that_was_requested_before(table: Compacted) -> None:
    table.inserts(1, 3)
    table.delete(table.row_id(2))
    table.request(MINOR)
    (outcome,) = compact(table.client, table.name, kind="major", wait=True)
    assert (outcome.accepted, outcome.type, outcome.state) == (True, MAJOR, CompactionState.READY_FOR_CLEANING)
    assert "base_4_v" in table.short_folders()


def test_a_compaction_that_had_begun_before_the_request_is_followed_by_another(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request(MAJOR)
    requested = threading.Event()

    def request(*args: Any, **options: Any) -> CompactionResponse:
        response: CompactionResponse = table.client.compact(*args, **options)
        requested.set()
        return response

    with ThreadPoolExecutor(1) as threads:
        futures: list[Future[list[CompactionOutcome]]] = []

        def at(point: str) -> None:
            if point == "after_merge" and not futures:
                table.insert(3)
                front: Any = Front(table.client, compact=request)
                futures.append(threads.submit(compact, front, table.name, wait=True, timeout_seconds=60))
                assert requested.wait(60)

        with faults(observe=at):
            assert table.work().made.folders[0].startswith("base_0000002")
        ((outcome,),) = (future.result() for future in futures)
    assert (outcome.accepted, outcome.id) == (True, 2)
    assert "base_3_v" in table.short_folders()


def test_an_unknown_kind_of_compaction_is_refused(ms: EmbeddedMetastoreClient, table: Compacted) -> None:
    with pytest.raises(ConfigurationError, match="'minor' or 'major'"):
        compact(ms, table.name, kind="tiny")


@pytest.mark.parametrize("is_renamed", [False, pytest.param(True, marks=NEEDS_FOLDER_RENAMES)])
def test_waiting_ends_when_the_table_is_gone(table: Compacted, is_renamed: bool) -> None:
    """Dropped or renamed between the request and the work."""
    table.inserts(1, 2)

    def change(point: str) -> None:
        if point == "after_find_next_compact":
            if is_renamed:
                found = table.client.get_table(table.name)
                table.client.alter_table(table.name, replace(found, name=TableName.of("web.renamed")))
            else:
                table.client.drop_table(table.name)

    with faults(observe=change):
        (outcome,) = compact(table.client, table.name, wait=True, timeout_seconds=20)
    assert outcome.state is CompactionState.REFUSED
    assert "dropped or renamed" in outcome.message


@pytest.mark.parametrize("properties", [{"transactional": "false"}, {"transactional_properties": "insert_only"}])
def test_a_table_that_is_not_full_acid_is_refused_at_once(
    ms: EmbeddedMetastoreClient, properties: dict[str, str]
) -> None:
    table = Compacted(ms, properties=properties)
    with pytest.raises(InvalidTable, match="only full ACID tables are compacted"):
        compact(ms, table.name)
    assert table.history() == []


def test_rows_of_bucketed_tables_stay_in_their_buckets(ms: EmbeddedMetastoreClient) -> None:
    table = Compacted(ms, "bucketed", bucket_columns=["id"], num_buckets=3)
    for start in range(0, 60, 20):
        table.insert(*range(start, start + 20))
    before = table.rows()
    table.compact(MAJOR)
    table.clean()
    (base,) = table.folders()
    assert [path.name for path in sorted((table.folder / base).glob("bucket_*"))] == [
        f"bucket_0000{i}" for i in range(3)
    ]
    assert table.rows() == before


def test_a_drop_waits_for_the_compaction(table: Compacted) -> None:
    """So nothing can be published into a table that took its place."""
    table.inserts(1, 2)
    table.request()

    def drop() -> None:
        with table.client.clone() as client:
            client.drop_table(table.name)

    with ThreadPoolExecutor(1) as threads:
        futures = []

        def at(point: str) -> None:
            if point == "after_merge":
                futures.append(threads.submit(drop))

        with faults(observe=at):
            assert table.work().state is CompactionState.READY_FOR_CLEANING
        (future,) = futures
        future.result()
    assert table.history() == []
    assert table.clean() == []


def test_a_request_overrides_table_properties_for_its_compaction_alone(table: Compacted) -> None:
    table.inserts(1, 2)
    before = table.rows()
    properties = {"tblprops.orc.compress": "zlib", "compactor.mapreduce.map.memory.mb": "3072"}
    compact(table.client, table.name, kind="major", properties=properties, wait=True)
    assert table.history()[0].properties == properties, "all of them are stored"
    assert codec_of(table, "base_*") == "ZLIB"
    assert codec_of(table, "delta_0000001*") != "ZLIB"
    assert "orc.compress" not in table.client.get_table(table.name).properties
    assert table.rows() == before


def codec_of(table: Compacted, folder: str) -> str:
    (path,) = table.folder.glob(f"{folder}/bucket_00000")
    return tail_of(path).postscript.codec.name


def test_an_override_that_no_file_can_have_is_refused_at_the_request(table: Compacted) -> None:
    with pytest.raises(ConfigurationError, match="'RAR' is not an ORC compression"):
        compact(table.client, table.name, properties={"tblprops.orc.compress": "rar"})
    assert table.history() == []


def test_a_compaction_is_traced_to_its_worker_and_transaction(table: Compacted) -> None:
    table.inserts(1, 2)
    table.request()
    seen: list[CompactionInfo] = []

    def at(point: str) -> None:
        if point == "after_merge":
            seen.extend(table.history())

    with faults(observe=at):
        table.work()
    (working,), (done,) = seen, table.history()
    assert (working.hadoop_job_id, done.hadoop_job_id) == (f"hive-ingest-txn-{working.txn_id}",) * 2
    assert is_of_this_process(working.worker_id)
