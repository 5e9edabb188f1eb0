"""What is streamed is Hive's: rows and ROW__ID, cell by cell, in row mode, vectorised and by its ACID reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.orc as orc
import pytest

from hive_ingest.connection import StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import DEFAULT_PARTITION_NAME, Table, TxnId
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.interop import streamed
from tests.interop.agreement import plain
from tests.interop.hive import RealHive
from tests.interop.streamed import COLUMNS, NUM_BUCKETS, PARTITION_KEYS, ExpectedRow
from tests.interop.tables import orc_properties
from tests.support.tables import folder_of

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Streamed:
    """A table in five transactions: committed, committed with spills, killed and aborted, open, committed."""

    client: MetastoreClient
    table: Table
    expected: list[ExpectedRow]
    open_txn: TxnId


@pytest.fixture(scope="module")
def written(hive: RealHive, client: MetastoreClient, module_database: str) -> Iterator[Streamed]:
    small, large, last = range(50), range(1000, 6000), range(20_000, 20_030)
    table = client.create_table(
        f"{module_database}.everything",
        columns=COLUMNS,
        partition_keys=PARTITION_KEYS,
        bucket_columns=["id"],
        num_buckets=NUM_BUCKETS,
        properties=orc_properties(hive),
    )
    with streamed.connect(client, table.name) as conn, streamed.connect(client, table.name) as still_open:
        commit(conn, table, small)
        commit_with_spills(conn, table, large)
        kill_after_publish(client, hive.metastore.uri, table)
        open_txn = publish_and_leave_open(still_open, table)
        commit(conn, table, last)
        ids = {1: small, 2: large, 5: last}
        yield Streamed(client, table, streamed.expected(table, ids), open_txn)


def commit(conn: StreamingConnection, table: Table, ids: range) -> None:
    with conn.transaction():
        conn.write(streamed.batch(table, ids))


def commit_with_spills(conn: StreamingConnection, table: Table, ids: range) -> None:
    """Each flush spills every bucket once."""
    with conn.transaction():
        for start in range(ids.start, ids.stop, 1000):
            conn.write(streamed.batch(table, range(start, start + 1000)))
            conn.flush()


def deltas(table: Table, write_id: int) -> list[Path]:
    return sorted(folder_of(table).glob(f"*/*/delta_{write_id:07d}_{write_id:07d}_0000/bucket_*"))


def kill_after_publish(client: MetastoreClient, uri: str, table: Table) -> None:
    before = set(client.get_valid_txns().open)
    crash = CrashPoint("after_publish", 1, signal.SIGKILL).to_environment()
    command = [sys.executable, "-m", "tests.interop.streamed", uri, str(table.name)]
    killed = subprocess.run(command, cwd=REPOSITORY, env=os.environ | crash, check=False)
    assert killed.returncode == -signal.SIGKILL
    (txn_id,) = set(client.get_valid_txns().open) - before
    client.abort_txn(txn_id, reason="its writer was killed")
    assert deltas(table, 3), "the killed writer left no delta: the test tests nothing"


def publish_and_leave_open(conn: StreamingConnection, table: Table) -> TxnId:
    conn.begin_transaction()
    txn_id = conn.txn_id
    assert txn_id is not None
    conn.write(streamed.batch(table, range(800_000, 800_020)))
    with faults(CrashPoint("after_publish")), pytest.raises(FaultError):
        conn.commit_transaction()
    assert deltas(table, 4), "the open transaction has published nothing: the test tests nothing"
    return txn_id


def as_read(row: ExpectedRow) -> list[Any]:
    """The value as Hive returns it; trailing blanks of a char column, of which Hive keeps all or none, are removed."""
    cells = dict(row.cells)
    if cells["c"] is not None:
        cells["c"] = cells["c"].rstrip(" ")
    return [plain(cells[name]) for name in COLUMNS]


def strip_char(cells: list[Any]) -> list[Any]:
    at = list(COLUMNS).index("c")
    return [cell.rstrip(" ") if i == at and cell is not None else plain(cell) for i, cell in enumerate(cells)]


@pytest.mark.parametrize("vectorized", [False, True], ids=["row_mode", "vectorized"])
def test_hive_selects_every_committed_row_once_and_cell_by_cell(
    hive: RealHive, written: Streamed, vectorized: bool
) -> None:
    # Hive shows the null of a string key as the name of the default partition; only there it is no null.
    names = ", ".join(f"`{name}`" for name in COLUMNS)
    query = f"select row__id as rid, region, `month`, {names} from {written.table.name}"
    found = hive.select(query, vectorized=vectorized)
    rows = {(*r[0].values(), r[1], r[2]): strip_char(r[3:]) for r in found}
    assert len(rows) == len(found), "a ROW__ID came twice in a partition"
    assert rows == {(*e.row_id, e.region or DEFAULT_PARTITION_NAME, e.month): as_read(e) for e in written.expected}


def test_hives_acid_reader_gives_the_same_rows_of_each_partition(hive: RealHive, written: Streamed) -> None:
    table = written.table
    snapshot = written.client.get_valid_write_ids([table.name])[0]
    assert (snapshot.open, snapshot.aborted) == ((4,), (3,))
    seen = 0
    for partition in written.client.list_partitions(table.name):
        folder = partition.location.removeprefix("file:")
        rows = hive.read_acid(folder, COLUMNS, write_ids=snapshot.to_string(), num_buckets=NUM_BUCKETS)
        mine = [e for e in written.expected if (e.region or DEFAULT_PARTITION_NAME, str(e.month)) == partition.values]
        assert {tuple(r.row_id): strip_char(list(r.cells)) for r in rows} == {e.row_id: as_read(e) for e in mine}
        assert len(rows) == len(mine)
        seen += len(rows)
    assert seen == len(written.expected)


def test_spills_of_a_bucket_are_one_file_of_several_stripes_with_hives_metadata(
    hive: RealHive, written: Streamed
) -> None:
    files = deltas(written.table, 2)
    assert len(files) == len(streamed.REGIONS) * 2 * NUM_BUCKETS
    for file in files:
        with file.open("rb") as source:
            assert orc.ORCFile(source).nstripes == 5, "five spills, five stripes copied"
    dump = hive.dump(files[0])
    assert "hive.acid.key.index" in dump
    assert "hive.acid.stats" in dump
    assert dump.count("  Stripe: offset:") == 5


def test_an_open_transaction_becomes_visible_to_hive_with_its_commit_and_an_aborted_one_never(
    hive: RealHive, written: Streamed
) -> None:
    count = f"select count(*) from {written.table.name} where id >= 700000"
    assert hive.sql(count) == [[0]]
    written.client.commit_txn(written.open_txn)
    assert hive.sql(count) == [[20]]
    assert hive.sql(f"select min(id), max(id) from {written.table.name} where id >= 700000") == [[800_000, 800_019]]
