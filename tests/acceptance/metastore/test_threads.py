"""One client for all threads of a program, through the short way in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient


@pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore's own threads are not tested here")
def test_threads_append_and_read_through_one_client(metastore: MetastoreClient) -> None:
    """Two threads that appended ended in SIGSEGV, "Recursive use of cursors", or a false "there is no table"."""
    metastore.create_table("t", columns={"id": "bigint"})

    def append(number: int) -> int:
        for i in range(5):
            hi.append(metastore, "default.t", pa.table({"id": [number * 10 + i]}))
        return int(hi.read_table(metastore, "default.t").num_rows)

    with ThreadPoolExecutor(4) as pool:
        assert all(rows >= 5 for rows in pool.map(append, range(4)))
    found = hi.read_table(metastore, "default.t")["id"].to_pylist()
    assert sorted(found) == sorted(number * 10 + i for number in range(4) for i in range(5))
