"""Each call of a transaction is broken in each way: afterwards the rows match the reported outcome.

Heartbeats of ranges, which come with time, are broken in `test_heartbeat_outages.py`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hive_ingest as hi
from hive_ingest.errors import CommitOutcomeUnknown, StreamingError
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import DataOperationType, LockComponent, LockLevel, LockRequest, LockType
from tests.services.metastore import RealMetastore
from tests.support import connections
from tests.support.rows import ids
from tests.thrift.proxy import Fault, FaultyProxy

TABLE = "web.t"
#: Of one transaction with a new partition and a sink, in order; some of them more than once.
CALLS = (
    "get_table_req",
    "open_txns",
    "allocate_table_write_ids",
    "lock",
    "get_open_txns",
    "get_valid_write_ids",
    "get_partitions_by_names",
    "add_partitions_req",
    "add_dynamic_partitions",
    "heartbeat",
    "commit_txn",
)
#: Of a client that is new: heartbeats have one of their own, which comes at its own time.
OF_CONNECTING = {"set_ugi", "getVersion", "get_config_value"}
TRIES = 4


@pytest.fixture
def proxy(real_metastore: RealMetastore) -> Iterator[FaultyProxy]:
    with FaultyProxy(real_metastore.port) as proxy:
        yield proxy


@pytest.fixture
def direct(real_metastore: RealMetastore) -> Iterator[MetastoreClient]:
    """Past the proxy."""
    with connect_metastore(real_metastore.uri) as client:
        client.create_database("web")
        client.create_table(TABLE, columns={"id": "int"}, partition_keys={"part": "int"})
        yield client


@pytest.fixture
def client(proxy: FaultyProxy) -> Iterator[MetastoreClient]:
    with connect_metastore(proxy.uri, call_timeout_seconds=1.0, retry_seconds=5.0) as client:
        yield client


def connect(client: MetastoreClient, **options: Any) -> hi.StreamingConnection:
    return connections.connect(client, settings={"commit_retry_seconds": 5.0, "lock_wait_seconds": 20.0}, **options)


def write(connection: hi.StreamingConnection, number: int) -> None:
    """Into a partition that is new."""
    connection.write(f'{{"id": {number}, "part": {number}}}'.encode())


# -- with a sink -------------------------------------------------------------------------------------


def test_every_call_of_a_transaction_is_broken_in_these_tests(
    proxy: FaultyProxy, direct: MetastoreClient, client: MetastoreClient
) -> None:
    with connect(client, sink="numbers", sources=["a"]) as connection:
        proxy.calls.clear()
        connection.begin_transaction()
        write(connection, 0)
        connection.commit_transaction(positions={"a": 0})
        assert {*proxy.calls} - OF_CONNECTING == {*CALLS}


@pytest.mark.parametrize("call", CALLS)
def test_a_broken_call_loses_and_duplicates_nothing(
    proxy: FaultyProxy, direct: MetastoreClient, client: MetastoreClient, call: str
) -> None:
    for number, fault in enumerate(Fault):
        stream_until_known(client, proxy, number, call, fault)
        assert proxy.hit == call, f"{call} was not called"
        assert ids(direct) == list(range(number + 1)), f"after {fault.value}"
    for txn_id in direct.get_valid_txns().open:
        direct.abort_txn(txn_id)  # opened without an answer: nobody's, the timeout would end it
    assert ids(direct) == list(range(len(Fault)))


def stream_until_known(client: MetastoreClient, proxy: FaultyProxy, number: int, call: str, fault: Fault) -> None:
    """One row, once: after an error the sink's progress says whether it is there, as a pipeline would check it."""
    for attempt in range(TRIES):
        connection = connect(client, sink="numbers", sources=["a"])
        if attempt == 0:
            proxy.arm(call, fault)
        try:
            with connection:
                connection.begin_transaction()
                last = connection.progress["a"]
                if last is not None and last.position == number:
                    connection.abort_transaction()
                    return
                write(connection, number)
                connection.commit_transaction(positions={"a": number})
                return
        except CommitOutcomeUnknown as error:
            raise AssertionError("with a sink the outcome can always be learned") from error
        except StreamingError:
            continue
    raise AssertionError(f"not even the {TRIES}th try went through")


# -- without one -------------------------------------------------------------------------------------


def test_a_commit_that_fails_after_its_commit_point_is_reported_as_committed(
    proxy: FaultyProxy, direct: MetastoreClient, client: MetastoreClient
) -> None:
    with connect(client) as connection:
        for number, fault in enumerate(Fault):
            connection.begin_transaction()
            write(connection, number)
            proxy.arm("commit_txn", fault)
            connection.commit_transaction()
            assert proxy.hit == "commit_txn"
            assert ids(direct) == list(range(number + 1)), f"after {fault.value}"
    assert direct.get_valid_txns().open == ()


def test_an_abort_that_breaks_leaves_neither_rows_nor_locks(
    proxy: FaultyProxy, direct: MetastoreClient, client: MetastoreClient
) -> None:
    with connect(client) as connection:
        for number, fault in enumerate(Fault):
            connection.begin_transaction()
            write(connection, number)
            proxy.arm("abort_txns", fault)
            connection.abort_transaction()
            assert proxy.hit == "abort_txns"
            assert (direct.show_locks(), direct.get_valid_txns().open) == ([], ()), f"after {fault.value}"
    assert ids(direct) == []


def test_a_wait_for_a_lock_survives_broken_calls(
    proxy: FaultyProxy, direct: MetastoreClient, client: MetastoreClient
) -> None:
    with connect(client) as connection:
        for number, fault in enumerate(Fault):
            proxy.arm("check_lock", fault)
            with locked_until(lambda: proxy.hit is not None, direct):
                connection.begin_transaction()
            write(connection, number)
            connection.commit_transaction()
            assert ids(direct) == list(range(number + 1)), f"after {fault.value}"
    assert (direct.show_locks(), direct.get_valid_txns().open) == ([], ())


@contextlib.contextmanager
def locked_until(is_over: Callable[[], bool], client: MetastoreClient) -> Iterator[None]:
    """Somebody else has the table."""
    (txn_id,) = client.open_txns()
    alone = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, "web", "t", operation_type=DataOperationType.NO_TXN)
    client.lock(LockRequest((alone,), txn_id))

    def release() -> None:
        deadline = time.monotonic() + 60
        with client.clone() as own:
            while not is_over() and time.monotonic() < deadline:
                time.sleep(0.02)
            own.abort_txn(txn_id)

    releasing = threading.Thread(target=release)
    releasing.start()
    yield
    releasing.join()
    assert is_over()
