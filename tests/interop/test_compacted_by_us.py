"""Our worker serves the queue of Hive 4.0.1: what it compacts Hive reads, changes, compacts and cleans."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from hive_ingest.acid.names import BaseName, DeleteDeltaName, DeltaName, parse_folder_name
from hive_ingest.compaction import DistributedMerge, JobSettings, MergeSettings, Worker, WorkResult, compact
from hive_ingest.connection import JoinedTransaction, StreamingConnection
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionState, Table
from hive_ingest.record_writer import ArrowWriter
from tests.interop import streamed
from tests.interop.agreement import BOTH_MODES, Rows, assert_agreement, ids, read_by_us
from tests.interop.hive import RealHive
from tests.interop.original_files import converted, loaded
from tests.interop.tables import allocate, orc_properties
from tests.support.merge_attempts import Attempts
from tests.support.tables import folder_of

Kind = Literal["minor", "major"]
WRITERS = 2
_ONE, _MANY = MergeSettings(stripe_bytes=64 << 20), MergeSettings(stripe_bytes=2 << 10)
#: The largest stripe that is encoded: all in one, or a few rows each; or all in ranges of row ids, as on Spark.
SETTINGS = {
    "one_stripe": JobSettings(merge=_ONE),
    "many_stripes": JobSettings(merge=_MANY),
    "ranges": JobSettings(merge=_ONE, merger=DistributedMerge(Attempts(), split_bucket_bytes=1)),
}
_CLEANER_PASSES = 30


@dataclass(frozen=True)
class Layout:
    name: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_partitioned(self) -> bool:
        return "partition_keys" in self.options


BUCKETS = {"bucket_columns": ["id"], "num_buckets": streamed.NUM_BUCKETS}
LAYOUTS = [
    Layout("plain"),
    Layout("partitioned_bucketed", {"partition_keys": streamed.PARTITION_KEYS} | BUCKETS),
]


@pytest.fixture(scope="module")
def hive(hive401: RealHive) -> RealHive:
    """Hive 3 has no calls for a worker outside its metastore."""
    return hive401


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_what_our_worker_compacts_hive_reads_changes_and_compacts(
    hive: RealHive, client: MetastoreClient, database: str, layout: Layout, settings: JobSettings
) -> None:
    name = f"{database}.{layout.name}"
    table = client.create_table(name, columns=streamed.COLUMNS, properties=orc_properties(hive), **layout.options)
    with streamed.connect(client, table.name) as conn:
        stream(conn, layout, range(24))
        allocate(client, table.name, ["abort"])
        stream(conn, layout, range(100, 124))
        change_by_hive(hive, name)
        rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
        assert ids(rows) == [i for i in (*range(24), *range(100, 124)) if i % 5 != 2]

        ours = CompactionByUs(hive, client, table, settings)
        ours.run("minor", rows)
        assert_acid_reader_agrees(hive, client, table, rows)

        stream(conn, layout, range(300, 312))
        hive.sql(f"delete from {name} where id % 6 = 3")
        rows = assert_agreement(hive, client, name)
        ours.run("major", rows)
        assert_acid_reader_agrees(hive, client, table, rows)

        hive.sql(f"update {name} set txt = 'again', n = null where id % 4 = 0")
        hive.sql(f"delete from {name} where id % 7 = 0")
        stream(conn, layout, range(400, 406))
        rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
        assert not [i for i in ids(rows) if i % 7 == 0 and i < 400]
        compact_by_hive(hive, client, table, layout)
        assert assert_agreement(hive, client, name, modes=BOTH_MODES) == rows


def stream(conn: StreamingConnection, layout: Layout, rows: range) -> None:
    """One transaction: files of several stripes, or files of several writers."""
    if not layout.is_partitioned:
        conn.begin_transaction()
        shared, prepared = conn.share_transaction(), []
        for number in range(WRITERS):
            with JoinedTransaction(shared, ArrowWriter(), writer_bucket=number) as writer:
                writer.write(streamed.batch(conn.table, range(rows.start + number, rows.stop, WRITERS)))
                prepared.append(writer.prepare())
        conn.commit_transaction(prepared=prepared)
        return
    half = rows.start + len(rows) // 2
    with conn.transaction():
        conn.write(streamed.batch(conn.table, range(rows.start, half)))
        conn.flush()
        conn.write(streamed.batch(conn.table, range(half, rows.stop)))


def change_by_hive(hive: RealHive, name: str) -> None:
    """Deltas and delete deltas in Hive's own writing."""
    hive.sql(f"update {name} set txt = 'geändert 🚀', v = null, n = 1.5, d = 0.25D where id % 5 = 1")
    hive.sql(f"delete from {name} where id % 5 = 2")


