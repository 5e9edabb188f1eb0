"""What Structured Streaming wrote is Hive's: every type, cell by cell, each ROW__ID once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DEFAULT_PARTITION_NAME, Table
from tests.interop import streamed
from tests.interop.hive import RealHive
from tests.interop.streamed import COLUMNS, NUM_BUCKETS, PARTITION_KEYS
from tests.interop.tables import orc_properties
from tests.interop.test_streamed_table import as_read, strip_char
from tests.spark.driver import Driver
from tests.spark.installation import Installation

BATCHES = [range(400), range(400, 1000)]


@pytest.mark.parametrize("layout", ["clustered", "plain"])
def test_hive_selects_every_row_that_spark_streamed_once_and_cell_by_cell(
    hive: RealHive,
    client: MetastoreClient,
    database: str,
    install_spark: Callable[..., Installation],
    start_driver: Callable[..., Driver],
    tmp_path: Path,
    layout: str,
) -> None:
    buckets: dict[str, Any] = {"bucket_columns": ["id"], "num_buckets": NUM_BUCKETS} if layout == "clustered" else {}
    table = client.create_table(
        f"{database}.everything",
        columns=COLUMNS,
        partition_keys=PARTITION_KEYS,
        properties=orc_properties(hive),
        **buckets,
    )
    write_parquet(table, tmp_path / "input")
    script = Path(__file__).with_name("spark_writer.py")
    arguments = (tmp_path / "input", tmp_path / "checkpoint", hive.metastore.uri, table.name)
    done = start_driver(install_spark(), script, *arguments).wait()
    assert done.returncode == 0, done.err

    names = ", ".join(f"`{name}`" for name in COLUMNS)
    expected = {row.cells["id"]: row for ids in BATCHES for row in streamed.expected(table, {1: ids})}
    for vectorized in (False, True):
        query = f"select row__id as rid, region, `month`, {names} from {table.name}"
        found = hive.select(query, vectorized=vectorized)
        assert len({(*row[0].values(), row[1], row[2]) for row in found}) == len(found), "a ROW__ID came twice"
        assert sorted(row[3] for row in found) == sorted(expected)
        for row in found:
            wanted = expected[row[3]]
            assert row[1:3] == [wanted.region or DEFAULT_PARTITION_NAME, wanted.month]
            assert strip_char(row[3:]) == as_read(wanted)
            if layout == "clustered":
                assert row[0]["bucketid"] == wanted.row_id[1], "not the bucket that Hive would choose"


def write_parquet(table: Table, folder: Path) -> None:
    """A file a batch. Spark's timestamps have microseconds."""
    folder.mkdir()
    for number, ids in enumerate(BATCHES):
        rows = pa.Table.from_batches([streamed.batch(table, ids)])
        pq.write_table(rows, folder / f"{number}.parquet", coerce_timestamps="us")
