"""Hive's `TestStreaming`: files, buckets and row ids.

Each test has the name of Hive's case in snake case. `test_hive_streaming.py` lists all cases. What Hive's cases do by
SQL (INSERT, UPDATE, DELETE and compaction) is done here by `append`, delete events and this package's own compactor.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

import hive_ingest as hi
from hive_ingest.acid import bucket_ids
from hive_ingest.connection import JoinedTransaction
from hive_ingest.errors import CorruptFile
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.orc.format.codec import unpack
from hive_ingest.orc.format.stripe_footer import DICTIONARIES, column_encoding
from hive_ingest.orc.format.stripe_streams import ROW_INDEX, StripeFooter, parse_stripe_footer
from hive_ingest.orc.format.tail import read_tail
from tests.acceptance.connection.hive_cases import (
    ALERTS,
    ASIA_INDIA,
    connect,
    create_alerts,
    create_sales,
    rows,
    rows_by_id,
    sale,
)
from tests.support.compactions import MAJOR, Compacted, RowId, connect_quietly
from tests.support.tables import create_table, files_of, table_folder

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="each case is about the client, and these are faster")

BUCKET_0 = 536870912
COLUMNS = {"key1": "string", "key2": "int", "data": "string"}
KEYS = ["key1", "key2"]
RECORDS = (
    *("PSFAHYLZVC,29,EPNMA", "PPPRKWAYAU,96,VUTEE", "MIAOFERCHI,3,WBDSI", "CEGQAZOWVN,0,WCUZL"),
    *("XWAKMNSVQF,28,YJVHU", "XBWTSAJWME,2,KDQFO", "FUVLQTAXAY,5,LDSDG", "QTQMDJMGJH,6,QBOMA"),
    *("EFLOTLWJWN,71,GHWPS", "PEQNAOJHCM,82,CAAFI", "MOEKQLGZCP,41,RUACR", "QZXMCOPTID,37,LFLWE"),
    *("EYALVWICRD,13,JEZLC", "VYWLZAYTXX,16,DMVZX", "OSALYSQIXR,47,HNZVE", "JGKVHKCEGQ,25,KSCJB"),
    *("WQFMMYDHET,12,DTRWA", "AJOVAYZKZQ,15,YBKFO", "YAQONWCUAU,31,QJNHZ", "DJBXUEUOEB,35,IYCBL"),
)
FOUR = (
    b"name0,1,Hello streaming",
    b"name2,2,Welcome to streaming",
    b"name4,2,more Streaming unlimited",
    b"name5,2,even more Streaming unlimited",
)


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[EmbeddedMetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as client:
        yield client


def bucket_of(bucket_property: int) -> int:
    """The bucket's number."""
    return bucket_property >> 16 & 0xFFF


# -- buckets -----------------------------------------------------------------------------------------


def test_bucketing_where_bucket_col_is_not_first_col(ms: EmbeddedMetastoreClient) -> None:
    """Hive's case prints the rows. Here their number, and the bucket of all, which have the same key, are checked."""
    create_sales(ms)
    name = "testing5.store_sales"
    with connect(ms, name, "2015") as conn, conn.transaction():
        for i in range(10):
            conn.write(sale(i).encode())
    found = rows_by_id(ms, name)
    assert len(found) == 10
    (expected,) = bucket_ids([pa.array([7], pa.int32()), pa.array([8], pa.int32())], ("int", "int"), 4)
    assert {bucket_of(row[1]) for row in found} == {expected}


