"""Heartbeats that cannot get through for a while: what is lost, and what is not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import hive_ingest as hi
from hive_ingest.errors import StreamingError, TxnAborted
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.thrift.conftest import TIMEOUT_SECONDS, SecuredMetastore
from tests.thrift.proxy import FaultyProxy


@pytest.fixture
def proxy(secured_metastore: SecuredMetastore) -> Iterator[FaultyProxy]:
    secured_metastore.server.reset()
    with FaultyProxy(secured_metastore.server.port) as proxy:
        yield proxy


@pytest.fixture
def client(secured_metastore: SecuredMetastore, proxy: FaultyProxy) -> Iterator[MetastoreClient]:
    with connect_metastore(proxy.uri, **secured_metastore.options(), retry_seconds=5) as client:
        client.create_table("default.t", columns={"id": "int"})
        yield client


def stream_through_an_outage(client: MetastoreClient, proxy: FaultyProxy, seconds: float) -> None:
    """One row in a transaction during which nothing reaches the metastore for so long."""
    with hi.StreamingConnection.connect(
        client, database="default", table="t", record_writer=hi.StrictJsonWriter()
    ) as connection:
        connection.begin_transaction()
        connection.write(b'{"id": 1}')
        proxy.cut()
        time.sleep(seconds)
        proxy.mend()
        connection.commit_transaction()


def test_an_outage_within_half_the_time_out_costs_nothing(client: MetastoreClient, proxy: FaultyProxy) -> None:
    stream_through_an_outage(client, proxy, TIMEOUT_SECONDS / 2 - 0.5)
    assert hi.read_table(client, "default.t").column("id").to_pylist() == [1]


def test_an_outage_that_ends_before_the_commit_and_within_the_time_out_costs_nothing(
    client: MetastoreClient, proxy: FaultyProxy
) -> None:
    stream_through_an_outage(client, proxy, TIMEOUT_SECONDS * 0.7)
    assert hi.read_table(client, "default.t").column("id").to_pylist() == [1]


def test_an_outage_beyond_the_time_out_aborts_and_says_so(client: MetastoreClient, proxy: FaultyProxy) -> None:
    with pytest.raises(StreamingError) as caught:
        stream_through_an_outage(client, proxy, TIMEOUT_SECONDS * 2 + 2)
    assert isinstance(caught.value, TxnAborted)
    assert "aborted" in str(caught.value) or "time-out" in str(caught.value)
    assert hi.read_table(client, "default.t").num_rows == 0
    assert client.get_valid_txns().open == ()
