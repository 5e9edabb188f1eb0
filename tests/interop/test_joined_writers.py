"""Parallel writers of one transaction, and overwrites: what they leave is read, changed and compacted by real Hive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.connection import JoinedTransaction, StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from tests.interop.agreement import BOTH_MODES, assert_agreement, ids
from tests.interop.hive import HiveError, RealHive
from tests.interop.tables import orc_properties
from tests.support import connections
from tests.support import rows as numbered

WRITERS = 4
EACH = 1000


def create(client: MetastoreClient, hive: RealHive, database: str, **layout: Any) -> str:
    columns = {"id": "int", "msg": "string"}
    client.create_table(f"{database}.t", columns=columns, properties=orc_properties(hive), **layout)
    return f"{database}.t"


def rows(ids: range, **constant: str) -> pa.Table:
    return numbered.rows(ids, msg=[f"m{i}" for i in ids], **constant)


def connect(client: MetastoreClient, table: str, *, overwrite: bool = False) -> StreamingConnection:
    return connections.connect(client, table, record_writer=hi.ArrowWriter(), overwrite=overwrite)


def write_in_parallel(
    conn: StreamingConnection, key: str, ids: range, *, numbers: Sequence[int] = range(WRITERS), **constant: str
) -> None:
    """A writer for each of `numbers`, by which `key` distinguishes them; they take turns with the ids."""
    conn.begin_transaction()
    shared, prepared = conn.share_transaction(), []
    for at, number in enumerate(numbers):
        options: dict[str, Any] = {key: number}
        with JoinedTransaction(shared, hi.ArrowWriter(), **options) as writer:
            writer.write(rows(ids[at :: len(numbers)], **constant))
            prepared.append(writer.prepare())
    conn.commit_transaction(prepared=prepared)


def read(hive: RealHive, client: MetastoreClient, table: str) -> list[int]:
    """The ids, which Hive in both modes and we must find under the same ROW__IDs, each with its own text."""
    found = assert_agreement(hive, client, table, modes=BOTH_MODES)
    assert all(msg == f"m{i}" for i, msg in found.values())
    return ids(found)


@pytest.mark.parametrize("layout", ["plain", "bucketed"])
def test_hive_reads_changes_and_compacts_what_parallel_writers_wrote(
    hive: RealHive, database: str, client: MetastoreClient, layout: str
) -> None:
    buckets = {"bucket_columns": ["id"], "num_buckets": 3} if layout == "bucketed" else {}
    table = create(client, hive, database, **buckets)
    key = "statement_id" if layout == "bucketed" else "writer_bucket"
    with connect(client, table) as conn:
        write_in_parallel(conn, key, range(WRITERS * EACH))
        with conn.transaction():
            conn.write(rows(range(90_000, 90_010)))
    mine = read(hive, client, table)
    assert len(mine) == WRITERS * EACH + 10
    hive.sql(f"delete from {table} where id % 10 = 3")
    left = [i for i in mine if i % 10 != 3]
    assert sorted(row[0] for row in hive.sql(f"select id from {table}")) == left
    hive.compact(table, "major")
    assert sorted(row[0] for row in hive.sql(f"select id from {table}")) == left
    assert hive.sql(f"select count(*) from {table} where id between 100 and 199") == [[90]]


def test_hive_reads_an_overwrite_and_what_came_after_it(hive: RealHive, database: str, client: MetastoreClient) -> None:
    table = create(client, hive, database)
    hi.append(client, table, rows(range(5)))
    with connect(client, table, overwrite=True) as conn:
        write_in_parallel(conn, "writer_bucket", range(100, 100 + WRITERS))
    hi.append(client, table, rows(range(10, 12)))
    mine = read(hive, client, table)
    assert mine == [10, 11, *range(100, 100 + WRITERS)]
    hive.compact(table, "major")
    assert sorted(row[0] for row in hive.sql(f"select id from {table}")) == mine


def test_hive_finds_a_table_empty_after_an_overwrite_without_rows(
    hive: RealHive, database: str, client: MetastoreClient
) -> None:
    table = create(client, hive, database)
    hi.append(client, table, rows(range(5)))
    with connect(client, table, overwrite=True) as conn, conn.transaction():
        pass
    assert hive.sql(f"select id from {table}") == []
    hive.sql(f"insert into {table} values (7, 'm7')")
    assert hive.sql(f"select id from {table}") == [[7]]


def test_hive_sees_only_the_written_partitions_replaced(hive: RealHive, database: str, client: MetastoreClient) -> None:
    table = create(client, hive, database, partition_keys={"part": "string"})
    for part in "ab":
        hi.append(client, table, rows(range(3), part=part))
    with connect(client, table, overwrite=True) as conn:
        write_in_parallel(conn, "writer_bucket", range(50, 50 + WRITERS), part="b")
    found = hive.sql(f"select part, id from {table}")
    assert sorted(map(tuple, found)) == [*(("a", i) for i in range(3)), *(("b", 50 + i) for i in range(WRITERS))]


def test_hive_3_changes_a_partition_of_several_bucket_files_unless_their_numbers_have_a_gap(hive313: RealHive) -> None:
    with hi.connect_metastore(hive313.metastore.uri) as client:
        client.create_database("gaps")
        assert delete_one_of_each(hive313, client, "gaps.without", writer_buckets=range(3)) == 3 * 9
        with pytest.raises(HiveError, match="Execution Error"):
            delete_one_of_each(hive313, client, "gaps.with_one", writer_buckets=(0, 8))
        assert hive313.sql("select count(*) from gaps.with_one") == [[2 * 10]], "what failed has changed something"


def delete_one_of_each(hive: RealHive, client: MetastoreClient, table: str, *, writer_buckets: Sequence[int]) -> int:
    """Hive deletes one row of each bucket file of a partition; how many are left."""
    columns, keys = {"id": "int", "msg": "string"}, {"part": "string"}
    client.create_table(table, columns=columns, partition_keys=keys, properties=orc_properties(hive))
    with connect(client, table) as conn:
        all_ids = range(10 * len(writer_buckets))
        write_in_parallel(conn, "writer_bucket", all_ids, numbers=writer_buckets, part="a")
    hive.sql(f"delete from {table} where id < {len(writer_buckets)}")
    [[left]] = hive.sql(f"select count(*) from {table}")
    return int(left)