def test_stream_bucketing_matches_regular_bucketing(ms: EmbeddedMetastoreClient) -> None:
    """Compared with a table that was appended to, and with the hash, which is tested on hashes of Hive's classes."""
    for table in ("streamedtable", "finaltable"):
        create_table(ms, f"testbucketing3.{table}", COLUMNS, bucket_columns=KEYS, num_buckets=100)
    with connect(ms, "testbucketing3.streamedtable") as conn, conn.transaction():
        for record in RECORDS:
            conn.write(record.encode())
    hi.append(ms, "testbucketing3.finaltable", hi.read_table(ms, "testbucketing3.streamedtable"))

    def buckets(table: str) -> dict[str, int]:
        found = hi.read_table(ms, f"testbucketing3.{table}", row_ids=True).to_pylist()
        return {row["key1"]: bucket_of(row["row__id"]["bucketid"]) for row in found}

    texts, numbers, _ = zip(*(record.split(",") for record in RECORDS), strict=True)
    keys = [pa.array(texts), pa.array(map(int, numbers), pa.int32())]
    assert buckets("streamedtable") == dict(zip(texts, bucket_ids(keys, ("string", "int"), 100), strict=True))
    assert buckets("finaltable") == buckets("streamedtable")


def test_bucketing(ms: EmbeddedMetastoreClient) -> None:
    name = "testing3.dimensiontable"
    create_table(ms, name, COLUMNS, bucket_columns=KEYS, num_buckets=4)
    with connect(ms, name) as conn, conn.transaction():
        for record in FOUR:
            conn.write(record)
    other = "testing4.facttable"
    columns = {"key3": "string", "key4": "int", "data2": "string"}
    create_table(ms, other, columns, bucket_columns=["key3", "key4"], num_buckets=4)
    with connect(ms, other) as conn, conn.transaction():
        for record in (b"name5,2,fact3", b"name8,2,fact3", b"name0,1,fact1"):
            conn.write(record)

    assert rows_in_buckets(ms, name) == {1: 1, 2: 2, 3: 1}
    assert sum(rows_in_buckets(ms, other).values()) == 3


def rows_in_buckets(ms: EmbeddedMetastoreClient, table: str) -> dict[int, int]:
    """How many rows the file of each bucket has."""
    folder = table_folder(ms, table)
    files = [folder / name for name in files_of(ms, table) if "bucket_" in name]
    return {
        int(file.name.removeprefix("bucket_")): orc.ORCFile(pa.BufferReader(file.read_bytes())).nrows for file in files
    }


# -- folders and row ids -----------------------------------------------------------------------------


def test_get_delta_path(ms: EmbeddedMetastoreClient) -> None:
    """Java has a method for the path. Here a file of that write id, statement and bucket is written."""
    create_alerts(ms)
    ms.allocate_table_write_ids(ALERTS, ms.open_txns(4))
    with connect(ms, ALERTS, *ASIA_INDIA) as conn:
        conn.begin_transaction()
        assert conn.write_id == 5
        with JoinedTransaction(conn.share_transaction(), hi.StrictDelimitedInputWriter(), statement_id=9) as writer:
            writer.write(b"1,m")
            prepared = writer.prepare()
        conn.commit_transaction(prepared=[prepared])
    path = table_folder(ms, ALERTS) / "continent=Asia/country=India/delta_0000005_0000005_0009/bucket_00000"
    assert path.is_file()
    assert path.parts[-6:-4] == ("testing.db", "alerts")


class Streamed(Compacted):
    """A table without buckets, which Hive's cases name in mixed case."""

    def __init__(self, client: EmbeddedMetastoreClient) -> None:
        super().__init__(client, "default.streamingnobuckets")

    def stream(self, *transactions: tuple[str, ...], batch: int) -> None:
        """Write the records of each transaction, and check the one lock of each."""
        name: dict[str, Any] = {"database": "Default", "table": "streamingNoBuckets"}
        writer = hi.StrictDelimitedInputWriter(field_delimiter=",")
        with hi.StreamingConnection.connect(
            self.client, record_writer=writer, transaction_batch_size=batch, **name
        ) as conn:
            for records in transactions:
                conn.begin_transaction()
                for record in records:
                    conn.write(record.encode())
                (lock,) = self.client.show_locks()
                assert (lock.database, lock.table) == ("default", "streamingnobuckets")
                conn.commit_transaction()

    def update(self, row_id: RowId, record: str) -> None:
        """Replace a row in one transaction, as UPDATE does: a delete event, and a new row."""
        with connect(self.client, str(self.name)) as conn, conn.transaction():
            assert conn.write_id is not None
            self.write_delete_events(conn.write_id, [row_id])
            conn.write(record.encode())


