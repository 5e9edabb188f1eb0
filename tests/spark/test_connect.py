"""Spark Connect: what can work there does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.streaming.spark.checkpoint import read_checkpoint
from tests.spark.driver import Driver
from tests.spark.installation import Installation
from tests.support.rows import ids
from tests.support.tables import table_folder
from tests.support.warehouses import warehouse_in

pytestmark = pytest.mark.one_embedded


def test_a_connect_session_writes_batches_and_streams_and_compacts(
    install_spark: Callable[..., Installation], start_driver: Callable[..., Driver], metastore_uri: str, tmp_path: Path
) -> None:
    warehouse = warehouse_in(tmp_path)
    with hi.connect_metastore(metastore_uri, warehouse=warehouse, create=True) as client:
        client.create_database("web")
        buckets = {"partition_keys": {"part": "int"}, "bucket_columns": ["id"], "num_buckets": 2}
        client.create_table("web.batch", columns={"id": "bigint"}, **buckets)  # type: ignore[arg-type]
        client.create_table("web.stream", columns={"id": "bigint"})
        script = Path(__file__).with_name("connect_job.py")
        done = start_driver(install_spark(), script, metastore_uri, warehouse, tmp_path / "checkpoint").wait()
        assert done.returncode == 0, done.err

        assert done.out.strip() == "ready for cleaning"
        assert len(list(table_folder(client, "stream").glob("base_*_v*"))) == 1
        assert ids(client, "batch") == list(range(100))
        assert ids(client, "stream") == list(range(30))
        positions = [json.loads(row) for row in hi.read_table(client, "web.stream__progress")["position"].to_pylist()]
    query_id = read_checkpoint(str(tmp_path / "checkpoint")).query_id
    found = sorted((position["query_id"], position["batch_id"]) for position in positions)
    assert found == [(query_id, batch) for batch in range(3)]
    assert len({position["fingerprint"] for position in positions}) == 3
