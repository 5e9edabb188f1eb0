"""DROP and ALTER beside readers and writers; locations, and ids after a restore."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hive_ingest.errors import (
    InvalidOperation,
    LockTimeout,
    NoSuchObject,
    StreamingIOFailure,
    TxnAborted,
)
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Column, DataOperationType, Table, TxnId
from tests.acceptance.metastore.requests import READ, component, lock
from tests.acceptance.metastore.web_table import COLUMNS, folder, rename, retype, writer

embedded = pytest.mark.only_on(["sqlite", "postgres"], because="a real metastore's folders and commits are its own")


@pytest.fixture
def ms(metastore_uri: str, tmp_path: Path) -> Iterator[MetastoreClient]:
    with connect_metastore(
        metastore_uri, warehouse=tmp_path / "warehouse", ddl_lock_wait_seconds=0.2, create=True
    ) as client:
        client.create_database("web")
        yield client


@pytest.fixture
def table(ms: MetastoreClient) -> Table:
    ms.create_table("web.t", columns=COLUMNS, partition_keys={"p": "int"})
    ms.add_partitions("web.t", [["1"]])
    return ms.get_table("web.t")


HARMFUL: dict[str, Callable[[MetastoreClient], None]] = {
    "drop the table": lambda ms: ms.drop_table("web.t"),
    "drop the partition": lambda ms: ms.drop_partition("web.t", ["1"]),
    "drop the database": lambda ms: ms.drop_database("web", cascade=True),
    "rename": rename,
    "replace columns": retype,
}
harmful = pytest.mark.parametrize("change", HARMFUL.values(), ids=HARMFUL.keys())


# -- locks -------------------------------------------------------------------------------------------


@harmful
def test_a_change_waits_for_those_who_write_and_names_them(
    ms: MetastoreClient, table: Table, change: Callable[[MetastoreClient], None]
) -> None:
    """It took no lock: the writer's commit was acknowledged, and its rows were gone or unreadable."""
    txn_id = writer(ms)
    with pytest.raises(LockTimeout, match=rf"transaction {txn_id} of me@localhost.*hive-ingest abort"):
        change(ms)
    assert ms.get_table("web.t") == table
    ms.commit_txn(txn_id)
    change(ms)
    assert ms.show_locks() == []


def test_a_change_continues_when_the_writer_ends(ms: MetastoreClient, table: Table, metastore_uri: str) -> None:
    txn_id = writer(ms)
    with connect_metastore(metastore_uri, ddl_lock_wait_seconds=60) as patient, ThreadPoolExecutor(1) as pool:
        dropping = pool.submit(patient.drop_table, "web.t")
        while len(ms.show_locks("web.t")) < 2:
            time.sleep(0.01)
        assert not dropping.done()
        ms.commit_txn(txn_id)
        dropping.result(timeout=60)
    assert ms.get_tables("web") == []


@pytest.mark.parametrize("change", ["add a column", "set a property"])
def test_a_change_that_affects_nobody_waits_for_nobody(ms: MetastoreClient, table: Table, change: str) -> None:
    txn_id = writer(ms)
    if change == "add a column":
        ms.alter_table("web.t", replace(table, columns=(*table.columns, Column("more", "int"))))
    else:
        ms.alter_table("web.t", replace(table, properties={**table.properties, "comment": "new"}))
    ms.commit_txn(txn_id)


# -- writers without a lock --------------------------------------------------------------------------


@embedded
@harmful
def test_a_writer_without_a_lock_is_aborted_by_the_change(
    ms: MetastoreClient, table: Table, change: Callable[[MetastoreClient], None]
) -> None:
    txn_id = writer(ms, locked=False)
    change(ms)
    with pytest.raises(TxnAborted, match=r"web\.t was (dropped|renamed).*while it was open"):
        ms.commit_txn(txn_id)


@embedded
def test_a_table_dropped_and_created_again_under_an_open_transaction_gets_none_of_its_rows(
    ms: MetastoreClient, table: Table
) -> None:
    txn_id = writer(ms, locked=False)
    ms.drop_table("web.t")
    ms.create_table("web.t", columns={"other": "double"}, partition_keys={"p": "int"})
    with pytest.raises(TxnAborted, match="was dropped while it was open"):
        ms.commit_txn(txn_id)


@embedded
def test_a_partition_dropped_and_added_again_under_an_open_transaction_gets_none_of_its_rows(
    ms: MetastoreClient, table: Table
) -> None:
    txn_id = writer(ms, locked=False)
    ms.drop_partition("web.t", ["1"])
    ms.add_partitions("web.t", [["1"]])
    with pytest.raises(TxnAborted, match=r"p=1 of web\.t was dropped"):
        ms.commit_txn(txn_id)


@embedded
def test_a_writer_of_another_partition_is_not_aborted(ms: MetastoreClient, table: Table) -> None:
    (txn_id,) = ms.open_txns()
    ms.allocate_table_write_ids("web.t", [txn_id])
    lock(ms, component(READ, "web", "t", "p=2", operation=DataOperationType.INSERT), txn_id=txn_id)
    ms.drop_partition("web.t", ["1"])
    ms.commit_txn(txn_id)