def folder_of(write_id: int) -> str:
    return f"delta_{write_id:07d}_{write_id:07d}_0000"


def test_no_buckets(ms: EmbeddedMetastoreClient) -> None:
    table = Streamed(ms)
    table.insert(0)
    table.stream(("1,b2", "3,b4"), ("5,b6", "7,b8"), batch=2)
    assert rows_by_id(ms, table.name) == [
        (1, BUCKET_0, 0, 0, "row 0"),
        (2, BUCKET_0, 0, 1, "b2"),
        (2, BUCKET_0, 1, 3, "b4"),
        (3, BUCKET_0, 0, 5, "b6"),
        (3, BUCKET_0, 1, 7, "b8"),
    ]
    assert table.folders() == [folder_of(write_id) for write_id in (1, 2, 3)]
    assert {Path(name).name for name in files_of(ms, str(table.name))} == {"_orc_acid_version", "bucket_00000"}

    table.update(table.row_id(7), "99,updated")
    table.delete(table.row_id(1))
    assert table.ids() == [0, 3, 5, 99]
    table.compact(MAJOR)
    table.clean()
    assert table.short_folders() == ["base_5_v"]
    assert rows_by_id(ms, table.name) == [
        (1, BUCKET_0, 0, 0, "row 0"),
        (2, BUCKET_0, 1, 3, "b4"),
        (3, BUCKET_0, 0, 5, "b6"),
        (4, BUCKET_0, 0, 99, "updated"),
    ]


