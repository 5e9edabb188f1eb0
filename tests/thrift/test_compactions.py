"""The compaction queue of a real metastore: what a worker outside it can do, and what Hive's own shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hive_ingest.errors import MetastoreUnavailable, NoSuchCompaction, UnsupportedFeature
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import (
    CompactionInfo,
    CompactionResponse,
    CompactionState,
    CompactionType,
    DataOperationType,
    TableName,
    TxnId,
    TxnState,
    TxnType,
    WriteId,
)
from tests.acceptance.metastore.requests import READ, component, lock
from tests.services.metastore import RealMetastore
from tests.thrift.proxy import Fault, FaultyProxy

TABLE, PARTITION = "web.t", "part=a"
MINOR, MAJOR = CompactionType.MINOR, CompactionType.MAJOR
INITIATED, WORKING = CompactionState.INITIATED, CompactionState.WORKING
PROPERTIES = {"compactor.mapreduce.map.memory.mb": "2048", "note": "a:b 3:c"}


@pytest.fixture
def hive401(hive401_metastore: RealMetastore) -> Iterator[MetastoreClient]:
    with connect_metastore(hive401_metastore.uri) as client:
        yield client


def request(client: MetastoreClient, kind: CompactionType = MINOR) -> CompactionResponse:
    return client.compact(TABLE, compaction_type=kind, partition_name=PARTITION, properties=PROPERTIES)


def take(client: MetastoreClient) -> CompactionInfo:
    info = client.find_next_compact("worker-1", worker_version="0.1")
    assert info is not None
    return info


def shown(client: MetastoreClient) -> CompactionInfo:
    (info,) = client.show_compactions(TABLE)
    return info


def written(client: MetastoreClient) -> WriteId:
    """The highest write id, after a committed write."""
    (txn_id,) = client.open_txns()
    write_id = client.allocate_table_write_ids(TABLE, [txn_id])[0].write_id
    insert = component(READ, "web", "t", operation=DataOperationType.INSERT, dynamic=True)
    lock(client, insert, txn_id=txn_id)
    client.add_dynamic_partitions(txn_id, write_id, TABLE, [PARTITION])
    client.commit_txn(txn_id)
    return write_id


def compactor_txn(client: MetastoreClient) -> TxnId:
    return client.open_txns(txn_type=TxnType.COMPACTION)[0]


# -- on every version --------------------------------------------------------------------------------


def test_a_request_is_shown_and_a_second_one_is_answered_with_it(client: MetastoreClient) -> None:
    first = request(client)
    assert first == CompactionResponse(first.id, INITIATED, accepted=True)
    found = shown(client)
    assert (found.id, found.table, found.partition_name) == (first.id, TableName("web", "t"), PARTITION)
    assert (found.type, found.state, found.worker_id, found.start_ms) == (MINOR, INITIATED, None, None)
    assert request(client, MAJOR) == CompactionResponse(first.id, INITIATED, accepted=False)
    assert client.show_compactions("web.other") == []
    assert client.compact("web.other", compaction_type=MAJOR).accepted
    assert [info.table.table for info in client.show_compactions()] == ["other", "t"]
    assert client.get_latest_committed_compactions(TABLE) == []
    assert not client.check_failed_compactions(TABLE, PARTITION)


def test_what_the_server_keeps_to_itself_is_refused_with_the_reason(client: MetastoreClient) -> None:
    assert client.has_own_cleaner
    with pytest.raises(UnsupportedFeature, match="the server's own cleaner does it"):
        client.find_ready_to_clean()
    with pytest.raises(UnsupportedFeature, match="the server's own initiator does it"):
        client.find_potential_compactions(aborted_threshold=10)


def test_hive_3_has_no_calls_for_a_worker(hive313_metastore: RealMetastore) -> None:
    with connect_metastore(hive313_metastore.uri) as client:
        assert not client.runs_compactions
        request(client)
        info = shown(client)
        for call in (
            lambda: client.find_next_compact("worker-1"),
            lambda: client.update_compactor_state(info, TxnId(1)),
            lambda: client.mark_compacted(info),
            lambda: client.mark_failed(info),
        ):
            with pytest.raises(UnsupportedFeature, match="let Hive's own worker do it"):
                call()
        assert shown(client) == info


# -- a worker of Hive 4 ------------------------------------------------------------------------------


def test_a_compaction_goes_through_the_queue_of_a_real_metastore(hive401: MetastoreClient) -> None:
    assert hive401.runs_compactions
    highest = written(hive401)
    compaction_id = request(hive401).id
    info = take(hive401)
    assert (info.id, info.table, info.partition_name) == (compaction_id, TableName("web", "t"), PARTITION)
    assert (info.type, info.state, info.worker_id) == (MINOR, WORKING, "worker-1")
    assert info.properties == PROPERTIES
    assert hive401.find_next_compact("worker-2") is None

    txn_id = compactor_txn(hive401)
    hive401.update_compactor_state(replace(info, run_as="me", highest_write_id=highest), txn_id)
    hive401.set_hadoop_job_id(compaction_id, "job-7")
    found = shown(hive401)
    assert (found.state, found.worker_id, found.worker_version, found.run_as) == (WORKING, "worker-1", "0.1", "me")
    assert (found.highest_write_id, found.txn_id, found.hadoop_job_id) == (highest, txn_id, "job-7")
    assert found.start_ms is not None

    hive401.mark_compacted(info)
    hive401.mark_compacted(info)  # an answer may be lost
    hive401.commit_txn(txn_id)
    found = shown(hive401)
    assert found.state is CompactionState.READY_FOR_CLEANING
    assert found.next_txn_id is not None
    assert found.commit_time_ms is not None
    (latest,) = hive401.get_latest_committed_compactions(TABLE, [PARTITION])
    assert latest.id == compaction_id

    hive401.mark_cleaned(replace(info, highest_write_id=highest))
    assert shown(hive401).state is CompactionState.SUCCEEDED
    assert shown(hive401).end_ms is not None


def test_failures_are_counted(hive401: MetastoreClient) -> None:
    for count in (1, 2):
        request(hive401)
        hive401.mark_failed(replace(take(hive401), error_message="no space left"))
        assert hive401.check_failed_compactions(TABLE, PARTITION) == (count == 2)
    newest = hive401.show_compactions(TABLE)[0]
    assert (newest.state, newest.error_message) == (CompactionState.FAILED, "no space left")
    request(hive401)
    hive401.mark_refused(replace(take(hive401), error_message="nothing to compact"))
    assert hive401.show_compactions(TABLE)[0].state is CompactionState.REFUSED
    assert not hive401.check_failed_compactions(TABLE, PARTITION)


def test_a_compaction_that_has_ended_is_not_there_any_more(hive401: MetastoreClient) -> None:
    request(hive401)
    info = take(hive401)
    hive401.mark_failed(info)
    txn_id = compactor_txn(hive401)
    for call in (
        lambda: hive401.mark_failed(info),
        lambda: hive401.mark_compacted(info),
        lambda: hive401.update_compactor_state(info, txn_id),
        lambda: hive401.set_hadoop_job_id(info.id, "job-7"),
    ):
        with pytest.raises(NoSuchCompaction, match=f"compaction {info.id} is not in the queue"):
            call()


def test_the_transaction_of_a_compaction_that_aborts_is_remembered(hive401: MetastoreClient) -> None:
    """Its files end with its id, and are hidden for as long as it is known to be aborted."""
    highest = written(hive401)
    request(hive401)
    txn_id = compactor_txn(hive401)
    hive401.update_compactor_state(replace(take(hive401), highest_write_id=highest), txn_id)
    hive401.abort_txn(txn_id)
    states = {info.id: info.state for info in hive401.get_open_txns_info().transactions}
    assert states[txn_id] is TxnState.ABORTED


# -- a broken connection -----------------------------------------------------------------------------


@pytest.fixture
def proxied(hive401_metastore: RealMetastore) -> Iterator[tuple[FaultyProxy, MetastoreClient]]:
    with (
        FaultyProxy(hive401_metastore.port) as proxy,
        connect_metastore(proxy.uri, call_timeout_seconds=1.0, retry_seconds=5.0) as client,
    ):
        yield proxy, client


@pytest.mark.parametrize("fault", Fault)
def test_calls_that_may_be_repeated_are(
    hive401: MetastoreClient, proxied: tuple[FaultyProxy, MetastoreClient], fault: Fault
) -> None:
    proxy, client = proxied
    proxy.arm("compact2", fault)
    compaction_id = request(client).id
    assert proxy.hit == "compact2"
    info = replace(take(client), highest_write_id=WriteId(1))
    txn_id = compactor_txn(client)
    for name, call in (
        ("show_compact", client.show_compactions),
        ("update_compactor_state", lambda: client.update_compactor_state(info, txn_id)),
        ("set_hadoop_jobid", lambda: client.set_hadoop_job_id(info.id, "job-7")),
        ("mark_compacted", lambda: client.mark_compacted(info)),
    ):
        proxy.arm(name, fault)
        call()
        assert proxy.hit == name
    assert (shown(hive401).id, shown(hive401).txn_id) == (compaction_id, txn_id)
    assert shown(hive401).state is CompactionState.READY_FOR_CLEANING


@pytest.mark.parametrize("fault", [Fault.REQUEST_CUT, Fault.ANSWER_CUT])
@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        ("find_next_compact2", INITIATED, WORKING),
        ("mark_failed", WORKING, CompactionState.FAILED),
        ("mark_refused", WORKING, CompactionState.REFUSED),
        ("mark_cleaned", CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED),
    ],
)
def test_a_call_that_may_not_be_repeated_is_sent_once(
    hive401: MetastoreClient,
    proxied: tuple[FaultyProxy, MetastoreClient],
    call: str,
    before: CompactionState,
    after: CompactionState,
    fault: Fault,
) -> None:
    proxy, client = proxied
    request(client)
    argument: Any
    method, argument = "find_next_compact", "worker-1"
    if call != "find_next_compact2":
        method, argument = call, take(client)
    if call == "mark_cleaned":
        client.mark_compacted(argument)
    assert shown(hive401).state is before
    proxy.arm(call, fault)
    with pytest.raises(MetastoreUnavailable):
        getattr(client, method)(argument)
    assert proxy.hit == call
    assert shown(hive401).state is (before if fault is Fault.REQUEST_CUT else after)
