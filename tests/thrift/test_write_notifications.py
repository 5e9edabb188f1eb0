"""A server with event listeners is notified of every file before the commit; without listeners it is not."""

from __future__ import annotations

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.testing import CrashPoint, FaultError, faults
from tests.services.metastore import RealMetastore
from tests.thrift.conftest import SecuredMetastore


def notifications(server: RealMetastore, table: str) -> list[list[str]]:
    """Write id, partition values and files of each event of a table."""
    log = server.home / "acid_writes"
    lines = [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []
    return [line[1:] for line in lines if line[0] == table]


def test_a_listener_is_notified_of_the_files_of_each_partition_before_the_commit(
    secured_metastore: SecuredMetastore,
) -> None:
    server = secured_metastore.server
    with connect_metastore(server.uri, **secured_metastore.options()) as client:
        assert client.wants_write_notifications
        client.create_database("notified", if_not_exists=True)
        table = client.create_table("notified.t", columns={"id": "int"}, partition_keys={"part": "string"})
        hi.append(client, "notified.t", pa.table({"id": [1, 2, 3], "part": ["a", "b:c", "a"]}))
        delta = "delta_0000001_0000001_0000/bucket_00000"
        assert sorted(notifications(server, "notified.t")) == [
            ["1", "a", f"{table.location}/part=a/{delta}"],
            ["1", "b:c", f"{table.location}/part=b%3Ac/{delta}"],
        ]

        conn = hi.StreamingConnection.connect(client, database="notified", table="t", record_writer=hi.ArrowWriter())
        with conn:
            conn.begin_transaction()
            conn.write(pa.table({"id": [4], "part": ["a"]}))
            with pytest.raises(FaultError), faults(CrashPoint("after_publish")):
                conn.commit_transaction()
        assert len(notifications(server, "notified.t")) == 2, "notified of files before all were published"


def test_a_server_without_listeners_gets_no_events(client: MetastoreClient) -> None:
    assert not client.wants_write_notifications
