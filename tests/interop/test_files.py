"""Files that are laid out by hand, each with one peculiarity, as real Hive sees them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DEFAULT_PARTITION_NAME, Table
from tests.interop.hive import HiveError, RealHive, RowId
from tests.interop.tables import allocate, write_delta
from tests.support.tables import folder_of

BUCKET_0, BUCKET_3 = 536870912, 536870912 + (3 << 16)
MSG = pa.schema([("id", pa.int32()), ("msg", pa.string())])


def messages(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.table({"id": [row[0] for row in rows], "msg": [row[1] for row in rows]}, schema=MSG)


def create(client: MetastoreClient, database: str, **partition_keys: str) -> Table:
    return client.create_table(
        f"{database}.t", columns={"id": "int", "msg": "string"}, partition_keys=partition_keys or None
    )


def select_both_ways(hive: RealHive, query: str) -> list[list[Any]]:
    """The rows in order of their first cell; row mode and vectorised must agree."""
    by_row = hive.select(query, vectorized=False)
    vectorized = hive.select(query, vectorized=True)
    assert Counter(map(repr, by_row)) == Counter(map(repr, vectorized))
    return sorted(by_row, key=lambda row: row[0])


def row_id(write_id: int, bucket_property: int, number: int) -> dict[str, int]:
    return {"writeid": write_id, "bucketid": bucket_property, "rowid": number}


def test_our_own_file_is_read_with_its_row_ids(hive: RealHive, client: MetastoreClient, database: str) -> None:
    table = create(client, database)
    write_delta(folder_of(table), messages((1, "one"), (2, None)), write_id=1)
    allocate(client, table.name, ["commit"])

    rows = select_both_ways(hive, f"select id, msg, row__id as rid from {table.name}")

    assert rows == [[1, "one", row_id(1, BUCKET_0, 0)], [2, None, row_id(1, BUCKET_0, 1)]]


def test_the_acid_reader_gives_the_rows_of_the_snapshot_that_it_is_given(hive: RealHive, tmp_path: Path) -> None:
    for write_id in (1, 2, 3):
        write_delta(tmp_path, messages((write_id, "m")), write_id=write_id)

    rows = hive.read_acid(tmp_path, {"id": "int", "msg": "string"}, write_ids="db.t:3:2:2:1")

    assert [(row.row_id, row.cells) for row in rows] == [(RowId(3, BUCKET_0, 0), (3, "m"))]


def test_rows_of_aborted_and_open_transactions_stay_hidden(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    table = create(client, database)
    for write_id in (1, 2, 3, 4):
        write_delta(folder_of(table), messages((write_id, "m")), write_id=write_id)
    txns = allocate(client, table.name, ["commit", "abort", "commit", "open"])
    query = f"select id from {table.name}"

    before = select_both_ways(hive, query)
    client.commit_txn(txns[3])
    after = select_both_ways(hive, query)

    assert before == [[1], [3]]
    assert after == [[1], [3], [4]]


def test_partitions_are_read_with_their_values(hive: RealHive, client: MetastoreClient, database: str) -> None:
    table = create(client, database, origin="string", month="int")
    places = [("JFK", "1"), ("JFK", "2"), ("LGA", "1")]
    client.add_partitions(table.name, places)
    names = [f"origin={origin}/month={month}" for origin, month in places]
    for number, ((origin, _), name) in enumerate(zip(places, names, strict=True)):
        write_delta(folder_of(table) / name, messages((number, origin)), write_id=1)
    allocate(client, table.name, ["commit"], partitions=names)
    query = f"select id, msg, origin, month, row__id as rid from {table.name}"

    assert select_both_ways(hive, query) == [
        [0, "JFK", "JFK", 1, row_id(1, BUCKET_0, 0)],
        [1, "JFK", "JFK", 2, row_id(1, BUCKET_0, 0)],
        [2, "LGA", "LGA", 1, row_id(1, BUCKET_0, 0)],
    ]
    assert select_both_ways(hive, f"{query} where origin = 'JFK' and month > 1") == [
        [1, "JFK", "JFK", 2, row_id(1, BUCKET_0, 0)]
    ]


def test_the_default_partition_is_null_except_for_string_keys(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    table = create(client, database, origin="string", month="int")
    default = DEFAULT_PARTITION_NAME
    client.add_partitions(table.name, [(default, default)])
    write_delta(folder_of(table) / f"origin={default}" / f"month={default}", messages((1, "m")), write_id=1)
    allocate(client, table.name, ["commit"])

    assert select_both_ways(hive, f"select id, origin, month from {table.name}") == [[1, default, None]]


def test_an_unbucketed_table_may_have_files_of_any_bucket_number(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    table = create(client, database)
    folder = folder_of(table)
    write_delta(folder, messages((1, "a")), write_id=1, bucket=0)
    write_delta(folder, messages((2, "b"), (3, "c")), write_id=1, bucket=3)
    write_delta(folder, messages((4, "d")), write_id=2, bucket=3)
    allocate(client, table.name, ["commit", "commit"])

    rows = select_both_ways(hive, f"select id, row__id as rid from {table.name}")

    assert rows == [
        [1, row_id(1, BUCKET_0, 0)],
        [2, row_id(1, BUCKET_3, 0)],
        [3, row_id(1, BUCKET_3, 1)],
        [4, row_id(2, BUCKET_3, 0)],
    ]


@pytest.mark.parametrize("partition_keys", [{}, {"origin": "string"}])
def test_staged_files_in_the_hidden_folder_are_no_rows(
    hive: RealHive, client: MetastoreClient, database: str, tmp_path: Path, partition_keys: dict[str, str]
) -> None:
    table = create(client, database, **partition_keys)
    root = folder_of(table)
    folder = root / "origin=JFK" if partition_keys else root
    if partition_keys:
        client.add_partitions(table.name, [("JFK",)])
    write_delta(folder, messages((1, "a")), write_id=1)
    staged = write_delta(tmp_path / "staged", messages((2, "b")), write_id=1)
    for hidden in (root / ".hive_ingest" / "7_writer", folder / ".hive_ingest" / "7_writer"):
        hidden.mkdir(parents=True, exist_ok=True)
        shutil.copy(staged, hidden / "0.orc")
        shutil.copytree(staged.parent, hidden / "delta_0000001_0000001_0000", dirs_exist_ok=True)
    allocate(client, table.name, ["commit"])

    assert select_both_ways(hive, f"select id from {table.name}") == [[1]]
    hive.sql(f"update {table.name} set msg = 'u' where id = 1")
    hive.compact(str(table.name), "major", partition="origin='JFK'" if partition_keys else None)
    assert select_both_ways(hive, f"select id, msg from {table.name}") == [[1, "u"]]
    assert (root / ".hive_ingest" / "7_writer" / "0.orc").exists()


def test_hive_4_reads_zstd_files(hive401: RealHive, tmp_path: Path) -> None:
    write_delta(tmp_path, messages((1, "a")), write_id=1, compression="ZSTD")

    assert len(hive401.read_acid(tmp_path, {"id": "int", "msg": "string"}, write_ids="db.t:1:1::")) == 1


def test_hive_3_fails_on_zstd_files_and_says_so(hive313: RealHive, tmp_path: Path) -> None:
    write_delta(tmp_path, messages((1, "a")), write_id=1, compression="ZSTD")

    with pytest.raises(HiveError, match=r"Problem reading file footer|ORC split generation failed"):
        hive313.read_acid(tmp_path, {"id": "int", "msg": "string"}, write_ids="db.t:1:1::")
