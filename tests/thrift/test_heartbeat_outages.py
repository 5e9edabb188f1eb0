"""Heartbeats that cannot get through for a while: what is lost, and what is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import hive_ingest as hi
from hive_ingest.errors import TxnAborted
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.services.metastore import RealMetastore
from tests.support.rows import ids
from tests.support.waiting import wait_until
from tests.thrift.conftest import SHORT_TIMEOUT_SECONDS
from tests.thrift.proxy import Fault, FaultyProxy

HALF = SHORT_TIMEOUT_SECONDS / 2
#: Between two runs of the server's housekeeping, and some more.
HOUSEKEEPING_SECONDS = 2.5


@pytest.fixture
def proxy(impatient_metastore: RealMetastore) -> Iterator[FaultyProxy]:
    with FaultyProxy(impatient_metastore.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FaultyProxy) -> Iterator[MetastoreClient]:
    with connect_metastore(proxy.uri, retry_seconds=5) as client:
        client.create_table("default.t", columns={"id": "int"})
        yield client


@pytest.fixture
def connection(client: MetastoreClient) -> Iterator[hi.StreamingConnection]:
    """With one row in an open transaction."""
    with hi.StreamingConnection.connect(
        client, database="default", table="t", record_writer=hi.StrictJsonWriter()
    ) as connection:
        connection.begin_transaction()
        connection.write(b'{"id": 1}')
        yield connection


def lose_contact(proxy: FaultyProxy, seconds: float) -> None:
    """Nothing reaches the metastore for so long."""
    proxy.cut()
    time.sleep(seconds)
    proxy.restore()


def test_an_outage_within_half_the_timeout_costs_nothing(
    client: MetastoreClient, connection: hi.StreamingConnection, proxy: FaultyProxy
) -> None:
    lose_contact(proxy, HALF - 0.5)
    connection.commit_transaction()
    assert ids(client, "default.t") == [1]


def test_an_outage_during_a_commit_that_ends_within_half_the_timeout_costs_nothing(
    client: MetastoreClient, connection: hi.StreamingConnection, proxy: FaultyProxy
) -> None:
    proxy.cut()
    end = threading.Timer(HALF - 0.5, proxy.restore)
    end.start()
    connection.commit_transaction()
    end.join()
    assert ids(client, "default.t") == [1]


def test_an_outage_that_ends_before_the_commit_and_within_the_timeout_costs_nothing(
    client: MetastoreClient, connection: hi.StreamingConnection, proxy: FaultyProxy
) -> None:
    lose_contact(proxy, SHORT_TIMEOUT_SECONDS * 0.7)
    connection.commit_transaction()
    assert ids(client, "default.t") == [1]


def test_an_outage_beyond_the_timeout_aborts_and_reports_it(
    client: MetastoreClient, connection: hi.StreamingConnection, proxy: FaultyProxy
) -> None:
    lose_contact(proxy, SHORT_TIMEOUT_SECONDS + HOUSEKEEPING_SECONDS)
    with pytest.raises(TxnAborted, match=r"aborted|timeout"):
        connection.commit_transaction()
    assert ids(client, "default.t") == []
    assert client.get_valid_txns().open == ()


def test_a_transaction_outlives_its_timeout_although_some_heartbeats_fail(
    client: MetastoreClient, connection: hi.StreamingConnection, proxy: FaultyProxy
) -> None:
    began = time.monotonic()
    for fault in Fault:
        proxy.arm("heartbeat_txn_range", fault)
        wait_until(lambda: proxy.hit is not None, "no heartbeat was sent")
    time.sleep(max(0.0, began + SHORT_TIMEOUT_SECONDS + HOUSEKEEPING_SECONDS - time.monotonic()))
    connection.commit_transaction()
    assert ids(client, "default.t") == [1]


def test_a_reader_may_be_slower_than_the_timeout(client: MetastoreClient, connection: hi.StreamingConnection) -> None:
    connection.commit_transaction()
    with hi.scan(client, "default.t") as rows:
        time.sleep(SHORT_TIMEOUT_SECONDS + HOUSEKEEPING_SECONDS)
        assert len(client.show_locks("default.t")) == 1, "its transaction is gone"
        assert rows.read_all().column("id").to_pylist() == [1]
