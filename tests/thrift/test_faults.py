"""Each call of a transaction is broken in each way: afterwards rows are what the caller was told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hive_ingest as hi
from hive_ingest.errors import CommitOutcomeUnknown, StreamingError
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.parts.metastore import RealMetastore
from tests.thrift.proxy import Fault, FaultyProxy

TABLE = "web.t"
#: Of one transaction with a new partition and a sink, in order; some of them more than once.
CALLS = (
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


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_breaks_loses_and_doubles_nothing(proxy: FaultyProxy, direct: MetastoreClient, call: str) -> None:
    with connect_metastore(proxy.uri, call_timeout_seconds=1.0, retry_seconds=5.0) as client:
        for number, fault in enumerate(Fault):
            stream_until_told(client, proxy, number, call, fault)
            assert proxy.hit == call, f"{call} was not called"
            assert ids(direct) == list(range(number + 1)), f"after {fault.value}"
    for txn_id in direct.get_valid_txns().open:
        direct.abort_txn(txn_id)  # opened without an answer: nobody's, the time-out would end it
    assert ids(direct) == list(range(len(Fault)))


def stream_until_told(client: MetastoreClient, proxy: FaultyProxy, number: int, call: str, fault: Fault) -> None:
    """One row, once: after an error the sink's progress says whether it is there, as a pipeline asks it."""
    for attempt in range(TRIES):
        connection = hi.StreamingConnection.connect(
            client,
            database="web",
            table="t",
            record_writer=hi.StrictJsonWriter(),
            sink="numbers",
            sources=["a"],
            settings={"commit_retry_seconds": 5.0, "lock_wait_seconds": 10.0},
        )
        if attempt == 0:
            proxy.arm(call, fault)
        try:
            with connection:
                connection.begin_transaction()
                last = connection.progress["a"]
                if last is not None and last.position == number:
                    connection.abort_transaction()
                    return
                connection.write(f'{{"id": {number}, "part": {number}}}'.encode())
                connection.commit_transaction(positions={"a": number})
                return
        except CommitOutcomeUnknown as error:
            raise AssertionError("with a sink the outcome can always be learned") from error
        except StreamingError:
            continue
    raise AssertionError(f"not even the {TRIES}th try went through")


def ids(client: MetastoreClient) -> list[int]:
    return sorted(hi.read_table(client, TABLE).column("id").to_pylist())