class CompactionByUs:
    """Of every partition of a table: the first request is made by Hive, and Hive's cleaner removes the old files."""

    def __init__(self, hive: RealHive, client: MetastoreClient, table: Table, settings: JobSettings) -> None:
        self._hive, self._client, self._table = hive, client, table
        self._settings = settings

    def run(self, kind: Kind, rows: Rows) -> None:
        self._request(kind)
        before = {place: set(folders_of(place)) for place in self._places()}
        worked = self._work()
        assert {result.state for result in worked} == {CompactionState.READY_FOR_CLEANING}, worked
        assert {row["State"] for row in self._shown(kind)} == {"ready for cleaning"}
        made = {place: set(folders_of(place)) - before[place] for place in self._places()}
        assert assert_agreement(self._hive, self._client, str(self._table.name)) == rows, "before the cleaner has run"
        self.clean(kind)
        assert {place: set(folders_of(place)) for place in self._places()} == made
        kinds = (BaseName,) if kind == "major" else (DeltaName, DeleteDeltaName)
        for place, names in made.items():
            assert all(isinstance(name, kinds) for name in names), place
            assert all(name.visibility_txn_id is not None for name in names), place
        assert assert_agreement(self._hive, self._client, str(self._table.name), modes=BOTH_MODES) == rows

    def _request(self, kind: Kind) -> None:
        name, where = str(self._table.name), ""
        if self._table.is_partitioned:
            where = " partition (region='north', `month`=1)"
        self._hive.sql(f"alter table {name}{where} compact '{kind}'")
        outcomes = compact(self._client, name, kind=kind)
        assert [outcome.accepted for outcome in outcomes].count(False) == 1, "Hive's request was not in the queue"

    def _work(self) -> list[WorkResult]:
        worker = Worker(self._client, self._settings, version="ours")
        return list(iter(worker.run_once, None))

    def clean(self, kind: Kind) -> None:
        for _ in range(_CLEANER_PASSES):
            self._hive.call("compactor_pass", thread="cleaner")
            states = {row["State"] for row in self._shown(kind)}
            if states == {"succeeded"}:
                return
            time.sleep(0.5)  # a transaction of Hive's may still be ending
        raise AssertionError(f"Hive's cleaner did not finish: {self._shown(kind)}")

    def _shown(self, kind: Kind) -> list[dict[str, Any]]:
        """SHOW COMPACTIONS, for those of this kind of the table."""
        header, *found = self._hive.sql("show compactions")
        rows = [dict(zip(header, row, strict=True)) for row in found]
        table = (self._table.name.database, self._table.name.table, kind.upper())
        return [row for row in rows if (row["Database"], row["Table"], row["Type"]) == table]

    def _places(self) -> list[Path]:
        if not self._table.is_partitioned:
            return [folder_of(self._table)]
        return [
            Path(partition.location.removeprefix("file:"))
            for partition in self._client.list_partitions(self._table.name)
        ]


def folders_of(place: Path) -> list[BaseName | DeltaName]:
    names = [parse_folder_name(path.name) for path in place.iterdir() if path.is_dir()]
    return [name for name in names if name is not None]


