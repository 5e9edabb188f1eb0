"""One file read by several tasks at once: each row and ROW__ID once, and what Hive deleted stays deleted.

Hive finds a task's first and last row id in `hive.acid.key.index`, so a wrong key of a stripe loses rows, or lets
deleted ones return, only where a file is split.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table
from tests.interop import streamed
from tests.interop.hive import RealHive
from tests.interop.tables import orc_properties
from tests.support.tables import folder_of

COLUMNS = {"id": "int", "txt": "string"}
STRIPES, STRIPE_ROWS = 6, 1_000
ROWS = STRIPES * STRIPE_ROWS
BUCKETS = 2
#: Less than a stripe, so that each stripe is a task's.
SPLIT_BYTES = 10_000

RowIds = dict[tuple[int, ...], int]


@pytest.fixture(params=["plain", "bucketed"])
def written(request: pytest.FixtureRequest, hive: RealHive, client: MetastoreClient, database: str) -> Table:
    """One transaction of six spills, joined to a file with six stripes for each bucket."""
    buckets: dict[str, Any] = {"bucket_columns": ["id"], "num_buckets": BUCKETS} if request.param == "bucketed" else {}
    name = f"{database}.{request.param}"
    table = client.create_table(name, columns=COLUMNS, properties=orc_properties(hive), **buckets)
    random = np.random.default_rng(7)
    with streamed.connect(client, table.name) as conn, conn.transaction():
        for start in range(0, ROWS, STRIPE_ROWS):
            texts = [random.bytes(20).hex() for _ in range(STRIPE_ROWS)]
            conn.write(pa.table({"id": pa.array(range(start, start + STRIPE_ROWS), pa.int32()), "txt": texts}))
            conn.flush()
    return table


@contextmanager
def small_splits(hive: RealHive, strategy: str = "ETL") -> Iterator[None]:
    """ETL reads the footers and splits by stripes, BI by blocks of the file system."""
    hive.set("mapreduce.input.fileinputformat.split.maxsize", str(SPLIT_BYTES))
    hive.set("mapreduce.input.fileinputformat.split.minsize", "1")
    hive.set("hive.exec.orc.split.strategy", strategy)
    try:
        yield
    finally:
        hive.set("mapreduce.input.fileinputformat.split.maxsize", "256000000")
        hive.set("hive.exec.orc.split.strategy", "HYBRID")


def row_ids(hive: RealHive, table: Table, *, vectorized: bool) -> RowIds:
    query = f"select (row__id).writeid, (row__id).bucketid, (row__id).rowid, id from {table.name}"
    if vectorized:
        with hive.vectorizing():
            found = hive.sql(query)
    else:
        found = hive.sql(query)
    answer = {tuple(row[:3]): row[3] for row in found}
    assert len(answer) == len(found), "a ROW__ID came twice"
    return answer


def read_by_us(client: MetastoreClient, table: Table) -> RowIds:
    found = hi.read_table(client, table.name, row_ids=True)
    ids: list[dict[str, Any]] = found["row__id"].to_pylist()
    return {tuple(row_id.values()): value for row_id, value in zip(ids, found["id"].to_pylist(), strict=True)}


def test_rows_and_row_ids_come_once_from_files_of_several_splits(
    hive: RealHive, client: MetastoreClient, written: Table
) -> None:
    mine = read_by_us(client, written)
    assert sorted(mine.values()) == list(range(ROWS))
    [snapshot] = client.get_valid_write_ids([written.name])
    files = len(list(folder_of(written).glob("delta_*/bucket_*")))
    for strategy, splits in (("BI", 1), ("ETL", STRIPES)):
        with small_splits(hive, strategy):
            found = hive.splits(
                folder_of(written), COLUMNS, write_ids=snapshot.to_string(), num_buckets=written.num_buckets
            )
            assert len(found) == files * splits, found
            for vectorized in (False, True):
                assert row_ids(hive, written, vectorized=vectorized) == mine


def test_rows_that_hive_deleted_at_the_borders_of_stripes_do_not_return(
    hive: RealHive, client: MetastoreClient, written: Table
) -> None:
    before = read_by_us(client, written)
    gone = {i for i in range(ROWS) if i % STRIPE_ROWS < 3 or i % STRIPE_ROWS >= STRIPE_ROWS - 3}
    with small_splits(hive):
        hive.sql(f"delete from {written.name} where id % {STRIPE_ROWS} < 3 or id % {STRIPE_ROWS} >= {STRIPE_ROWS - 3}")
        left = {row_id: i for row_id, i in before.items() if i not in gone}
        assert len(left) == ROWS - 6 * STRIPES
        for vectorized in (False, True):
            assert row_ids(hive, written, vectorized=vectorized) == left
    assert read_by_us(client, written) == left
