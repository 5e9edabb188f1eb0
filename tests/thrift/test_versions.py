"""Differences and common behaviour of versions, on real metastores."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.errors import (
    InvalidOperation,
    MetastoreError,
    MetastoreUnavailable,
    NoSuchTxn,
    TxnAborted,
    UnsupportedFeature,
)
from hive_ingest.metastore_client import MetastoreClient, connect_metastore
from hive_ingest.model import Column, CommitKeyValue, TableName, TxnId
from tests.services.metastore import RealMetastore


@pytest.fixture
def client_313(hive313_metastore: RealMetastore) -> Iterator[MetastoreClient]:
    with connect_metastore(hive313_metastore.uri) as client:
        yield client


@pytest.fixture
def client_401(hive401_metastore: RealMetastore) -> Iterator[MetastoreClient]:
    with connect_metastore(hive401_metastore.uri) as client:
        yield client


def test_write_ids_of_a_transaction_that_is_not_open_are_refused_with_its_state(client: MetastoreClient) -> None:
    aborted, committed = client.open_txns(2)
    client.abort_txn(aborted)
    client.commit_txn(committed)
    with pytest.raises(TxnAborted, match=f"transaction {aborted} is aborted"):
        client.allocate_table_write_ids("web.t", [aborted])
    with pytest.raises(NoSuchTxn, match=f"transaction {committed} is not open"):
        client.allocate_table_write_ids("web.t", [committed])
    with pytest.raises(NoSuchTxn, match="transaction 999999 is not open"):
        client.allocate_table_write_ids("web.t", [TxnId(999_999)])
    assert client.get_databases() == ["default"], "the client goes on"


def test_a_key_and_value_that_hive_3_would_ignore_is_refused_before_the_commit(client_313: MetastoreClient) -> None:
    (txn_id,) = client_313.open_txns()
    with pytest.raises(UnsupportedFeature, match=r"Hive 4 \(HIVE-20538\).*use a sink"):
        client_313.commit_txn(txn_id, key_value=CommitKeyValue(1, "_meta.offset", "42"))
    assert client_313.get_valid_txns().open == (txn_id,)


def test_a_key_and_value_that_does_not_fit_leaves_the_transaction_open(client_401: MetastoreClient) -> None:
    table = client_401.create_table("default.t", columns={"id": "int"}, properties={"_meta.offset": "0"})
    (txn_id,) = client_401.open_txns()
    with pytest.raises(InvalidOperation, match=r"still open.*set it at create_table"):
        client_401.commit_txn(txn_id, key_value=CommitKeyValue(table.id, "_meta.other", "1"))
    client_401.commit_txn(txn_id, key_value=CommitKeyValue(table.id, "_meta.offset", "42"))
    assert client_401.get_table("default.t").properties["_meta.offset"] == "42"


def test_a_table_that_was_dropped_and_created_again_has_another_id(client: MetastoreClient) -> None:
    first = client.create_table("default.t", columns={"id": "int"})
    assert client.get_table("default.t").id == first.id != 0
    client.drop_table("default.t")
    time.sleep(1.1)  # Hive 3 distinguishes them by the second of their creation
    assert client.create_table("default.t", columns={"id": "int"}).id != first.id


def test_a_failure_inside_the_server_is_reported_and_not_retried_forever(client: MetastoreClient) -> None:
    with pytest.raises(MetastoreError) as caught:
        client.get_valid_write_ids(["web.t"], _NoSnapshot())  # type: ignore[arg-type]
    assert not isinstance(caught.value, MetastoreUnavailable), "it was retried until retry_seconds were over"
    assert client.get_databases() == ["default"]


class _NoSnapshot:
    """What no server can read."""

    def to_string(self) -> str:
        return "this is no snapshot"


def test_insert_only_tables_are_shown_to_a_client_that_declares_its_capabilities(client: MetastoreClient) -> None:
    properties = {"transactional": "true", "transactional_properties": "insert_only"}
    client.create_table("default.io", columns={"id": "int"}, properties=properties)
    assert client.get_table("default.io").properties["transactional_properties"] == "insert_only"


def test_a_changed_table_keeps_what_others_have_set(client: MetastoreClient) -> None:
    table = client.create_table("default.t", columns={"id": "int"}, properties={"orc.compress": "ZLIB"})
    changed = dataclasses.replace(table, columns=(*table.columns, Column("text", "string")))
    assert [column.name for column in client.alter_table("default.t", changed).columns] == ["id", "text"]
    hi.append(client, "default.t", pa.table({"id": [1], "text": ["a"]}))
    renamed = client.alter_table(
        "default.t", dataclasses.replace(client.get_table("default.t"), name=TableName("default", "u"))
    )
    assert renamed.properties["orc.compress"] == "ZLIB"
    assert hi.read_table(client, "default.u").to_pylist() == [{"id": 1, "text": "a"}]


def test_a_thousand_and_one_partitions_come_in_batches(client: MetastoreClient) -> None:
    client.create_table("default.p", columns={"id": "int"}, partition_keys={"part": "int"})
    values = [[str(number)] for number in range(1001)]
    assert len(client.add_partitions("default.p", values, if_not_exists=True)) == 1001
    assert len(client.list_partition_names("default.p")) == len(client.list_partitions("default.p")) == 1001
    found = client.get_partitions_by_filter("default.p", "part >= 999 or part = 7")
    assert [partition.values for partition in found] == [("1000",), ("7",), ("999",)]
