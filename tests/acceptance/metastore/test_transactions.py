"""Transactions as Hive's TestTxnHandler has them, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_ingest.errors import (
    ConfigurationError,
    InvalidOperation,
    InvalidTransactionState,
    NoSuchTxn,
    TooManyOpenTxns,
    TxnAborted,
)
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.metastore_client.embedded import EmbeddedMetastoreClient
from hive_ingest.model import CommitKeyValue, DataOperationType, LockId, TxnId, TxnState, TxnType, WriteId
from tests.acceptance.metastore.requests import (
    ACQUIRED,
    EXCL_WRITE,
    READ,
    WAITING,
    component,
    lock,
    update_partition,
)
from tests.support.metastores import housekeeping

UPDATE, DELETE, INSERT = DataOperationType.UPDATE, DataOperationType.DELETE, DataOperationType.INSERT
UNKNOWN = TxnId(999_999)


def test_an_empty_metastore_has_an_empty_snapshot(metastore: MetastoreClient) -> None:
    assert metastore.get_valid_txns().to_string() == f"0:{2**63 - 1}::"
    assert metastore.get_open_txns_info().transactions == ()


def test_transaction_ids_are_dense_and_increase(metastore: MetastoreClient) -> None:
    assert metastore.open_txns() == [1]
    assert metastore.open_txns(3) == [2, 3, 4]
    assert metastore.open_txns() == [5]


@pytest.mark.only_on(["sqlite", "postgres"], because="it is the server's setting")
def test_a_batch_has_no_more_than_max_open_batch(metastore_uri: str, tmp_path: Path) -> None:
    with connect_metastore(metastore_uri, warehouse=tmp_path, max_open_batch=7, create=True) as ms:
        assert len(ms.open_txns(100)) == 7


@pytest.mark.only_on(["sqlite", "postgres"], because="it is the server's setting")
def test_no_more_than_max_open_txns_are_open_at_once(metastore_uri: str, tmp_path: Path) -> None:
    with connect_metastore(metastore_uri, warehouse=tmp_path, max_open_txns=2, create=True) as ms:
        first, _ = ms.open_txns(2)
        with pytest.raises(TooManyOpenTxns, match="max_open_txns is 2"):
            ms.open_txns()
        ms.commit_txn(first)
        assert ms.open_txns() == [3], "a refused call uses no id"


def test_opening_no_transaction_is_an_error(metastore: MetastoreClient) -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        metastore.open_txns(0)


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive does not tell the agent of a transaction")
def test_the_owner_of_a_transaction_is_shown(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns(user="ann", agent_info="pipeline 7", txn_type=TxnType.READ_ONLY)
    (info,) = metastore.get_open_txns_info().transactions
    assert (info.id, info.state, info.user, info.agent_info) == (txn_id, TxnState.OPEN, "ann", "pipeline 7")
    assert info.hostname
    assert info.type is TxnType.READ_ONLY
    assert info.started_ms == info.last_heartbeat_ms > 1_600_000_000_000


def test_the_snapshot_shows_open_and_aborted_ones_and_not_the_committed(metastore: MetastoreClient) -> None:
    one, two, three, four = metastore.open_txns(4)
    metastore.commit_txn(one)
    metastore.abort_txn(two)
    valid = metastore.get_valid_txns()
    assert (valid.high_water_mark, valid.open, valid.aborted) == (4, (three, four), (two,))
    assert valid.is_valid(one)
    assert not valid.is_valid(two)
    assert metastore.get_valid_txns(three).open == (four,)


def test_after_commits_nothing_is_an_exception(metastore: MetastoreClient) -> None:
    for txn_id in metastore.open_txns(2):
        metastore.commit_txn(txn_id)
    assert metastore.get_valid_txns().to_string() == f"2:{2**63 - 1}::"


# -- abort -----------------------------------------------------------------------------------------


def test_an_abort_may_be_repeated(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    metastore.abort_txn(txn_id)
    metastore.abort_txn(txn_id)
    assert metastore.get_valid_txns().aborted == (txn_id,)


@pytest.mark.only_on(["sqlite", "postgres", "hive401"], because="Hive 3 forgets a commit at once")
def test_a_committed_transaction_cannot_be_aborted(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    metastore.commit_txn(txn_id)
    with pytest.raises(NoSuchTxn, match="already committed"):
        metastore.abort_txn(txn_id)


def test_an_unknown_transaction_cannot_be_aborted(metastore: MetastoreClient) -> None:
    with pytest.raises(NoSuchTxn, match="never opened"):
        metastore.abort_txn(UNKNOWN)


def test_abort_txns_ignores_those_that_are_not_open(metastore: MetastoreClient) -> None:
    one, two, three = metastore.open_txns(3)
    metastore.commit_txn(one)
    metastore.abort_txns([one, two, three, UNKNOWN])
    valid = metastore.get_valid_txns()
    assert (valid.open, valid.aborted) == ((), (two, three))


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive keeps no reason")
def test_the_reason_of_an_abort_is_reported_by_later_calls(metastore: MetastoreClient) -> None:
    other, txn_id = metastore.open_txns(2)
    metastore.abort_txns([other], reason="the operator said so")
    assert [info.abort_reason for info in metastore.get_open_txns_info().transactions] == ["the operator said so", ""]
    metastore.abort_txn(txn_id, reason="the disk is full")
    metastore.abort_txn(txn_id, reason="a second thought")
    _, info = metastore.get_open_txns_info().transactions
    assert (info.state, info.abort_reason) == (TxnState.ABORTED, "the disk is full")
    with pytest.raises(TxnAborted, match="the disk is full"):
        metastore.commit_txn(txn_id)


# -- commit ----------------------------------------------------------------------------------------


@pytest.mark.only_on(
    ["sqlite", "postgres", "hive401"],
    because="Hive 3 forgets a commit at once, knows no key and value, and always compares",
)
def test_a_commit_may_be_repeated(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    metastore.commit_txn(txn_id)
    metastore.commit_txn(txn_id)


@pytest.mark.only_on(["sqlite", "postgres"], because="housekeeping is called by hand")
def test_a_commit_that_wrote_is_remembered_when_its_row_is_gone(metastore: EmbeddedMetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    lock(metastore, component(READ, table="table", operation=INSERT), txn_id=txn_id)
    metastore.commit_txn(txn_id)
    metastore.clock_offset_seconds = 3600
    assert housekeeping(metastore).forgotten_txns == 1
    metastore.commit_txn(txn_id)
    with pytest.raises(NoSuchTxn, match="already committed"):
        metastore.heartbeat(txn_id=txn_id)


@pytest.mark.only_on(["sqlite", "postgres"], because="housekeeping is called by hand")
def test_a_commit_that_wrote_nothing_is_forgotten_after_its_retention(metastore: EmbeddedMetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    metastore.commit_txn(txn_id)
    metastore.clock_offset_seconds = 3600
    metastore.run_housekeeping()
    with pytest.raises(NoSuchTxn, match="no longer remembered"):
        metastore.commit_txn(txn_id)


def test_calls_on_an_aborted_transaction_report_that_it_is_aborted(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    metastore.abort_txn(txn_id)
    with pytest.raises(TxnAborted):
        metastore.commit_txn(txn_id)
    with pytest.raises(TxnAborted):
        metastore.heartbeat(txn_id=txn_id)
    with pytest.raises(TxnAborted):
        lock(metastore, component(READ), txn_id=txn_id)
    with pytest.raises(TxnAborted):
        metastore.add_dynamic_partitions(txn_id, WriteId(1), "db.table", ["ds=today"])
    with pytest.raises(TxnAborted):
        metastore.allocate_table_write_ids("db.table", [txn_id])


def test_calls_on_an_unknown_transaction_report_that_it_is_unknown(metastore: MetastoreClient) -> None:
    with pytest.raises(NoSuchTxn):
        metastore.commit_txn(UNKNOWN)
    with pytest.raises(NoSuchTxn):
        metastore.heartbeat(txn_id=UNKNOWN)
    with pytest.raises(NoSuchTxn):
        lock(metastore, component(READ), txn_id=UNKNOWN)
    with pytest.raises(NoSuchTxn):
        metastore.add_dynamic_partitions(UNKNOWN, WriteId(1), "db.table", ["ds=today"])
    with pytest.raises(NoSuchTxn):
        metastore.allocate_table_write_ids("db.table", [UNKNOWN])


# -- heartbeats ------------------------------------------------------------------------------------


@pytest.mark.only_on(["sqlite", "postgres"], because="the clock is moved")
def test_a_heartbeat_updates_the_time_of_the_last_heartbeat(metastore: EmbeddedMetastoreClient) -> None:
    (txn_id,) = metastore.open_txns()
    metastore.clock_offset_seconds = 100
    metastore.heartbeat(txn_id=txn_id)
    (info,) = metastore.get_open_txns_info().transactions
    assert info.last_heartbeat_ms - info.started_ms >= 100_000


def test_a_range_of_heartbeats_names_those_that_are_gone(metastore: MetastoreClient) -> None:
    one, two, three, four = metastore.open_txns(4)
    assert metastore.heartbeat_txn_range(one, four).aborted == frozenset()
    metastore.commit_txn(two)
    metastore.abort_txn(three)
    answer = metastore.heartbeat_txn_range(one, TxnId(four + 1))
    assert (answer.nosuch, answer.aborted) == ({two, TxnId(four + 1)}, {three})


# -- a parameter set by the commit (HIVE-20538) ------------------------------------------------------


@pytest.mark.only_on(
    ["sqlite", "postgres", "hive401"],
    because="Hive 3 forgets a commit at once, knows no key and value, and always compares",
)
def test_a_commit_sets_a_parameter_of_a_table(metastore: MetastoreClient) -> None:
    metastore.create_database("db")
    table = metastore.create_table("db.t", columns={"id": "int"}, properties={"_meta.offset": "0"})
    (txn_id,) = metastore.open_txns()
    metastore.commit_txn(txn_id, key_value=CommitKeyValue(table.id, "_meta.offset", "17"))
    assert metastore.get_table("db.t").properties["_meta.offset"] == "17"


@pytest.mark.parametrize("key", ["_meta.missing", "offset"])
@pytest.mark.only_on(
    ["sqlite", "postgres", "hive401"],
    because="Hive 3 forgets a commit at once, knows no key and value, and always compares",
)
def test_a_commit_that_cannot_set_its_parameter_leaves_the_transaction_open(
    metastore: MetastoreClient, key: str
) -> None:
    metastore.create_database("db")
    table = metastore.create_table("db.t", columns={"id": "int"}, properties={"offset": "0"})
    (txn_id,) = metastore.open_txns()
    with pytest.raises(InvalidOperation):
        metastore.commit_txn(txn_id, key_value=CommitKeyValue(table.id, key, "17"))
    assert metastore.get_valid_txns().open == (txn_id,)
    assert metastore.get_table("db.t").properties["offset"] == "0"


# -- write-write conflicts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operations",
    [
        (UPDATE, UPDATE),
        (UPDATE, DELETE),
        pytest.param(
            (DELETE, DELETE),
            marks=pytest.mark.only_on(["sqlite", "postgres", "hive401"], because="Hive 3 lets both delete"),
        ),
    ],
)
def test_the_first_committer_of_two_updates_wins(
    metastore: MetastoreClient, operations: tuple[DataOperationType, DataOperationType]
) -> None:
    one, two = metastore.open_txns(2)
    update_partition(metastore, one, "ds=today", operations[0])
    update_partition(metastore, two, "ds=today", operations[1])
    metastore.commit_txn(two, excl_write_enabled=False)
    with pytest.raises(TxnAborted, match=r"write conflict on db/table/ds=today.* (transaction |\[txnid:)2"):
        metastore.commit_txn(one, excl_write_enabled=False)
    assert metastore.get_valid_txns().aborted == (one,)
    assert metastore.show_locks() == []
    with pytest.raises(TxnAborted, match=r"write conflict|already aborted"):
        metastore.commit_txn(one)


def test_updates_of_different_partitions_do_not_conflict(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    update_partition(metastore, one, "ds=today", UPDATE)
    update_partition(metastore, two, "ds=tomorrow", UPDATE)
    metastore.commit_txn(two, excl_write_enabled=False)
    metastore.commit_txn(one, excl_write_enabled=False)


def test_updates_one_after_the_other_do_not_conflict(metastore: MetastoreClient) -> None:
    for _ in range(2):
        (txn_id,) = metastore.open_txns()
        update_partition(metastore, txn_id, "ds=today", UPDATE)
        metastore.commit_txn(txn_id, excl_write_enabled=False)


def test_an_update_of_an_unpartitioned_table_conflicts_with_another(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    for txn_id in (one, two):
        metastore.allocate_table_write_ids("db.t", [txn_id])
        lock(metastore, component(READ, table="t", operation=UPDATE), txn_id=txn_id)
    metastore.commit_txn(one, excl_write_enabled=False)
    with pytest.raises(TxnAborted, match="write conflict on db/t"):
        metastore.commit_txn(two, excl_write_enabled=False)


def test_inserts_never_conflict(metastore: MetastoreClient) -> None:
    one, two = metastore.open_txns(2)
    update_partition(metastore, one, "ds=today", INSERT)
    update_partition(metastore, two, "ds=today", INSERT)
    metastore.commit_txn(one, excl_write_enabled=False)
    metastore.commit_txn(two, excl_write_enabled=False)


@pytest.mark.only_on(
    ["sqlite", "postgres", "hive401"],
    because="Hive 3 forgets a commit at once, knows no key and value, and always compares",
)
def test_exclusive_writers_are_not_compared_but_the_update_is_recorded(metastore: MetastoreClient) -> None:
    one, two, three = metastore.open_txns(3)
    for txn_id in (one, two, three):
        update_partition(metastore, txn_id, "ds=today", UPDATE)
    metastore.commit_txn(one)
    metastore.commit_txn(two)
    with pytest.raises(TxnAborted, match="write conflict"):
        metastore.commit_txn(three, excl_write_enabled=False)


# -- read-only ---------------------------------------------------------------------------------------


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive does not check it")
def test_a_read_only_transaction_commits_and_leaves_no_trace(metastore: EmbeddedMetastoreClient) -> None:
    (txn_id,) = metastore.open_txns(txn_type=TxnType.READ_ONLY)
    assert lock(metastore, component(READ, table="t", operation=DataOperationType.SELECT), txn_id=txn_id).state is (
        ACQUIRED
    )
    metastore.commit_txn(txn_id)
    metastore.clock_offset_seconds = 3600
    assert housekeeping(metastore).forgotten_txns == 1
    assert metastore.show_locks() == []


@pytest.mark.only_on(["sqlite", "postgres"], because="Hive does not check it")
def test_a_read_only_transaction_cannot_declare_writes(metastore: MetastoreClient) -> None:
    (txn_id,) = metastore.open_txns(txn_type=TxnType.READ_ONLY)
    with pytest.raises(InvalidTransactionState, match="read-only"):
        lock(metastore, component(READ, table="t", operation=INSERT), txn_id=txn_id)
    with pytest.raises(InvalidTransactionState, match="read-only"):
        metastore.add_dynamic_partitions(txn_id, WriteId(1), "db.t", ["ds=today"])
    assert metastore.show_locks() == []


# -- fencing by a lock on a made-up partition --------------------------------------------------------


def fence(ms: MetastoreClient, source: str) -> tuple[TxnId, LockId, object]:
    """The one request of a sink: data and progress table, and its source."""
    (txn_id,) = ms.open_txns(agent_info=f"sink {source}")
    for table in ("db.data", "db.data__progress"):
        ms.allocate_table_write_ids(table, [txn_id])
    response = lock(
        ms,
        component(READ, table="data", operation=INSERT, dynamic=True),
        component(READ, table="data__progress", operation=INSERT),
        component(EXCL_WRITE, table="data__progress", partition=f"source={source}"),
        txn_id=txn_id,
        agent_info=f"sink {source}",
    )
    return txn_id, response.lock_id, response.state


@pytest.mark.parametrize("end", ["commit_txn", "abort_txn"])
def test_a_second_transaction_for_a_source_waits_until_the_first_ends(metastore: MetastoreClient, end: str) -> None:
    first, first_lock, state = fence(metastore, "aa11")
    assert state is ACQUIRED
    second, second_lock, state = fence(metastore, "aa11")
    assert state is WAITING
    assert metastore.check_lock(second_lock).state is WAITING
    (waiting,) = [each for each in metastore.show_locks() if each.blocked_by_lock_id is not None]
    assert (waiting.txn_id, waiting.partition_name, waiting.blocked_by_lock_id) == (second, "source=aa11", first_lock)
    assert waiting.agent_info == "sink aa11"
    getattr(metastore, end)(first)
    assert metastore.check_lock(second_lock).state is ACQUIRED


def test_another_source_and_a_reader_do_not_wait(metastore: MetastoreClient) -> None:
    fence(metastore, "aa11")
    assert fence(metastore, "bb22")[2] is ACQUIRED
    select = component(READ, table="data__progress", operation=DataOperationType.SELECT)
    assert lock(metastore, select).state is ACQUIRED


def test_a_sink_that_waited_sees_what_the_first_committed(metastore: MetastoreClient) -> None:
    # The second opens first, so its own id is lower than that of the commit it must see.
    (second,) = metastore.open_txns()
    first, _, _ = fence(metastore, "aa11")
    request = component(EXCL_WRITE, table="data__progress", partition="source=aa11")
    waiting = lock(metastore, request, txn_id=second)
    assert waiting.state is WAITING
    metastore.commit_txn(first)
    assert metastore.check_lock(waiting.lock_id).state is ACQUIRED
    (fresh,) = metastore.get_valid_write_ids(["db.data__progress"], metastore.get_valid_txns(second))
    assert fresh.is_valid(WriteId(1))
