"""Several reads of several tables see one snapshot, whatever writers, compactions and cleaners do meanwhile."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import TxnId, TxnState
from tests.support.compactions import MAJOR, MINOR, Compacted, connect_quietly
from tests.support.metastores import connect_in
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.only_on(["sqlite", "postgres"], because="delete events are written and compacted here"),
    pytest.mark.one_embedded,
]


@pytest.fixture
def client(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_quietly(tmp_path, metastore_uri) as found:
        yield found


@pytest.fixture
def table(client: MetastoreClient) -> Compacted:
    found = Compacted(client)
    found.inserts(1, 4)
    return found


@pytest.fixture
def other(client: MetastoreClient) -> Compacted:
    found = Compacted(client, "other", partition_keys={"part": "string"})
    found.insert(10, part="a")
    found.insert(11, part="b")
    return found


def ids(table: Compacted, snapshot: hi.HeldSnapshot, **options: object) -> list[int]:
    found = hi.read_table(table.client, table.name, columns=["id"], snapshot=snapshot, **options)  # type: ignore[arg-type]
    return sorted(found["id"].to_pylist())


def open_transactions(client: MetastoreClient) -> list[TxnId]:
    return [txn.id for txn in client.get_open_txns_info().transactions if txn.state is TxnState.OPEN]


@pytest.mark.on_both
def test_reads_at_a_held_snapshot_see_the_same_rows_while_everything_else_goes_on(
    client: MetastoreClient, table: Compacted, other: Compacted
) -> None:
    with hi.hold_snapshot(client, [table.name, other.name]) as snapshot:
        for kind in (MINOR, MAJOR):
            table.insert(5)
            table.delete(table.row_id(2 if kind is MINOR else 3))
            table.compact(kind)
            table.clean()
            other.insert(12, part="new")
            assert (ids(table, snapshot), ids(other, snapshot)) == ([1, 2, 3, 4], [10, 11])
        assert ids(table, snapshot, where="id >= 2") == [2, 3, 4]
        [size] = hi.partition_sizes(client, table.name, snapshot=snapshot)
        assert (size.rows, size.is_exact) == (4, True)
        assert [size.rows for size in hi.partition_sizes(client, other.name, snapshot=snapshot)] == [1, 1, 0]
    assert table.ids() == [1, 4, 5, 5]
    table.clean()
    assert table.short_folders() == ["base_8_v"], "cleaned once nobody needs it"
    assert open_transactions(client) == []


def test_the_tables_are_seen_at_the_same_moment(client: MetastoreClient, table: Compacted, other: Compacted) -> None:
    stop = threading.Event()

    def write() -> None:
        with client.clone() as mine:
            for number in range(100, 10_000):
                if stop.is_set():
                    return
                for name in (table, other):  # the first table is always ahead, by at most one row
                    Compacted.insert(_with_client(name, mine), number, part="a" if name is other else None)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(8):
            with hi.hold_snapshot(client, [other.name, table.name]) as snapshot:
                behind = [each for each in ids(other, snapshot) if each >= 100]
                ahead = [each for each in ids(table, snapshot) if each >= 100]
            assert len(behind) <= len(ahead) <= len(behind) + 1
    finally:
        stop.set()
        writer.join()


def _with_client(table: Compacted, client: MetastoreClient) -> Compacted:
    found = Compacted.__new__(Compacted)
    found.__dict__.update(table.__dict__, client=client)
    return found


def test_threads_can_read_at_the_same_snapshot(client: MetastoreClient, table: Compacted) -> None:
    with hi.hold_snapshot(client, table.name) as snapshot, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: ids(table, snapshot), range(8))) == [[1, 2, 3, 4]] * 8


def test_a_snapshot_that_was_closed_is_refused(client: MetastoreClient, table: Compacted) -> None:
    snapshot = hi.hold_snapshot(client, table.name)
    begun = hi.scan(client, table.name, snapshot=snapshot)
    next(begun)
    snapshot.close()
    snapshot.close()
    with pytest.raises(hi.ConnectionMisuse, match="was closed, and cleaners may have removed its files: take another"):
        hi.scan(client, table.name, snapshot=snapshot)
    with pytest.raises(hi.ConnectionMisuse, match="was closed"):
        begun.read_all()
    assert "closed" in repr(snapshot)
    assert open_transactions(client) == []


def test_a_read_that_fails_leaves_the_snapshot_to_others(client: MetastoreClient, table: Compacted) -> None:
    with hi.hold_snapshot(client, table.name) as snapshot:
        with pytest.raises(hi.ConfigurationError):
            hi.scan(client, table.name, columns=["absent"], snapshot=snapshot)
        with hi.scan(client, table.name, snapshot=snapshot) as rows:
            next(rows)
        assert ids(table, snapshot) == [1, 2, 3, 4]
    assert open_transactions(client) == []


def test_a_snapshot_whose_transaction_is_gone_reads_nothing_more(client: MetastoreClient, table: Compacted) -> None:
    with hi.hold_snapshot(client, table.name) as snapshot:
        (txn_id,) = open_transactions(client)
        client.abort_txn(txn_id)
        with pytest.raises(hi.TxnAborted, match="files may have been missed"):
            ids(table, snapshot)


def test_a_forked_child_neither_uses_nor_ends_what_its_parent_reads(client: MetastoreClient, table: Compacted) -> None:
    """A child that closed a snapshot, or read a scan to its end, ended its parent's transaction: files could go."""
    with hi.hold_snapshot(client, table.name) as snapshot, hi.scan(client, table.name) as rows:
        before = open_transactions(client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
            pid = os.fork()
        if pid == 0:
            try:
                for read in (rows.read_all, lambda: ids(table, snapshot)):
                    with pytest.raises(hi.ConnectionMisuse, match="inherited through a fork"):
                        read()
                rows.close()
                snapshot.close()
                os._exit(17)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
        assert open_transactions(client) == before
        assert ids(table, snapshot) == [1, 2, 3, 4]
        assert rows.read_all().num_rows == 4


def test_a_snapshot_of_other_tables_or_another_metastore_is_refused(
    client: MetastoreClient, table: Compacted, other: Compacted, tmp_path: Path
) -> None:
    (tmp_path / "b").mkdir()
    with hi.hold_snapshot(client, table.name) as snapshot, connect_in(tmp_path / "b") as elsewhere:
        with pytest.raises(hi.ConfigurationError, match=r"web.other is not in the snapshot of web.t: name all tables"):
            hi.scan(client, other.name, snapshot=snapshot)
        with pytest.raises(hi.ConfigurationError, match="was not taken in the metastore that the read names"):
            hi.scan(elsewhere, table.name, snapshot=snapshot)
        with client.clone() as another:
            assert hi.read_table(another, table.name, snapshot=snapshot).num_rows == 4
    with pytest.raises(hi.ConfigurationError, match="at least one table"):
        hi.hold_snapshot(client, [])
    with pytest.raises(hi.NoSuchObject):
        hi.hold_snapshot(client, [table.name, "web.absent"])
    assert open_transactions(client) == []


def test_a_snapshot_that_was_not_closed_warns_and_ends_its_transaction(
    client: MetastoreClient, table: Compacted
) -> None:
    forgotten = [hi.hold_snapshot(client, table.name)]
    rows = hi.scan(client, table.name, snapshot=forgotten[0])
    forgotten.clear()
    gc.collect()
    assert rows.read_all().num_rows == 4, "a scan that goes on keeps its snapshot"
    with pytest.warns(ResourceWarning, match="the snapshot of web.t was not closed"):
        del rows
    wait_until(lambda: open_transactions(client) == [])
