"""What is streamed Hive inserts into, updates, deletes, merges and compacts; after each step we read what it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hive_ingest as hi
from hive_ingest.acid.names import (
    BASE_METADATA_FILE,
    BaseName,
    DeleteDeltaName,
    DeltaName,
    parse_folder_name,
    partition_name,
)
from hive_ingest.connection import JoinedTransaction, StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Table
from tests.interop import streamed
from tests.interop.agreement import BOTH_MODES, Rows, assert_agreement, ids, read_by_hive, read_by_us
from tests.interop.hive import HiveError, RealHive
from tests.interop.tables import allocate, orc_properties, write_delta
from tests.support.tables import folder_of

WRITERS = 2
#: The partition that is compacted. Not the one with letters beyond ASCII, which Hive cannot compact.
REGION, MONTH = "north", 1


@dataclass(frozen=True)
class Layout:
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    #: How parallel writers are distinguished; one writer without it.
    parallel_key: str | None = None

    @property
    def is_partitioned(self) -> bool:
        return "partition_keys" in self.options

    def first_compaction(self, hive: RealHive) -> Literal["minor", "major"]:
        """Kind of the first compaction: no minor one where Hive 3 breaks the table itself, tested below."""
        return "major" if hive.version == "3.1.3" and "num_buckets" not in self.options else "minor"


PARTITIONS = {"partition_keys": streamed.PARTITION_KEYS}
BUCKETS = {"bucket_columns": ["id"], "num_buckets": streamed.NUM_BUCKETS}
LAYOUTS = [
    Layout("plain", parallel_key="writer_bucket"),
    Layout("bucketed", BUCKETS, parallel_key="statement_id"),
    Layout("partitioned", PARTITIONS),
    Layout("partitioned_bucketed", PARTITIONS | BUCKETS),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_after_each_change_by_hive_we_read_what_it_reads(
    hive: RealHive, client: MetastoreClient, module_database: str, layout: Layout
) -> None:
    table = create(hive, client, f"{module_database}.{layout.name}", layout)
    with streamed.connect(client, table.name) as conn:
        write_in_parallel(conn, layout, range(24))
        leave_aborted(client, table, layout)
        stream_with_spills(conn, range(100, 124))
        rows = assert_agreement(hive, client, str(table.name), modes=BOTH_MODES)
        assert ids(rows) == [*range(24), *range(100, 124)]

        rows = change_in_every_way(hive, client, table, layout)
        compact_and_clean(hive, client, table, layout, layout.first_compaction(hive), rows)

        stream_with_spills(conn, range(300, 312))
        hive.sql(f"delete from {table.name} where id % 6 = 3 and id < 1000")
        rows = assert_agreement(hive, client, str(table.name))
        compact_and_clean(hive, client, table, layout, "major", rows)

        stream_with_spills(conn, range(400, 406))
    rows = assert_agreement(hive, client, str(table.name), modes=BOTH_MODES)
    assert set(ids(rows)) >= {*range(400, 406)}
    some_columns_of_some_rows_are_the_same(hive, client, table)


def create(hive: RealHive, client: MetastoreClient, name: str, layout: Layout) -> Table:
    return client.create_table(name, columns=streamed.COLUMNS, properties=orc_properties(hive), **layout.options)


def write_in_parallel(conn: StreamingConnection, layout: Layout, rows: range) -> None:
    """One transaction; with a key, of several writers."""
    conn.begin_transaction()
    if layout.parallel_key is None:
        conn.write(streamed.batch(conn.table, rows))
        conn.commit_transaction()
        return
    shared, prepared = conn.share_transaction(), []
    for number in range(WRITERS):
        key: dict[str, Any] = {layout.parallel_key: number}
        with JoinedTransaction(shared, hi.ArrowWriter(), **key) as writer:
            writer.write(streamed.batch(conn.table, range(rows.start + number, rows.stop, WRITERS)))
            prepared.append(writer.prepare())
    conn.commit_transaction(prepared=prepared)


def stream_with_spills(conn: StreamingConnection, rows: range) -> None:
    half = rows.start + len(rows) // 2
    with conn.transaction():
        conn.write(streamed.batch(conn.table, range(rows.start, half)))
        conn.flush()
        conn.write(streamed.batch(conn.table, range(half, rows.stop)))


def leave_aborted(client: MetastoreClient, table: Table, layout: Layout) -> None:
    """A transaction whose writer died after it had published, and which was aborted then."""
    name = partition_of(table) if layout.is_partitioned else ""
    allocate(client, table.name, ["abort"], partitions=[name] if name else ())
    [snapshot] = client.get_valid_write_ids([table.name])
    rows = pa.Table.from_batches([streamed.batch(table, range(900, 905))])
    folder = folder_of(table) / name
    write_delta(folder, rows.select([c.name for c in table.columns]), write_id=snapshot.high_water_mark)


def partition_of(table: Table) -> str:
    return partition_name([key.name for key in table.partition_keys], [REGION, str(MONTH)])


# -- changes -------------------------------------------------------------------------------------------


def change_in_every_way(hive: RealHive, client: MetastoreClient, table: Table, layout: Layout) -> Rows:
    columns = ", ".join(f"`{name}`" for name in streamed.COLUMNS if name != "id")
    keys = ", region, `month`" if layout.is_partitioned else ""
    into = " partition (region, `month`)" if layout.is_partitioned else ""
    name = str(table.name)

    hive.sql(f"insert into {name}{into} select id + 1200, {columns}{keys} from {name} where id < 6")
    rows = assert_agreement(hive, client, name)
    assert ids(rows)[-6:] == [*range(1200, 1206)]

    # Not what Hive has inserted: its bucket numbers have gaps, on which 3.1.3 fails (docs/limits.md).
    hive.sql(f"update {name} set txt = 'geändert 🚀', v = null, n = 1.5, d = 0.25D where id % 5 = 1 and id < 1000")
    rows = assert_agreement(hive, client, name)
    changed = [cells for cells in rows.values() if cells[list(streamed.COLUMNS).index("txt")] == "geändert 🚀"]
    assert sorted(cells[0] for cells in changed) == sorted(i for i in ids(rows) if i % 5 == 1 and i < 1000)

    hive.sql(f"delete from {name} where id % 5 = 2 and id < 1000")
    rows = assert_agreement(hive, client, name)
    assert not [i for i in ids(rows) if i % 5 == 2 and i < 1000]

    before = ids(rows)
    merge(hive, client, table, layout)
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert ids(rows) == sorted({*before, *range(24, 30)} - {18, 20})
    if layout.is_partitioned:
        assert {key[0] for key in rows} == {*streamed.REGIONS, "neu=new/1"}
    return rows


def merge(hive: RealHive, client: MetastoreClient, table: Table, layout: Layout) -> None:
    """Delete 18 and 20, change 21, insert 24 to 29, into a new partition."""
    source = create(hive, client, f"{table.name}_source", layout)
    with streamed.connect(client, source.name) as conn, conn.transaction():
        conn.write(streamed.batch(source, range(18, 19)))
        conn.write(streamed.batch(source, range(20, 22)))
        conn.write(streamed.batch(source, range(24, 30)))
    values = ", ".join(f"source.`{name}`" for name in streamed.COLUMNS)
    keys = ", 'neu=new/1', source.`month`" if layout.is_partitioned else ""
    hive.sql(
        f"merge into {table.name} target using {source.name} source on target.id = source.id "
        "when matched and source.id % 2 = 0 then delete "
        "when matched then update set txt = 'merged', t = null "
        f"when not matched then insert values ({values}{keys})"
    )


# -- compactions ---------------------------------------------------------------------------------------


def compact_and_clean(
    hive: RealHive,
    client: MetastoreClient,
    table: Table,
    layout: Layout,
    kind: Literal["minor", "major"],
    rows: Rows,
) -> None:
    """Before the cleaner has run and after it: the same rows, and the folders that Hive makes and leaves."""
    partition = f"region='{REGION}', `month`={MONTH}" if layout.is_partitioned else None
    folder = folder_of(table) / (partition_of(table) if layout.is_partitioned else "")
    [snapshot] = client.get_valid_write_ids([table.name])
    before = acid_folders(folder)

    hive.compact_uncleaned(str(table.name), kind, partition=partition)
    made = set(acid_folders(folder)) - set(before)
    assert read_by_us(client, table) == rows, "before the cleaner has run"
    hive.clean_up()
    assert assert_agreement(hive, client, str(table.name)) == rows

    assert set(acid_folders(folder)) == made, "the cleaner leaves what the compaction made"
    kinds = {"minor": {DeltaName, DeleteDeltaName}, "major": {BaseName}}
    assert {type(name) for name in made} == kinds[kind]
    assert all((name.visibility_txn_id is None) == (hive.version == "3.1.3") for name in made)
    if kind == "major":
        [base] = made
        assert isinstance(base, BaseName)
        assert base.write_id <= snapshot.high_water_mark
        assert (folder / str(base) / BASE_METADATA_FILE).exists() == (hive.version == "3.1.3")


def acid_folders(folder: Path) -> list[BaseName | DeltaName]:
    names = [parse_folder_name(path.name) for path in folder.iterdir() if path.is_dir()]
    return [name for name in names if name is not None]


def some_columns_of_some_rows_are_the_same(hive: RealHive, client: MetastoreClient, table: Table) -> None:
    condition = (pc.field("id") > 100) & (pc.field("txt") == "geändert 🚀")
    found = hi.read_table(client, table.name, columns=["counts", "id"], filter=condition)
    theirs = hive.sql(f"select counts, id from {table.name} where id > 30 and txt = 'geändert 🚀'")
    ours = [
        [None if counts is None else dict(counts), i] for counts, i in zip(*found.to_pydict().values(), strict=True)
    ]
    assert sorted(ours, key=_id) == sorted(theirs, key=_id) != []


def _id(row: list[Any]) -> int:
    return int(row[1])


# -- where Hive 3 breaks a table -----------------------------------------------------------------------


def test_a_table_that_hive_3_compacted_and_can_no_longer_read_is_read_by_us(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
    """Hive's own files: a minor compaction by 3.1.3 puts the delete events of all writers into each bucket file."""
    name = f"{database}.of_two_writers"
    hive.sql(f"create table {name} (id int) stored as orc tblproperties ('transactional'='true')")
    hive.set("mapreduce.job.reduces", "2")
    try:
        hive.sql(
            f"insert into {name} select id from (select stack(8, 0, 1, 2, 3, 4, 5, 6, 7) as (id)) q distribute by id"
        )
    finally:
        hive.set("mapreduce.job.reduces", "-1")
    hive.sql(f"insert into {name} values (9)")  # 4.0.1 refuses to compact a single delta
    hive.sql(f"delete from {name} where id < 4")
    rows = assert_agreement(hive, client, name)
    assert {key[0][1] for key in rows} == {1 << 29, 1 << 29 | 1 << 16}, "the rows are not of two writers"

    hive.compact(name, "minor")

    table = client.get_table(name)
    assert read_by_us(client, table) == rows
    assert read_by_hive(hive, table, vectorized=True) == rows
    if hive.version == "3.1.3":
        with pytest.raises(HiveError, match="Two readers for"):
            read_by_hive(hive, table, vectorized=False)
    else:
        assert read_by_hive(hive, table, vectorized=False) == rows
