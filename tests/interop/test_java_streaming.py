"""What Java Hive Streaming V2 writes, we read as Hive does: rows and ROW__ID, also while its batch is open."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.interop.hive import RealHive
from tests.interop.java_streaming import JavaStream
from tests.support.tables import table_folder

FIRST_BUCKET = 1 << 29


@pytest.fixture(scope="module")
def client(hive313: RealHive) -> Iterator[MetastoreClient]:
    """Ours, on the metastore of Hive 3.1.3."""
    with connect_metastore(hive313.metastore.uri) as client:
        client.create_database("java_streaming")
        yield client


def create(client: MetastoreClient, name: str, **layout: Any) -> str:
    columns = {"id": "int", "msg": "string"}
    client.create_table(f"java_streaming.{name}", columns=columns, properties={"orc.compress": "ZLIB"}, **layout)
    return f"java_streaming.{name}"


def by_hive(hive: RealHive, table: str, columns: str) -> list[list[Any]]:
    rows = hive.sql(f"select ROW__ID, {columns} from {table}")
    return sorted(([list(row_id.values()), *cells] for row_id, *cells in rows), key=repr)


def by_us(client: MetastoreClient, table: str, columns: str) -> list[list[Any]]:
    names = columns.split(", ")
    rows = hi.read_table(client, table, columns=names, row_ids=True).to_pylist()
    return sorted(([list(row["row__id"].values()), *(row[name] for name in names)] for row in rows), key=repr)


def read(hive: RealHive, client: MetastoreClient, table: str, columns: str = "id, msg") -> list[list[Any]]:
    """The rows as Hive gives them, ROW__ID first; ours are the same."""
    rows = by_hive(hive, table, columns)
    assert by_us(client, table, columns) == rows
    return rows


def names_in(client: MetastoreClient, table: str) -> list[str]:
    """The files below the table's folder."""
    folder = table_folder(client, table)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def lengths(client: MetastoreClient, table: str, side_file: str) -> list[int]:
    """What a side file counts as flushed, oldest first."""
    content = (table_folder(client, table) / side_file).read_bytes()
    return [length for (length,) in struct.iter_unpack(">q", content)]


def test_a_closed_batch_is_one_file_and_read_without_its_aborted_transactions(
    hive313: RealHive, client: MetastoreClient
) -> None:
    table = create(client, "closed")
    with JavaStream(hive313, table, batch=4) as stream:
        stream.committed(["1,a", "2,b"])
        stream.begin()
        stream.write("3,never", "4,never")
        stream.abort()
        stream.committed(["5,c"])

    assert names_in(client, table) == ["delta_0000001_0000004/_orc_acid_version", "delta_0000001_0000004/bucket_00000"]
    assert read(hive313, client, table) == [
        [[1, FIRST_BUCKET, 0], 1, "a"],
        [[1, FIRST_BUCKET, 1], 2, "b"],
        [[3, FIRST_BUCKET, 0], 5, "c"],
    ]


def test_an_open_batch_is_read_up_to_its_last_commit(hive313: RealHive, client: MetastoreClient) -> None:
    table = create(client, "open_batch")
    first = [[[1, FIRST_BUCKET, row], row, f"a{row}"] for row in range(3)]
    second = [[[2, FIRST_BUCKET, 0], 7, "flushed"], [[2, FIRST_BUCKET, 1], 8, "late"]]
    file, side_file = "delta_0000001_0000003/bucket_00000", "delta_0000001_0000003/bucket_00000_flush_length"
    with JavaStream(hive313, table, batch=3) as stream:
        stream.begin()
        stream.write("0,a0", "1,a1", "2,a2")
        assert read(hive313, client, table) == [], "nothing has a footer yet"
        stream.commit()
        assert {file, side_file} < set(names_in(client, table))
        assert read(hive313, client, table) == first

        stream.begin()
        stream.write("7,flushed")
        stream.flush()
        stream.write("8,late")
        assert read(hive313, client, table) == first, "a footer holds a row of the second transaction, which is open"
        stream.commit()
        assert read(hive313, client, table) == first + second

        stream.begin()
        stream.write("9,never")
        stream.flush()
        stream.abort()
        assert read(hive313, client, table) == first + second
        zero, *flushed = lengths(client, table, side_file)
        assert (zero, len(flushed)) == (0, 4), "it begins with 0; two commits, two flushes"

    assert side_file not in names_in(client, table)
    assert read(hive313, client, table) == first + second


def test_an_open_batch_over_partitions_and_buckets_is_read_as_hive_reads_it(
    hive313: RealHive, client: MetastoreClient
) -> None:
    table = create(client, "spread", partition_keys={"day": "string"}, bucket_columns=["id"], num_buckets=2)

    def records(first: int, day: str | None) -> list[str]:
        return [json.dumps({"id": first + i, "msg": f"m{i}", "day": day}) for i in range(6)]

    with JavaStream(hive313, table, batch=4, format="json") as stream:
        stream.committed([*records(0, "a"), *records(10, "b/c")])
        stream.begin()
        stream.write(*records(100, "a"), *records(110, "only aborted"))
        stream.abort()
        stream.committed(records(20, "b/c"))
        stream.begin()
        stream.write(*records(200, "a"))
        stream.flush()

        rows = by_us(client, table, "id, msg, day")

        assert rows == by_hive(hive313, table, "id, msg, day")
        assert sorted(row[1] for row in rows) == [*range(6), *range(10, 16), *range(20, 26)]
        assert {row_id[1] for row_id, *_ in rows} == {FIRST_BUCKET, FIRST_BUCKET | 1 << 16}
        assert "day=b%2Fc" in {name.split("/")[0] for name in names_in(client, table)}


def test_java_and_we_write_one_table_in_turn(hive313: RealHive, client: MetastoreClient) -> None:
    table = create(client, "shared")
    writer = hi.StrictDelimitedInputWriter(field_delimiter=",")
    with (
        JavaStream(hive313, table, batch=2) as stream,
        hi.StreamingConnection.connect(client, database="java_streaming", table="shared", record_writer=writer) as ours,
    ):
        stream.committed(["1,java"])
        stream.begin()
        stream.write("2,java")
        with ours.transaction():
            ours.write("3,ours")
        assert [cells for _, *cells in read(hive313, client, table)] == [[1, "java"], [3, "ours"]]
        stream.commit()
        assert [cells for _, *cells in read(hive313, client, table)] == [[1, "java"], [2, "java"], [3, "ours"]]
