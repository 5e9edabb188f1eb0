"""Tables that Hive writes, compacts, overwrites, empties and alters are read as it reads them, ROW__ID included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from tests.interop.agreement import BOTH_MODES, assert_agreement, ids
from tests.interop.hive import RealHive
from tests.interop.original_files import converted, loaded

#: Compressed so that 3.1.3 can read what we append.
ACID = "stored as orc tblproperties ('transactional'='true', 'orc.compress'='ZLIB')"
TYPES = "id int, s string, n decimal(10,2), at timestamp, a array<int>, m map<string,int>, st struct<x:int,y:string>"


def values(first: int, count: int) -> str:
    """A query that gives `count` rows of `TYPES`; every third value is null."""
    rows = ", ".join(map(str, range(first, first + count)))
    return (
        "select id, if(id % 3 = 0, null, concat('é🚀', id)) s, if(id % 3 = 1, null, cast(id / 4 as decimal(10,2))) n, "
        "if(id % 3 = 2, null, cast(concat('2024-03-31 02:30:', lpad(id % 60, 2, '0'), '.000001') as timestamp)) at, "
        "if(id % 3 = 0, null, array(id, null)) a, if(id % 3 = 1, null, map('k', id)) m, "
        "if(id % 3 = 2, null, named_struct('x', id, 'y', 'ü')) st "
        f"from (select stack({count}, {rows}) as (id)) q"
    )


def append(client: MetastoreClient, name: str, *ids: int, **constant: str) -> None:
    """Ours, after Hive; columns that are not given are null."""
    database, table = name.split(".")
    columns: dict[str, Any] = {"id": pa.array(ids, pa.int64() if max(ids) >= 2**31 else pa.int32())}
    writer = hi.ArrowWriter(missing_columns="null", missing_partition_keys="null")
    with (
        StreamingConnection.connect(client, database=database, table=table, record_writer=writer) as conn,
        conn.transaction(),
    ):
        conn.write(pa.table(columns | {key: [value] * len(ids) for key, value in constant.items()}))


def test_rows_of_every_kind_of_statement(hive: RealHive, client: MetastoreClient, database: str) -> None:
    """INSERT of a query and of values, UPDATE, DELETE, MERGE, compactions."""
    name = f"{database}.t"
    hive.sql(f"create table {name} ({TYPES}) partitioned by (p string, q int) {ACID}")
    hive.sql(
        f"insert into {name} partition (p, q) select r.*, if(id % 2 = 0, 'a/b', null), id % 2 from ({values(0, 6)}) r"
    )
    hive.sql(f"insert into {name} (id, s, p, q) values (10, 'v', 'a/b', 0), (11, '', 'ü', 7)")
    hive.sql(f"insert into {name} partition (p='a/b', q=0) {values(20, 4)}")
    rows = assert_agreement(hive, client, name)
    assert ids(rows) == [*range(6), 10, 11, *range(20, 24)]

    hive.sql(f"update {name} set s = 'new', n = -0.25 where id in (1, 2, 20)")
    hive.sql(f"delete from {name} where id in (3, 4, 22)")
    hive.sql(
        f"merge into {name} target using ({values(4, 3)}) source on target.id = source.id "
        "when matched then update set s = 'merged' "
        "when not matched then insert values (source.id, source.s, source.n, source.at, source.a, source.m, "
        "source.st, 'a/b', 0)"
    )
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert ids(rows) == [0, 1, 2, 4, 5, 6, 10, 11, 20, 21, 23]
    for kind in ("minor", "major"):
        hive.compact(name, kind, partition="p='a/b', q=0")
        assert assert_agreement(hive, client, name) == rows
        append(client, name, 30, 31, p="a/b")
        hive.sql(f"delete from {name} where id >= 30")


def test_a_table_that_is_overwritten_and_emptied(hive: RealHive, client: MetastoreClient, database: str) -> None:
    name = f"{database}.t"
    hive.sql(f"create table {name} (id int, s string) {ACID}")
    append(client, name, 1, 2)
    hive.sql(f"insert overwrite table {name} values (10, 'x'), (11, 'y')")
    append(client, name, 12)
    assert ids(assert_agreement(hive, client, name)) == [10, 11, 12]

    hive.sql(f"truncate table {name}")
    assert assert_agreement(hive, client, name) == {}
    append(client, name, 20, 21)
    hive.sql(f"delete from {name} where id = 20")
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert ids(rows) == [21]
    hive.compact(name, "major")
    assert assert_agreement(hive, client, name) == rows


def test_partitions_that_are_overwritten_emptied_and_dropped(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    name = f"{database}.t"
    hive.sql(f"create table {name} (id int) partitioned by (p string) {ACID}")
    for at, part in enumerate(["a", "b", "c", "d"]):
        append(client, name, at, at + 10, p=part)
    hive.sql(f"insert overwrite table {name} partition (p='a') values (100)")
    hive.sql(f"insert overwrite table {name} partition (p) select 101, 'b'")
    hive.sql(f"truncate table {name} partition (p='c')")
    hive.sql(f"alter table {name} drop partition (p='d')")
    assert ids(assert_agreement(hive, client, name)) == [100, 101]

    for part in "abcd":
        append(client, name, 200, p=part)
    assert ids(assert_agreement(hive, client, name)) == [100, 101, 200, 200, 200, 200]


def test_a_table_created_from_a_query(hive: RealHive, client: MetastoreClient, database: str) -> None:
    name = f"{database}.t"
    hive.sql(f"create table {name} {ACID} as {values(0, 5)}")
    append(client, name, 7)
    assert ids(assert_agreement(hive, client, name)) == [0, 1, 2, 3, 4, 7]


def test_a_table_whose_columns_changed(hive: RealHive, client: MetastoreClient, database: str) -> None:
    name = f"{database}.t"
    hive.sql(f"create table {name} (id int, f float) {ACID}")
    append(client, name, 1, 2)
    hive.sql(f"insert into {name} values (3, 0.1)")
    hive.sql(f"alter table {name} add columns (s string, a array<int>)")
    hive.sql(f"insert into {name} select 4, cast(2.5 as float), 'new', array(1, null)")
    hive.sql(f"alter table {name} change column id id bigint")
    append(client, name, 2**40, s="big")
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert ids(rows) == [1, 2, 3, 4, 2**40]

    hive.sql(f"update {name} set s = 'u' where id < 3")
    hive.compact(name, "major")
    assert ids(assert_agreement(hive, client, name)) == [1, 2, 3, 4, 2**40]


def test_a_non_ascii_partition_is_lost_when_hive_4_compacts_it_and_left_unchanged_by_hive_3(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    """Hive's own rows: its compactor hands paths to its job by the low byte of each character (CompactorInputSplit)."""
    name = f"{database}.t"
    hive.sql(f"create table {name} (id int) partitioned by (p string) {ACID}")
    for number in range(2):
        hive.sql(f"insert into {name} partition (p='ü') values ({number})")
    assert ids(assert_agreement(hive, client, name)) == [0, 1]
    hive.compact_uncleaned(name, "minor", partition="p='ü'")
    assert ids(assert_agreement(hive, client, name)) == ([0, 1] if hive.version == "3.1.3" else [])