def test_auto_roll_transaction_batch(ms: EmbeddedMetastoreClient) -> None:
    """Four transactions in batches of two. In Java a batch is one delta, here each transaction is."""
    table = Streamed(ms)
    table.insert(0)
    table.stream(("1,b2", "3,b4"), ("5,b6", "7,b8"), ("9,b10", "11,b12"), ("13,b14", "15,b16"), batch=2)
    written = [
        (1, BUCKET_0, 0, 0, "row 0"),
        *((2 + i // 2, BUCKET_0, i % 2, 2 * i + 1, f"b{2 * i + 2}") for i in range(8)),
    ]
    assert rows_by_id(ms, table.name) == written
    assert table.folders() == [folder_of(write_id) for write_id in range(1, 6)]

    table.update(table.row_id(7), "97,updated")
    table.delete(table.row_id(1))
    table.update(table.row_id(15), "99,updated")
    table.delete(table.row_id(9))
    kept = [row for row in written if row[3] not in (1, 7, 9, 15)]
    updated = [(6, BUCKET_0, 0, 97, "updated"), (8, BUCKET_0, 0, 99, "updated")]
    assert rows_by_id(ms, table.name) == kept + updated
    table.compact(MAJOR)
    table.clean()
    assert table.short_folders() == ["base_9_v"]
    assert rows_by_id(ms, table.name) == kept + updated


def test_commit_with_key_value(ms: EmbeddedMetastoreClient) -> None:
    name = "default.keyvalue"
    create_table(ms, name, {"a": "string", "b": "string"}, properties={"_metamykey": "oldvalue"})
    hi.append(ms, name, pa.table({"a": ["foo"], "b": ["bar"]}))
    with connect(ms, name, transaction_batch_size=2) as conn:
        conn.begin_transaction()
        conn.write([b"a1,b2", b"a3,b4"])
        conn.commit_transaction((), "_metamykey", "myvalue")
    assert rows_by_id(ms, name) == [
        (1, BUCKET_0, 0, "foo", "bar"),
        (2, BUCKET_0, 0, "a1", "b2"),
        (2, BUCKET_0, 1, "a3", "b4"),
    ]
    assert f"{folder_of(2)}/bucket_00000" in files_of(ms, name)
    assert ms.get_table(name).properties["_metamykey"] == "myvalue"


# -- what is inside a file ---------------------------------------------------------------------------


def test_file_dump_delta_files_with_streaming_optimizations(ms: EmbeddedMetastoreClient) -> None:
    """As Java's, files are compressed and have no dictionaries. Unlike Java's, they have statistics."""
    name = "testing3.dimensiontable"
    properties = {"orc.compress": "ZLIB"}
    create_table(ms, name, COLUMNS, bucket_columns=KEYS, num_buckets=4, properties=properties)
    with connect(ms, name) as conn, conn.transaction():
        conn.write(FOUR)
        conn.write(f"name{i},{i},{('streaming', 'unlimited')[i % 2]}".encode() for i in range(6000))
    folder = table_folder(ms, name)
    files = [folder / file for file in files_of(ms, name) if "bucket_" in file]
    assert len(files) == 4
    for file in files:
        content = pa.BufferReader(file.read_bytes())
        assert orc.ORCFile(content).compression == "ZLIB"
        assert all(read_tail(content, file.name).footer.statistics)
        assert DICTIONARIES.isdisjoint(encodings(content))


def test_file_dump_delta_files_without_streaming_optimizations(ms: EmbeddedMetastoreClient) -> None:
    """Java's option trades indexes and dictionaries for speed. Here is no such option: each column has its index."""
    name = "testing3.dimensiontable"
    create_table(ms, name, COLUMNS, bucket_columns=KEYS, num_buckets=4)
    with connect(ms, name) as conn, conn.transaction():
        conn.write(f"name{i},{i},{('streaming', 'unlimited')[i % 2]}".encode() for i in range(60_000))
    folder = table_folder(ms, name)
    files = [folder / file for file in files_of(ms, name) if "bucket_" in file]
    assert len(files) == 4
    for file in files:
        content = pa.BufferReader(file.read_bytes())
        footer = footer_of_first_stripe(content)
        columns = range(len(footer.encodings))
        assert [column for kind, column, _ in footer.streams if kind == ROW_INDEX] == [*columns]
        assert DICTIONARIES.isdisjoint(encodings(content))


def encodings(file: pa.BufferReader) -> set[int]:
    """How the columns of the first stripe are encoded."""
    return {column_encoding(encoding)[0] for encoding in footer_of_first_stripe(file).encodings}


def footer_of_first_stripe(file: pa.BufferReader) -> StripeFooter:
    tail = read_tail(file, "file")
    stripe = tail.footer.stripes[0]
    file.seek(stripe.offset + stripe.index_length + stripe.data_length)
    return parse_stripe_footer(
        unpack(file.read(stripe.footer_length), tail.postscript.codec, tail.postscript.block_size)
    )


def test_file_dump_corrupt_data_files(ms: EmbeddedMetastoreClient) -> None:
    """Java's tool counts three damaged files and recovers them. Here the reader refuses each by its name."""
    name = "testing3.dimensiontable"
    create_table(ms, name, COLUMNS, bucket_columns=KEYS, num_buckets=4)
    with connect(ms, name, transaction_batch_size=10) as conn, conn.transaction():
        for record in FOUR:
            conn.write(record)
    folder = table_folder(ms, name) / folder_of(1)
    whole = {file: file.read_bytes() for file in sorted(folder.glob("bucket_*"))}
    assert [file.name for file in whole] == ["bucket_00001", "bucket_00002", "bucket_00003"]
    damages = (lambda content: content[:-1], lambda content: content + bytes(100), lambda _: b"")
    for (file, content), damage in zip(whole.items(), damages, strict=True):
        file.write_bytes(damage(content))
        with pytest.raises(CorruptFile, match=file.name):
            hi.read_table(ms, name)
        file.write_bytes(content)
    assert len(rows(ms, name)) == 4
