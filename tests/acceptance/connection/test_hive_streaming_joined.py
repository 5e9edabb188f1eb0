"""Hive's `TestStreaming`: partitions that a commit creates, and writers that join a transaction by its write id.

Each test has the name of Hive's case in snake case. `test_hive_streaming.py` lists all cases.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.acid import partition_name
from hive_ingest.connection import JoinedTransaction, PreparedWrite, StreamingConnection, TransactionState
from hive_ingest.errors import InvalidTransactionState, NoSuchObject
from hive_ingest.metastore_client import MetastoreClient
from tests.acceptance.connection.hive_cases import ALERTS, connect, create_alerts, rows
from tests.support.tables import create_table, files_of

pytestmark = pytest.mark.only_on(["sqlite", "postgres"], because="each case is about the client, and these are faster")

PREPARED = TransactionState.PREPARED_FOR_COMMIT


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    create_alerts(metastore)
    return metastore


def joined(owner: StreamingConnection, *, statement_id: int) -> JoinedTransaction:
    """A writer in the owner's transaction, as one in another process is."""
    writer = hi.StrictDelimitedInputWriter(field_delimiter=",")
    return JoinedTransaction(owner.share_transaction(), writer, statement_id=statement_id)


def partitions_of(prepared: PreparedWrite) -> set[str]:
    """The names of the partitions that a writer wrote."""
    keys = [key.name for key in prepared.table.partition_keys]
    return {partition_name(keys, file.partition) for file in prepared.files}


def test_add_partition(ms: MetastoreClient) -> None:
    with connect(ms, ALERTS, "Asia", "Nepal") as conn:
        conn.begin_transaction()
        conn.write(b"3,Hello streaming - once again")
        conn.commit_transaction()
    assert ms.get_partition(ALERTS, ["Asia", "Nepal"]).values == ("Asia", "Nepal")
    assert rows(ms) == [(3, "Hello streaming - once again", "Asia", "Nepal")]


def test_add_partition_with_write_id(ms: MetastoreClient) -> None:
    values = ("WriteId_continent", "WriteId_country")
    with connect(ms, ALERTS, *values) as owner:
        owner.begin_transaction()
        assert owner.write_id is not None
        with joined(owner, statement_id=1) as writer:
            writer.write(b"3,Hello streaming - once again")
            prepared = writer.prepare()
        assert partitions_of(prepared) == {"continent=WriteId_continent/country=WriteId_country"}
        with pytest.raises(NoSuchObject):
            ms.get_partition(ALERTS, values)
        owner.commit_transaction(prepared=[prepared])
    assert ms.get_partition(ALERTS, values).values == values


def test_add_dynamic_partition_with_write_id(ms: MetastoreClient) -> None:
    """Two writers of one statement, which must not write the same partition."""
    name = "default.writeiddynamic"
    create_table(ms, name, {"a": "string", "b": "string"}, partition_keys={"c": "string", "d": "string"})
    with connect(ms, name) as owner:
        owner.begin_transaction()
        two, one = joined(owner, statement_id=1), joined(owner, statement_id=1)
        one.write([b"1,2,3,4", b"1,2,5,6"])
        two.write(b"1,2,30,40")
        one.write(b"1,2,7,8")
        two.write(b"1,2,50,60")
        one.write(b"1,2,9,10")
        prepared = [one.prepare(), two.prepare()]
        of_one, of_two = map(partitions_of, prepared)
        assert (len(of_one), len(of_two)) == (4, 2)
        assert ms.list_partition_names(name) == []
        owner.commit_transaction(prepared=prepared)
    assert set(ms.list_partition_names(name)) == of_one | of_two


def test_connection_with_write_id(ms: MetastoreClient) -> None:
    name = "default.writeidconnection"
    create_table(ms, name, {"a": "string", "b": "string"})
    hi.append(ms, name, pa.table({"a": ["a0"], "b": ["bar"]}))
    with connect(ms, name) as owner:
        owner.begin_transaction()
        assert str(owner.table.name) == name
        assert owner.write_id == 2
        one, two = joined(owner, statement_id=1), joined(owner, statement_id=2)
        one.write(b"a1,b2")
        two.write(b"a5,b6")
        one.write(b"a3,b4")
        prepared = [one.prepare(), two.prepare()]
        assert one.state is two.state is PREPARED
        with pytest.raises(InvalidTransactionState, match="PREPARED_FOR_COMMIT"):
            one.write(b"a7,b8")
        assert rows(ms, name) == [("a0", "bar")]
        owner.commit_transaction(prepared=prepared)

    found = hi.read_table(ms, name, row_ids=True).sort_by("a").to_pylist()
    assert [(row["a"], row["b"]) for row in found] == [("a0", "bar"), ("a1", "b2"), ("a3", "b4"), ("a5", "b6")]
    assert found[0]["row__id"] == {"writeid": 1, "bucketid": 536870912, "rowid": 0}
    assert [row["row__id"]["rowid"] for row in found] == [0, 0, 1, 0]
    assert {Path(file).name for file in files_of(ms, name)} == {"_orc_acid_version", "bucket_00000"}