@embedded
def test_a_writer_that_waited_for_the_change_is_aborted(ms: MetastoreClient, table: Table, metastore_uri: str) -> None:
    """Its write id is from before the change."""
    first = writer(ms)
    with connect_metastore(metastore_uri, ddl_lock_wait_seconds=60) as patient, ThreadPoolExecutor(1) as pool:
        dropping = pool.submit(patient.drop_table, "web.t")
        while len(ms.show_locks("web.t")) < 2:
            time.sleep(0.01)
        second = writer(ms)
        ms.commit_txn(first)
        dropping.result(timeout=60)
    with pytest.raises(TxnAborted, match="was dropped while it was open"):
        ms.commit_txn(second)


# -- locations ---------------------------------------------------------------------------------------


@embedded
@pytest.mark.parametrize("place", ["", "/", "/inner", "/p=1", "/.."])
def test_two_tables_cannot_lie_in_one_folder_or_in_each_others(ms: MetastoreClient, table: Table, place: str) -> None:
    """Two tables at one location: a failed commit of the one removed committed rows of the other."""
    with pytest.raises(InvalidOperation, match=r"cannot lie at .*Choose another location"):
        ms.create_table("web.second", columns=COLUMNS, location=table.location + place)
    assert ms.get_tables("web") == ["t"]


@embedded
def test_a_symbolic_link_does_not_hide_that_two_tables_share_a_folder(
    ms: MetastoreClient, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder(table.location))
    with pytest.raises(InvalidOperation, match="cannot lie at"):
        ms.create_table("web.second", columns=COLUMNS, location=str(tmp_path / "link"))


@embedded
def test_a_table_cannot_contain_the_folder_of_a_database(ms: MetastoreClient, tmp_path: Path) -> None:
    for location in (tmp_path / "warehouse", tmp_path / "warehouse" / "web.db", tmp_path):
        with pytest.raises(InvalidOperation, match="the database"):
            ms.create_table("web.t", columns=COLUMNS, location=str(location))


@embedded
@pytest.mark.parametrize("name", ["base_0000005", "delta_0000001_0000001_0000", "delete_delta_0000002_0000002"])
def test_a_folder_that_holds_rows_cannot_become_a_table_or_a_partition(
    ms: MetastoreClient, table: Table, tmp_path: Path, name: str
) -> None:
    for place in (tmp_path / "warehouse" / "web.db" / "u", folder(table.location) / "p=2"):
        (place / name).mkdir(parents=True)
    with pytest.raises(InvalidOperation, match=rf"already holds ACID files \('{name}'\)"):
        ms.create_table("web.u", columns=COLUMNS)
    with pytest.raises(InvalidOperation, match=rf"already holds ACID files \('{name}'\)"):
        ms.add_partitions("web.t", [["2"]])
    assert ms.list_partition_names("web.t") == ["p=1"]
    with pytest.raises(NoSuchObject):
        ms.get_table("web.u")


@embedded
def test_nothing_is_created_in_a_registered_folder_that_is_missing(ms: MetastoreClient, table: Table) -> None:
    """The disk may not be mounted: rows would be written below the mount point, and be gone with the next mount."""
    folder(table.location).rename(folder(table.location).with_name("elsewhere"))
    with pytest.raises(StreamingIOFailure, match="is missing: mount its disk"):
        ms.add_partitions("web.t", [["2"]])
    assert not folder(table.location).exists()


# -- write ids after a restore, and identity ---------------------------------------------------------


def test_write_ids_can_be_raised_above_what_lies_in_the_folders(ms: MetastoreClient, table: Table) -> None:
    ms.raise_write_ids("web.t", 8)  # type: ignore[arg-type]
    (txn_id,) = ms.open_txns()
    assert ms.allocate_table_write_ids("web.t", [txn_id])[0].write_id >= 8
    seen = ms.get_valid_write_ids(["web.t"])[0]
    assert all(seen.is_valid(write_id) for write_id in range(1, 8))  # type: ignore[arg-type]
    ms.raise_write_ids("web.t", 3)  # type: ignore[arg-type]
    (next_,) = ms.open_txns()
    assert ms.allocate_table_write_ids("web.t", [next_])[0].write_id >= 9


def test_transactions_can_be_raised_above_those_of_compactions(ms: MetastoreClient) -> None:
    opened = ms.get_valid_txns().high_water_mark
    ms.raise_txn_ids(TxnId(opened + 8))
    seen = ms.get_valid_txns()
    assert seen.high_water_mark >= opened + 7
    assert all(seen.is_valid(TxnId(txn_id)) for txn_id in range(opened + 1, opened + 8))
    ms.raise_txn_ids(TxnId(1))
    (next_,) = ms.open_txns()
    assert next_ > seen.high_water_mark


def test_every_metastore_has_an_id_that_its_clients_share(ms: MetastoreClient) -> None:
    assert len(ms.metastore_id) == 36
    with ms.clone() as other:
        assert other.metastore_id == ms.metastore_id


def test_threads_may_drop_and_create_tables_through_one_client(ms: MetastoreClient) -> None:
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(3):
            ms.create_table(f"web.t{number}", columns=COLUMNS)
            ms.drop_table(f"web.t{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert ms.get_tables("web") == []
