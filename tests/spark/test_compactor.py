"""Compaction on Spark's executors: the result is that of the local compactor, whatever happens to tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hive_ingest as hi
from hive_ingest.compaction import CompactorSettings, JobSettings, MergeSettings
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CompactionState, CompactionType
from hive_ingest.streaming.spark import SparkCompactor
from tests.spark.tables_to_compact import SPLIT_BYTES, STRIPE_BYTES, fill, hidden, output_files
from tests.support.compactions import MAJOR, MINOR, Compacted, connect_quietly

pytestmark = pytest.mark.one_embedded

SETTINGS = CompactorSettings(job=JobSettings(merge=MergeSettings(stripe_bytes=STRIPE_BYTES, fsync=False)))


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


def compactor(ms: Any, spark: SparkSession, **options: Any) -> SparkCompactor:
    return SparkCompactor(metastore=ms, spark=spark, **({"settings": SETTINGS} | options))


def outputs_of(table: Compacted) -> dict[str, tuple[int, str]]:
    """Rows of each bucket file, and the last key in it."""
    found = {}
    for path, tail in output_files(table).items():
        keys = tail.footer.user_metadata["hive.acid.key.index"].decode().rstrip(";").split(";")
        assert len(keys) == len(tail.footer.stripes)
        found[path] = (tail.footer.rows, keys[-1])
    return found


@pytest.mark.parametrize("kind", [MINOR, MAJOR], ids=["minor", "major"])
def test_executors_make_what_the_local_compactor_makes(
    ms: EmbeddedMetastoreClient, spark: SparkSession, kind: CompactionType
) -> None:
    tables = [Compacted(ms, name, bucket_columns=["id"], num_buckets=3) for name in ("t", "u")]
    for table in tables:
        fill(table)
    before = [table.rows() for table in tables]
    with compactor(ms, spark, split_bucket_bytes=SPLIT_BYTES) as on_spark:
        name = "major" if kind is MAJOR else "minor"
        outcomes = hi.compact(ms, "web.t", kind=name, wait=True), on_spark.compact("web.u", kind=name)
    assert [outcome.state for (outcome,) in outcomes] == [CompactionState.READY_FOR_CLEANING] * 2
    assert [table.rows() for table in tables] == before
    assert before[0] == before[1]
    for table in tables:
        table.clean()
    assert [table.rows() for table in tables] == before
    assert tables[0].short_folders() == tables[1].short_folders()
    local, distributed = map(outputs_of, tables)
    assert len(local) == (3 if kind is MAJOR else 4)
    assert distributed == local
    assert hidden(tables[1]) == []


def test_properties_of_a_request_reach_the_executors(ms: EmbeddedMetastoreClient, spark: SparkSession) -> None:
    table = Compacted(ms)
    fill(table)
    with compactor(ms, spark, split_bucket_bytes=SPLIT_BYTES) as on_spark:
        on_spark.compact("web.t", properties={"tblprops.orc.compress": "ZLIB"})
    table.clean()
    assert [tail.postscript.codec.name for tail in output_files(table).values()] == ["ZLIB"]


def test_all_roles_compact_a_partitioned_table_in_rounds(ms: EmbeddedMetastoreClient, spark: SparkSession) -> None:
    table = Compacted(ms, partition_keys={"part": "string"})
    for part in ("a", "b"):
        for first in range(0, 60, 10):
            table.insert(*range(first, first + 10), part=part)
    before = table.rows()
    with compactor(ms, spark) as on_spark:
        result = on_spark.run_once()
        assert [work.state for work in result.worked] == [CompactionState.READY_FOR_CLEANING] * 2
    assert table.rows() == before
    assert [table.short_folders(part) for part in ("a", "b")] == [["base_6_v"], ["base_12_v"]]


def test_a_compactor_serves_the_queue_until_it_is_stopped(ms: EmbeddedMetastoreClient, spark: SparkSession) -> None:
    table = Compacted(ms)
    fill(table)
    before = table.rows()
    settings = CompactorSettings(job=SETTINGS.job, worker_seconds=0.05)
    on_spark = compactor(ms, spark, roles=["worker"], settings=settings, split_bucket_bytes=SPLIT_BYTES)
    thread = threading.Thread(target=on_spark.run)
    thread.start()
    try:
        (outcome,) = hi.compact(ms, table.name, kind="major", wait=True, timeout_seconds=120, as_worker=False)
    finally:
        on_spark.close()
        thread.join()
    assert outcome.state is CompactionState.READY_FOR_CLEANING
    assert table.rows() == before


def test_a_damaged_file_fails_the_compaction_by_its_name_without_another_attempt(
    ms: EmbeddedMetastoreClient, spark: SparkSession
) -> None:
    table = Compacted(ms)
    fill(table)
    path = table.folder / "delta_0000002_0000002_0000" / "bucket_00000"
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    folders = table.folders()
    with compactor(ms, spark, split_bucket_bytes=SPLIT_BYTES) as on_spark:
        (outcome,) = on_spark.compact("web.t")
    assert outcome.state is CompactionState.FAILED
    assert "delta_0000002_0000002_0000/bucket_00000" in outcome.message
    assert "gave up" not in outcome.message
    assert table.folders() == folders
    assert hidden(table) == []


@pytest.mark.local_warehouse(because="executors elsewhere reach every other store")
def test_a_warehouse_on_this_machines_disk_is_refused_where_executors_run_elsewhere(
    ms: EmbeddedMetastoreClient, spark_in: Any
) -> None:
    table = Compacted(ms)
    fill(table)
    spark = spark_in("UTC")
    spark.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    spark.conf.set("spark.master", "spark://elsewhere:7077")
    with compactor(ms, spark) as on_spark:
        (outcome,) = on_spark.compact("web.t")
    assert outcome.state is CompactionState.FAILED
    assert "shared_filesystem=True" in outcome.message


def test_a_session_is_needed(ms: EmbeddedMetastoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(ConfigurationError, match="no active Spark session"):
        SparkCompactor(metastore=ms)
