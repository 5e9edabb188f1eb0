"""Write ids and the snapshots over them, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from hive_ingest.acid.write_ids import ValidTxnList
from hive_ingest.errors import InvalidTransactionState
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import DataOperationType, TxnId, TxnType
from tests.acceptance.metastore.requests import READ, component, lock
from tests.support.metastores import housekeeping

INSERT = DataOperationType.INSERT


def allocate(ms: MetastoreClient, *txn_ids: TxnId, table: str = "db.t") -> list[int]:
    return [each.write_id for each in ms.allocate_table_write_ids(table, txn_ids)]


def wrote(ms: MetastoreClient, txn_id: TxnId) -> None:
    """Register the transaction's write to the unpartitioned table db.t."""
    lock(ms, component(READ, table="t", operation=INSERT), txn_id=txn_id)


def test_write_ids_count_from_one_for_each_table(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    assert allocate(metastore, one) == [1]
    assert allocate(metastore, two) == [2]
    assert allocate(metastore, two, table="db.u") == [1]


def test_an_allocation_may_be_repeated(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    assert allocate(metastore, one, two) == [1, 2]
    assert allocate(metastore, two, one) == [1, 2]


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive repeats an allocation for all of its transactions or none")
def test_an_allocation_may_be_repeated_with_more_transactions(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    assert allocate(metastore, one) == [1]
    assert allocate(metastore, one, two) == [1, 2]


def test_names_of_tables_differ_by_more_than_case(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    assert allocate(metastore, one, table="DB.T") == [1]
    assert allocate(metastore, two, table="db.t") == [2]


def test_an_allocation_for_no_transactions_is_empty(metastore: MetastoreClient) -> None:
    assert metastore.allocate_table_write_ids("db.t", []) == []


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive does not check it")
def test_a_read_only_transaction_gets_no_write_id(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns(txn_type=TxnType.READ_ONLY)
    with pytest.raises(InvalidTransactionState, match="read-only"):
        allocate(metastore, txn_id)


def test_one_bad_transaction_fails_the_whole_allocation(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    metastore.abort_txn(two)
    with pytest.raises(Exception, match="transaction 2 is aborted"):
        allocate(metastore, one, two)
    assert allocate(metastore, one) == [1]


# -- snapshots ---------------------------------------------------------------------------------------


def test_a_table_without_writes_has_an_empty_snapshot(metastore: MetastoreClient) -> None:
    (valid,) = metastore.get_valid_write_ids(["db.t"])
    assert valid.to_string() == f"db.t:0:{2**63 - 1}::"
    (valid,) = metastore.get_valid_write_ids(["db.t"], metastore.get_valid_txns())
    assert valid.high_water_mark == 0


def test_a_snapshot_distinguishes_open_from_aborted(metastore: MetastoreClient) -> None:
    one, two, three = metastore.open_txns(3)
    allocate(metastore, one, two, three)
    metastore.commit_txn(one)
    metastore.abort_txn(two)
    for valid_txns in (None, metastore.get_valid_txns()):
        (valid,) = metastore.get_valid_write_ids(["db.t"], valid_txns)
        assert valid.to_string() == "db.t:3:3:3:2"


def test_a_transaction_sees_its_own_write_id(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    allocate(metastore, one, two)
    (valid,) = metastore.get_valid_write_ids(["db.t"], metastore.get_valid_txns(one))
    assert (valid.open, valid.high_water_mark) == ((2,), 2)


@pytest.mark.only_on(
    ["sqlite", "postgres", "hive313"], because="Hive 4 ends a list at its lowest exception while nothing is committed"
)
def test_lists_come_in_the_order_of_the_tables(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    allocate(metastore, one, table="db.a")
    allocate(metastore, one, two, table="db.b")
    lists = metastore.get_valid_write_ids(["db.b", "db.nowhere", "db.a"])
    assert [(str(each.table), each.high_water_mark) for each in lists] == [("db.b", 2), ("db.nowhere", 0), ("db.a", 1)]


@pytest.mark.only_on(["sqlite", "postgres"], because="housekeeping is called by hand")
def test_a_snapshot_does_not_change(metastore: EmbeddedMetastoreClient) -> None:
    reader, writer, loser = metastore.open_txns(3)
    allocate(metastore, writer, loser)
    snapshot = metastore.get_valid_txns(reader)
    before = metastore.get_valid_write_ids(["db.t"], snapshot)
    metastore.commit_txn(writer)
    metastore.abort_txn(loser)
    (late,) = metastore.open_txns()
    allocate(metastore, late)
    metastore.commit_txn(late)
    metastore.clock_offset_seconds = 200
    metastore.run_housekeeping()
    assert metastore.get_valid_write_ids(["db.t"], snapshot) == before
    assert before[0].to_string() == "db.t:2:1:1,2:"


def test_ids_allocated_after_the_snapshot_are_above_its_high_water_mark(metastore: MetastoreClient) -> None:
    (one,) = metastore.open_txns()
    allocate(metastore, one)
    metastore.commit_txn(one)
    snapshot = metastore.get_valid_txns()
    allocate(metastore, *metastore.open_txns(3))
    (valid,) = metastore.get_valid_write_ids(["db.t"], snapshot)
    assert valid.to_string() == f"db.t:1:{2**63 - 1}::"


def test_a_later_transaction_with_a_lower_write_id_is_an_exception(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    snapshot = ValidTxnList(one)  # as if two had not been opened yet
    allocate(metastore, two)
    allocate(metastore, one)
    (valid,) = metastore.get_valid_write_ids(["db.t"], snapshot)
    assert (valid.high_water_mark, valid.open) == (2, (1,))


@pytest.mark.only_on(["sqlite", "postgres"], because="housekeeping is called by hand")
def test_a_committed_id_stays_visible_when_only_a_lower_aborted_one_is_left(
    metastore: EmbeddedMetastoreClient,
) -> None:
    """The lower id belongs to the later transaction; pruning leaves only its row."""
    early, late = metastore.open_txns(2)
    allocate(metastore, late)
    allocate(metastore, early)
    for txn_id in (early, late):
        wrote(metastore, txn_id)
    metastore.commit_txn(early)
    metastore.abort_txn(late)
    assert housekeeping(metastore).pruned_write_ids == 1
    for valid_txns in (None, metastore.get_valid_txns()):
        (valid,) = metastore.get_valid_write_ids(["db.t"], valid_txns)
        assert valid.to_string() == f"db.t:2:{2**63 - 1}::1"