# -- files without the ACID columns --------------------------------------------------------------------


@pytest.mark.parametrize("made", [converted, loaded])
def test_rows_of_files_without_the_acid_columns_have_hives_row_ids(
    hive: RealHive, client: MetastoreClient, database: str, made: Callable[[RealHive, str], str]
) -> None:
    name = made(hive, database)
    assert ids(assert_agreement(hive, client, name)) == [1, 2, 5, 6]
    append(client, name, 3)
    hive.sql(f"update {name} set s = 'new' where id = 1")
    hive.sql(f"delete from {name} where id = 6")
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert ids(rows) == [1, 2, 3, 5]

    hive.compact(name, "major")
    assert assert_agreement(hive, client, name) == rows


def test_a_char_in_a_struct_is_found_whoever_wrote_it(hive: RealHive, client: MetastoreClient, database: str) -> None:
    """Hive's files have its blanks, ours do not. Hive itself finds none by some forms of the condition."""
    name = f"{database}.t"
    hive.sql(f"create table {name} (id int, c char(4), st struct<c:char(4)>) {ACID}")
    hive.sql(f"insert into {name} (id, c) values (0, 'ab')")
    hive.sql(f"insert into {name} select 1, c, named_struct('c', c) from {name}")
    hi.append(client, name, [{"id": 2, "c": "ab", "st": {"c": "ab"}}])
    for where in ("st.c = 'ab'", "st.c in ('ab  ')", "st.c like 'ab'", "not st.c <> 'ab'"):
        assert sorted(hi.read_table(client, name, where=where)["id"].to_pylist()) == [1, 2]
