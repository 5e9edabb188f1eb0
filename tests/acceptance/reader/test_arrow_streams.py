"""Libraries that take Arrow streams take a scan, with its types, and end its transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from tests.support.metastores import connect_in
from tests.support.tables import table_folder

pytestmark = pytest.mark.one_embedded

ROWS = 3_000
DATA = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "name": [f"n{i}" if i % 3 else None for i in range(ROWS)],
        "amount": pa.array([Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(10, 2)),
        "at": pa.array(
            [dt.datetime(2024, 1, 1) + dt.timedelta(microseconds=i) for i in range(ROWS)], pa.timestamp("ns")
        ),
        "day": [dt.date(2024, 1, 1 + i % 3) for i in range(ROWS)],
        "user": [{"id": i, "tags": ["a", None]} for i in range(ROWS)],
    }
)


@pytest.fixture
def client(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_in(tmp_path, metastore_uri) as client:
        client.create_database("web")
        hi.append(client, "web.t", DATA.slice(0, 1_000), create=True)
        hi.append(client, "web.t", DATA.slice(1_000))
        yield client
        assert client.get_open_txns_info().transactions == ()


def test_duckdb_queries_a_scan(client: MetastoreClient) -> None:
    with hi.scan(client, "web.t", where="id < 2000", batch_rows=100) as rows:
        found = duckdb.execute('select count(*), sum(amount), max("user".id), max("at") from rows').fetchall()
    assert rows.schema.names == DATA.schema.names
    assert found == [(2000, Decimal("499750.00"), 1999, dt.datetime(2024, 1, 1, 0, 0, 0, 1999))]


def test_a_second_query_on_a_scan_is_an_error_and_not_empty(client: MetastoreClient) -> None:
    """DuckDB counted 0 rows."""
    with hi.scan(client, "web.t") as rows:
        assert duckdb.execute("select count(*) from rows").fetchall() == [(ROWS,)]
        with pytest.raises(Exception, match=r"has been read already.*Scan again, or use read_table"):
            duckdb.execute("select count(*) from rows").fetchall()
    with hi.scan(client, "web.t") as rows:
        first, second = pa.RecordBatchReader.from_stream(rows), pa.RecordBatchReader.from_stream(rows)
        assert first.read_next_batch().num_rows > 0
        with pytest.raises(Exception, match="is read twice by one query"):
            second.read_all()
    with hi.scan(client, "web.t") as rows:
        assert len(list(rows)) > 0
        with pytest.raises(Exception, match="has been read already"):
            pa.table(rows)


def test_duckdb_makes_a_table_of_a_scan(client: MetastoreClient) -> None:
    with duckdb.connect() as database, hi.scan(client, "web.t", columns=["user.id", "day"]) as rows:
        database.register("rows", rows)
        database.execute('create table t as select "user.id" as id, day from rows')
        assert database.execute("select count(*), min(day), max(id) from t").fetchall() == [
            (ROWS, dt.date(2024, 1, 1), ROWS - 1)
        ]


def test_polars_takes_a_scan(client: MetastoreClient) -> None:
    with hi.scan(client, "web.t", columns=["id", "amount", "at", "user"]) as rows:
        frame = pl.DataFrame(rows)
    assert frame.sort("id").to_arrow()["amount"].to_pylist() == DATA["amount"].to_pylist()
    assert frame.schema["at"] == pl.Datetime("ns")
    with hi.scan(client, "web.t", columns=["name"]) as rows:
        assert pl.DataFrame(rows)["name"].null_count() == ROWS // 3


def test_pandas_keeps_the_types_with_arrow_backed_columns(client: MetastoreClient) -> None:
    with hi.scan(client, "web.t") as rows:
        frame = rows.read_all().to_pandas(types_mapper=pd.ArrowDtype)
    assert str(frame.dtypes["amount"]) == "decimal128(10, 2)[pyarrow]"
    assert sorted(frame["id"]) == list(range(ROWS))


def test_an_error_while_a_library_reads_is_that_of_the_scan(client: MetastoreClient) -> None:
    for path in table_folder(client, "web.t").glob("**/bucket_00000"):
        path.write_bytes(b"not ORC")
    with hi.scan(client, "web.t") as rows, duckdb.connect() as database:
        database.register("rows", rows)
        with pytest.raises(Exception, match="bucket_00000"):
            database.execute("select count(*) from rows").fetchall()


def test_a_stream_of_a_closed_scan_does_not_look_empty(client: MetastoreClient) -> None:
    rows = hi.scan(client, "web.t")
    rows.close()
    with pytest.raises(Exception, match="was closed, or failed, before its last batch"):
        pa.table(rows)
