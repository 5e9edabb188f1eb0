"""The metastore is killed and started again while rows are streamed."""

from __future__ import annotations

import threading

import pytest

import hive_ingest as hi
from hive_ingest.errors import CommitOutcomeUnknown, StreamingError
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.services.metastore import RealMetastore
from tests.support import connections
from tests.support.rows import ids
from tests.thrift.proxy import Fault, FaultyProxy

ROWS = 30
KILLED_AT = 10


def test_a_metastore_killed_halfway_loses_and_duplicates_nothing(real_metastore: RealMetastore) -> None:
    reached = threading.Event()

    def restart() -> None:
        reached.wait()
        real_metastore.stop()
        real_metastore.launch()

    with connect_metastore(real_metastore.uri, retry_seconds=60) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int"}, partition_keys={"part": "int"})
        killer = threading.Thread(target=restart)
        killer.start()
        stream(client, reached)
        killer.join()
        assert ids(client) == list(range(ROWS))


@pytest.mark.parametrize(("fault", "is_committed"), [(Fault.REQUEST_CUT, False), (Fault.ANSWER_CUT, True)])
def test_a_metastore_killed_in_a_commit_and_down_for_long_leaves_an_unknown_outcome_that_progress_decides(
    impatient_metastore: RealMetastore, fault: Fault, is_committed: bool
) -> None:
    with (
        FaultyProxy(impatient_metastore.port) as proxy,
        connect_metastore(proxy.uri, retry_seconds=1) as client,
    ):
        client.create_table("default.t", columns={"id": "int"})
        with connect(client, "default", commit_retry_seconds=2.0) as connection:
            assert begin(connection) == 0
            connection.write(b'{"id": 0}')
            proxy.arm("commit_txn", fault, impatient_metastore.stop)
            with pytest.raises(CommitOutcomeUnknown):
                connection.commit_transaction(positions={"a": 0})
        impatient_metastore.start()
        assert hi.read_table(client, "default.t").num_rows == is_committed
        with connect(client, "default") as connection:  # waits for the timeout of the transaction that was lost
            assert begin(connection) == is_committed
            connection.abort_transaction()
        assert client.get_valid_txns().open == ()


def connect(client: MetastoreClient, database: str, **settings: float) -> hi.StreamingConnection:
    return connections.connect(client, f"{database}.t", sink="numbers", sources=["a"], settings=settings)


def stream(client: MetastoreClient, reached: threading.Event) -> None:
    """Row by row, each from where the sink's progress is. Sets `reached` shortly before one of the commits."""
    errors: list[StreamingError] = []
    while len(errors) < 10:
        try:
            with connect(client, "web", commit_retry_seconds=60.0) as connection:
                while (number := begin(connection)) < ROWS:
                    connection.write(f'{{"id": {number}, "part": {number % 3}}}'.encode())
                    if number == KILLED_AT:
                        reached.set()
                    connection.commit_transaction(positions={"a": number})
                connection.abort_transaction()
                return
        except StreamingError as error:
            errors.append(error)
    raise AssertionError(f"no way through: {errors}")


def begin(connection: hi.StreamingConnection) -> int:
    """Begins a transaction; the row that comes next."""
    connection.begin_transaction()
    last = connection.progress["a"]
    return last.position + 1 if last else 0