def assert_acid_reader_agrees(hive: RealHive, client: MetastoreClient, table: Table, rows: Rows) -> None:
    """Hive's ACID reader, as Hive's own compactor and other engines use it, gives the same ROW__IDs."""
    [snapshot] = client.get_valid_write_ids([table.name])
    places = [folder_of(table)]
    if table.is_partitioned:
        places = [Path(each.location.removeprefix("file:")) for each in client.list_partitions(table.name)]
    buckets = table.num_buckets if table.is_partitioned else -1
    found = [
        (row.row_id, row.cells[0])
        for place in places
        for row in hive.read_acid(place, streamed.COLUMNS, write_ids=snapshot.to_string(), num_buckets=buckets)
    ]
    assert sorted((tuple(row_id), i) for row_id, i in found) == sorted(
        (key[-1], cells[0]) for key, cells in rows.items()
    )


def compact_by_hive(hive: RealHive, client: MetastoreClient, table: Table, layout: Layout) -> None:
    if not layout.is_partitioned:
        hive.compact(str(table.name), "major")
        return
    # Not the one with letters beyond ASCII, which Hive cannot compact (docs/limits.md). Our worker can.
    hive.compact(str(table.name), "major", partition="region='north', `month`=1")
    hive.compact(str(table.name), "major", partition="region='north', `month`=2")


def test_a_worker_of_hive_and_ours_share_a_queue(hive: RealHive, client: MetastoreClient, database: str) -> None:
    """Each request is carried out once, by whoever takes it first, and either one compacts what the other made."""
    names = [f"{database}.t{number}" for number in range(2)]
    for name in names:
        client.create_table(name, columns=streamed.COLUMNS, properties=orc_properties(hive))
    for start, by_us_first in ((0, True), (100, False)):
        for name in names:
            table = client.get_table(name)
            with streamed.connect(client, table.name) as conn:
                for number in range(2):
                    with conn.transaction():
                        conn.write(streamed.batch(table, range(start + 10 * number, start + 10 * number + 10)))
            hive.sql(f"alter table {name} compact 'major'")
        before = [read_by_us(client, client.get_table(name)) for name in names]
        if by_us_first:
            result = Worker(client).run_once()
            assert result is not None
            assert str(result.info.table) == names[0]
            hive.call("compactor_pass", thread="worker")
        else:
            hive.call("compactor_pass", thread="worker")
            result = Worker(client).run_once()
            assert result is not None
            assert str(result.info.table) == names[1]
        assert Worker(client).run_once() is None
        assert {info.state for name in names for info in client.show_compactions(name)[:1]} == {
            CompactionState.READY_FOR_CLEANING
        }
        for name, rows in zip(names, before, strict=True):
            assert assert_agreement(hive, client, name, modes=BOTH_MODES) == rows


@pytest.mark.parametrize("made", [converted, loaded])
@pytest.mark.parametrize("is_changed", [False, True], ids=["alone", "changed"])
def test_files_without_the_acid_columns_are_compacted_with_hives_row_ids(
    hive: RealHive,
    client: MetastoreClient,
    database: str,
    made: Callable[[RealHive, str], str],
    is_changed: bool,
) -> None:
    name = made(hive, database)
    if is_changed:
        hive.sql(f"update {name} set s = 'new' where id = 1")
        hive.sql(f"delete from {name} where id = 6")
    rows = assert_agreement(hive, client, name)
    table = client.get_table(name)
    hive.sql(f"alter table {name} compact 'major'")
    result = Worker(client).run_once()
    assert result is not None
    if made is loaded and not is_changed:
        assert result.state is CompactionState.REFUSED, "one delta, which Hive itself would not compact either"
        return
    assert (result.state, result.message) == (CompactionState.READY_FOR_CLEANING, "")
    assert assert_agreement(hive, client, name, modes=BOTH_MODES) == rows
    CompactionByUs(hive, client, table, SETTINGS["one_stripe"]).clean("major")
    assert [path.name for path in folder_of(table).iterdir() if not path.name.startswith(".")] == [
        str(found) for found in folders_of(folder_of(table))
    ]
    assert assert_agreement(hive, client, name, modes=BOTH_MODES) == rows

    hive.sql(f"update {name} set s = 'later' where id = 2")
    hive.sql(f"insert into {name} values (7, 'e')")
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    hive.compact(name, "major")
    assert assert_agreement(hive, client, name, modes=BOTH_MODES) == rows
