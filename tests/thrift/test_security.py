"""TLS, passwords and settings of a real server, on a Hive 4.0.1 that requires them all."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import ConfigurationError, MetastoreError, MetastoreUnavailable, NoSuchTxn, TxnAborted
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from tests.thrift.conftest import TIMEOUT_SECONDS, SecuredMetastore, make_certificate


def test_rows_travel_through_tls_and_a_password(secured_metastore: SecuredMetastore) -> None:
    secured_metastore.server.reset()
    with connect_metastore(secured_metastore.server.uri, **secured_metastore.options()) as client:
        client.create_database("web")
        client.create_table("web.t", columns={"id": "int"}, owner="me")
        hi.append(client, "web.t", pa.table({"id": [1, 2]}))
        assert hi.read_table(client, "web.t").column("id").to_pylist() == [1, 2]
        with client.clone() as other:
            assert other.get_databases() == ["default", "web"]


def test_a_wrong_password_is_reported_at_connect(secured_metastore: SecuredMetastore) -> None:
    options = secured_metastore.options() | {"password": "wrong", "retry_seconds": 0.1}
    with pytest.raises(MetastoreError, match=r"refuses SASL PLAIN.*password"):
        connect_metastore(secured_metastore.server.uri, **options)


def test_a_certificate_issued_to_another_host_is_refused_without_a_retry(
    secured_metastore: SecuredMetastore, tmp_path: Path
) -> None:
    options = secured_metastore.options() | {"ssl_ca_file": str(make_certificate(tmp_path)[1])}
    with pytest.raises(MetastoreError, match=r"not trusted.*ssl_ca_file") as caught:
        connect_metastore(secured_metastore.server.uri, **options)
    assert not isinstance(caught.value, MetastoreUnavailable)


def test_an_invalid_file_of_certificate_authorities_is_reported(
    secured_metastore: SecuredMetastore, tmp_path: Path
) -> None:
    options = secured_metastore.options() | {"ssl_ca_file": str(tmp_path / "missing.pem")}
    with pytest.raises(ConfigurationError, match=r"missing\.pem"):
        connect_metastore(secured_metastore.server.uri, **options)


def test_a_plain_connection_to_a_tls_server_ends_in_time(secured_metastore: SecuredMetastore) -> None:
    with pytest.raises(MetastoreUnavailable):
        connect_metastore(secured_metastore.server.uri, connect_timeout_seconds=1, retry_seconds=0.1)


def test_the_password_is_shown_nowhere(secured_metastore: SecuredMetastore) -> None:
    options = secured_metastore.options()
    with connect_metastore(secured_metastore.server.uri, **options) as client:
        assert options["password"] not in f"{client!r} {client.uri} {vars(client)} {client._context.channel.options}"  # type: ignore[attr-defined]


def test_the_timeout_is_the_servers(secured_metastore: SecuredMetastore) -> None:
    with connect_metastore(secured_metastore.server.uri, **secured_metastore.options()) as client:
        assert client.txn_timeout_seconds == TIMEOUT_SECONDS


def test_heartbeats_keep_a_transaction_alive_and_without_them_it_times_out(
    secured_metastore: SecuredMetastore,
) -> None:
    secured_metastore.server.reset()
    with connect_metastore(secured_metastore.server.uri, **secured_metastore.options()) as client:
        client.create_table("default.t", columns={"id": "int"})
        (forgotten,) = client.open_txns()
        connection = hi.StreamingConnection.connect(
            client, database="default", table="t", record_writer=hi.StrictJsonWriter()
        )
        with connection, connection.transaction():
            connection.write(b'{"id": 1}')
            wait_until_gone(client, forgotten)
        assert hi.read_table(client, "default.t").column("id").to_pylist() == [1]


def wait_until_gone(client: MetastoreClient, txn_id: int) -> None:
    """Until housekeeping has aborted it, at least one timeout from now."""
    deadline = time.monotonic() + 8 * TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if txn_id not in client.get_valid_txns().open:
            with pytest.raises((TxnAborted, NoSuchTxn)):
                client.heartbeat(txn_id=txn_id)  # type: ignore[arg-type]
            return
        time.sleep(0.2)
    raise AssertionError(f"transaction {txn_id} never timed out")


def test_a_readers_snapshot_is_recorded_where_the_server_uses_it(secured_metastore: SecuredMetastore) -> None:
    server = secured_metastore.server
    server.reset()
    with connect_metastore(server.uri, **secured_metastore.options()) as client:
        client.create_table("default.t", columns={"id": "int"})
        hi.append(client, "default.t", pa.table({"id": [1]}))
        with hi.scan(client, "default.t") as scan:
            rows = server.query('SELECT "MH_DATABASE", "MH_TABLE", "MH_WRITEID" FROM "MIN_HISTORY_WRITE_ID"')
            assert rows == [("default", "t", 2)]
            assert sum(batch.num_rows for batch in scan) == 1
        assert server.query('SELECT 1 FROM "MIN_HISTORY_WRITE_ID"') == []
